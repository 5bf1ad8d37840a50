// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

const depthOfRandom = 3

func withoutRules(name string) bool { return !hasRules(name) }

// What protojson writes, the schemas admit and the transcoder reads back; what the transcoder writes is what protojson
// writes, and the output schemas admit it.
func TestRandomMessagesSurvive(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, withoutRules) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := randomMessage(t, s, s.md, depthOfRandom)
				if s.md.FullName() == "google.protobuf.Any" && !m.Has(s.md.Fields().ByNumber(1)) {
					m = dynamicpb.NewMessage(s.md)
				}
				doc, err := protojson.MarshalOptions{
					Resolver: s.resolver, EmitDefaultValues: rapid.Bool().Draw(t, "defaults"),
					UseProtoNames: rapid.Bool().Draw(t, "proto names"), UseEnumNumbers: rapid.Bool().Draw(t, "enum numbers"),
				}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				admits(t, s.canonical, doc, "canonical schema")
				wire, err := s.message.ToWire([]byte("kept"), doc)
				if err != nil {
					t.Fatalf("ToWire(%s): %v", doc, err)
				}
				if !bytes.HasPrefix(wire, []byte("kept")) {
					t.Fatal("ToWire dropped what was in dst")
				}
				equal(t, s, m, wire[4:])
				answer(t, s, m)
			})
		})
	}
}

func admits(t *rapid.T, v *schema.Validator, doc []byte, which string) {
	found, err := v.Validate(doc)
	if err != nil || len(found) > 0 {
		t.Fatalf("%s refuses %s: %v %v", which, doc, found, err)
	}
}

func equal(t *rapid.T, s subject, want proto.Message, wire []byte) {
	got := dynamicpb.NewMessage(s.md)
	if err := (proto.UnmarshalOptions{Resolver: s.resolver}).Unmarshal(wire, got); err != nil {
		t.Fatal(err)
	}
	// NaN is not equal to itself; text tells all values apart.
	if !proto.Equal(want, got) && text(t, s, want) != text(t, s, got) {
		t.Fatalf("decoded message differs\nwant %s\ngot  %s", text(t, s, want), text(t, s, got))
	}
}

func text(t *rapid.T, s subject, m proto.Message) string {
	raw, err := protojson.MarshalOptions{Resolver: s.resolver, EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		t.Fatal(err)
	}
	return compact.String()
}

func answer(t *rapid.T, s subject, m proto.Message) {
	wire, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.message.CheckWire(t.Context(), wire); err != nil {
		t.Fatalf("CheckWire: %v", err)
	}
	doc, err := s.message.ToJSON(nil, wire)
	if err != nil {
		t.Fatalf("ToJSON: %v", err)
	}
	if want := text(t, s, m); string(doc) != want {
		t.Fatalf("ToJSON\nwant %s\ngot  %s", want, doc)
	}
	admits(t, s.answer, doc, "canonical output schema")
	if s.wrapped {
		doc = append(append([]byte(`{"value":`), doc...), '}')
	}
	admits(t, s.shown, doc, "advertised output schema")
}

// One document, four opinions: the canonical schema and the transcoder agree, protojson agrees but for what package
// transcode documents, and what the advertised schema admits they admit.
func TestMutatedDocuments(t *testing.T) {
	t.Parallel()
	for _, s := range subjects(t, withoutRules) {
		t.Run(string(s.md.FullName()), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				m := randomMessage(t, s, s.md, depthOfRandom)
				doc, err := protojson.MarshalOptions{Resolver: s.resolver}.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				compare(t, s, mutate(t, s.md, doc))
			})
		})
	}
}

// The holes of advertised schemas in the range of integers are known: the limits of 32 bits are not shown, and those of other
// unsigned integers to the last digit. All four opinions on them are what compare takes for them.
func TestIntegersBeyondTheirRange(t *testing.T) {
	t.Parallel()
	all := map[protoreflect.FullName]subject{}
	for _, s := range subjects(t, withoutRules) {
		all[s.md.FullName()] = s
	}
	for _, tc := range []struct {
		message protoreflect.FullName
		doc     string
		admits  bool
	}{
		{"shapes.v1.Scalars", `{"aUint64":"18446744073709551615"}`, true},
		{"shapes.v1.Scalars", `{"aUint64":"18446744073709551616"}`, true},
		{"shapes.v1.Scalars", `{"aFixed64":"99999999999999999999"}`, true},
		{"shapes.v1.Scalars", `{"aUint64":"100000000000000000000"}`, false},
		{"shapes.v1.Scalars", `{"aUint32":4294967296}`, true},
		{"shapes.v1.Scalars", `{"aUint32":-1}`, false},
		{"shapes.v1.Scalars", `{"anInt32":2147483648}`, true},
		{"shapes.v1.Scalars", `{"anInt32":-2147483649,"aUint64":"18446744073709551616"}`, true},
		{"shapes.v1.Scalars", `{"anInt64":"9223372036854775808"}`, false},
		{"shapes.v1.Maps", `{"uint32Keys":{"4294967295":"x"}}`, true},
		{"shapes.v1.Maps", `{"uint32Keys":{"4294967296":"x"}}`, true},
		{"shapes.v1.Maps", `{"fixed64Keys":{"18446744073709551616":"x"}}`, true},
		{"shapes.v1.Maps", `{"uint64Keys":{"100000000000000000000":"x"}}`, false},
		{"shapes.v1.Maps", `{"int32Keys":{"2147483648":"x"}}`, false},
	} {
		s := all[tc.message]
		found, err := s.advertised.Validate([]byte(tc.doc))
		if err != nil || (len(found) == 0) != tc.admits {
			t.Errorf("%s: %v %v, want that the advertised schema admits it: %v", tc.doc, found, err, tc.admits)
		}
		compare(t, s, []byte(tc.doc))
	}
}

