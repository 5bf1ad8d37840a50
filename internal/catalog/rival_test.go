// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// Services that are annotated for other MCP servers; build.sh says how they are made.
const (
	errandsSet   = "testdata/rival-errands.binpb.gz" // protomcp.v1, with comments
	herbariumSet = "testdata/rival-herbarium.binpb"  // mcp.v1
	ferrySet     = "testdata/rival-ferry.binpb"      // grpcmcpgateway.v1
)

// rivalText is all that is read of the annotations, as text.
func rivalText(c *Catalog) string {
	var out strings.Builder
	hint := func(b *bool) string {
		if b == nil {
			return "-"
		}
		return fmt.Sprint(*b)
	}
	for _, t := range c.Tools() {
		fmt.Fprintf(&out, "%s %s %q\n  %s\n  read-only %s, destructive %s, idempotent %s, open-world %s\n", t.Name, t.MCPName, t.Title,
			strings.ReplaceAll(t.Description, "\n", " "), hint(t.Annotations.ReadOnly), hint(t.Annotations.Destructive),
			hint(t.Annotations.Idempotent), hint(t.Annotations.OpenWorld))
		for _, icon := range t.Icons {
			fmt.Fprintf(&out, "  icon %s %s %v %s\n", icon.GetSrc(), icon.GetMimeType(), icon.GetSizes(), icon.GetTheme())
		}
		fmt.Fprintf(&out, "  %s\n  %s\n", t.Input.Advertised(), t.Output.Advertised())
	}
	for _, m := range c.Resources().All() {
		fmt.Fprintf(&out, "resource %s by %s, %s%s\n", m.URITemplate(), m.Procedure(), m.Resource().GetMimeType(), m.Template().GetMimeType())
	}
	for _, w := range c.Warnings() {
		fmt.Fprintf(&out, "warning: %s: %s\n", w.Subject, w.Text)
	}
	return out.String()
}

