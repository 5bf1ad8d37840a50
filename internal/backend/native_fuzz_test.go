// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// answers are empty messages of all types that come from a backend.
func answers() []proto.Message {
	out := []proto.Message{new(outriggerv1.ToolEvent), new(outriggerv1.Notification)}
	for _, rpc := range rpcs() {
		out = append(out, rpc.good.ProtoReflect().New().Interface())
	}
	return out
}

// Whatever bytes a backend sends are a message that keeps its rules, or an
// *InvalidAnswerError; never a panic or a fault of our own.
func FuzzAnswer(f *testing.F) {
	samples := []proto.Message{
		outcomeEvent(success("done")), acknowledgement(toolsFilter()),
		&outriggerv1.Notification{Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: task("t")}},
		outcomeEvent(&outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
			Status: "failure", DataForm: &outriggerv1.ToolResult_Data{Data: structpb.NewNullValue()},
			Error: &outriggerv1.ErrorDetail{ErrorType: "E", ErrorMessage: "m", ErrorDetailsForm: &outriggerv1.ErrorDetail_ErrorDetails{ErrorDetails: structpb.NewStringValue("s")}},
		}}}),
	}
	for _, event := range meanwhile() {
		samples = append(samples, event)
	}
	for _, rpc := range rpcs() {
		samples = append(samples, rpc.good)
		if rpc.bad != nil {
			samples = append(samples, rpc.bad)
		}
	}
	for _, m := range samples {
		body, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		for kind := range answers() {
			f.Add(uint8(kind), body)
		}
	}
	c := NewNative(nil)
	f.Fuzz(func(t *testing.T, kind uint8, body []byte) {
		all := answers()
		out := all[int(kind)%len(all)]
		err := c.check("/p.S/M", body, out)
		if err == nil {
			return
		}
		var invalid *InvalidAnswerError
		if !errors.As(err, &invalid) || len(invalid.Violations) == 0 || len(invalid.Violations) > maxViolations {
			t.Fatalf("%T: got %v", out, err)
		}
		for _, v := range invalid.Violations {
			if v.Keyword == "" || v.Message == "" || v.Path != "" && v.Path[0] != '/' {
				t.Errorf("%T: a breach that says too little: %+v", out, v)
			}
		}
	})
}
