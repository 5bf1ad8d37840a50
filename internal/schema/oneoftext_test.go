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

// That the fields of a oneof exclude each other is said once: by a comment, or else by the sidecar.
func TestOneofIsSaidOnce(t *testing.T) {
	t.Parallel()
	const sentence = "At most one of phone, homeAddress may be set (way)."
	for name, tc := range map[string]struct {
		ofMessage, ofOneof string
		canonical          string
		advertised, strict string
	}{
		"no comment":                       {"", "", "", sentence, sentence},
		"a comment about something else":   {"", "How to reach them.", "How to reach them.", "How to reach them.\n" + sentence, "How to reach them.\n" + sentence},
		"the oneof's comment says it":      {"", "Exactly one of these.", "Exactly one of these.", "Exactly one of these.", "Exactly one of these.\n" + sentence},
		"the message's comment says it":    {"Either phone or home_address.", "", "Either phone or home_address.", "Either phone or home_address.", "Either phone or home_address.\n" + sentence},
		"a comment that leaves a name out": {"One of many contacts, by phone.", "", "One of many contacts, by phone.", "One of many contacts, by phone.\n" + sentence, "One of many contacts, by phone.\n" + sentence},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			optional, text := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
			fd, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
				Name: new("a.proto"), Package: new("a"), Syntax: new("proto3"),
				MessageType: []*descriptorpb.DescriptorProto{{
					Name: new("In"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: new("way")}},
					Field: []*descriptorpb.FieldDescriptorProto{
						{Name: new("phone"), Number: new(int32(1)), Label: optional, Type: text, OneofIndex: new(int32(0))},
						{Name: new("home_address"), Number: new(int32(2)), Label: optional, Type: text, OneofIndex: new(int32(0))},
					},
				}},
				SourceCodeInfo: &descriptorpb.SourceCodeInfo{Location: []*descriptorpb.SourceCodeInfo_Location{
					{Path: []int32{4, 0}, Span: []int32{0, 0, 0}, LeadingComments: new(tc.ofMessage)},
					{Path: []int32{4, 0, 8, 0}, Span: []int32{1, 0, 0}, LeadingComments: new(tc.ofOneof)},
				}},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			derive := func(profile schema.Profile) *schema.Schema {
				s, err := schema.Derive(fd.Messages().ByName(protoreflect.Name("In")), schema.Input, schema.Options{Profile: profile})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			s := derive(schema.ProfileMCP)
			for form, of := range map[string]struct{ raw, want string }{
				"canonical": {string(s.Canonical), tc.canonical}, "advertised": {string(s.Advertised), tc.advertised},
				"strict": {string(derive(schema.ProfileStrict).Advertised), tc.strict},
			} {
				var doc struct{ Description string }
				if err := json.Unmarshal([]byte(of.raw), &doc); err != nil {
					t.Fatal(err)
				}
				if doc.Description != of.want {
					t.Errorf("%s: %q, want %q", form, doc.Description, of.want)
				}
			}
			if n := strings.Count(string(s.Canonical), sentence); n != 1 {
				t.Errorf("the canonical schema says it %d times", n)
			}
		})
	}
}
