// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/report"
	"go.yaml.in/yaml/v3"
)

// proposed are the paths that the fix of a tool without descriptions has lines for, in their order.
func proposed(t *testing.T, tools []*report.LintTool, o report.LintOptions) []string {
	t.Helper()
	found, err := report.Lint(tools, o)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(found.Findings, func(f report.Finding) bool { return f.Rule == "property-description" })
	if at < 0 {
		return nil
	}
	var doc struct {
		Tools []struct {
			Method     string
			Properties yaml.Node
		}
	}
	if err := yaml.Unmarshal([]byte(found.Findings[at].Fix.Overlay), &doc); err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, entry := range doc.Tools {
		for i := 0; i < len(entry.Properties.Content); i += 2 {
			if key, text := entry.Properties.Content[i], entry.Properties.Content[i+1]; key.ShortTag() != "!!str" || !strings.HasPrefix(text.Value, "TODO: ") {
				t.Errorf("%s: %s", key.Value, text.Value)
			}
			out = append(out, entry.Properties.Content[i].Value)
		}
	}
	return out
}

// TestPropertiesWithoutDescriptionsHaveLines: their paths are those that the configuration file knows.
func TestPropertiesWithoutDescriptionsHaveLines(t *testing.T) {
	t.Parallel()
	const text = `{"type":"string"}`
	var many []string
	for i := range 30 {
		many = append(many, fmt.Sprintf(`"p%02d":%s`, i, text))
	}
	for name, tc := range map[string]struct {
		input string
		want  string // empty: no finding; "-": one without lines
		o     report.LintOptions
	}{
		"described": {input: plainInput},
		"one":       {input: property(text), want: "id"},
		"unwritten": {input: property(`{"type":"string","description":"TODO: what it means, and which values it takes."}`), want: "id"},
		"nested":    {input: property(`{"type":"object","description":"An order.","properties":{"sku":` + text + `,"n":{"type":"integer","description":"How many."}}}`), want: "id.sku"},
		"outer first": {
			input: `{"type":"object","properties":{"a":{"type":"object","properties":{"b":` + text + `}},"z":` + text + `}}`, want: "a a.b z",
		},
		"in lists and maps": {input: property(`{"type":"array","description":"x","items":{"type":"object","additionalProperties":{"type":"object","properties":{"a":` + text + `}}}}`), want: "id.a"},
		"or null":           {input: property(`{"description":"x","anyOf":[{"type":"object","properties":{"a":` + text + `}},{"type":"null"}]}`), want: "id.a"},
		"not in $defs":      {input: `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object","properties":{"b":` + text + `}}}}`, want: "-"},
		"no names with dots": {
			input: `{"type":"object","properties":{"[a.b]":{"type":"object","properties":{"c":` + text + `}}}}`, want: "-",
		},
		"at most 20":        {input: `{"type":"object","properties":{` + strings.Join(many, ",") + `}}`, want: strings.Join(names("p%02d", 20), " ")},
		"words of YAML":     {input: `{"type":"object","properties":{"no":` + text + `,"1":` + text + `,"null":` + text + `}}`, want: "1 no null"},
		"entries of a map":  {input: property(`{"type":"array","description":"x","items":{"type":"object","properties":{"key":` + text + `,"value":{"type":"object","properties":{"a":` + text + `}}}}}`), o: report.LintOptions{Strict: true}, want: "-"},
		"a key and a value": {input: property(`{"type":"array","description":"x","items":{"type":"object","properties":{"key":` + text + `,"value":` + text + `}}}`), want: "id.key id.value"},
	} {
		got := proposed(t, toolsOf(t, entry{input: tc.input}), tc.o)
		switch {
		case tc.want == "-":
			if got == nil || len(got) > 0 {
				t.Errorf("%s: lines for %q, want a finding without", name, got)
			}
		case strings.Join(got, " ") != tc.want:
			t.Errorf("%s: lines for %q, want %q", name, got, tc.want)
		}
	}
}

func names(format string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(format, i))
	}
	return out
}

// TestToolsThatNoEntryDescribesHaveNoLines: their method is not known, or the entry declares the schema.
func TestToolsThatNoEntryDescribesHaveNoLines(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*report.LintTool){
		"no method":  func(tool *report.LintTool) { tool.Method = "" },
		"own schema": func(tool *report.LintTool) { tool.OwnInput = true },
	} {
		tools := toolsOf(t, entry{input: property(`{"type":"string"}`)})
		change(tools[0])
		if got := proposed(t, tools, report.LintOptions{}); got == nil || len(got) > 0 {
			t.Errorf("%s: lines for %q", name, got)
		}
	}
}

// TestOverlayWithProperties: descriptions of the tool, of its properties, and schemas are one entry.
func TestOverlayWithProperties(t *testing.T) {
	t.Parallel()
	r := runOf(t, report.LintOptions{},
		entry{name: "orders.delete_order", input: property(`{"type":"object","properties":{"a":{"type":"string"}}}`), hints: `{"readOnlyHint":true}`, output: treeOutput},
	)
	text := r.Overlay()
	var doc struct {
		Tools []map[string]any `yaml:"tools"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(doc.Tools) != 1 || strings.Join(slices.Sorted(maps.Keys(doc.Tools[0])), " ") != "method output_schema properties tool" {
		t.Errorf("got\n%s", text)
	}
	if !strings.Contains(text, "    properties:\n      id: \"TODO: what it means, and which values it takes.\"\n      id.a: \"TODO: ") {
		t.Errorf("got\n%s", text)
	}
}
