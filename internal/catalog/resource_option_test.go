// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

func TestTheOverlayMakesResources(t *testing.T) {
	t.Parallel()
	c := library(t,
		Override{Match: "library.v1.Library/LendBook", Resource: &configv1.ResourceOptions{UriTemplate: "library://lent/{id}", Title: "First"}},
		Override{Match: "library.v1.Library/LendBook", Resource: &configv1.ResourceOptions{Title: "Second"}},
		Override{Match: "library.v1.Library/GetHours", Resource: &configv1.ResourceOptions{Name: "open"}})
	m, _ := reader(t, c, "library://lent/1")
	if c.ResourceTool(m).Name != "library.lend_book" || m.Template().GetTitle() != "Second" {
		t.Errorf("%s: %v", c.ResourceTool(m).Name, m.Template())
	}
	if m, _ = reader(t, c, "library://hours"); m.Resource().GetName() != "open" || m.Resource().GetAnnotations() == nil {
		t.Errorf("%v", m.Resource())
	}
	// Descriptors that know nothing of our options.
	c = mustBuild(t, BuildOptions{Overlay: []Override{{Match: "S/M", Resource: &configv1.ResourceOptions{UriTemplate: "x://y"}},
		{Match: "a.S/M", Resource: &configv1.ResourceOptions{UriTemplate: "x://y"}}}}, filesOf(rpcFile("a.proto", "a", "S/M")))
	reader(t, c, "x://y")
}

// odd is a service with fields of every kind that has no place in a URI or in contents.
func odd(t *testing.T, input, output string) *source.Loaded {
	t.Helper()
	const optional, repeated = descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL, descriptorpb.FieldDescriptorProto_LABEL_REPEATED
	n := int32(0)
	field := func(name string, kind descriptorpb.FieldDescriptorProto_Type, label descriptorpb.FieldDescriptorProto_Label, of string) *descriptorpb.FieldDescriptorProto {
		n++
		fd := &descriptorpb.FieldDescriptorProto{Name: new(name), Number: new(n), Type: kind.Enum(), Label: label.Enum()}
		if of != "" {
			fd.TypeName = new(of)
		}
		return fd
	}
	text, message := descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	all := []*descriptorpb.FieldDescriptorProto{
		field("text", text, optional, ""), field("texts", text, repeated, ""), field("double_number", descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, optional, ""),
		field("raw", descriptorpb.FieldDescriptorProto_TYPE_BYTES, optional, ""), field("inner", message, optional, ".odd.v1.All"),
		field("inners", message, repeated, ".odd.v1.All"), field("free", message, optional, ".google.protobuf.Struct"),
		field("nothing", descriptorpb.FieldDescriptorProto_TYPE_ENUM, optional, ".google.protobuf.NullValue"),
		field("wrapped", message, optional, ".google.protobuf.StringValue"), field("by_name", message, repeated, ".odd.v1.All.ByNameEntry"),
		field("left", text, optional, ""), field("right", text, optional, ""), field("shown", text, optional, ""), field("taken", text, optional, ""),
		field("other_text", text, optional, ""),
	}
	all[10].OneofIndex, all[11].OneofIndex = new(int32(0)), new(int32(0))
	behavior := func(fd *descriptorpb.FieldDescriptorProto, value byte) {
		fd.Options = &descriptorpb.FieldOptions{}
		fd.GetOptions().ProtoReflect().SetUnknown([]byte{0xe0, 0x41, value}) // google.api.field_behavior, 1052
	}
	behavior(all[12], 3) // OUTPUT_ONLY
	behavior(all[13], 4) // INPUT_ONLY
	n = 0
	entry := &descriptorpb.DescriptorProto{Name: new("ByNameEntry"), Options: &descriptorpb.MessageOptions{MapEntry: new(true)},
		Field: []*descriptorpb.FieldDescriptorProto{field("key", text, optional, ""), field("value", message, optional, ".odd.v1.All")}}
	f := rpcFile("odd.proto", "odd.v1", "S/M")
	f.Dependency = []string{"google/protobuf/struct.proto", "google/protobuf/wrappers.proto", "google/protobuf/empty.proto"}
	f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{
		Name: new("All"), Field: all, NestedType: []*descriptorpb.DescriptorProto{entry},
		OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: new("side")}},
	})
	m := f.GetService()[0].GetMethod()[0]
	m.InputType, m.OutputType = new(input), new(output)
	return filesOf(f, protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto),
		protodesc.ToFileDescriptorProto(wrapperspb.File_google_protobuf_wrappers_proto),
		protodesc.ToFileDescriptorProto(emptypb.File_google_protobuf_empty_proto))
}

