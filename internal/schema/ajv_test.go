// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// ajvFormats are the formats of ajv-formats 3.0.1 (fullFormats in dist/formats.js).
var ajvFormats = []string{
	"date", "time", "date-time", "iso-time", "iso-date-time", "duration", "uri", "uri-reference", "uri-template", "url",
	"email", "hostname", "ipv4", "ipv6", "regex", "uuid", "json-pointer", "json-pointer-uri-fragment",
	"relative-json-pointer", "byte", "int32", "int64", "float", "double", "password", "binary",
}

// TestAdvertisedFormatsAreKnownToAjv: Ajv in strict mode, its default, refuses a schema that names an unknown format.
func TestAdvertisedFormatsAreKnownToAjv(t *testing.T) {
	t.Parallel()
	for _, md := range goldens(t) {
		for _, dir := range []schema.Direction{schema.Input, schema.Output} {
			for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
				s, err := schema.Derive(md, dir, schema.Options{Profile: profile})
				if err != nil {
					t.Fatal(err)
				}
				var doc any
				if err := json.Unmarshal(s.Advertised, &doc); err != nil {
					t.Fatal(err)
				}
				eachFormat(doc, func(format string) {
					if !slices.Contains(ajvFormats, format) {
						t.Errorf("%s: format %q: %s", md.FullName(), format, s.Advertised)
					}
				})
			}
		}
	}
}

// eachFormat visits the formats of a schema. A member of that name whose value is a schema is a property.
func eachFormat(value any, visit func(string)) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok && name == "format" {
				visit(text)
				continue
			}
			eachFormat(member, visit)
		}
	case []any:
		for _, member := range v {
			eachFormat(member, visit)
		}
	}
}

// TestBytesSayBase64: in words, in every profile and direction.
func TestBytesSayBase64(t *testing.T) {
	t.Parallel()
	for _, dir := range []schema.Direction{schema.Input, schema.Output} {
		for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
			s, err := schema.Derive(shape(t, shapes(t), "shapes.v1.Scalars"), dir, schema.Options{Profile: profile})
			if err != nil {
				t.Fatal(err)
			}
			var doc struct {
				Properties map[string]struct{ Description string }
			}
			if err := json.Unmarshal(s.Advertised, &doc); err != nil {
				t.Fatal(err)
			}
			if text := doc.Properties["someBytes"].Description; !regexp.MustCompile(`(?i)in base64`).MatchString(text) {
				t.Errorf("direction %v, profile %v: %q", dir, profile, text)
			}
		}
	}
}

// TestPatternsForUnicodeMode: JavaScript compiles patterns in Unicode mode, and refuses the schema where one is none.
func TestPatternsForUnicodeMode(t *testing.T) {
	t.Parallel()
	for pattern, shown := range map[string]string{ // empty: said in words
		`^[a-z]{2,4}$`: `^[a-z]{2,4}$`, `^\d+\.\d{2}$`: `^\d+\.\d{2}$`, `\x41[\]\\]`: `\x41[\]\\]`, `a\/b`: `a\/b`, `[a\-z]`: `[a\-z]`,
		`[\w.-]+`: `[\-.0-9A-Z_a-z]+`, `[-\w]`: `[\-0-9A-Z_a-z]`, `[^-\s]`: `[^\t\n\f\r \-]`, `[\w-z]`: `[\-0-9A-Z_a-z]`,
		`a\-b`: `a-b`, `\_`: `_`, `\"`: `"`, `\@`: `@`, `a{`: `a\{`, `}`: `\}`, `]`: `\]`, `a{,5}`: `a\{,5\}`, `a{1,2,3}`: `a\{1,2,3\}`,
		`[]a]`: `[\]a]`, `[^]a]`: `[^\]a]`, `\a`: `\x07`, `[a-\d]`: "", `\x4g`: "",
	} {
		options := &descriptorpb.FieldOptions{}
		proto.SetExtension(options, validate.E_Field, &validate.FieldRules{
			Type: &validate.FieldRules_String_{String_: &validate.StringRules{Pattern: &pattern}},
		})
		file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
			Name: proto.String("pattern.proto"), Syntax: proto.String("proto3"),
			MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{{
				Name: proto.String("text"), Number: proto.Int32(1), Options: options,
				Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}}}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := schema.Derive(file.Messages().Get(0), schema.Input, schema.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Properties struct {
				Text struct{ Pattern, Description string }
			}
		}
		if err := json.Unmarshal(s.Advertised, &doc); err != nil {
			t.Fatal(err)
		}
		got := doc.Properties.Text
		if _, err := regexp.Compile(pattern); err != nil && shown != "" {
			t.Fatal(err)
		}
		if got.Pattern != shown || (got.Description == "") != (shown != "") {
			t.Errorf("%s: pattern %q, want %q; description %q", pattern, got.Pattern, shown, got.Description)
		}
	}
}
