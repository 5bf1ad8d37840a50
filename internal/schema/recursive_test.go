// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func TestIsRecursive(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"type":"object"}`: false,
		`{"$ref":"#"}`:      true,
		`{"properties":{"a":{"items":{"$ref":"#"}}}}`:                                                            true,
		`{"$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`:                                                   false,
		`{"properties":{"x":{"$ref":"#/$defs/a"},"y":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string"}}}`:     false,
		`{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#/$defs/b"}},"b":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`: true,
		`{"type":"object","$defs":{"a":{"items":{"$ref":"#/$defs/a"}}}}`:                                         false, // nothing leads there
		`{"properties":{"a":{"properties":{"b":{"$ref":"#/properties/a"}}}}}`:                                    true,
		`{"properties":{"a":{"$ref":"#/$defs/x~1y"}},"$defs":{"x/y":{"items":{"$ref":"#/$defs/x~1y"}}}}`:         true,
		`{"properties":{"a":{"$ref":"#/allOf/0"}},"allOf":[{"type":"object"}]}`:                                  false,
		`{"items":{"$dynamicRef":"#node"}}`:                                                                      true,
		`{"properties":{"$ref":{"type":"string"}}}`:                                                              false,
		`{"properties":{"a":{"$ref":"https://example.org/s"},"b":{"$ref":"#/nowhere"}}}`:                         false,
	} {
		if got := schema.IsRecursive([]byte(text)); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
}