func TestWrongResourceOptionsStopTheBuild(t *testing.T) {
	t.Parallel()
	const all, empty = ".odd.v1.All", ".google.protobuf.Empty"
	type options = configv1.ResourceOptions
	for name, tc := range map[string]struct {
		input, output string
		o             *options
		want          string
	}{
		"no template":                    {all, all, &options{Title: "x"}, "uri_template: "},
		"no scheme":                      {all, all, &options{UriTemplate: "orders/{text}"}, "uri_template: "},
		"no template that parses":        {all, all, &options{UriTemplate: "x://{+text}"}, "uri_template: \"{+text}\" is no simple expression"},
		"no URI":                         {all, all, &options{UriTemplate: "http://[{text}/"}, `uri_template: "http://[1/", which it can make: uri: `},
		"no port":                        {all, all, &options{UriTemplate: "http://a:{text}x/"}, `uri_template: "http://a:1x/", which it can make: uri: `},
		"an unknown field":               {all, all, &options{UriTemplate: "x://{other}"}, "uri_template: variable {other}: odd.v1.All has no field other; it has text, texts"},
		"an unknown field below":         {all, all, &options{UriTemplate: "x://{inner.other}"}, "odd.v1.All has no field other"},
		"a field of nothing":             {empty, all, &options{UriTemplate: "x://{a}"}, "the JSON of google.protobuf.Empty has no fields"},
		"a field of text":                {all, all, &options{UriTemplate: "x://{text.a}"}, "text of odd.v1.All is no single message"},
		"a field of many":                {all, all, &options{UriTemplate: "x://{inners.text}"}, "inners of odd.v1.All is no single message"},
		"a field of a map":               {all, all, &options{UriTemplate: "x://{by_name.key}"}, "by_name of odd.v1.All is no single message"},
		"a field of free JSON":           {all, all, &options{UriTemplate: "x://{free.fields}"}, "the JSON of google.protobuf.Struct has no fields"},
		"a repeated variable":            {all, all, &options{UriTemplate: "x://{texts}"}, "texts of odd.v1.All is repeated"},
		"a message as variable":          {all, all, &options{UriTemplate: "x://{inner}"}, "inner of odd.v1.All is no string, integer, bool or enum"},
		"a wrapped variable":             {all, all, &options{UriTemplate: "x://{wrapped}"}, "wrapped of odd.v1.All is no string"},
		"a double as variable":           {all, all, &options{UriTemplate: "x://{double_number}"}, "double_number of odd.v1.All is no string"},
		"bytes as variable":              {all, all, &options{UriTemplate: "x://{raw}"}, "raw of odd.v1.All is no string"},
		"null as variable":               {all, all, &options{UriTemplate: "x://{nothing}"}, "nothing of odd.v1.All is no string"},
		"one field under two names":      {all, all, &options{UriTemplate: "x://{inner.other_text}/{inner.otherText}"}, "{inner.other_text} and {inner.otherText} are one field"},
		"one variable twice":             {all, all, &options{UriTemplate: "x://{text}/{text}"}, "{text} is there twice"},
		"two of one oneof":               {all, all, &options{UriTemplate: "x://{left}/{right}"}, "variable {right}: right and left exclude each other"},
		"a variable that is only shown":  {all, all, &options{UriTemplate: "x://{inner.shown}"}, "shown of odd.v1.All is never taken in a request"},
		"a request that is no object":    {".google.protobuf.StringValue", all, &options{UriTemplate: "x://y"}, "google.protobuf.StringValue, is no object"},
		"contents of nowhere":            {all, all, &options{UriTemplate: "x://y", ContentField: "a"}, "content_field: odd.v1.All has no field a"},
		"contents of an empty path":      {all, all, &options{UriTemplate: "x://y", ContentField: "inner."}, "content_field: odd.v1.All has no field ;"},
		"many contents":                  {all, all, &options{UriTemplate: "x://y", ContentField: "texts"}, "texts of odd.v1.All is not a single string or bytes"},
		"a number as contents":           {all, all, &options{UriTemplate: "x://y", ContentField: "double_number"}, "is not a single string or bytes"},
		"contents that are only taken":   {all, all, &options{UriTemplate: "x://y", ContentField: "taken"}, "content_field: taken of odd.v1.All is never in a response"},
		"contents of no object":          {all, ".google.protobuf.StringValue", &options{UriTemplate: "x://y", ContentField: "value"}, "content_field: the JSON of google.protobuf.StringValue has no fields"},
		"bytes as media type":            {all, all, &options{UriTemplate: "x://y", MimeTypeField: "raw"}, "mime_type_field: raw of odd.v1.All is not a single string"},
		"a media type that is none":      {all, all, &options{UriTemplate: "x://y", MimeType: "json"}, `mime_type: "json" is no media type`},
		"a name field without items":     {all, all, &options{UriTemplate: "x://y", NameField: "text"}, "name_field: it is the name of an item"},
		"items of nowhere":               {all, all, &options{UriTemplate: "x://{text}", ItemsField: "a"}, "items_field: odd.v1.All has no field a"},
		"one item":                       {all, all, &options{UriTemplate: "x://{text}", ItemsField: "inner"}, "items_field: inner of odd.v1.All is no list of messages"},
		"items by name":                  {all, all, &options{UriTemplate: "x://{text}", ItemsField: "by_name"}, "items_field: by_name of odd.v1.All is no list of messages"},
		"items that are texts":           {all, all, &options{UriTemplate: "x://{text}", ItemsField: "texts"}, "items_field: texts of odd.v1.All is no list of messages"},
		"items without a variable":       {all, all, &options{UriTemplate: "x://y", ItemsField: "inners"}, "without a variable all items would have one URI"},
		"items with a wrong variable":    {all, all, &options{UriTemplate: "x://{raw}", ItemsField: "inners"}, "variable {raw}: raw of odd.v1.All"},
		"items that hide their variable": {all, all, &options{UriTemplate: "x://{taken}", ItemsField: "inners"}, "variable {taken}: taken of odd.v1.All is never in a response"},
		"items with contents":            {all, all, &options{UriTemplate: "x://{text}", ItemsField: "inners", ContentField: "text"}, "items_field: a method that lists has items and no contents"},
		"items with a wrong name":        {all, all, &options{UriTemplate: "x://{text}", ItemsField: "inners", NameField: "raw"}, "name_field: raw of odd.v1.All is not a single string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Build([]*source.Loaded{odd(t, tc.input, tc.output)}, BuildOptions{Overlay: []Override{{Match: "odd.v1.S/M", Resource: tc.o}}})
			got := asError[*BuildError](t, err)
			if len(got.Problems) != 1 || got.Problems[0].Subject != "odd.v1.S/M" ||
				!strings.HasPrefix(got.Problems[0].Text, "option (outrigger.v1.resource) or overlay: ") || !strings.Contains(got.Problems[0].Text, tc.want) {
				t.Errorf("problems %v, want %q", got.Problems, tc.want)
			}
		})
	}
	// What the rules leave room for.
	c := mustBuild(t, BuildOptions{Overlay: []Override{{Match: "odd.v1.S/M", Resource: &options{
		UriTemplate: "x://{inner.taken}/{left}/{inner.right}", ContentField: "inner.shown", MimeTypeField: "text"}}}}, odd(t, all, all))
	m, variables := reader(t, c, "x://a/b/c")
	if request, err := m.Request(variables); err != nil || string(request) != `{"inner":{"taken":"a","right":"c"},"left":"b"}` {
		t.Errorf("request %s, %v", request, err)
	}
}

