// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

const (
	plain  = `{"type":"object","properties":{"x":{"type":"string"}}}`
	number = `{"type":"object","properties":{"x":{"type":"number"}}}`
	more   = `{"type":"object","properties":{"x":{"type":"string"},"y":{"type":"string"}}}`
)

func versioned(input, version string) Tool {
	t := tool(input, plain)
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
		{"nothing changed", versioned(plain, "1.0.0"), versioned(plain, "1.0.0"), ""},
		{"compatible", versioned(plain, "1.0.0"), versioned(more, "1.0.0"), ""},
		{"breaks", versioned(plain, "1.0.0"), versioned(number, "1.0.0"), "2.0.0"},
		{"breaks in a minor version", versioned(plain, "1.0.0"), versioned(number, "1.1.0"), "2.0.0"},
		{"breaks and says so", versioned(plain, "1.9.0"), versioned(number, "2.0.0"), ""},
		{"breaks and goes back", versioned(plain, "3.0.0"), versioned(number, "2.0.0"), "4.0.0"},
		{"breaks below 1", versioned(plain, "0.1.0"), versioned(number, "0.2.0"), "1.0.0"},
		{"breaks without a version", versioned(plain, ""), versioned(number, ""), "2.0.0"},
		{"breaks with a version that is none", versioned(plain, "one"), versioned(number, "two"), "2.0.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := ""
			for _, f := range CheckVersions([]Tool{tt.before}, []Tool{tt.after}, Limits{}) {
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
	gated := versioned(plain, "1.0.0")
	gated.Metadata.Destructive = true
	if got := CheckVersions([]Tool{versioned(plain, "1.0.0"), {Name: "gone"}}, []Tool{gated}, Limits{}); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}

func TestFacts(t *testing.T) {
	t.Parallel()
	yes, no, since := true, false, "1.2"
	before, after := tool(plain, plain), tool(plain, plain)
	before.Annotations = Annotations{ReadOnly: &yes}
	before.OutputSchema, after.OutputSchema = nil, nil
	before.CanonicalOutputSchema, after.CanonicalOutputSchema = nil, nil
	after.Title, after.Version = "New", "1.1.0"
	after.Annotations = Annotations{ReadOnly: &no, OpenWorld: &yes}
	after.Metadata = Metadata{Module: "m", Destructive: true, DeprecatedIn: &since, CacheTTL: 5}
	there := []string{"! destructive", "  hint", "  hint", "  metadata", "  deprecated", "  metadata", "  version"}
	if diff := cmp.Diff(there, short(Diff([]Tool{before}, []Tool{after}, Limits{}))); diff != "" {
		t.Errorf("there (-want +got):\n%s", diff)
	}
	there[0] = "  destructive"
	back := short(Diff([]Tool{after}, []Tool{before}, Limits{}))
	slices.Sort(there)
	slices.Sort(back)
	if diff := cmp.Diff(there, back); diff != "" {
		t.Errorf("back (-want +got):\n%s", diff)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	a, b := tool(plain, plain), tool(plain, plain)
	b.Name = "shop.sell"
	if got := short(Diff([]Tool{a}, []Tool{b}, Limits{})); !slices.Equal(got, []string{"! removed_tool", "  added_tool"}) {
		t.Error(got)
	}
	b = a
	b.OutputSchema, b.CanonicalOutputSchema = nil, nil
	if got := short(Diff([]Tool{a}, []Tool{b}, Limits{})); !slices.Equal(got, []string{"! incompatible_output output"}) {
		t.Error(got)
	}
	if got := short(Diff([]Tool{b}, []Tool{a}, Limits{})); !slices.Equal(got, []string{"  added_output_field output"}) {
		t.Error(got)
	}
}

// TestAdvertisedSchemas: where a side has no canonical schemas, as in MCP's tools/list, the others are compared.
func TestAdvertisedSchemas(t *testing.T) {
	t.Parallel()
	before, after := tool(plain, plain), tool(plain, plain)
	after.CanonicalInputSchema, after.CanonicalOutputSchema = nil, nil
	before.InputSchema, after.InputSchema = []byte(plain), []byte(number)
	changes := Diff([]Tool{before}, []Tool{after}, Limits{})
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
	for name, l := range map[string]Limits{"depth": {MaxDepth: 5}, "steps": {MaxSteps: 5}} {
		if changes := compareSchemas("t", "s", false, []byte(deep), []byte(other), l.withDefaults()); !HasBreaking(changes) {
			t.Errorf("%s: a schema beyond the limit is not breaking: %+v", name, changes)
		}
	}
	many.WriteString(`{"type":"object","properties":{"x0":{}`)
	for i := range 20 {
		many.WriteString(`,"x` + strings.Repeat("y", i+1) + `":{}`)
	}
	many.WriteString(`}}`)
	got := Diff([]Tool{tool(many.String(), plain)}, []Tool{tool(plain, plain)}, Limits{MaxChanges: 3})
	if len(got) != 4 || !slices.ContainsFunc(got, func(c Change) bool { return c.Breaking && strings.Contains(c.Message, "more changes") }) {
		t.Errorf("%+v", got)
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	s := Store{Dir: filepath.Join(t.TempDir(), "runs")}
	if tools, err := s.Load(); tools != nil || err != nil {
		t.Fatalf("nothing was saved, and loads as %v %v", tools, err)
	}
	v1, v2 := load(t, "v1.binpb.gz"), load(t, "v2.binpb.gz")
	for i, step := range []struct {
		findings int
		check    func() ([]Finding, error)
	}{
		{0, func() ([]Finding, error) { return s.Watch(t.Context(), v1) }},
		{0, func() ([]Finding, error) { return s.Watch(t.Context(), v1) }},
		{1, func() ([]Finding, error) { return s.Watch(t.Context(), v2) }},
		{0, func() ([]Finding, error) { return s.Watch(t.Context(), v2) }},
	} {
		findings, err := step.check()
		if err != nil || len(findings) != step.findings {
			t.Errorf("start %d: %v %v, want %d findings", i, findings, err, step.findings)
		}
	}
	tools, err := s.Load()
	if diff := cmp.Diff(FromCatalog(v2), tools); diff != "" || err != nil {
		t.Errorf("%v (-saved +loaded):\n%s", err, diff)
	}
	entries, err := os.ReadDir(filepath.Dir(s.Path()))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v %v", entries, err)
	}
}

// TestTheSameCatalogIsNotListedAgain: only another one, or one that another version lists, is written.
func TestTheSameCatalogIsNotListedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	v1, v2 := load(t, "v1.binpb.gz"), load(t, "v2.binpb.gz")
	written := func() os.FileInfo {
		info, err := os.Stat(Store{Dir: dir}.Path())
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	var last os.FileInfo
	for i, step := range []struct {
		version string
		catalog *catalog.Catalog
		same    bool
	}{{"1", v1, false}, {"1", v1, true}, {"2", v1, false}, {"2", v2, false}, {"2", v2, true}} {
		if _, err := (Store{Dir: dir, Version: step.version}).Watch(t.Context(), step.catalog); err != nil {
			t.Fatal(err)
		}
		now := written()
		if last != nil && os.SameFile(last, now) != step.same {
			t.Errorf("step %d: the same file: %t, want %t", i, !step.same, step.same)
		}
		last = now
	}
}

// TestAComparisonEndsWithItsContext: a process that is told to stop does not derive the schemas of thousands of tools first.
func TestAComparisonEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := Store{Dir: t.TempDir()}
	v1, v2 := load(t, "v1.binpb.gz"), load(t, "v2.binpb.gz")
	if err := s.saveTools(FromCatalog(v1)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if findings, err := s.Watch(ctx, v2); findings != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", findings, err)
	}
	tools, err := s.Load()
	if diff := cmp.Diff(FromCatalog(v1), tools); diff != "" || err != nil {
		t.Errorf("%v (-saved +loaded):\n%s", err, diff)
	}
}

// saveTools saves a list.
func (s Store) saveTools(tools []Tool) error {
	out := s.create("")
	for _, t := range tools {
		out.add(t)
	}
	return out.commit()
}

func TestStoreRefuses(t *testing.T) {
	t.Parallel()
	v1 := load(t, "v1.binpb.gz")
	t.Run("a file that is no list", func(t *testing.T) {
		t.Parallel()
		s := Store{Dir: t.TempDir()}
		if err := s.saveTools(FromCatalog(v1)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path(), []byte(`[{"na`), 0o600); err != nil {
			t.Fatal(err)
		}
		findings, err := s.Watch(t.Context(), v1)
		var fault *FormatError
		if !errors.As(err, &fault) || len(findings) > 0 {
			t.Errorf("%v %v", findings, err)
		}
		if tools, err := s.Load(); err != nil || len(tools) == 0 {
			t.Errorf("the broken file was not replaced: %v", err)
		}
	})
	t.Run("a catalog over the limit", func(t *testing.T) {
		t.Parallel()
		s := Store{Dir: t.TempDir(), Limits: Limits{MaxBytes: 100}}
		if err := s.saveTools(FromCatalog(v1)); err == nil {
			t.Error("it was saved")
		}
		if _, err := os.Stat(s.Path()); err == nil {
			t.Error("there is a file")
		}
	})
	t.Run("a file over the limit", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		if err := (Store{Dir: dir}).saveTools(FromCatalog(v1)); err != nil {
			t.Fatal(err)
		}
		if _, err := (Store{Dir: dir, Limits: Limits{MaxBytes: 100}}).Load(); err == nil {
			t.Error("it was loaded")
		}
	})
	t.Run("a folder in the file's place", func(t *testing.T) {
		t.Parallel()
		s := Store{Dir: t.TempDir()}
		if err := os.MkdirAll(s.Path(), 0o700); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(); err == nil {
			t.Error("it was loaded")
		}
		if err := s.saveTools(FromCatalog(v1)); err == nil {
			t.Error("it was saved")
		}
	})
	t.Run("a file in the folder's place", func(t *testing.T) {
		t.Parallel()
		file := filepath.Join(t.TempDir(), "runs")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := (Store{Dir: file}).saveTools(FromCatalog(v1)); err == nil {
			t.Error("it was saved")
		}
	})
}
