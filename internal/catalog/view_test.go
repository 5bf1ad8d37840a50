// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
)

// TestOnlyShowsWhatIsLeft compares views of random subsets with the catalog that
// they are of: what is left is as it was, and nothing of the rest is found.
func TestOnlyShowsWhatIsLeft(t *testing.T) {
	t.Parallel()
	full := library(t)
	before := full.Fingerprint()
	rapid.Check(t, func(t *rapid.T) {
		left := map[string]bool{}
		for _, tool := range full.All() {
			left[tool.Name] = rapid.Bool().Draw(t, tool.Name)
		}
		view := full.Only(func(tool *Tool) bool { return left[tool.Name] })
		visible := func(tool *Tool) bool { return left[tool.Name] && !tool.Hidden }
		if diff := cmp.Diff(namesWhere(full.Tools(), visible), namesOf(view)); diff != "" {
			t.Fatalf("tools (-want +got):\n%s", diff)
		}
		for _, tool := range full.All() {
			for _, name := range []string{tool.Name, tool.MCPName} {
				if found, ok := view.Lookup(name); ok != visible(tool) || ok && found != tool {
					t.Fatalf("%s is found: %v", name, ok)
				}
			}
			if _, ok := view.ByProcedure(tool.Method.Procedure); ok != visible(tool) {
				t.Fatalf("%s is found: %v", tool.Method.Procedure, ok)
			}
			if near := view.Nearest(tool.Name+"x", 50); slices.Contains(near, tool.Name) && !visible(tool) {
				t.Fatalf("%s is near", tool.Name)
			}
		}
		for _, service := range view.Services() {
			if len(service.Tools) == 0 || slices.ContainsFunc(service.Tools, func(tool *Tool) bool { return !left[tool.Name] }) {
				t.Fatalf("service %s shows %v", service.Name, service.Tools)
			}
		}
		for _, kind := range [][2][]*resource.Method{
			{full.Resources().Fixed(), view.Resources().Fixed()}, {full.Resources().Templates(), view.Resources().Templates()},
			{full.Resources().Listings(), view.Resources().Listings()},
		} {
			want := slices.DeleteFunc(slices.Clone(kind[0]), func(m *resource.Method) bool { return !left[full.ResourceTool(m).Name] })
			if !slices.Equal(want, kind[1]) {
				t.Fatalf("resources %v, want %v", templatesOf(kind[1]), templatesOf(want))
			}
		}
		if m, _, ok := view.Resources().Match("library://hours"); ok && !left[full.ResourceTool(m).Name] {
			t.Fatal("a resource of a tool that is not left is read")
		}
		same := len(view.Tools()) == len(full.Tools())
		if same != (view.Fingerprint() == full.Fingerprint()) {
			t.Fatalf("fingerprints equal: %v", !same)
		}
		if change := full.Since(view); len(change.Added) != len(full.Tools())-len(view.Tools()) || len(change.Removed)+len(change.Changed) > 0 {
			t.Fatalf("the step to all tools: %+v", change)
		}
	})
	if full.Fingerprint() != before || len(full.Tools()) == 0 {
		t.Error("the catalog has changed")
	}
}

// TestOnlyKnowsRegisteredTools: a view is of all tools, however they came.
func TestOnlyKnowsRegisteredTools(t *testing.T) {
	t.Parallel()
	base := library(t)
	tool := &Tool{Name: "zoo.added", MCPName: "zoo_added", Method: &Method{Service: "zoo", Procedure: "/zoo/Added"}}
	grown := base.with([]*Tool{tool}, nil)
	if view := grown.Only(func(one *Tool) bool { return one == tool }); !slices.Equal(namesOf(view), []string{"zoo.added"}) {
		t.Errorf("shows %v", namesOf(view))
	} else if found, ok := view.Lookup("zoo_added"); !ok || found != tool {
		t.Error("is not found by its MCP name")
	}
	view := grown.Only(func(one *Tool) bool { return strings.HasPrefix(one.Name, "library.") })
	if _, ok := view.Lookup("zoo.added"); ok || slices.Contains(namesOf(view), "zoo.added") {
		t.Error("a registered tool that is not left is there")
	}
}

func namesWhere(tools []*Tool, fits func(*Tool) bool) (out []string) {
	for _, tool := range tools {
		if fits(tool) {
			out = append(out, tool.Name)
		}
	}
	return out
}