// null in place of a list of Values or of NullValues, which protojson refuses, is an empty list to the transcoder and changes
// nothing else in its document. Within a list it is an element of those two alone. No schema sees what is in an Any.
func TestNullAndLists(t *testing.T) {
	t.Parallel()
	all := map[protoreflect.FullName]subject{}
	for _, s := range subjects(t, withoutRules) {
		all[s.md.FullName()] = s
	}
	for doc, takes := range map[string]bool{
		`"values":null`: true,
		`"nulls":null`:  true,
		`"values":null,"nulls":null,"longs":["7"],"structs":null,"valuesByNumber":{"1":null}`: true,
		`"values":[null],"nulls":null`:                    true,
		`"values":null,"longs":[null]`:                    false,
		`"values":null,"times":[null]`:                    false,
		`"values":null,"structs":[null]`:                  false,
		`"lists":[null],"nulls":null`:                     false,
		`"values":null,"timesByName":{"a":null}`:          false,
		`"values":null,"values":null`:                     false,
		`"values":null,"longs":["9223372036854775808"]`:   false,
		`"values":null,"structs":[{"a":{"values":null}}]`: true,
	} {
		const many = "shapes.v1.WellKnownMany"
		typed := `{"@type":"type.googleapis.com/` + many + `",` + doc + `}`
		for name, doc := range map[protoreflect.FullName]string{
			many: "{" + doc + "}", "google.protobuf.Any": typed, "shapes.v1.Holder": `{"details":[{"@type":"a/google.protobuf.Any","value":` + typed + `}]}`,
		} {
			s := all[name]
			if _, err := s.message.ToWire(nil, []byte(doc)); (err == nil) != takes {
				t.Errorf("%s: %v, want that the transcoder takes it: %v", doc, err, takes)
			}
			compare(t, s, []byte(doc))
		}
	}
}

type failer interface {
	Fatalf(format string, args ...any)
}

func compare(t failer, s subject, doc []byte) {
	found, err := s.canonical.Validate(doc)
	if err != nil {
		t.Fatalf("canonical schema on %s: %v", doc, err)
	}
	byAdvertised, err := s.advertised.Validate(doc)
	if err != nil {
		t.Fatalf("advertised schema on %s: %v", doc, err)
	}
	wire, err := s.message.ToWire(nil, doc)
	var refused *transcode.InputError
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("ToWire(%s): %v", doc, err)
	}
	if err != nil && len(refused.Violations) == 0 {
		t.Fatalf("ToWire(%s) refused without a violation", doc)
	}
	excused := isExcused(s, refused)
	if (err == nil) != (len(found) == 0) && !excused {
		t.Fatalf("on %s\ntranscoder: %v\ncanonical schema: %v", doc, err, found)
	}
	if len(byAdvertised) == 0 && (len(found) > 0 || err != nil && !excused) && !isBeyondType(found) {
		t.Fatalf("on %s\nadvertised schema admits\ncanonical: %v\ntranscoder: %v", doc, found, err)
	}
	m := dynamicpb.NewMessage(s.md)
	reference := protojson.UnmarshalOptions{Resolver: s.resolver}
	byProtojson := reference.Unmarshal(doc, m)
	if err == nil && byProtojson != nil {
		if plain := withoutNullLists(t, s, doc); plain != nil {
			byProtojson = reference.Unmarshal(plain, m)
		}
	}
	switch {
	case err == nil && byProtojson == nil:
		got := dynamicpb.NewMessage(s.md)
		if err := (proto.UnmarshalOptions{Resolver: s.resolver}).Unmarshal(wire, got); err != nil {
			t.Fatalf("on %s: %v", doc, err)
		}
		if !proto.Equal(m, got) && !bytes.Contains(doc, []byte("NaN")) {
			t.Fatalf("on %s\nprotojson %v\ngot       %v", doc, m, got)
		}
	case err == nil && isUnknownType(byProtojson):
	case err == nil && !schema.IsWrapped(s.md, schema.Input):
		t.Fatalf("transcoder takes %s, protojson says %v", doc, byProtojson)
	case err != nil && byProtojson == nil && !json.Valid(doc):
		// protojson takes 1e for a number; RFC 8259, section 6, wants a digit there, and encoding/json sees it.
	case err != nil && byProtojson == nil && !isStricter(refused):
		t.Fatalf("protojson takes %s, transcoder says %v", doc, err)
	}
}

