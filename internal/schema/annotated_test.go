// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// annotated reads the API of package annotation's tests. Without comments it is as reflection has it.
func annotated(t testing.TB, comments bool) *protoregistry.Files {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "relations.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := (proto.UnmarshalOptions{Resolver: &protoregistry.Types{}}).Unmarshal(raw, set); err != nil {
		t.Fatal(err)
	}
	for _, f := range set.GetFile() {
		if !comments {
			f.SourceCodeInfo = nil
		}
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestAnnotatedGolden keeps what annotations make of every message of an API, as reflection has it.
func TestAnnotatedGolden(t *testing.T) {
	t.Parallel()
	got := &bytes.Buffer{}
	for _, md := range messagesIn(annotated(t, false), "relations.v1") {
		for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
			s, err := schema.Derive(md, schema.Input, schema.Options{Profile: profile})
			if err != nil {
				t.Fatal(err)
			}
			writeIndented(t, got, string(md.FullName())+" input "+profile.String(), s.Advertised)
			for _, w := range s.Warnings {
				got.WriteString("warning: " + w + "\n")
			}
		}
		s, err := schema.Derive(md, schema.Output, schema.Options{})
		if err != nil {
			t.Fatal(err)
		}
		writeIndented(t, got, string(md.FullName())+" output", s.Advertised)
	}
	path := filepath.Join("testdata", "annotated.txt")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("schemas changed (-want +got):\n%s", diff)
	}
}

// TestAnnotationsAreNotEnforced: the canonical schemas, and those of outputs but for descriptions and examples, are as without them.
func TestAnnotationsAreNotEnforced(t *testing.T) {
	t.Parallel()
	with := annotated(t, false)
	bare := unannotated(t, with)
	for _, md := range messagesIn(with, "relations.v1") {
		plain := shape(t, bare, md.FullName())
		for _, dir := range []schema.Direction{schema.Input, schema.Output} {
			a, b := mustDerive(t, md, dir), mustDerive(t, plain, dir)
			if !bytes.Equal(a.Canonical, b.Canonical) {
				t.Errorf("%s: annotations change the canonical schema:\n%s\n%s", md.FullName(), a.Canonical, b.Canonical)
			}
			if dir == schema.Output && !bytes.Equal(withoutTexts(t, a.Advertised), withoutTexts(t, b.Advertised)) {
				t.Errorf("%s: annotations change what an output may be:\n%s\n%s", md.FullName(), a.Advertised, b.Advertised)
			}
		}
	}
}

func mustDerive(t *testing.T, md protoreflect.MessageDescriptor, dir schema.Direction) *schema.Schema {
	t.Helper()
	s, err := schema.Derive(md, dir, schema.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unannotated is the same API with google.api.field_behavior as its only annotation.
func unannotated(t *testing.T, of *protoregistry.Files) *protoregistry.Files {
	t.Helper()
	set := &descriptorpb.FileDescriptorSet{}
	of.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(fd))
		return true
	})
	const fieldBehavior = 1052
	for _, f := range set.GetFile() {
		for _, m := range f.GetMessageType() {
			m.Options = nil
			for _, od := range m.GetOneofDecl() {
				od.Options = nil
			}
			if f.GetPackage() != "relations.v1" || len(m.GetNestedType()) > 0 && m.GetNestedType()[0].GetOptions().GetMapEntry() {
				continue
			}
			for _, fd := range m.GetField() {
				keep := []byte(nil)
				for raw := []byte(fd.GetOptions().ProtoReflect().GetUnknown()); len(raw) > 0; {
					number, _, n := protowire.ConsumeField(raw)
					if number == fieldBehavior {
						keep = append(keep, raw[:n]...)
					}
					raw = raw[n:]
				}
				fd.Options = &descriptorpb.FieldOptions{}
				fd.GetOptions().ProtoReflect().SetUnknown(keep)
			}
		}
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func withoutTexts(t *testing.T, raw []byte) []byte {
	t.Helper()
	var doc any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	var strip func(any)
	strip = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if _, ok := v["description"].(string); ok {
				delete(v, "description")
			}
			if _, ok := v["examples"].([]any); ok {
				delete(v, "examples")
			}
			for _, inner := range v {
				strip(inner)
			}
		case []any:
			for _, inner := range v {
				strip(inner)
			}
		}
	}
	strip(doc)
	out, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCommentsGoBeforeAnnotations: of the two texts of a field only the comment is shown.
