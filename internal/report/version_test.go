// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	plainSchema = `{"type":"object","properties":{"x":{"type":"string"}}}`
	number      = `{"type":"object","properties":{"x":{"type":"number"}}}`
	more        = `{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}}`
)

func versioned(input, version string) Tool {
	t := tool(input, plainSchema)
	t.Version = version
	return t
}

func TestCheckVersions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		before, after Tool
		want          string // the wanted version, "" for no finding
	}{
		{"nothing changed", versioned(plainSchema, "1.0.0"), versioned(plainSchema, "1.0.0"), ""},
		{"compatible", versioned(plainSchema, "1.0.0"), versioned(more, "1.0.0"), ""},
		{"breaks", versioned(plainSchema, "1.0.0"), versioned(number, "1.0.0"), "2.0.0"},
		{"breaks in a minor version", versioned(plainSchema, "1.0.0"), versioned(number, "1.1.0"), "2.0.0"},
		{"breaks and says so", versioned(plainSchema, "1.9.0"), versioned(number, "2.0.0"), ""},
		{"breaks and goes back", versioned(plainSchema, "3.0.0"), versioned(number, "2.0.0"), "4.0.0"},
		{"breaks below 1", versioned(plainSchema, "0.1.0"), versioned(number, "0.2.0"), "1.0.0"},
		{"breaks without a version", versioned(plainSchema, ""), versioned(number, ""), "2.0.0"},
		{"breaks with a version that is none", versioned(plainSchema, "one"), versioned(number, "two"), "2.0.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, f := range Compare([]Tool{tt.before}, []Tool{tt.after}, DiffLimits{}).Versions {
				got += f.Wanted
				if line := f.String(); strings.Contains(line, "\n") || !strings.Contains(line, "input x: the type was string") {
					t.Errorf("the log would say %q", line)
				}
			}
			if got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}

func TestVersionsConcernSchemas(t *testing.T) {
	t.Parallel()
	gated := versioned(plainSchema, "1.0.0")
	gated.Metadata.Destructive = true
	if got := Compare([]Tool{versioned(plainSchema, "1.0.0"), {Name: "gone"}}, []Tool{gated}, DiffLimits{}).Versions; len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	yes, no, since := true, false, "1.2"
	before, after := tool(plainSchema, plainSchema), tool(plainSchema, plainSchema)
	before.Annotations = Annotations{ReadOnly: &yes}
	before.OutputSchema, after.OutputSchema = nil, nil
	before.CanonicalOutputSchema, after.CanonicalOutputSchema = nil, nil
	after.Title, after.Version = "New", "1.1.0"
	after.Annotations = Annotations{ReadOnly: &no, OpenWorld: &yes}
	after.Metadata = Metadata{Module: "m", Destructive: true, DeprecatedIn: &since, CacheTTL: 5}
	there := []string{"! destructive", "  hint", "  hint", "  metadata", "  deprecated", "  metadata", "  version"}
	if diff := cmp.Diff(there, short(changesOf([]Tool{before}, []Tool{after}, DiffLimits{}))); diff != "" {
		t.Errorf("there (-want +got):\n%s", diff)
	}
	there[0] = "  destructive"
	back := short(changesOf([]Tool{after}, []Tool{before}, DiffLimits{}))
	slices.Sort(there)
	slices.Sort(back)
	if diff := cmp.Diff(there, back); diff != "" {
		t.Errorf("back (-want +got):\n%s", diff)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	a, b := tool(plainSchema, plainSchema), tool(plainSchema, plainSchema)
	b.Name = "shop.sell"
	if got := short(changesOf([]Tool{a}, []Tool{b}, DiffLimits{})); !slices.Equal(got, []string{"! removed_tool", "  added_tool"}) {
		t.Error(got)
	}
	b = a
	b.OutputSchema, b.CanonicalOutputSchema = nil, nil
	if got := short(changesOf([]Tool{a}, []Tool{b}, DiffLimits{})); !slices.Equal(got, []string{"! incompatible_output output"}) {
		t.Error(got)
	}
	if got := short(changesOf([]Tool{b}, []Tool{a}, DiffLimits{})); !slices.Equal(got, []string{"  added_output_field output"}) {
		t.Error(got)
	}
}

// TestAdvertisedSchemas: where a side has no canonical schemas, as in MCP's tools/list, the others are compared.
func TestAdvertisedSchemas(t *testing.T) {
	t.Parallel()
	before, after := tool(plainSchema, plainSchema), tool(plainSchema, plainSchema)
	after.CanonicalInputSchema, after.CanonicalOutputSchema = nil, nil
	before.InputSchema, after.InputSchema = []byte(plainSchema), []byte(number)
	changes := changesOf([]Tool{before}, []Tool{after}, DiffLimits{})
	if len(changes) != 1 || changes[0].Path != "/inputSchema/properties/x" || changes[0].Where() != "input x" {
		t.Errorf("%+v", changes)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	var many, few strings.Builder
	for range 30 {
		few.WriteString(`{"not":`)
	}
	deep := few.String() + `{"type":"string"}` + strings.Repeat("}", 30)
	other := few.String() + `{"type":"number"}` + strings.Repeat("}", 30)
	for name, l := range map[string]DiffLimits{"depth": {MaxDepth: 5}, "steps": {MaxSteps: 5}} {
		if changes := compareSchemas("t", "s", false, []byte(deep), []byte(other), l.withDefaults()); !mayBreak(changes) {
			t.Errorf("%s: a schema beyond the limit is compatible: %+v", name, changes)
		}
	}
	many.WriteString(`{"type":"object","properties":{"x0":{}`)
	for i := range 20 {
		many.WriteString(`,"x` + strings.Repeat("y", i+1) + `":{}`)
	}
	many.WriteString(`}}`)
	got := changesOf([]Tool{tool(many.String(), plainSchema)}, []Tool{tool(plainSchema, plainSchema)}, DiffLimits{MaxChanges: 3})
	if len(got) != 4 || !slices.ContainsFunc(got, func(c Change) bool { return c.alarm() > 0 && strings.Contains(c.Message, "more changes") }) {
		t.Errorf("%+v", got)
	}
}

// TestFindings compares a catalog that was loaded again with the one before.
func TestFindings(t *testing.T) {
	t.Parallel()
	v1, v2 := load(t, "v1.binpb.gz"), load(t, "v2.binpb.gz")
	if got := VersionFindings(t.Context(), v1, v1, DiffLimits{}); len(got) > 0 {
		t.Errorf("a catalog and itself: %v", got)
	}
	got := VersionFindings(t.Context(), v1, v2, DiffLimits{})
	if len(got) != 1 || got[0].Tool != "library.return_book" || got[0].Wanted != "2.0.0" {
		t.Errorf("%+v", got)
	}
	// A process that ends does not derive the schemas of thousands of tools first.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if got := VersionFindings(ctx, v1, v2, DiffLimits{}); got != nil {
		t.Errorf("after the end: %+v", got)
	}
}
