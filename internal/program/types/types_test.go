// SPDX-License-Identifier: Apache-2.0

package types

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the goldens")

func build(t *testing.T, path string) *catalog.Catalog {
	t.Helper()
	loaded, err := source.NewDescriptorFile(path, source.Limits{}).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Build([]*source.Loaded{loaded}, catalog.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestTypesOnRecord compares the types of the tools of whole catalogs with the record, and what models read of them.
func TestTypesOnRecord(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"../../demo/demo.binpb", "../../catalog/testdata/garden-buf.binpb.gz", "../../catalog/testdata/library-buf.binpb.gz"} {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, signatures bytes.Buffer
			for _, tool := range build(t, path).Tools() {
				signatures.WriteString(strings.TrimPrefix(Signatures([]Wanted{{Tool: tool}}), legend) + "\n")
				fmt.Fprintf(&out, "%s\n", tool.Name)
				p := printer{out: &out, known: map[protoreflect.FullName]bool{}}
				p.print(Input(tool), " in", 1)
				p.known = map[protoreflect.FullName]bool{}
				p.print(Output(tool), " out", 1)
			}
			onRecord(t, name+".txt", out.String())
			onRecord(t, name+"-signatures.txt", signatures.String())
		})
	}
}

func onRecord(t *testing.T, name, got string) {
	t.Helper()
	golden := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// printer writes types as a tree, each message once.
type printer struct {
	out   *bytes.Buffer
	known map[protoreflect.FullName]bool
}

var kindNames = [...]string{"any", "null", "bool", "int", "float", "string", "bytes", "timestamp", "duration", "enum", "message", "list", "map"}

func (p *printer) print(t *Type, label string, depth int) {
	if t == nil {
		fmt.Fprintf(p.out, "%s any\n", label)
		return
	}
	text := kindNames[t.Kind]
	if t.Bits > 0 {
		text = fmt.Sprintf("%s%d", text, t.Bits)
	}
	for _, flag := range []struct {
		is   bool
		text string
	}{{t.Unsigned, "unsigned"}, {t.Open, "open"}, {t.Nullable, "nullable"}} {
		if flag.is {
			text += " " + flag.text
		}
	}
	if t.Name != "" {
		text += " " + string(t.Name)
	}
	fmt.Fprintf(p.out, "%s %s", label, text)
	for _, value := range t.Values {
		fmt.Fprintf(p.out, " %s", value)
	}
	p.out.WriteByte('\n')
	indent := strings.Repeat("  ", depth)
	if t.Key() != nil {
		p.print(t.Key(), indent+"key", depth+1)
	}
	if t.Kind == List || t.Kind == Map {
		p.print(t.Elem(), indent+"elem", depth+1)
	}
	if t.Name != "" && p.known[t.Name] {
		return
	}
	p.known[t.Name] = true
	for _, f := range t.Fields() {
		label := indent + f.Name
		if f.JSONName != f.Name {
			label += "/" + f.JSONName
		}
		if f.Required {
			label += " required"
		}
		if f.Oneof != "" {
			label += " oneof=" + f.Oneof
		}
		p.print(f.Type, label, depth+1)
	}
}

// TestFieldsByEitherName finds fields under both spellings.
func TestFieldsByEitherName(t *testing.T) {
	t.Parallel()
	tool, _ := build(t, "../../demo/demo.binpb").Lookup("fleet.get_order")
	in := Input(tool)
	if a, b := in.Field("order_id"), in.Field("orderId"); a == nil || a != b || !a.Required {
		t.Errorf("%+v and %+v", a, b)
	}
	if f := in.Field("order"); f != nil {
		t.Errorf("found %+v", f)
	}
	// The types of a message that contains itself are not more than its schema has places.
	tool, _ = build(t, "../../demo/demo.binpb").Lookup("fleet.get_map")
	area := Output(tool).Field("areas").Type.Elem()
	for range 100 {
		next := area.Field("areas").Type.Elem()
		if next == area {
			return
		}
		area = next
	}
	t.Error("each level has types that no other has")
}

// TestBySchema reads types from JSON schemas.
func TestBySchema(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"scalars", `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"number"},"c":{"type":"boolean"},"d":{"type":"string"}},"required":["a"],"additionalProperties":false}`,
			" message\n  a required int\n  b float\n  c bool\n  d string\n"},
		{"open", `{"type":"object"}`, " message open\n"},
		{"enum", `{"type":"string","enum":["x","y"]}`, " enum x y\n"},
		{"mixed enum", `{"type":"string","enum":["x",1]}`, " string\n"},
		{"null beside", `{"type":["string","null"]}`, " string nullable\n"},
		{"null in a branch", `{"anyOf":[{"type":"null"},{"type":"integer"}]}`, " int nullable\n"},
		{"several", `{"type":["string","integer"]}`, " any\n"},
		{"list", `{"type":"array","items":{"type":"string"}}`, " list\n  elem string\n"},
		{"tuple", `{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"}}`, " list\n  elem any\n"},
		{"reference", `{"$ref":"#/$defs/a","$defs":{"a":{"type":"boolean"}}}`, " bool\n"},
		{"reference to itself", `{"$ref":"#"}`, " any\n"},
		{"reference elsewhere", `{"$ref":"https://example.com/a"}`, " any\n"},
		{"patterns", `{"type":"object","additionalProperties":false,"patternProperties":{"^x":{}}}`, " message open\n"},
		{"endless list", `{"type":"array","items":{"$ref":"#"}}`, ""},
		{"true", `true`, " any\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newMaker([]byte(tt.text), schema.Output)
			var out bytes.Buffer
			(&printer{out: &out, known: map[protoreflect.FullName]bool{}}).print(m.bySchema(m.root, 0), "", 1)
			if tt.want != "" && out.String() != tt.want {
				t.Errorf("got\n%s\nwant\n%s", out.String(), tt.want)
			}
		})
	}
}