func TestCommentsGoBeforeAnnotations(t *testing.T) {
	t.Parallel()
	for comments, want := range map[bool]string{true: "The relation whose users are wanted.", false: "Hidden by the comment."} {
		md := shape(t, annotated(t, comments), "relations.v1.ExpandRequest")
		var doc struct {
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(mustDerive(t, md, schema.Input).Advertised, &doc); err != nil {
			t.Fatal(err)
		}
		if got := doc.Properties["relation"].Description; got != want {
			t.Errorf("with comments %v the field is %q, want %q", comments, got, want)
		}
	}
}

// TestExamplesOfAnnotations: what is shown is in ProtoJSON's form and within the bounds, and what is not is noted.
func TestExamplesOfAnnotations(t *testing.T) {
	t.Parallel()
	type kind = descriptorpb.FieldDescriptorProto_Type
	const text, long, flag, list = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64, descriptorpb.FieldDescriptorProto_TYPE_BOOL, kind(-1)
	for name, tc := range map[string]struct {
		kind     kind
		examples []string
		want     string // the keyword's value
		note     string
	}{
		"a JSON string":         {text, []string{`"a"`}, `["a"]`, ""},
		"a string without":      {text, []string{`a b`}, `["a b"]`, ""},
		"a number in a string":  {text, []string{`12`}, `["12"]`, ""},
		"an integer":            {long, []string{`9007199254740993`}, `["9007199254740993"]`, ""},
		"an integer in quotes":  {long, []string{`"5"`}, `["5"]`, ""},
		"the zero value":        {flag, []string{`false`}, `[false]`, ""},
		"a list":                {list, []string{`["a","b"]`}, `[["a","b"]]`, ""},
		"an element of a list":  {list, []string{`a`}, `[["a"]]`, ""},
		"another type":          {flag, []string{`7`}, "", `example "7" is omitted: the schema does not accept it`},
		"no integer":            {long, []string{`1.5`}, "", "does not accept it"},
		"a third one":           {text, []string{"a", "b", "c"}, `["a","b"]`, "the limit is 2"},
		"one that is too large": {text, []string{strings.Repeat("x", 1025)}, "", "the limit is 1024 bytes"},
		"a second name":         {long, []string{`1,"value":2`}, "", "does not accept it"},
	} {
		var option []byte
		for _, e := range tc.examples {
			option = protowire.AppendString(protowire.AppendTag(option, 9, protowire.BytesType), e)
		}
		options := &descriptorpb.FieldOptions{}
		options.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1042, protowire.BytesType), option))
		field := &descriptorpb.FieldDescriptorProto{Name: new("value"), Number: new(int32(1)), Type: &tc.kind, Options: options}
		if tc.kind == list {
			field.Type, field.Label = new(text), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
			Name: new("one.proto"), Syntax: new("proto3"),
			MessageType: []*descriptorpb.DescriptorProto{{Name: new("One"), Field: []*descriptorpb.FieldDescriptorProto{field}}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s := mustDerive(t, file.Messages().Get(0), schema.Input)
		var doc struct {
			Properties map[string]struct{ Examples json.RawMessage }
		}
		if err := json.Unmarshal(s.Advertised, &doc); err != nil {
			t.Fatal(err)
		}
		if got := string(doc.Properties["value"].Examples); got != tc.want {
			t.Errorf("%s: examples %s, want %s", name, got, tc.want)
		}
		if notes := strings.Join(s.Warnings, "\n"); tc.note == "" && notes != "" || !strings.Contains(notes, tc.note) {
			t.Errorf("%s: warnings %q, want %q", name, notes, tc.note)
		}
	}
}

