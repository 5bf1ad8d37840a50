// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"google.golang.org/protobuf/types/descriptorpb"
)

// field is a field of a message or an enum, or of a scalar type where the name of its type is empty.
func field(name string, number int32, typeName string, label descriptorpb.FieldDescriptorProto_Label) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{Name: new(name), Number: new(number), Label: label.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()}
	if typeName != "" {
		f.TypeName, f.Type = new(typeName), descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum()
	}
	return f
}

// nodeFiles are a service and its types as @grpc/reflection 1.0.4 sends them.
func nodeFiles() []*descriptorpb.FileDescriptorProto {
	const one, many = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	entry := func(name, value string) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{
			Name: new(name), Options: &descriptorpb.MessageOptions{MapEntry: new(true)},
			Field: []*descriptorpb.FieldDescriptorProto{field("key", 1, "", one), field("value", 2, value, one)},
		}
	}
	optional := field("note", 6, "", one)
	optional.OneofIndex = new(int32(0))
	shop := rpcFile("shop_v1.proto", "shop.v1", "Orders/Get")
	shop.MessageType[1] = &descriptorpb.DescriptorProto{
		Name: new("Out"),
		Field: []*descriptorpb.FieldDescriptorProto{
			field("my_map", 1, "My_map", many), field("linesBySku", 2, "LinesBySku", many), field("when", 3, "google.protobuf.Timestamp", one),
			field("total", 4, "common.Money", one), field("lines", 5, "Line", many), optional,
		},
		NestedType: []*descriptorpb.DescriptorProto{
			entry("My_map", "common.Money"), entry("LinesBySku", "Out.Line"), {Name: new("Line"), Field: []*descriptorpb.FieldDescriptorProto{field("sku", 1, "", one)}},
		},
		OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: new("_note")}},
	}
	common := rpcFile("common.proto", "common")
	common.MessageType = []*descriptorpb.DescriptorProto{{Name: new("Money"), Field: []*descriptorpb.FieldDescriptorProto{field("units", 1, "", one)}}}
	known := rpcFile("google_protobuf.proto", "google.protobuf")
	known.MessageType = []*descriptorpb.DescriptorProto{{Name: new("Timestamp"), Field: []*descriptorpb.FieldDescriptorProto{field("seconds", 1, "", one)}}}
	return []*descriptorpb.FileDescriptorProto{shop, common, known}
}

// importing is a file with a service whose request is of another package.
func importing(path, imported, request string) *descriptorpb.FileDescriptorProto {
	f := rpcFile(path, strings.TrimSuffix(path, ".proto"), "S/M")
	f.Dependency = []string{imported}
	if request != "" {
		f.Service[0].Method[0].InputType = new(request)
	}
	return f
}

