// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// TestParametersOfAnyForm: a property that is just true is a parameter, and hides no other.
func TestParametersOfAnyForm(t *testing.T) {
	t.Parallel()
	got := fieldsOf([]byte(`{"type":"object","properties":{"a":true,"b":{"type":"string"}},"required":["b"]}`))
	want := []Field{{Name: "a", Type: "any"}, {Name: "b", Type: "string", Required: true}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestAPageOfANativeTool has a tool that a backend declares itself, and that promises nothing about its result.
func TestAPageOfANativeTool(t *testing.T) {
	t.Parallel()
	source := source.NewNative("fixture", func(context.Context) (*source.Native, error) {
		return &source.Native{
			Tools: []*outriggerv1.Tool{{Name: "greet", Description: "Greets.",
				InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: []byte(`{"type":"object","properties":{"name":{"type":"string"}}}`)}}},
		}, nil
	})
	tool, ok := build(t, source).Lookup("greet")
	if !ok {
		t.Fatal("there is no tool greet")
	}
	page := NewPage(tool, PageOptions{})
	if page.Invocation.Canonical != "native.greet" || page.Invocation.RPC != "/outrigger.v1.ToolService/CallTool" || len(page.Input.Fields) != 1 {
		t.Errorf("page %+v", page)
	}
	for _, gap := range page.Missing {
		if strings.Contains(gap.Text, "descriptors hold no comments") {
			t.Errorf("a native tool has no descriptors to comment: %v", gap)
		}
	}
	text, err := json.Marshal(page)
	if err != nil || !strings.Contains(string(text), `"schema":null`) {
		t.Errorf("page %s, %v", text, err)
	}
	var out strings.Builder
	if err := page.WriteMarkdown(&out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"The result has no schema.", "- Missing: no output schema is declared, so the result is not guaranteed."} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("the page does not say %q:\n%s", part, out.String())
		}
	}
	if strings.Contains(out.String(), "```json\n\n```") {
		t.Errorf("the page has an empty schema:\n%s", out.String())
	}
}
