// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// TestBoundsThatSayNothing: an upper bound of a length beyond 2^53 is left out, and a lower one is what every reader of JSON
// can hold; some clients refuse a request for such a number. Bounds of doubles have exponents there.
func TestBoundsThatSayNothing(t *testing.T) {
	t.Parallel()
	const huge, safe = math.MaxUint64, uint64(1)<<53 - 1
	type kind = descriptorpb.FieldDescriptorProto_Type
	const text, bytes, double = descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_BYTES, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE
	str := func(r *validate.StringRules) *validate.FieldRules {
		return &validate.FieldRules{Type: &validate.FieldRules_String_{String_: r}}
	}
	list := func(r *validate.RepeatedRules) *validate.FieldRules {
		return &validate.FieldRules{Type: &validate.FieldRules_Repeated{Repeated: r}}
	}
	raw := func(r *validate.BytesRules) *validate.FieldRules {
		return &validate.FieldRules{Type: &validate.FieldRules_Bytes{Bytes: r}}
	}
	number := func(r *validate.DoubleRules) *validate.FieldRules {
		return &validate.FieldRules{Type: &validate.FieldRules_Double{Double: r}}
	}
	for name, tc := range map[string]struct {
		kind  kind
		many  bool
		rules *validate.FieldRules
		want  map[string]string // "" is absent
	}{
		"a length":              {text, false, str(&validate.StringRules{MaxLen: new(uint64(huge))}), map[string]string{"maxLength": ""}},
		"a length of 2^53":      {text, false, str(&validate.StringRules{MaxLen: new(safe + 1)}), map[string]string{"maxLength": ""}},
		"a length below":        {text, false, str(&validate.StringRules{MaxLen: new(safe)}), map[string]string{"maxLength": "9007199254740991"}},
		"bytes of a text":       {text, false, str(&validate.StringRules{MaxBytes: new(uint64(huge))}), map[string]string{"maxLength": ""}},
		"a length from":         {text, false, str(&validate.StringRules{MinLen: new(uint64(huge))}), map[string]string{"minLength": "9007199254740991"}},
		"items":                 {text, true, list(&validate.RepeatedRules{MaxItems: new(uint64(huge))}), map[string]string{"maxItems": ""}},
		"items from":            {text, true, list(&validate.RepeatedRules{MinItems: new(uint64(huge))}), map[string]string{"minItems": "9007199254740991"}},
		"bytes":                 {bytes, false, raw(&validate.BytesRules{MaxLen: new(uint64(huge))}), map[string]string{"maxLength": ""}},
		"bytes that are scaled": {bytes, false, raw(&validate.BytesRules{MaxLen: new(safe)}), map[string]string{"maxLength": ""}},
		"bytes from":            {bytes, false, raw(&validate.BytesRules{MinLen: new(uint64(huge))}), map[string]string{"minLength": "9007199254740991"}},
		"a double":              {double, false, number(&validate.DoubleRules{LessThan: &validate.DoubleRules_Lte{Lte: 1e19}}), map[string]string{"maximum": "1e+19"}},
		"a small double":        {double, false, number(&validate.DoubleRules{LessThan: &validate.DoubleRules_Lte{Lte: 100}}), map[string]string{"maximum": "100"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := &descriptorpb.FieldOptions{}
			proto.SetExtension(options, validate.E_Field, tc.rules)
			label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
			if tc.many {
				label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED
			}
			file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
				Name: proto.String("bounds.proto"), Syntax: proto.String("proto3"),
				MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M"), Field: []*descriptorpb.FieldDescriptorProto{{
					Name: proto.String("f"), Number: proto.Int32(1), Options: options, Type: &tc.kind, Label: &label,
				}}}},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
				s, err := schema.Derive(file.Messages().Get(0), schema.Input, schema.Options{Profile: profile})
				if err != nil {
					t.Fatal(err)
				}
				for _, form := range [][]byte{s.Advertised, s.Canonical} {
					if strings.Contains(string(form), "18446744073709551615,") || strings.Contains(string(form), ":18446744073709551615") {
						t.Errorf("profile %v: %s", profile, form)
					}
				}
				if profile == schema.ProfileStrict {
					continue // in words
				}
				var doc struct {
					Properties map[string]map[string]any
				}
				in := json.NewDecoder(strings.NewReader(string(s.Advertised)))
				in.UseNumber()
				if err := in.Decode(&doc); err != nil {
					t.Fatal(err)
				}
				for keyword, want := range tc.want {
					got, _ := doc.Properties["f"][keyword].(json.Number)
					if got.String() != want {
						t.Errorf("%s is %q, want %q: %s", keyword, got, want, s.Advertised)
					}
				}
			}
		})
	}
}
