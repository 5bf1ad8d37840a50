// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestCheckWireWithoutDecoding checks messages without rules. FuzzToJSON holds the quick
// check to the general engine; here it must be what is used.
func TestCheckWireWithoutDecoding(t *testing.T) {
	for name, document := range map[protoreflect.FullName]string{
		"shapes.v1.Leaf":              `{"name":"` + strings.Repeat("x", 1000) + `"}`,
		"google.protobuf.Struct":      `{"a":{"b":[1,"c",null,{"d":true}]}}`,
		"google.protobuf.Timestamp":   `"2026-01-02T03:04:05Z"`,
		"google.protobuf.StringValue": `"ü"`,
	} {
		m := compiled(t, name)
		wire := wireOf(t, name, document)
		if !m.Decodes(wire) {
			t.Errorf("%s: the general engine has to decode it", name)
		}
		if n := testing.AllocsPerRun(10, func() {
			if err := m.CheckWire(t.Context(), wire); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	leaf := compiled(t, "shapes.v1.Leaf")
	for name, wire := range map[string][]byte{
		"a field of another type": protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1),
		"a group":                 protowire.AppendTag(protowire.AppendTag(nil, 99, protowire.StartGroupType), 99, protowire.EndGroupType),
	} {
		if leaf.Decodes(wire) {
			t.Errorf("%s is not for the quick check", name)
		}
		if err := leaf.CheckWire(t.Context(), wire); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if deep := nested(200); compiled(t, "shapes.v1.Node").Decodes(deep) {
		t.Error("deep nesting is not for the quick check")
	}
}