// TestOneOddFileCostsItself has a row for every oddity of a reflecting server: what can be mended is, and the rest costs one
// service, with a warning that says what to do.
func TestOneOddFileCostsItself(t *testing.T) {
	t.Parallel()
	good := rpcFile("good.proto", "good", "Good/M")
	proto2 := rpcFile("open.proto", "open", "Open/M")
	proto2.Syntax = new("proto2")
	proto2.MessageType[0].ExtensionRange = []*descriptorpb.DescriptorProto_ExtensionRange{{Start: new(int32(100)), End: new(int32(200))}}
	extends := rpcFile("more.proto", "more")
	extends.Syntax, extends.Dependency = new("proto2"), []string{"open.proto"}
	extends.Extension = []*descriptorpb.FieldDescriptorProto{field("colour", 100, "", descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL)}
	extends.Extension[0].Extendee = new(".open.In")
	for _, tc := range []struct {
		name  string
		peer  func() *scripted
		tools []string
		// warns are parts of the warnings, in their order, each with the subject.
		warns []string
		check func(t *testing.T, c *Catalog)
	}{
		{
			name: "@grpc/reflection of Node",
			peer: func() *scripted {
				files := nodeFiles()
				s := telling(files[0])
				s.symbols["shop.v1.Orders"] = files // the service's file and what that uses
				return s
			},
			tools: []string{"orders.get"},
			warns: []string{"reflection: the server sends 1 incomplete descriptor"},
			check: func(t *testing.T, c *Catalog) {
				t.Helper()
				out := toolOf(t, c, "orders.get").Method.Descriptor.Output().Fields()
				if f := out.ByName("my_map"); !f.IsMap() || f.MapValue().Message().FullName() != "common.Money" {
					t.Errorf("my_map is %v", f)
				}
				if f := out.ByName("linesBySku"); !f.IsMap() || f.MapValue().Message().FullName() != "shop.v1.Out.Line" {
					t.Errorf("linesBySku is %v", f)
				}
				if f := out.ByName("when"); f.Message().ParentFile().Path() != "google/protobuf/timestamp.proto" {
					t.Errorf("when is from %s", f.Message().ParentFile().Path())
				}
				if f := out.ByName("note"); !f.HasOptionalKeyword() {
					t.Error("note is not optional")
				}
			},
		},
		{
			name: "@grpc/reflection of Node, each file by itself",
			peer: func() *scripted {
				files := nodeFiles()
				s := telling(files...)
				s.symbols["common.Money"] = files[1:2]
				return s
			},
			tools: []string{"orders.get"},
			warns: []string{"reflection: the server sends 1 incomplete descriptor"},
		},
		{
			name:  "incomplete, and nothing has the type",
			peer:  func() *scripted { return telling(nodeFiles()[0], good) },
			tools: []string{"good.m"},
			warns: []string{"reflection: the server sends 1 incomplete", "shop.v1.Orders: service omitted: complete shop_v1.proto: no file that the server has defines common.Money; pass its descriptors with --descriptors"},
		},
		{
			name:  "a service that is listed and not described",
			peer:  func() *scripted { s := telling(good); s.services = append(s.services, "gogo.Sampling"); return s },
			tools: []string{"good.m"},
			warns: []string{"gogo.Sampling: service omitted: find gogo.Sampling: the server lists this service but does not describe it (--exclude gogo.Sampling omits it): " +
				"the server answered not_found: nothing known of gogo.Sampling; pass its descriptors with --descriptors"},
		},
		{
			name:  "a name that is none",
			peer:  func() *scripted { s := telling(good); s.services = append(s.services, "a b"); return s },
			tools: []string{"good.m"}, warns: []string{`reflection: the server lists "a b", which is not a service name`},
		},
		{
			name: "an import that is served under another name",
			peer: func() *scripted {
				s := telling(good, importing("a.proto", "src/b.proto", ".b.In"))
				s.files["src/b.proto"] = []*descriptorpb.FileDescriptorProto{rpcFile("b.proto", "b")}
				return s
			},
			tools: []string{"good.m", "s.m"},
		},
		{
			name: "an import that is served by symbol alone",
			peer: func() *scripted {
				s := telling(good, importing("a.proto", "src/b.proto", ".b.In"))
				s.symbols["b.In"] = []*descriptorpb.FileDescriptorProto{rpcFile("b.proto", "b")}
				return s
			},
			tools: []string{"good.m", "s.m"}, warns: []string{"a.proto: imports src/b.proto, which the server does not serve under that name"},
		},
		{
			name:  "an import that is not served, for options",
			peer:  func() *scripted { return telling(good, importing("a.proto", "gogoproto/gogo.proto", "")) },
			tools: []string{"good.m", "s.m"}, warns: []string{"a.proto: imports gogoproto/gogo.proto, which the server does not serve"},
		},
		{
			name:  "an import that is not served, for a type",
			peer:  func() *scripted { return telling(good, importing("a.proto", "b.proto", ".b.In")) },
			tools: []string{"good.m"},
			warns: []string{"a.S: service omitted: complete a.proto: no file that the server has defines .b.In; pass its descriptors"},
		},
		{
			name: "two files of one name",
			peer: func() *scripted {
				s := telling(good, rpcFile("x.proto", "x", "X/M"))
				s.services = append(s.services, "y.Y")
				s.symbols["y.Y"] = []*descriptorpb.FileDescriptorProto{rpcFile("x.proto", "y", "Y/M")}
				return s
			},
			tools: []string{"good.m", "x.m"}, warns: []string{"y.Y: service omitted: find y.Y: the server sent two different files as x.proto"},
		},
		{
			name: "streams that end after each answer",
			peer: func() *scripted {
				s := telling(good, importing("a.proto", "b.proto", ".b.In"), rpcFile("b.proto", "b"), rpcFile("c.proto", "c", "C/M"))
				s.isSingle = true
				return s
			},
			tools: []string{"c.m", "good.m", "s.m"},
		},
		{
			name: "extensions in a file that no service imports",
			peer: func() *scripted {
				s := telling(proto2)
				s.extensions = map[string][]*descriptorpb.FileDescriptorProto{"open.In": {extends}}
				return s
			},
			tools: []string{"open.m"},
			check: func(t *testing.T, c *Catalog) {
				t.Helper()
				tool := toolOf(t, c, "open.m")
				if wire, err := tool.In.ToWire(nil, []byte(`{"[more.colour]":"red"}`)); err != nil || len(wire) == 0 {
					t.Errorf("the extension is not accepted: %v", err)
				}
				if shown := string(tool.Input.Canonical()); !strings.Contains(shown, "[more.colour]") {
					t.Errorf("the extension is not in the schema: %s", shown)
				}
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url := tc.peer().serve(t, reflectionV1)
			from := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{})
			loaded, err := from.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			c := mustBuild(t, BuildOptions{}, loaded)
			if diff := cmp.Diff(tc.tools, namesOf(c)); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			var got []string
			for _, w := range c.Warnings() {
				got = append(got, strings.ReplaceAll(w.String(), "reflection at "+url, "reflection"))
			}
			if !slices.EqualFunc(tc.warns, got, func(want, got string) bool { return strings.HasPrefix(got, want) }) {
				t.Errorf("warnings\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.warns, "\n"))
			}
			if tc.check != nil {
				tc.check(t, c)
			}
			// What is unchanged is known again, mended or not.
			live := NewLive([]source.Source{from}, LiveOptions{})
			for range 2 {
				if err := live.Refresh(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if first := live.Current(); first.Fingerprint() != c.Fingerprint() {
				t.Error("a live catalog is another one")
			}
		})
	}
}
