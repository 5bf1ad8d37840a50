// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// aliased lists the tools as "name" or "name (alias)".
func aliased(c *Catalog) []string {
	var out []string
	for _, t := range c.All() {
		text := t.Name
		if t.Alias != "" {
			text += " (" + t.Alias + ")"
		}
		out = append(out, text)
	}
	return out
}

// TestTheServiceSuffixIsDropped where that makes no collision, whatever the order of the files.
func TestTheServiceSuffixIsDropped(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files []*descriptorpb.FileDescriptorProto
		o     BuildOptions
		want  []string
		warns int
	}{
		{
			"a suffix", []*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "SchemaService/ReadSchema")},
			BuildOptions{}, []string{"schema.read_schema (schema_service.read_schema)"}, 0,
		},
		{
			"words that only look like it",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "Service/Get", "_Service/Get", "Microservice/Get", "Services/Get", "ServiceDesk/Get", "HTTPService/Get", "Old_service/Get")},
			BuildOptions{},
			[]string{"_service.get", "http.get (http_service.get)", "microservice.get", "old.get (old_service.get)", "service.get", "service_desk.get", "services.get"}, 0,
		},
		{
			"another service of the shorter name, nothing collides",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "SchemaService/Read"), rpcFile("b.proto", "b.v1", "Schema/Write")},
			BuildOptions{}, []string{"schema.read (schema_service.read)", "schema.write"}, 0,
		},
		{
			"a collision: all tools of the service keep it, and are understood without it as far as that means them",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "SchemaService/Read", "SchemaService/List"), rpcFile("b.proto", "b.v1", "Schema/Read")},
			BuildOptions{}, []string{"schema.read", "schema_service.list (schema.list)", "schema_service.read"}, 1,
		},
		{
			"a collision in MCP's form: both keep it",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "A_BService/C", "AService/B_C")},
			BuildOptions{}, []string{"a_b_service.c", "a_service.b_c"}, 2,
		},
		{
			"a collision that comes of a suffix kept for another",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "X/Get", "XService/Get", "XServiceService/Get")},
			BuildOptions{}, []string{"x.get", "x_service.get", "x_service_service.get"}, 2,
		},
		{
			"a declared name that is the longer one",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "SchemaService/Read", "Other/Read")},
			BuildOptions{Overlay: []Override{{Match: "a.v1.Other/Read", Options: &configv1.ToolOptions{Name: "schema_service.read"}}}},
			[]string{"schema.read", "schema_service.read"}, 0,
		},
		{
			"a hidden tool takes no name that was declared",
			[]*descriptorpb.FileDescriptorProto{rpcFile("a.proto", "a.v1", "SchemaService/Read", "Other/Read")},
			BuildOptions{Overlay: []Override{{Match: "a.v1.Other/Read", Options: &configv1.ToolOptions{Name: "schema.read", Hidden: new(true)}}}},
			[]string{"schema.read", "schema.read (schema_service.read)"}, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				c := mustBuild(t, tt.o, filesOf(tt.files...))
				if diff := cmp.Diff(tt.want, aliased(c)); diff != "" {
					t.Errorf("names (-want +got):\n%s", diff)
				}
				warns := 0
				for _, w := range c.Warnings() {
					if strings.Contains(w.Text, "keep the Service suffix") {
						warns++
					}
				}
				if warns != tt.warns {
					t.Errorf("%d warnings, want %d: %v", warns, tt.warns, c.Warnings())
				}
				slices.Reverse(tt.files)
				for _, f := range tt.files {
					slices.Reverse(f.Service)
				}
			}
		})
	}
}

// TestADeclaredNameRenamesNoOtherTool: it is refused where it is a derived name, as two equal declared names are.
func TestADeclaredNameRenamesNoOtherTool(t *testing.T) {
	t.Parallel()
	books := func() *source.Loaded {
		return filesOf(rpcFile("a.proto", "a.v1", "LibraryService/GetBook", "LibraryService/ListBooks", "LibraryService/DeleteBook"))
	}
	overlaid := func(name string) BuildOptions {
		return BuildOptions{Overlay: []Override{{Match: "a.v1.LibraryService/GetBook", Options: &configv1.ToolOptions{Name: name}}}}
	}
	want := []string{"a.v1.LibraryService/GetBook", "a.v1.LibraryService/ListBooks"}
	for name, tt := range map[string]struct {
		o     BuildOptions
		loads []*source.Loaded
		want  []string
	}{
		"overlay, canonical form": {overlaid("library.list_books"), []*source.Loaded{books()}, want},
		"overlay, MCP form":       {overlaid("library_list.books"), []*source.Loaded{books()}, want},
		"native tool": {loads: []*source.Loaded{books(), nativeLoad("desk", nativeTool("library.list_books"))},
			want: []string{"a.v1.LibraryService/ListBooks", "desk/library.list_books"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Build(tt.loads, tt.o)
			got := asError[*BuildError](t, err).Collisions
			if len(got) != 1 || !slices.Equal(got[0].Methods, tt.want) {
				t.Errorf("collisions %v, want one of %v", got, tt.want)
			}
		})
	}
	t.Run("live", func(t *testing.T) {
		t.Parallel()
		from := &stubSource{}
		from.set(func() (*source.Loaded, error) { return books(), nil })
		live := NewLive([]source.Source{from}, LiveOptions{})
		if err := live.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := live.Current()
		asError[*BuildError](t, live.Reconfigure(t.Context(), []source.Source{from}, overlaid("library.list_books")))
		from.set(func() (*source.Loaded, error) {
			load := books()
			load.Native = nativeLoad("desk", nativeTool("library.list_books")).Native
			return load, nil
		})
		asError[*BuildError](t, live.Refresh(t.Context()))
		if live.Current() != before {
			t.Errorf("the refused source changed the catalog to %v", namesOf(live.Current()))
		}
	})
}