// TestUnreadableAnnotationsAreNoted: a message with them still has its schema.
func TestUnreadableAnnotationsAreNoted(t *testing.T) {
	t.Parallel()
	bad := protowire.AppendBytes(protowire.AppendTag(nil, 1042, protowire.BytesType), []byte{0xff})
	options, message := &descriptorpb.FieldOptions{}, &descriptorpb.MessageOptions{}
	options.ProtoReflect().SetUnknown(bad)
	message.ProtoReflect().SetUnknown(bad)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("one.proto"), Syntax: new("proto3"), Package: new("p"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("One"), Options: message, Field: []*descriptorpb.FieldDescriptorProto{
			{Name: new("value"), Number: new(int32(1)), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Options: options},
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := mustDerive(t, file.Messages().Get(0), schema.Input)
	if want := `{"type":"object","properties":{"value":{"type":"string"}},"additionalProperties":false}`; string(s.Advertised) != want {
		t.Errorf("the schema is %s", s.Advertised)
	}
	notes := strings.Join(s.Warnings, "\n")
	for _, want := range []string{"field p.One.value: option (", "message p.One: option ("} {
		if !strings.Contains(notes, want) {
			t.Errorf("no warning %q in %q", want, notes)
		}
	}
}

// TestAnEnumSaysWhatItIs in front of what is said of its values.
func TestAnEnumSaysWhatItIs(t *testing.T) {
	t.Parallel()
	text := func(number protowire.Number, body string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), body)
	}
	options := &descriptorpb.EnumOptions{}
	options.ProtoReflect().SetUnknown(text(1042, string(text(1, "How fresh the answer is."))))
	kind := descriptorpb.FieldDescriptorProto_TYPE_ENUM
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("one.proto"), Syntax: new("proto3"), Package: new("p"),
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: new("Fresh"), Options: options, Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: new("FAST"), Number: new(int32(0)), Options: &descriptorpb.EnumValueOptions{Deprecated: new(true)}},
		}}},
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("One"), Field: []*descriptorpb.FieldDescriptorProto{
			{Name: new("fresh"), Number: new(int32(1)), Type: &kind, TypeName: new(".p.Fresh")},
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := mustDerive(t, file.Messages().Get(0), schema.Input)
	if want := `"description":"How fresh the answer is.\nFAST: Deprecated."`; !strings.Contains(string(s.Advertised), want) {
		t.Errorf("the schema is %s", s.Advertised)
	}
	if strings.Contains(string(s.Canonical), "How fresh") {
		t.Errorf("the canonical schema is %s", s.Canonical)
	}
}

