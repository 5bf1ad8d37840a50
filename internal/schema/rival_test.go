// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

const allRivals = schema.RivalProtoMCP | schema.RivalMCP | schema.RivalGateway

// rivalled is a file whose field, enum, enum value, method and service have the given bytes as options.
func rivalled(raw []byte) *descriptorpb.FileDescriptorProto {
	file := &descriptorpb.FileDescriptorProto{
		Name: new("r.proto"), Package: new("r.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("M"), Field: []*descriptorpb.FieldDescriptorProto{{
			Name: new("f"), JsonName: new("f"), Number: new(int32(1)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Options: &descriptorpb.FieldOptions{},
		}}}},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: new("E"), Options: &descriptorpb.EnumOptions{}, Value: []*descriptorpb.EnumValueDescriptorProto{{
			Name: new("ZERO"), Number: new(int32(0)), Options: &descriptorpb.EnumValueOptions{},
		}}}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("S"), Options: &descriptorpb.ServiceOptions{}, Method: []*descriptorpb.MethodDescriptorProto{{
			Name: new("Do"), InputType: new(".r.v1.M"), OutputType: new(".r.v1.M"), Options: &descriptorpb.MethodOptions{},
		}}}},
	}
	for _, options := range []proto.Message{
		file.MessageType[0].Field[0].Options, file.EnumType[0].Options, file.EnumType[0].Value[0].Options,
		file.Service[0].Options, file.Service[0].Method[0].Options,
	} {
		options.ProtoReflect().SetUnknown(raw)
	}
	return file
}

// rivalOption is an option with some fields.
func rivalOption(number protowire.Number, body ...byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), body)
}

// TestUnreadableFieldsOfRivals: a field that may have been excluded is; the file itself stays as it was.
func TestUnreadableFieldsOfRivals(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		raw        []byte
		of         schema.Rivals
		isExcluded bool
		note       string
	}{
		"excluded":             {rivalOption(50009, 8, 1), allRivals, true, ""},
		"not excluded":         {rivalOption(50009, 8, 0), allRivals, false, ""},
		"of another rival":     {rivalOption(50009, 8, 1), schema.RivalMCP, false, ""},
		"not to be read":       {rivalOption(50009, 0xff), allRivals, true, "protomcp.v1.field_schema"},
		"mcp not to be read":   {rivalOption(51004, 0xff), allRivals, false, "mcp.v1.field"},
		"enum not to be read":  {rivalOption(51005, 0xff), allRivals, false, "mcp.v1.enum"},
		"value not to be read": {rivalOption(51006, 0xff), allRivals, false, "mcp.v1.enum_value"},
		"gateway likewise":     {rivalOption(80085, 0xff), allRivals, false, "grpcmcpgateway.v1.field"},
		"in parts":             {append(rivalOption(50009, 16, 1), rivalOption(50009, 8, 1)...), allRivals, true, ""},
	} {
		file := rivalled(tt.raw)
		before := proto.CloneOf(file)
		out, notes := schema.TranslateRivals(file, tt.of)
		if !proto.Equal(file, before) {
			t.Errorf("%s: the file has changed", name)
		}
		fd, err := protodesc.NewFile(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		behavior := schema.BehaviorOf(fd.Messages().Get(0).Fields().Get(0))
		if (behavior.Hides(schema.Input) && behavior.Hides(schema.Output)) != tt.isExcluded {
			t.Errorf("%s: %+v", name, behavior)
		}
		if (len(notes) == 0) != (tt.note == "") || !strings.Contains(strings.Join(notes, " "), tt.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, tt.note)
		}
	}
}

