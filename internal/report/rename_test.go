// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"
)

func TestARenamingBySuffixIsToldAsSuch(t *testing.T) {
	t.Parallel()
	tool := func(name, module, schema string) Tool {
		return Tool{Name: name, Version: "1.0.0", InputSchema: []byte(schema), Fingerprint: schema, Metadata: Metadata{Module: module}}
	}
	const plain, other = `{"type":"object"}`, `{"type":"object","required":["x"]}`
	for _, tt := range []struct {
		name          string
		before, after []Tool
		want          []string
	}{
		{"dropped", []Tool{tool("a_service.b", "p.AService", plain)}, []Tool{tool("a.b", "p.AService", plain)}, []string{"a.b   renamed_tool"}},
		{"come back", []Tool{tool("a.b", "p.AService", plain)}, []Tool{tool("a_service.b", "p.AService", plain)}, []string{"a_service.b   renamed_tool"}},
		{
			"and changed", []Tool{tool("a_service.b", "p.AService", plain)}, []Tool{tool("a.b", "p.AService", other)},
			[]string{"a.b ! added_required_parameter input x", "a.b   renamed_tool"},
		},
		{
			"another tool", []Tool{tool("a_service.b", "p.AService", plain)}, []Tool{tool("a.b", "p.A", plain)},
			[]string{"a_service.b ! removed_tool", "a.b   added_tool"},
		},
		{
			"the name means another tool now", []Tool{tool("a.b", "p.AService", plain)},
			[]Tool{tool("a.b", "p.A", plain), tool("a_service.b", "p.AService", plain)},
			[]string{"a_service.b ! renamed_tool", "a.b   added_tool"},
		},
		{
			"two tools, one removed", []Tool{tool("a.b", "m", plain), tool("a_service.b", "m", plain)}, []Tool{tool("a.b", "m", plain)},
			[]string{"a_service.b ! removed_tool"},
		},
		{"a new one", []Tool{tool("a.b", "p.A", plain)}, []Tool{tool("a.b", "p.A", plain), tool("a_service.b", "p.AService", plain)}, []string{"a_service.b   added_tool"}},
		{"by fingerprint", []Tool{tool("a_service.b", "", plain)}, []Tool{tool("a.b", "p.AService", plain)}, []string{"a.b   metadata", "a.b   renamed_tool"}},
		{"no suffix", []Tool{tool("_service.b", "m", plain)}, []Tool{tool("b", "m", plain)}, []string{"_service.b ! removed_tool", "b   added_tool"}},
		{
			"a higher version comes and takes the name", []Tool{tool("a.b", "p.v1.A", plain)},
			[]Tool{tool("a.b", "p.v2.A", plain), tool("a_v1.b", "p.v1.A", plain)},
			[]string{"a_v1.b ! renamed_tool", "a.b   added_tool"},
		},
		{
			"a higher version goes and gives the name back", []Tool{tool("a.b", "p.v2.A", plain), tool("a_v1.b", "p.v1.A", plain)},
			[]Tool{tool("a.b", "p.v1.A", plain)},
			[]string{"a.b ! removed_tool", "a.b ! renamed_tool"},
		},
		{
			"a version in the name, which none takes", []Tool{tool("a.b", "p.v1beta1.AService", plain)},
			[]Tool{tool("a_service_v1beta1.b", "p.v1beta1.AService", plain)}, []string{"a_service_v1beta1.b   renamed_tool"},
		},
		{
			"a service that is named so", []Tool{tool("foo_v2.b", "p.FooV2Service", plain)},
			[]Tool{tool("foo_v2_service.b", "p.FooV2Service", plain)}, []string{"foo_v2_service.b   renamed_tool"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			report := Compare(tt.before, tt.after, DiffLimits{})
			var got []string
			for i, line := range short(report.Changes) {
				got = append(got, report.Changes[i].Tool+" "+line)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
			var text strings.Builder
			if err := report.WriteText(&text); err != nil {
				t.Fatal(err)
			}
		})
	}
}