// TestOneNameOfTwoPackagesStaysAnError: the suffix would not tell them apart.
func TestOneNameOfTwoPackagesStaysAnError(t *testing.T) {
	t.Parallel()
	_, err := Build([]*source.Loaded{filesOf(rpcFile("a.proto", "a.v1", "ShopService/Get"), rpcFile("b.proto", "b.v1", "ShopService/Get"))}, BuildOptions{})
	if got := asError[*BuildError](t, err).Collisions; len(got) != 1 || got[0].Name != "shop.get" || len(got[0].Methods) != 2 {
		t.Errorf("%v", got)
	}
}

// TestTheOldNameIsUnderstood in both forms, where a name or a glob is taken.
func TestTheOldNameIsUnderstood(t *testing.T) {
	t.Parallel()
	load := func() *source.Loaded {
		return filesOf(rpcFile("a.proto", "a.v1", "SchemaService/Read", "SchemaService/Dump"))
	}
	forms := []string{"schema.read", "schema_read", "schema_service.read", "schema_service_read"}
	c := mustBuild(t, BuildOptions{}, load())
	view := c.Only(func(t *Tool) bool { return t.Name == "schema.read" })
	for _, name := range forms {
		if tool, ok := c.Lookup(name); !ok || tool.Name != "schema.read" {
			t.Errorf("lookup of %s: %v", name, ok)
		}
		if tool, ok := view.Lookup(name); !ok || tool.Name != "schema.read" {
			t.Errorf("lookup of %s in a view: %v", name, ok)
		}
		if got := namesOf(mustBuild(t, BuildOptions{Selection: selection(t, []string{name}, nil)}, load())); !slices.Equal(got, []string{"schema.read"}) {
			t.Errorf("--include %s: %v", name, got)
		}
		if got := namesOf(mustBuild(t, BuildOptions{Selection: selection(t, nil, []string{name})}, load())); !slices.Equal(got, []string{"schema.dump"}) {
			t.Errorf("--exclude %s: %v", name, got)
		}
		marked := mustBuild(t, BuildOptions{Overlay: []Override{{Match: name, Options: &configv1.ToolOptions{Destructive: new(true)}}}}, load())
		if !toolOf(t, marked, "schema.read").Metadata.Destructive || toolOf(t, marked, "schema.dump").Metadata.Destructive || len(marked.Warnings()) > 0 {
			t.Errorf("an overlay entry for %s: %v", name, marked.Warnings())
		}
	}
	if _, ok := view.Lookup("schema_service.dump"); ok {
		t.Error("a view finds by its alias what it does not show")
	}
	if got := namesOf(mustBuild(t, BuildOptions{Selection: selection(t, []string{"schema_service.*"}, nil)}, load())); len(got) != 2 {
		t.Errorf("--include schema_service.*: %v", got)
	}
}

// TestAGlobOverAShortNameMeansItsOwner where another service's tools would have it too.
func TestAGlobOverAShortNameMeansItsOwner(t *testing.T) {
	t.Parallel()
	load := filesOf(rpcFile("a.proto", "a.v1", "SchemaService/Read"), rpcFile("b.proto", "b.v1", "Schema/Read"))
	if got := namesOf(mustBuild(t, BuildOptions{Selection: selection(t, nil, []string{"schema.read"})}, load)); !slices.Equal(got, []string{"schema_service.read"}) {
		t.Errorf("%v", got)
	}
}

// TestARegistrationTakesNoAlias: callers with the old name would get another tool.
func TestARegistrationTakesNoAlias(t *testing.T) {
	t.Parallel()
	from := &stubSource{}
	from.set(func() (*source.Loaded, error) { return filesOf(rpcFile("a.proto", "a.v1", "SchemaService/Read")), nil })
	live := NewLive([]source.Source{from}, LiveOptions{})
	if err := live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	register := func(name string) error {
		_, _, err := live.Register(t.Context(), Registration{
			Name: name, Description: "Reads.", InputSchema: []byte(noParameters), Binding: Binding{"a.v1.SchemaService", "Read"},
		})
		return err
	}
	if err := register("schema_service.read"); asError[*RegistrationError](t, err).Reason != Conflict {
		t.Errorf("%v", err)
	}
	if err := register("schema.peek"); err != nil {
		t.Fatal(err)
	}
	if tool, ok := live.Current().Lookup("schema_service.read"); !ok || tool.Name != "schema.read" {
		t.Errorf("%v, %v", tool, ok)
	}
}

// TestANativeToolIsKnownByBothNamesOfItsRPC, as a sidecar behind this one lists it.
func TestANativeToolIsKnownByBothNamesOfItsRPC(t *testing.T) {
	t.Parallel()
	bound := func(name string) *outriggerv1.Tool {
		return nativeTool(name, func(d *outriggerv1.Tool) {
			d.Binding = &outriggerv1.ToolBinding{Service: "a.v1.SchemaService", Method: "Read"}
		})
	}
	for name, alias := range map[string]string{"schema.read": "schema_service.read", "schema_service.read": "schema.read", "schema.peek": ""} {
		c := mustBuild(t, BuildOptions{}, nativeLoad("Desk", bound(name)))
		if tool := toolOf(t, c, name); tool.Alias != alias {
			t.Errorf("%s: alias %q", name, tool.Alias)
		}
		if alias != "" {
			toolOf(t, c, MCPName(alias))
		}
	}
}
