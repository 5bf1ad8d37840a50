// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
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

// A caller who does not see a field has its own schema, digest and search, and shares all else with others.
func TestAViewShowsToolsInPart(t *testing.T) {
	t.Parallel()
	full := library(t)
	hides := func(name protoreflect.FullName, key string) func(*Tool) Sight {
		return func(tool *Tool) Sight {
			if tool.Native || !strings.Contains(string(tool.Output.Advertised()), string(name.Name())) {
				return Sight{}
			}
			return Sight{Key: key, Of: func(_ string, fd protoreflect.FieldDescriptor) (schema.Seen, bool) {
				if fd.FullName() == name {
					return schema.SeenNot, false
				}
				return schema.SeenWhole, false
			}}
		}
	}
	var views Views
	all := func(*Tool) bool { return true }
	newest := func() *Catalog { return full }
	const title = "library.v1.Book.title"
	one := views.Only(full, newest, "one", all, hides(title, "key"))
	two := views.Only(full, newest, "two", all, hides(title, "key"))
	other := views.Only(full, newest, "other", all, hides(title, "another key"))
	plain := views.Only(full, newest, "plain", all, nil)
	if !one.IsLimited() || plain.IsLimited() || full.IsLimited() || one.Fingerprint() == full.Fingerprint() || plain.Fingerprint() != full.Fingerprint() {
		t.Error("a view in part looks like the whole, or the whole like a view")
	}
	changed := 0
	for _, whole := range full.Tools() {
		seen, _ := one.Lookup(whole.Name)
		same, _ := two.Lookup(whole.Name)
		third, _ := other.Lookup(whole.Name)
		if seen != same {
			t.Errorf("%s: callers who see the same do not share the tool", whole.Name)
		}
		if seen.Whole() != whole || whole.Whole() != whole {
			t.Errorf("%s is not the tool that it is of", whole.Name)
		}
		if seen == whole {
			continue
		}
		changed++
		if third == seen || third.Digest() != seen.Digest() {
			t.Errorf("%s: the digest is not of what is shown", whole.Name)
		}
		if seen.Digest() == whole.Digest() || seen.Fingerprint() != whole.Fingerprint() || seen.IsSame(whole) {
			t.Errorf("%s: digest %s, fingerprint %s", whole.Name, seen.Digest(), seen.Fingerprint())
		}
		for _, text := range []json.RawMessage{seen.Output.Advertised(), seen.Output.Canonical(), seen.Output.Shared()} {
			if strings.Contains(string(text), `"title"`) {
				t.Errorf("%s shows %s", whole.Name, text)
			}
		}
		if string(seen.Input.Advertised()) != string(whole.Input.Advertised()) {
			t.Errorf("%s: the input has changed", whole.Name)
		}
		for _, e := range seen.Examples {
			if len(e.Data) > 0 {
				t.Errorf("%s: an example shows a result: %s", whole.Name, e.Data)
			}
		}
		if byPath, ok := one.ByProcedure(whole.Method.Procedure); !whole.Registered && (!ok || byPath != seen) {
			t.Errorf("%s is another tool by its procedure", whole.Name)
		}
	}
	if changed == 0 || changed == len(full.Tools()) {
		t.Errorf("%d tools of %d are seen in part", changed, len(full.Tools()))
	}
}

// BenchmarkFirstView makes the first view of a catalog of 1,000 tools of which each has a hidden field, and its list.
func BenchmarkFirstView(b *testing.B) {
	c, err := Build([]*source.Loaded{manyServices(100)}, BuildOptions{})
	if err != nil {
		b.Fatal(err)
	}
	see := func(*Tool) Sight {
		return Sight{Key: "key", Of: func(_ string, fd protoreflect.FieldDescriptor) (schema.Seen, bool) {
			return schema.SeenNot, fd.Number() != 1
		}}
	}
	for name, see := range map[string]func(*Tool) Sight{"whole": nil, "in part": see} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				var views Views
				view := views.Only(c, func() *Catalog { return c }, "scope", func(*Tool) bool { return true }, see)
				for _, t := range view.Tools() {
					_ = t.Output.Advertised()
				}
			}
		})
	}
}
