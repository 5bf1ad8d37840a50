// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/types/descriptorpb"
)

// TestArgumentsAreAsDeepAsTheOptionsSay: a message that holds itself is taken up to
// the depth that the options name, and no deeper.
func TestArgumentsAreAsDeepAsTheOptionsSay(t *testing.T) {
	t.Parallel()
	file := rpcFile("a.proto", "a", "S/Walk")
	node := file.MessageType[0]
	node.Field = append(node.Field, &descriptorpb.FieldDescriptorProto{
		Name: new("next"), JsonName: new("next"), Number: new(int32(1000)), TypeName: new(".a." + node.GetName()),
		Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	})
	for _, test := range []struct{ limit, takes int }{{0, 64}, {64, 64}, {10, 10}, {200, 200}, {1000, 1000}} {
		c := mustBuild(t, BuildOptions{MaxDepth: test.limit}, &source.Loaded{Source: "stub", Files: []*descriptorpb.FileDescriptorProto{file}})
		in := c.Tools()[0].In
		for _, levels := range []int{test.takes, test.takes + 1} {
			doc := strings.Repeat(`{"next":`, levels-1) + `{}` + strings.Repeat(`}`, levels-1)
			if _, err := in.ToWire(nil, []byte(doc)); (err == nil) != (levels <= test.takes) {
				t.Errorf("limit %d: %d levels get %v", test.limit, levels, err)
			}
		}
	}
}
