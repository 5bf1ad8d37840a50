// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
)

// TestSettle: what has no form in JSON gets the nearest, wherever it is, and the rest stays as it is.
func TestSettle(t *testing.T) {
	t.Parallel()
	list := structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1), structpb.NewNumberValue(math.Inf(-1)), {}}})
	m := &outriggerv1.ToolResult{
		Status: "success",
		DataForm: &outriggerv1.ToolResult_Data{Data: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
			"a/b": list,
		}})},
		Error: &outriggerv1.ErrorDetail{ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetails{ErrorDetails: structpb.NewNumberValue(math.NaN())}},
	}
	makeRepresentable(&outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: m}})
	if got, want := m.GetExplanation(), "/data/a~1b/1 is a value that JSON does not have, shown as a word. /data/a~1b/2 is a value that JSON "+
		"does not have, shown as a word. /error/error_details is a value that JSON does not have, shown as a word."; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for want, m := range map[string]proto.Message{`{"a/b":[1,"-Infinity",null]}`: m.GetData(), `"NaN"`: m.GetError().GetErrorDetails()} {
		if got, err := content.FreeForm(nil, m); err != nil || string(got) != want {
			t.Errorf("got %s, %v; want %s", got, err, want)
		}
	}
}