// TestWhatIsNotSeenDoesNotExist makes the types of a view: a hidden field is none, a masked one is as it was, and those of the whole tool
// have both.
func TestWhatIsNotSeenDoesNotExist(t *testing.T) {
	t.Parallel()
	whole := build(t, "../../demo/demo.binpb")
	see := func(*catalog.Tool) catalog.Sight {
		return catalog.Sight{Key: "k", Paths: []string{"destination.hand_to"}, Of: func(path string, fd protoreflect.FieldDescriptor) (schema.Seen, bool) {
			switch {
			case fd.Name() == "customer" || path == "destination.hand_to":
				return schema.SeenNot, false
			case fd.Name() == "value_cents":
				return schema.SeenMasked, false
			}
			return schema.SeenWhole, false
		}}
	}
	var views catalog.Views
	view := views.Only(whole, func() *catalog.Catalog { return whole }, "scope", func(*catalog.Tool) bool { return true }, see)
	for _, tt := range []struct {
		in   *catalog.Catalog
		path string
		want bool
	}{
		{whole, "customer", true}, {whole, "destination.hand_to", true}, {view, "customer", false}, {view, "destination.hand_to", false},
		{view, "destination.stop_id", true}, {view, "parcels.value_cents", true}, {view, "status", true},
	} {
		tool, _ := tt.in.Lookup("fleet.get_order")
		at, found := Output(tool), true
		for name := range strings.SplitSeq(tt.path, ".") {
			if at.Kind == List {
				at = at.Elem()
			}
			f := at.Field(name)
			if found = f != nil; !found {
				break
			}
			at = f.Type
		}
		if found != tt.want {
			t.Errorf("%s is there: %v, in a view: %v", tt.path, found, tt.in == view)
		}
		if tt.path == "parcels.value_cents" && (at.Kind != Int || at.Bits != 64) {
			t.Errorf("a masked field has the type %+v", at)
		}
	}
	// The same fields are arguments all the same.
	tool, _ := view.Lookup("fleet.place_order")
	if f := Input(tool).Field("customer"); f == nil || !f.Required {
		t.Errorf("the argument is %+v", f)
	}
}

// FuzzBySchema reads any schema, also one that refers to itself, and looks at types some levels deep.
func FuzzBySchema(f *testing.F) {
	for _, text := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"type":"array","items":{"$ref":"#/properties/b"}}},"required":["a",1]}`,
		`{"anyOf":[{"type":"null"},{"$ref":"#"}]}`, `{"type":["array","null"],"items":{"enum":["a",null]}}`, `{"allOf":[{"anyOf":[{"required":["a"]}]}],"properties":{"a":{}}}`, `[]`, `true`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if jsontext.Check([]byte(text), 100) != nil {
			return
		}
		var look func(at *Type, depth int)
		look = func(at *Type, depth int) {
			if at == nil || depth > 4 {
				return
			}
			for i, field := range at.Fields() {
				if i < 4 {
					look(field.Type, depth+1)
				}
				if at.Field(field.JSONName) == nil {
					t.Errorf("the field %q is not found", field.JSONName)
				}
			}
			look(at.Elem(), depth+1)
		}
		m := newMaker([]byte(text), schema.Input)
		look(m.bySchema(m.root, 0), 0)
	})
}