// isUnknownType holds where protojson has no JSON for an Any, for which the transcoder has bytes.
func isUnknownType(err error) bool {
	return err != nil && strings.Contains(err.Error(), "unable to resolve")
}

// withoutNullLists is a document without the members in which null is in place of a list of Values or of NullValues, nil where
// there are none. protojson looks for an element there. To the transcoder it is the empty list, as null is for every other list,
// so it has to read the whole document as protojson reads the rest.
func withoutNullLists(t failer, s subject, doc []byte) []byte {
	var root any
	if err := decodeNumbers(doc, &root); err != nil {
		t.Fatalf("transcoder takes %s, encoding/json says %v", doc, err)
	}
	if !dropNullLists(s.resolver, s.md, root) {
		return nil
	}
	plain, err := json.Marshal(root)
	if err != nil {
		t.Fatalf("on %s: %v", doc, err)
	}
	return plain
}

func dropNullLists(resolver listed, md protoreflect.MessageDescriptor, v any) (dropped bool) {
	members, isObject := v.(map[string]any)
	if md.FullName() == "google.protobuf.Any" && isObject {
		url, _ := members["@type"].(string)
		inner, err := resolver.FindMessageByURL(url)
		if err != nil {
			return false
		}
		if md = inner.Descriptor(); md.FullName() == "google.protobuf.Any" {
			return dropNullLists(resolver, md, members["value"])
		}
	}
	if !isObject || schema.IsWellKnown(md) {
		return false
	}
	for name, value := range members {
		fd := md.Fields().ByTextName(name)
		if byJSON := md.Fields().ByJSONName(name); byJSON != nil {
			fd = byJSON
		}
		if inBrackets, ok := strings.CutPrefix(name, "["); ok {
			x, err := resolver.FindExtensionByName(protoreflect.FullName(strings.TrimSuffix(inBrackets, "]")))
			if err != nil {
				continue
			}
			fd = x.TypeDescriptor()
		}
		switch {
		case fd == nil:
		case fd.IsMap() && fd.MapValue().Message() != nil:
			entries, _ := value.(map[string]any)
			for _, entry := range entries {
				dropped = dropNullLists(resolver, fd.MapValue().Message(), entry) || dropped
			}
		case fd.IsList() && isNullable(fd) && value == nil:
			delete(members, name)
			dropped = true
		case fd.IsList() && fd.Message() != nil:
			elements, _ := value.([]any)
			for _, element := range elements {
				dropped = dropNullLists(resolver, fd.Message(), element) || dropped
			}
		case fd.Message() != nil && !fd.IsMap():
			dropped = dropNullLists(resolver, fd.Message(), value) || dropped
		}
	}
	return dropped
}

// isNullable holds for fields to which null is a value.
func isNullable(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value" || fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
}

// isExcused holds for what a schema cannot see: inside an Any, and two spellings of one map key.
func isExcused(s subject, refused *transcode.InputError) bool {
	return refused != nil && len(refused.Violations) == 1 && refused.Violations[0].Keyword == "protojson" &&
		(strings.Contains(refused.Violations[0].Message, "duplicate map key") || holdsAny(s.md))
}

// isBeyondType holds where each violation is an integer beyond its type, of which an advertised schema does not show the range:
// a number of 32 bits, since few arguments come near the limits, or a string that has the digits of an unsigned type, since few
// validators know the formats that say so: see package schema, "Exceptions".
func isBeyondType(found []schema.Violation) bool {
	beyond := regexp.MustCompile(`^wanted an integer of type uint(32|64)(?: as the name, found|, found the string) "([1-9][0-9]*)"$`)
	number := regexp.MustCompile(`^wanted (an integer of type u?int32, found -?[0-9][-+.eE0-9]*|at (most (2147483647|4294967295)|least -2147483648), found .*)$`)
	most := map[string]int{"32": len("4294967295"), "64": len("18446744073709551615")}
	for _, v := range found {
		if number.MatchString(v.Message) {
			continue
		}
		digits := beyond.FindStringSubmatch(v.Message)
		if digits == nil || len(digits[2]) != most[digits[1]] {
			return false
		}
	}
	return len(found) > 0
}

func holdsAny(md protoreflect.MessageDescriptor) bool {
	return md.FullName() == "google.protobuf.Any" || md.Name() == "Holder"
}

// isStricter holds for the refusals that package transcode documents.
func isStricter(refused *transcode.InputError) bool {
	for _, v := range refused.Violations {
		if v.Keyword == "enum" || v.Keyword == "range" {
			return true
		}
	}
	return false
}