// TestAnnotationsOfRivalsOnRecord: names, titles, descriptions, hints, excluded fields and methods, for each of the rivals.
func TestAnnotationsOfRivalsOnRecord(t *testing.T) {
	t.Parallel()
	const path = "testdata/rivals.txt"
	var got strings.Builder
	for _, set := range []string{errandsSet, herbariumSet, ferrySet} {
		fmt.Fprintf(&got, "# %s\n%s\n", strings.TrimPrefix(set, "testdata/"), rivalText(mustBuild(t, BuildOptions{Rivals: true}, loadFile(t, set))))
	}
	if *update {
		if err := os.WriteFile(path, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(path); err != nil || string(want) != got.String() {
		t.Errorf("%v; run with -update and read the difference\n%s", err, got.String())
	}
}

// TestExcludedFieldsAreInNoCall: callers cannot set them, and results do not have them.
func TestExcludedFieldsAreInNoCall(t *testing.T) {
	t.Parallel()
	loaded := loadFile(t, errandsSet)
	tool := toolOf(t, mustBuild(t, BuildOptions{Rivals: true}, loaded), "Errands_AddErrand")
	if _, err := tool.In.ToWire(nil, []byte(`{"errand":{"internalNote":"x"}}`)); err == nil || !strings.Contains(err.Error(), "internal") {
		t.Errorf("an argument for an excluded field: %v", err)
	}
	plain := toolOf(t, mustBuild(t, BuildOptions{}, loaded), "errands.add_errand")
	wire, err := plain.Out.ToWire(nil, []byte(`{"id":"7","internalNote":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tool.Out.ToJSON(nil, wire); err != nil || string(got) != `{"id":"7","title":"","history":""}` {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := plain.Out.ToJSON(nil, wire); err != nil || string(got) != `{"id":"7","title":"","internalNote":"x","history":""}` {
		t.Errorf("without the annotations: %s, %v", got, err)
	}
}

// TestRivalsAreReadOnlyWhereAsked: by default all methods are tools, as they always were.
func TestRivalsAreReadOnlyWhereAsked(t *testing.T) {
	t.Parallel()
	for set, want := range map[string]string{errandsSet: "errands_reindex", herbariumSet: "herbarium_list_sheets", ferrySet: "ferry_find_sailings"} {
		c := mustBuild(t, BuildOptions{}, loadFile(t, set))
		if tool := toolOf(t, c, want); tool.Annotations.ReadOnly != nil || len(c.Warnings()) != 0 {
			t.Errorf("%s: %+v, %v", want, tool.Annotations, c.Warnings())
		}
	}
	if c := mustBuild(t, BuildOptions{Rivals: true}, loadFile(t, bufImage)); !strings.Contains(fmt.Sprint(c.Warnings()), "rival-annotations is on, and") {
		t.Errorf("nothing to read: %v", c.Warnings())
	}
}

// TestTheOverlayWinsOverRivals: also what would contradict what they say, and what they leave out.
func TestTheOverlayWinsOverRivals(t *testing.T) {
	t.Parallel()
	overlay := []Override{
		{Match: "Errands_ListErrands", Options: &configv1.ToolOptions{Name: "desk.list", Destructive: proto.Bool(true)}},
		{Match: "*.Errands/DropErrand", Options: &configv1.ToolOptions{ReadOnly: proto.Bool(true)}},
		{Match: "*.Errands/GetErrand", Options: &configv1.ToolOptions{Hidden: proto.Bool(false)}},
		{Match: "*.Errands/*", Options: &configv1.ToolOptions{Version: "2.0.0"}},
	}
	c := mustBuild(t, BuildOptions{Rivals: true, Overlay: overlay}, loadFile(t, errandsSet))
	if list := toolOf(t, c, "desk_list"); *list.Annotations.ReadOnly || !*list.Annotations.Destructive || list.Title != "List errands" {
		t.Errorf("%+v %q", list.Annotations, list.Title)
	}
	if drop := toolOf(t, c, "Errand_drop"); !*drop.Annotations.ReadOnly || *drop.Annotations.Destructive || drop.Version != "2.0.0" {
		t.Errorf("%+v", drop.Annotations)
	}
	toolOf(t, c, "errands_get_errand")
	for _, gone := range []string{"Errands_ListErrands", "errands_list_errands", "errands_reindex"} {
		if _, ok := c.Lookup(gone); ok {
			t.Errorf("%s is a tool", gone)
		}
	}
	if why := fmt.Sprint(c.LeftOut()); !strings.Contains(why, "Reindex: method left out: it has no option of protomcp.v1") ||
		!strings.Contains(why, "ListOpen: method is a source of resources and no tool") || strings.Contains(why, "GetErrand") || strings.Contains(why, "is hidden") {
		t.Errorf("left out: %s", why)
	}
	only := mustBuild(t, BuildOptions{Rivals: true, Selection: selection(t, []string{"ns_*"}, nil)}, loadFile(t, errandsSet))
	if got := fmt.Sprint(namesOf(only)); got != "[prefixed_errands.count prefixed_errands.sum]" {
		t.Errorf("included by the names of rivals: %s", got)
	}
}

// optionBytes is an option of a message type.
func optionBytes(number protowire.Number, body []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
}

// firstText is the first field of an option, with a text.
func firstText(text string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)
}

// markedFile is a service with one method, whose options and imports are given.
func markedFile(raw []byte, imports ...string) *descriptorpb.FileDescriptorProto {
	f := rpcFile("shop.proto", "shop.v1", "Shop/Get")
	f.Dependency = imports
	options := &descriptorpb.MethodOptions{}
	options.ProtoReflect().SetUnknown(raw)
	f.Service[0].Method[0].Options = options
	return f
}

// definition is the file in a set that defines a rival's options.
func definition(t *testing.T, set, path string) *source.Loaded {
	t.Helper()
	for _, f := range loadFile(t, set).Files {
		if f.GetName() == path {
			return filesOf(f)
		}
	}
	t.Fatalf("%s has no %s", set, path)
	return nil
}

// TestANumberAloneIsNoRival: the numbers are from the range that anyone may use. An option is a rival's in files that import the
// definition of it, under its name.
func TestANumberAloneIsNoRival(t *testing.T) {
	t.Parallel()
	const protoMCP = "protomcp/v1/annotations.proto"
	theirs := definition(t, errandsSet, protoMCP)
	other := &descriptorpb.FileDescriptorProto{
		Name: new("acme/options.proto"), Package: new("acme"), Syntax: new("proto3"), Dependency: []string{"google/protobuf/descriptor.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Audit")}},
		Extension: []*descriptorpb.FieldDescriptorProto{{
			Name: new("tool"), Number: new(int32(50001)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: new(".acme.Audit"), Extendee: new(".google.protobuf.MethodOptions"),
		}},
	}
	through := &descriptorpb.FileDescriptorProto{
		Name: new("house.proto"), Package: new("house"), Syntax: new("proto3"), Dependency: []string{protoMCP}, PublicDependency: []int32{0},
	}
	raw := optionBytes(50001, firstText("theirs"))
	for name, tt := range map[string]struct {
		loads []*source.Loaded
		want  string // of the tool in MCP; empty where it is hidden
	}{
		"defined and imported":      {[]*source.Loaded{theirs, filesOf(markedFile(raw, protoMCP))}, "theirs"},
		"imported through another":  {[]*source.Loaded{theirs, filesOf(through, markedFile(raw, "house.proto"))}, "theirs"},
		"another option":            {[]*source.Loaded{filesOf(other, markedFile(raw, "acme/options.proto"))}, "shop_get"},
		"not defined":               {[]*source.Loaded{filesOf(markedFile(raw))}, "shop_get"},
		"defined and not imported":  {[]*source.Loaded{theirs, filesOf(markedFile(raw))}, ""},
		"another beside the rivals": {[]*source.Loaded{theirs, filesOf(other, markedFile(raw, "acme/options.proto"))}, ""},
		"a name that is none":       {[]*source.Loaded{theirs, filesOf(markedFile(optionBytes(50001, firstText("a b")), protoMCP))}, "shop_get"},
	} {
		// A tool that is always there, because a catalog without any is refused.
		beside := rpcFile("beside.proto", "beside.v1", "Beside/Stay")
		c := mustBuild(t, BuildOptions{Rivals: true, Overlay: []Override{{Match: "*.Beside/*", Options: &configv1.ToolOptions{Hidden: proto.Bool(false)}}}},
			append(tt.loads, filesOf(beside))...)
		got := ""
		for _, tool := range c.Tools() {
			if tool.Method.Service == "shop.v1.Shop" {
				got = tool.MCPName
			}
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q; %v", name, got, tt.want, c.Warnings())
		}
	}
}

// TestUnreadableRivalsAreNoTools: what cannot be read may have said that the method is destructive.
func TestUnreadableRivalsAreNoTools(t *testing.T) {
	t.Parallel()
	const path = "grpcmcpgateway/v1/annotations.proto"
	theirs := definition(t, ferrySet, path)
	beside := rpcFile("beside.proto", "beside.v1", "Beside/Stay")
	c := mustBuild(t, BuildOptions{Rivals: true}, theirs, filesOf(beside, markedFile(optionBytes(80084, []byte{0xff}), path)))
	if got := fmt.Sprint(namesOf(c), c.Warnings()); !strings.HasPrefix(got, "[beside.stay]") || !strings.Contains(got, "option (grpcmcpgateway.v1.tool) cannot be read") {
		t.Error(got)
	}
}

// TestPublishedExamplesOfRivals: names and hints that the rivals document for their own examples.
func TestPublishedExamplesOfRivals(t *testing.T) {
	t.Parallel()
	flag := func(number protowire.Number, value uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value)
	}
	for _, tt := range []struct {
		pkg, method string
		set, path   string
		option      []byte
		want        string
	}{
		{"protomcp.examples.tasks.v1", "Tasks/ListTasks", errandsSet, "protomcp/v1/annotations.proto", optionBytes(50001, flag(4, 1)), "Tasks_ListTasks true"},
		{"protomcp.examples.greeter.v1", "Greeter/SayHello", errandsSet, "protomcp/v1/annotations.proto", optionBytes(50001, flag(4, 1)), "Greeter_SayHello true"},
		{"todo.v1", "TodoService/CreateTodo", herbariumSet, "mcp/v1/annotations.proto", optionBytes(51001, nil), "todo_service-create_todo_v1 -"},
		{"gallery.v1", "GalleryService/GetAsset", herbariumSet, "mcp/v1/annotations.proto", optionBytes(51001, append(firstText("get_asset"), flag(4, 1)...)), "get_asset true"},
		{"functional.v1", "GreeterService/Greet", ferrySet, "grpcmcpgateway/v1/annotations.proto", optionBytes(80084, firstText("greet_user")), "greet_user -"},
		{"examples.faker.v1", "FakerService/GenerateFake", ferrySet, "grpcmcpgateway/v1/annotations.proto", optionBytes(80084, firstText("GenerateFake")), "GenerateFake -"},
	} {
		f := rpcFile("example.proto", tt.pkg, tt.method)
		f.Dependency = []string{tt.path}
		options := &descriptorpb.MethodOptions{}
		options.ProtoReflect().SetUnknown(tt.option)
		f.Service[0].Method[0].Options = options
		tool := mustBuild(t, BuildOptions{Rivals: true}, definition(t, tt.set, tt.path), filesOf(f)).Tools()[0]
		got := tool.MCPName + " -"
		if tool.Annotations.ReadOnly != nil {
			got = fmt.Sprint(tool.MCPName, " ", *tool.Annotations.ReadOnly)
		}
		if got != tt.want {
			t.Errorf("%s/%s is %s, want %s", tt.pkg, tt.method, got, tt.want)
		}
	}
}

// TestRivalsAreReadByReflection: the options and their definitions come along.
func TestRivalsAreReadByReflection(t *testing.T) {
	t.Parallel()
	for _, set := range []string{herbariumSet, ferrySet} {
		described := loadFile(t, set)
		url := telling(described.Files...).serve(t, reflectionV1)
		reflected, err := source.NewReflection(url, dialTo(t, url), source.ReflectionOptions{}).Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want, got := rivalText(mustBuild(t, BuildOptions{Rivals: true}, described)), rivalText(mustBuild(t, BuildOptions{Rivals: true}, reflected))
		if got != want {
			t.Errorf("%s by reflection:\n%s\nwant\n%s", set, got, want)
		}
	}
}