func TestOnlyHarmlessUnaryMethodsAreRead(t *testing.T) {
	t.Parallel()
	yes := true
	resource := &configv1.ResourceOptions{UriTemplate: "x://y"}
	for want, change := range map[string]func(f *descriptorpb.MethodDescriptorProto, o *Override){
		"only a unary RPC can be read": func(m *descriptorpb.MethodDescriptorProto, _ *Override) { m.ServerStreaming = &yes },
		"unary RPC can be read":        func(m *descriptorpb.MethodDescriptorProto, _ *Override) { m.ClientStreaming = &yes },
		"reading must not destroy": func(_ *descriptorpb.MethodDescriptorProto, o *Override) {
			o.Options = &configv1.ToolOptions{Destructive: &yes}
		},
	} {
		f, o := rpcFile("a.proto", "a", "S/M"), Override{Match: "a.S/M", Resource: resource}
		change(f.GetService()[0].GetMethod()[0], &o)
		_, err := Build([]*source.Loaded{filesOf(f)}, BuildOptions{Overlay: []Override{o}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestTemplatesThatMeetAreAProblem(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		one, two string
		want     bool // a problem
	}{
		{"x://y", "x://y", true},
		{"x://y", "x://z", false},
		{"x://{text}", "x://{left}", true},
		{"x://{text}/b", "x://b/{left}", true},
		{"x://{text}/b", "x://c/{left}", true},
		{"x://{text}/b", "x://c/d", false},
		{"x://{text}", "x://a{left}", false},
		{"x://{text}", "x://y", false},
		{"x://{text}", "x://{left}/z", false},
	} {
		load := odd(t, ".odd.v1.All", ".odd.v1.All")
		service := load.Files[0].GetService()[0]
		second := proto.CloneOf(service.GetMethod()[0])
		second.Name = new("N")
		service.Method = append(service.Method, second)
		_, err := Build([]*source.Loaded{load}, BuildOptions{Overlay: []Override{
			{Match: "odd.v1.S/M", Resource: &configv1.ResourceOptions{UriTemplate: tc.one}},
			{Match: "odd.v1.S/N", Resource: &configv1.ResourceOptions{UriTemplate: tc.two}},
		}})
		if (err != nil) != tc.want {
			t.Errorf("%s and %s: error %v", tc.one, tc.two, err)
			continue
		}
		if tc.want {
			for _, part := range []string{"can be the same URI as", tc.one, tc.two, "odd.v1.S/M", "odd.v1.S/N"} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %v does not say %q", err, part)
				}
			}
		}
	}
}

func TestAListThatNobodyCanReadIsAWarning(t *testing.T) {
	t.Parallel()
	o := BuildOptions{Selection: selection(t, nil, []string{"*/GetBook"})}
	const want = "library.v1.Library/ListBooks: it lists resources library://books/{id}, but no method reads them"
	if c := mustBuild(t, o, loadFile(t, libraryImage)); !hasWarning(c, want) {
		t.Errorf("warnings %v", c.Warnings())
	}
	native := nativeLoad("fixture")
	native.Native.Description.Capabilities.Resources = &outriggerv1.ResourcesCapability{}
	if c := mustBuild(t, o, loadFile(t, libraryImage), native); len(c.Warnings()) > 0 {
		t.Errorf("warnings %v", c.Warnings())
	}
}

func TestAnUndecodableResourceOptionIsAProblem(t *testing.T) {
	t.Parallel()
	load := loadFile(t, libraryImage)
	f := rpcFile("x.proto", "x", "S/M")
	f.GetService()[0].GetMethod()[0].Options = &descriptorpb.MethodOptions{}
	f.GetService()[0].GetMethod()[0].GetOptions().ProtoReflect().SetUnknown([]byte{0xf2, 0xe1, 0x18, 0x02, 0x0a, 0xff}) // 50718, two bytes: half a text
	load.Files = append(load.Files, f)
	_, err := Build([]*source.Loaded{load}, BuildOptions{})
	if got := asError[*BuildError](t, err); len(got.Problems) != 1 || got.Problems[0].Subject != "x.S/M" || !strings.Contains(err.Error(), "read option (outrigger.v1.resource)") {
		t.Errorf("problems %v", got.Problems)
	}
	// Somebody else's option under that number is none of our business.
	if c := mustBuild(t, BuildOptions{}, filesOf(f)); !c.Resources().IsEmpty() {
		t.Error("a foreign option was taken for ours")
	}
}

// TestAChangeOfResourcesIsTold has catalogs that differ in nothing but what can be read.
func TestAChangeOfResourcesIsTold(t *testing.T) {
	t.Parallel()
	named := func(name string) func() (*source.Loaded, error) {
		return func() (*source.Loaded, error) {
			load := loadFile(t, libraryImage)
			load.Native = nativeLoad("fixture").Native
			load.Native.Description.Version = name
			return load, nil
		}
	}
	from := &stubSource{}
	from.set(named("1"))
	overlay := &configv1.ResourceOptions{UriTemplate: "library://hours", Name: "one"}
	live := NewLive([]source.Source{from}, LiveOptions{Build: BuildOptions{Overlay: []Override{{Match: "library.v1.Library/GetHours", Resource: overlay}}}})
	told := 0
	defer live.OnChange(func(_, _ *Catalog) { told++ })()
	refresh := func(want int) *Catalog {
		t.Helper()
		if err := live.Refresh(t.Context()); err != nil || told != want {
			t.Fatalf("told %d times, want %d, error %v", told, want, err)
		}
		return live.Current()
	}
	first := refresh(1)
	again := refresh(1)
	overlay.Name = "two"
	renamed := refresh(2)
	if first.Resources().Fingerprint() != again.Resources().Fingerprint() || again.Resources().Fingerprint() == renamed.Resources().Fingerprint() ||
		first.Fingerprint() != renamed.Fingerprint() || len(first.Resources().Fingerprint()) != 64 {
		t.Errorf("fingerprints %q, %q, %q", first.Resources().Fingerprint(), again.Resources().Fingerprint(), renamed.Resources().Fingerprint())
	}
	from.set(named("2"))
	refresh(3)
}
