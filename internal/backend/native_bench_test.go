// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// BenchmarkCheck is what the rules cost for an event, an outcome and a long page.
func BenchmarkCheck(b *testing.B) {
	page := &outriggerv1.ListToolsResponse{}
	for i := range 1000 {
		page.Tools = append(page.Tools, tool(fmt.Sprint("tool_", i)))
	}
	c := NewNative(nil)
	for name, m := range map[string]proto.Message{"progress": progress(1), "outcome": success("done"), "1000 tools": page} {
		body, err := proto.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.check("/p.S/M", body, m.ProtoReflect().New().Interface()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
