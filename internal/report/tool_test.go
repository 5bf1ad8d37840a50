// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestReadTools(t *testing.T) {
	t.Parallel()
	const one = `{"name":"a.b","inputSchema":{"type":"object"}}`
	tests := []struct {
		name, raw string
		want      string // names, or the fault
	}{
		{"an array", `[` + strings.ReplaceAll(one, "a.b", "z.z") + `,` + one + `]`, "a.b z.z"},
		{"one tool", one, "a.b"},
		{"the result of tools/list", `{"tools":[` + one + `],"ttlMs":1}`, "a.b"},
		{"no tools", `[]`, ""},
		{"nulls", `[{"name":"a.b","inputSchema":{},"outputSchema":null,"metadata":null}]`, "a.b"},
		{"empty", ``, "not a list of tools"},
		{"not JSON", "\x0a\x10", "not a list of tools"},
		{"a number", `7`, "wanted an array of tools"},
		{"another object", `{"a":1}`, "at /0: wanted a tool"},
		{"tools that are none", `{"tools":null}`, "at /tools: wanted an array"},
		{"a name twice", `[` + one + `,` + one + `]`, "at /1/name: there are two tools a.b"},
		{"a member twice", `[{"name":"a","name":"b"}]`, "not a list of tools"},
		{"no input", `[{"name":"a"}]`, "at /0/inputSchema: wanted a JSON Schema of tool a"},
		{"a schema that is none", `[{"name":"a","inputSchema":{},"canonicalOutputSchema":[]}]`, "at /0/canonicalOutputSchema"},
		{"a wrong member", `[{"name":"a","inputSchema":{},"metadata":[]}]`, "at /0: json"},
		{"too deep", `[{"name":"a","inputSchema":` + strings.Repeat(`{"not":`, 1000) + `{}` + strings.Repeat(`}`, 1000) + `}]`, "not a list of tools"},
		{"too many", `[` + one + `,{"name":"b","inputSchema":{}},{"name":"c","inputSchema":{}}]`, "it has 3 tools; the limit is 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tools, err := ReadTools([]byte(tt.raw), DiffLimits{MaxTools: 2})
			if err != nil {
				var fault *formatError
				if !errors.As(err, &fault) {
					t.Errorf("error is a %T", err)
				}
				if tt.want == "" || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error %q, want %q", err, tt.want)
				}
				return
			}
			var names []string
			for _, tool := range tools {
				names = append(names, tool.Name)
			}
			if got := strings.Join(names, " "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	if _, err := ReadTools([]byte(`[]          `), DiffLimits{MaxBytes: 5}); err == nil {
		t.Error("a list over its bytes was read")
	}
}

// FuzzDiff reads two lists and compares them: nothing may panic or hang, nothing differs from itself, and breaking
// changes come first and say what to do.
func FuzzDiff(f *testing.F) {
	f.Add([]byte(`[{"name":"a","inputSchema":{"$ref":"#"}}]`), []byte(`[{"name":"a","inputSchema":{"anyOf":[{"$ref":"#"},{"type":"null"}]}}]`))
	f.Add([]byte(`[{"name":"a","inputSchema":{"properties":{"x":{"enum":[1]}},"required":["x","y"]}}]`), []byte(`{"tools":[{"name":"a","inputSchema":true,"outputSchema":{}}]}`))
	f.Add([]byte(`[{"name":"a","inputSchema":{"type":["object","null"],"allOf":[{"if":{"type":"object"},"then":{"oneOf":[{"required":["x"]}]}}]}}]`), []byte(`[]`))
	f.Add([]byte(`[{"name":"a","inputSchema":{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}}]`), []byte(`[{"name":"a","inputSchema":{"anyOf":[{"$ref":"#/anyOf/1"},{"not":{"$ref":"#"}}]}}]`))
	f.Add([]byte(`[{"name":"a","inputSchema":{"items":{"minimum":1e400,"pattern":"(a*)*$","format":{},"type":[1]}}}]`), []byte(`[{"name":"a","inputSchema":{"items":{"minimum":{},"pattern":"^","contentEncoding":[]}}}]`))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		limits := DiffLimits{MaxSteps: 2_000, MaxChanges: 50}
		before, err := ReadTools(a, limits)
		if err != nil {
			return
		}
		after, err := ReadTools(b, limits)
		if err != nil {
			return
		}
		if same := changesOf(before, before, limits); len(same) > 0 {
			t.Errorf("differs from itself: %+v", same)
		}
		r := Compare(before, after, limits)
		if !slices.IsSortedFunc(r.Changes, func(a, b Change) int { return b.alarm() - a.alarm() }) {
			t.Error("breaking changes do not come first")
		}
		for _, c := range r.Changes {
			if c.Kind == "" || c.Tool == "" && len(c.Message) == 0 || c.alarm() > 0 && c.Action == "" {
				t.Errorf("incomplete: %+v", c)
			}
		}
		for _, f := range r.Versions {
			if f.String() == "" || !r.Breaking && !r.Unclear {
				t.Errorf("finding %+v without a breaking change", f)
			}
		}
	})
}
