// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// An advertised output lets everything go: a result with less in it is valid, too.
func TestAnAdvertisedOutputRequiresNothing(t *testing.T) {
	t.Parallel()
	for _, md := range goldens(t) {
		s, err := schema.Derive(md, schema.Output, schema.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, keyword := range []string{`"required":`, `"minItems":`, `"minProperties":`} {
			if !s.Wrapped && strings.Contains(string(s.Advertised), keyword) {
				t.Errorf("%s: %s in %s", md.FullName(), keyword, s.Advertised)
			}
		}
	}
}

func TestViews(t *testing.T) {
	t.Parallel()
	root := schema.ViewOf([]byte(`{"type":"object","properties":{"a/b":{"$ref":"#/$defs/x%7E1y~0"},"loop":{"$ref":"#/properties/loop"},"self":{"$ref":"#"},"far":{"$ref":"https://example.com"}},
		"required":["self"],"additionalProperties":false,"$defs":{"x~/y~":{"type":"array","minItems":1,"items":{"type":"string"}},"x/y~":{"type":"array","items":{"type":"string"}}}}`))
	if !root.IsClosed() || root.IsMap() || root.IsFixed() || !slices.Equal(root.Required(), []string{"self"}) || !slices.Equal(root.Names(), []string{"a/b", "loop", "self", "far"}) {
		t.Error("the root")
	}
	list, ok := root.Member("a/b")
	if !ok || !list.IsArray() || list.IsFixed() || !list.Elements().IsScalar() {
		t.Error("a reference with escapes")
	}
	if self, _ := root.Member("self"); !self.IsClosed() || len(self.Names()) != 4 {
		t.Error("a reference to the root")
	}
	for _, name := range []string{"loop", "far"} {
		if at, _ := root.Member(name); !at.IsFixed() || at.IsKnown() || at.IsScalar() {
			t.Errorf("%s leads nowhere", name)
		}
	}
	if _, ok := root.Member("other"); ok {
		t.Error("a member that there is not")
	}
	var none schema.View
	if below, ok := none.Member("a"); ok || none.IsFixed() || none.IsClosed() || none.IsScalar() || below.IsFixed() || none.Elements().IsFixed() {
		t.Error("no schema")
	}
}