// TestExamplesOfResults: an output shows one example that it accepts, that of the operation before that of the message, and
// no other part of the schema changes.
func TestExamplesOfResults(t *testing.T) {
	t.Parallel()
	files := annotated(t, false)
	long := `{"objects":["` + strings.Repeat("x", 500) + `"]}`
	for name, tc := range map[string]struct {
		message string
		opts    schema.Options
		want    string
		note    string
	}{
		"of the message":         {message: "Relation", want: `[{"object":"document:budget","relation":"reader","user":"user:anne"}]`},
		"of the operation":       {message: "Relation", opts: schema.Options{Examples: []string{`{"written_at":"2026-11-26T12:00:00+02:00"}`}}, want: `[{"writtenAt":"2026-11-26T10:00:00Z"}]`, note: "the limit is 1"},
		"with integers in texts": {message: "WriteResponse", want: `[{"version":"8"}]`},
		"behind a wrong one":     {message: "CheckResponse", opts: schema.Options{Examples: []string{`{"allowed":"perhaps"}`, `{"allowed":true}`}}, want: `[{"allowed":true}]`, note: "the schema does not accept it"},
		"unknown member":         {message: "CheckResponse", opts: schema.Options{Examples: []string{`{"denied":true}`}}, note: "does not accept it"},
		"no object":              {message: "CheckResponse", opts: schema.Options{Examples: []string{`true`}}, note: "does not accept it"},
		"too large":              {message: "CheckResponse", opts: schema.Options{Examples: []string{`{"resolution":"` + strings.Repeat("x", 1024) + `"}`}}, note: "the limit is 1024 bytes"},
		"beyond its room":        {message: "ListObjectsResponse", opts: schema.Options{Examples: []string{long}, ExampleRoom: 500}, note: "lists would leave it out"},
		"within its room":        {message: "ListObjectsResponse", opts: schema.Options{Examples: []string{long}, ExampleRoom: 5000}, want: "[" + long + "]"},
		"in a list form anyway":  {message: "ListObjectsResponse", opts: schema.Options{Examples: []string{long}, ExampleRoom: 50}, want: "[" + long + "]"},
		"strict has no keyword":  {message: "Relation", opts: schema.Options{Profile: schema.ProfileStrict}},
		"for machines":           {message: "Relation", opts: schema.Options{WithoutDescriptions: true}},
	} {
		md := shape(t, files, protoreflect.FullName("relations.v1."+tc.message))
		s, err := schema.Derive(md, schema.Output, tc.opts)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Examples json.RawMessage }
		if err := json.Unmarshal(s.Advertised, &doc); err != nil {
			t.Fatal(err)
		}
		if string(doc.Examples) != tc.want {
			t.Errorf("%s: examples %s, want %s", name, doc.Examples, tc.want)
		}
		if notes := strings.Join(s.Warnings, "\n"); (notes == "") != (tc.note == "") || !strings.Contains(notes, tc.note) {
			t.Errorf("%s: warnings %q, want %q", name, notes, tc.note)
		}
		if bytes.Contains(s.Canonical, []byte(`"examples"`)) {
			t.Errorf("%s: the canonical schema has examples", name)
		}
	}
	input, err := schema.Derive(shape(t, files, "relations.v1.CheckResponse"), schema.Input, schema.Options{Examples: []string{`{"allowed":true}`}})
	if err != nil || bytes.Contains(input.Advertised, []byte(`"examples":[{`)) {
		t.Errorf("an input has an example of a result: %s, %v", input.Advertised, err)
	}
}

// TestExamplesOfResultsAreCheckedBehindReferences: a message that contains itself is checked in all its levels.
func TestExamplesOfResultsAreCheckedBehindReferences(t *testing.T) {
	t.Parallel()
	text := descriptorpb.FieldDescriptorProto_TYPE_STRING
	kind := descriptorpb.FieldDescriptorProto_TYPE_MESSAGE
	limited := &descriptorpb.FieldOptions{}
	rules := protowire.AppendVarint(protowire.AppendTag(nil, 3, protowire.VarintType), 3)                                // max_len
	rules = protowire.AppendBytes(protowire.AppendTag(nil, 14, protowire.BytesType), rules)                              // string
	limited.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1159, protowire.BytesType), rules)) // buf.validate.field
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("tree.proto"), Syntax: new("proto3"), Package: new("p"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new("Tree"), Field: []*descriptorpb.FieldDescriptorProto{{Name: new("root"), Number: new(int32(1)), Type: &kind, TypeName: new(".p.Node")}}},
			{Name: new("Node"), Field: []*descriptorpb.FieldDescriptorProto{
				{Name: new("name"), Number: new(int32(1)), Type: &text, Options: limited},
				{Name: new("below"), Number: new(int32(2)), Type: &kind, TypeName: new(".p.Node")},
			}},
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for example, isShown := range map[string]bool{
		`{"root":{"below":{"name":"abc"}}}`:  true,
		`{"root":{"below":{"name":"abcd"}}}`: false,
	} {
		s, err := schema.Derive(file.Messages().Get(0), schema.Output, schema.Options{Examples: []string{example}})
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(s.Advertised, []byte(example)); got != isShown {
			t.Errorf("%s is shown: %v\n%s", example, got, s.Advertised)
		}
	}
}
