// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestDefaultsOfProto2 are in the advertised schema of an input, as a keyword and in words. The comments of the well-known
// types are not.
func TestDefaultsOfProto2(t *testing.T) {
	t.Parallel()
	empty := &descriptorpb.FileDescriptorProto{
		Name: new("google/protobuf/empty.proto"), Package: new("google.protobuf"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("Empty")}},
		SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
			{Path: []int32{4, 0}, Span: []int32{0, 0, 0}, LeadingComments: new(" A generic empty message.\n")},
		}},
	}
	file := &descriptorpb.FileDescriptorProto{
		Name: new("a.proto"), Package: new("a"), Syntax: new("proto2"), Dependency: []string{"google/protobuf/empty.proto"},
		EnumType:    []*descriptorpb.EnumDescriptorProto{{Name: new("Mode"), Value: []*descriptorpb.EnumValueDescriptorProto{{Name: new("SLOW"), Number: new(int32(0))}, {Name: new("FAST"), Number: new(int32(1))}}}},
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("In")}},
	}
	for i, f := range []struct {
		name, text string
		kind       descriptorpb.FieldDescriptorProto_Type
	}{
		{"size", "42", descriptorpb.FieldDescriptorProto_TYPE_INT64}, {"mode", "FAST", descriptorpb.FieldDescriptorProto_TYPE_ENUM},
		{"raw", "ab", descriptorpb.FieldDescriptorProto_TYPE_BYTES}, {"name", "x y", descriptorpb.FieldDescriptorProto_TYPE_STRING},
		{"most", "inf", descriptorpb.FieldDescriptorProto_TYPE_DOUBLE}, {"on", "true", descriptorpb.FieldDescriptorProto_TYPE_BOOL},
		{"plain", "", descriptorpb.FieldDescriptorProto_TYPE_INT32}, {"nothing", "", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE},
	} {
		field := &descriptorpb.FieldDescriptorProto{
			Name: new(f.name), Number: new(int32(i + 1)), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: f.kind.Enum(),
		}
		switch {
		case f.text != "":
			field.DefaultValue = new(f.text)
		case f.name == "nothing":
			field.TypeName = new(".google.protobuf.Empty")
		}
		if f.name == "mode" {
			field.TypeName = new(".a.Mode")
		}
		file.MessageType[0].Field = append(file.MessageType[0].Field, field)
	}
	files, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{empty, file}})
	if err != nil {
		t.Fatal(err)
	}
	input := func(name string, profile schema.Profile) string {
		t.Helper()
		d, err := files.FindDescriptorByName("a.In")
		if err != nil {
			t.Fatal(err)
		}
		s, err := schema.Derive(d.(protoreflect.MessageDescriptor), schema.Input, schema.Options{Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(s.Advertised, &doc); err != nil {
			t.Fatal(err)
		}
		return string(doc.Properties[name])
	}
	for name, want := range map[string][2]string{
		"size": {`"default":"42"`, "Default: 42."}, "mode": {`"default":"FAST"`, "Default: FAST."}, "raw": {`"default":"YWI="`, "Default: YWI=."},
		"name": {`"default":"x y"`, "Default: x y."}, "most": {`"default":"Infinity"`, "Default: Infinity."}, "on": {`"default":true`, "Default: true."},
	} {
		shown := input(name, schema.ProfileMCP)
		if !strings.Contains(shown, want[0]) || !strings.Contains(shown, want[1]) {
			t.Errorf("%s: %s, want %s and %s", name, shown, want[0], want[1])
		}
		if strict := input(name, schema.ProfileStrict); strings.Contains(strict, `"default"`) || !strings.Contains(strict, want[1]) {
			t.Errorf("%s for strict clients: %s, want %s alone", name, strict, want[1])
		}
	}
	if shown := input("plain", schema.ProfileMCP); strings.Contains(strings.ToLower(shown), "default") {
		t.Errorf("a field without a default: %s", shown)
	}
	if shown := input("nothing", schema.ProfileMCP); strings.Contains(shown, "generic empty message") {
		t.Errorf("the comment of a well-known type is a description: %s", shown)
	}
}