// TestResourcesOfRivals: placeholders become the fields that they are bound to, all at once, and a name is read if it is one field.
func TestResourcesOfRivals(t *testing.T) {
	t.Parallel()
	text := func(number protowire.Number, text string) []byte { return rivalOption(number, []byte(text)...) }
	binding := func(number protowire.Number, placeholder, path string) []byte {
		return rivalOption(number, append(text(1, placeholder), text(2, path)...)...)
	}
	list := func(name string) []byte {
		return rivalOption(50004, slices.Concat(text(1, "page.items"), text(2, "a://{a}/{b}"), binding(3, "a", "b"), binding(3, "b", "x.y"), text(4, name), text(5, "{{d}}"), text(6, "text/plain"))...)
	}
	listed := schema.RivalResource{URITemplate: "a://{b}/{x.y}", MimeType: "text/plain", Items: "page.items"}
	named := listed
	named.Label = "x.y"
	for name, tt := range map[string]struct {
		raw  []byte
		of   schema.Rivals
		want schema.RivalResource
		bad  string
	}{
		"nothing": {nil, allRivals, schema.RivalResource{}, ""},
		"a template": {
			rivalOption(50003, slices.Concat(text(1, "a://{a}"), binding(2, "a", "id"), text(3, "{{n}}"), text(5, "image/png"), text(6, "scan"))...), allRivals,
			schema.RivalResource{URITemplate: "a://{id}", MimeType: "image/png", Content: "scan"}, "",
		},
		"a list":                {list("{{ x.y }}"), allRivals, named, ""},
		"a name of two fields":  {list("{{x}} {{y}}"), allRivals, listed, ""},
		"a section":             {list("{{#x}}"), allRivals, listed, ""},
		"a text":                {list("x"), allRivals, listed, ""},
		"of another rival":      {list("x"), schema.RivalMCP | schema.RivalGateway, schema.RivalResource{}, ""},
		"not to be read":        {rivalOption(50003, 0xff), allRivals, schema.RivalResource{}, "protomcp.v1.resource_template"},
		"a binding that is not": {rivalOption(50004, rivalOption(3, 0xff)...), allRivals, schema.RivalResource{}, "protomcp.v1.resource_list"},
	} {
		file, err := protodesc.NewFile(rivalled(tt.raw), nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := schema.RivalResourceOf(file.Services().Get(0).Methods().Get(0), tt.of)
		if got != tt.want || (err != nil) != (tt.bad != "") || err != nil && !strings.Contains(err.Error(), tt.bad) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// FuzzRivals: whatever bytes a backend reflects as options of rivals, they are read or refused, and what they are translated into links.
func FuzzRivals(f *testing.F) {
	for _, seed := range [][]byte{
		rivalOption(50001, 10, 1, 'a', 32, 1), rivalOption(50009, 8, 1, 16, 1, 26, 1, 'x'), rivalOption(51001, 10, 1, 'a', 74, 3, 10, 1, 'u'),
		rivalOption(51003, 48, 1), rivalOption(51004, 10, 1, 'd', 18, 1, 'e', 24, 1, 32, 5), rivalOption(51005, 10, 1, 'k'), rivalOption(51006, 10, 1, 'v'),
		rivalOption(80084, 10, 1, 'a', 40, 0), rivalOption(80086, 10, 1, 'p'), rivalOption(80085, 0xff),
		rivalOption(50003, 10, 6, 'a', ':', '{', 'a', '}', 'b', 18, 6, 10, 1, 'a', 18, 1, 'b'), rivalOption(50004, 10, 1, 'i', 34, 5, '{', '{', 'a', '}', '}'),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for rest := raw; len(rest) > 0; { // a descriptor's own options are well-formed up to the values of extensions
			number, typ, n := protowire.ConsumeField(rest)
			if n < 0 || number < 1000 || typ == protowire.StartGroupType {
				return
			}
			rest = rest[n:]
		}
		out, _ := schema.TranslateRivals(rivalled(raw), allRivals)
		fd, err := protodesc.NewFile(out, nil)
		if err != nil {
			t.Fatal(err)
		}
		said, err := schema.RivalToolOf(fd.Services().Get(0).Methods().Get(0), allRivals)
		if err != nil && said.Of != 0 {
			t.Fatalf("%+v, %v", said, err)
		}
		if from, err := schema.RivalResourceOf(fd.Services().Get(0).Methods().Get(0), allRivals); err != nil && from != (schema.RivalResource{}) {
			t.Fatalf("%+v, %v", from, err)
		}
		for _, dir := range []schema.Direction{schema.Input, schema.Output} {
			if _, err := schema.Derive(fd.Messages().Get(0), dir, schema.Options{}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
