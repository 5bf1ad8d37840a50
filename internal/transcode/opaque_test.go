// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

const bagFile = `name: "bag.proto" package: "bag.v1" syntax: "proto3" dependency: "google/protobuf/any.proto"
message_type { name: "Bag"
  field { name: "one" number: 1 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Any" }
  field { name: "many" number: 2 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".google.protobuf.Any" }
  field { name: "named" number: 3 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".bag.v1.Bag.NamedEntry" }
  nested_type { name: "NamedEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Any" } } }`

// bag is a message that holds Anys in every way there is, with the resolver of that file alone.
func bag(t *testing.T) (*transcode.Message, protoreflect.MessageDescriptor) {
	t.Helper()
	file := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(bagFile), file); err != nil {
		t.Fatal(err)
	}
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	files := new(protoregistry.Files)
	if err := errors.Join(files.RegisterFile(fd), files.RegisterFile(anypb.File_google_protobuf_any_proto)); err != nil {
		t.Fatal(err)
	}
	md := fd.Messages().Get(0)
	m, err := transcode.Compile(md, transcode.Options{Resolver: newListed(files)})
	if err != nil {
		t.Fatal(err)
	}
	return m, md
}

// packed is an Any with these bytes.
func packed(name string, value []byte) *anypb.Any {
	return &anypb.Any{TypeUrl: "type.googleapis.com/" + name, Value: value}
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// noTypeURL is the case of a type that has no URL: an answer has to show it, and no input may use it.
const noTypeURL = "a type that is no name"

// An Any of an unknown type is its bytes, wherever it is, and comes back as it was.
func TestUnknownTypesAreBytes(t *testing.T) {
	t.Parallel()
	strange := packed("far.away.Thing", []byte{1, 2, 0xff})
	const shown = `{"@type":"type.googleapis.com/far.away.Thing","value":"AQL/"}`
	filled := func(fill func(m *dynamicpb.Message, fields protoreflect.FieldDescriptors)) func(md protoreflect.MessageDescriptor) *dynamicpb.Message {
		return func(md protoreflect.MessageDescriptor) *dynamicpb.Message {
			m := dynamicpb.NewMessage(md)
			fill(m, md.Fields())
			return m
		}
	}
	one := func(a *anypb.Any) func(protoreflect.MessageDescriptor) *dynamicpb.Message {
		return filled(func(m *dynamicpb.Message, fields protoreflect.FieldDescriptors) {
			m.Set(fields.ByName("one"), protoreflect.ValueOfMessage(a.ProtoReflect()))
		})
	}
	tests := []struct {
		name string
		make func(protoreflect.MessageDescriptor) *dynamicpb.Message
		want string
	}{
		{"alone", one(strange), `{"one":` + shown + `,"many":[],"named":{}}`},
		{"empty", one(packed("far.away.Thing", nil)), `{"one":{"@type":"type.googleapis.com/far.away.Thing","value":""},"many":[],"named":{}}`},
		{noTypeURL, one(&anypb.Any{TypeUrl: "a <b>\"", Value: []byte{0}}), `{"one":{"@type":"a <b>\"","value":"AA=="},"many":[],"named":{}}`},
		{"in a list and a map", filled(func(m *dynamicpb.Message, fields protoreflect.FieldDescriptors) {
			list := m.Mutable(fields.ByName("many")).List()
			list.Append(protoreflect.ValueOfMessage(strange.ProtoReflect()))
			list.Append(protoreflect.ValueOfMessage(packed("google.protobuf.Any", nil).ProtoReflect()))
			m.Mutable(fields.ByName("named")).Map().Set(protoreflect.ValueOfString("k").MapKey(), protoreflect.ValueOfMessage(strange.ProtoReflect()))
		}), `{"many":[` + shown + `,{"@type":"type.googleapis.com/google.protobuf.Any","value":{}}],"named":{"k":` + shown + `}}`},
		{"in an Any", one(packed("google.protobuf.Any", encoded(t, strange))), `{"one":{"@type":"type.googleapis.com/google.protobuf.Any","value":` + shown + `},"many":[],"named":{}}`},
		{"in a message in an Any", func(md protoreflect.MessageDescriptor) *dynamicpb.Message {
			return one(packed("bag.v1.Bag", encoded(t, one(strange)(md))))(md)
		}, `{"one":{"@type":"type.googleapis.com/bag.v1.Bag","one":` + shown + `,"many":[],"named":{}},"many":[],"named":{}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, md := bag(t)
			wire := encoded(t, tt.make(md))
			got, noted, err := m.ToJSONNoting(t.Context(), nil, nil, wire)
			if err != nil || string(got) != tt.want || len(noted.Unknown) != 1 {
				t.Fatalf("got %s, unknown %q, %v\nwant %s", got, noted.Unknown, err, tt.want)
			}
			if general, err := m.GeneralToJSON(nil, wire); err != nil || string(general) != tt.want {
				t.Errorf("the general engine: %s %v", general, err)
			}
			back, err := m.ToWire(nil, got)
			again, generalErr := m.GeneralToWire(nil, got)
			switch {
			case tt.name == noTypeURL: // ProtoJSON refuses it as input, and so do both engines
				if err == nil || generalErr == nil {
					t.Errorf("taken back as %x and %x", back, again)
				}
			case err != nil || generalErr != nil || !bytes.Equal(back, wire):
				t.Errorf("back as %x, want %x: %v, %v", back, wire, err, generalErr)
			default:
				if again, err = m.ToJSON(nil, again); err != nil || string(again) != tt.want {
					t.Errorf("the general engine read it as %s: %v", again, err)
				}
			}
			out, err := schema.Derive(md, schema.Output, schema.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, raw := range [][]byte{out.Canonical, out.Advertised} {
				if found, err := validator(t, raw).Validate(got); err != nil || len(found) > 0 {
					t.Errorf("an output schema refuses it: %v %v", found, err)
				}
			}
			if all, err := transcode.NewOracle(m).ToJSON(nil, wire); err != nil || string(all) != tt.want {
				t.Errorf("compared: %s, %v", all, err)
			}
		})
	}
}

// What cannot be an Any of an unknown type is refused where it is, with what would do.
func TestUnknownTypesTakeNothingElse(t *testing.T) {
	t.Parallel()
	for doc, want := range map[string]string{
		`{"one":{"@type":"type.googleapis.com/far.away.Thing","id":1}}`:                                 "/one/@type",
		`{"one":{"@type":"type.googleapis.com/far.away.Thing"}}`:                                        "/one/@type",
		`{"named":{"k":{"@type":"type.googleapis.com/far.away.Thing","value":{"id":1}}}}`:               "/named/k/@type",
		`{"many":[{},{"@type":"type.googleapis.com/far.away.Thing","value":"*"}]}`:                      "/many/1/@type",
		`{"one":{"@type":"type.googleapis.com/far.away.Thing","value":"AA==","id":1}}`:                  "/one/@type",
		`{"one":{"@type":"type.googleapis.com/google.protobuf.Any","value":{"@type":"x.Y","id":true}}}`: "/one/value/@type",
	} {
		m, _ := bag(t)
		_, err := m.ToWire(nil, []byte(doc))
		var refused *transcode.InputError
		if !errors.As(err, &refused) || len(refused.Violations) != 1 || refused.Violations[0].Path != want ||
			!strings.Contains(refused.Violations[0].Message, `send {"@type": its URL, "value": its encoding in base64}`) {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

// Only so many types are reported as unknown, each once, however many an answer has; none is lost.
func TestUnknownTypesAreNotedWithinABound(t *testing.T) {
	t.Parallel()
	m, md := bag(t)
	message := dynamicpb.NewMessage(md)
	list := message.Mutable(md.Fields().ByName("many")).List()
	for i := range 100 {
		list.Append(protoreflect.ValueOfMessage(packed(fmt.Sprintf("far.Thing%d", i/2), nil).ProtoReflect()))
	}
	got, noted, err := m.ToJSONNoting(t.Context(), nil, nil, encoded(t, message))
	unknown := noted.Unknown
	if err != nil || len(unknown) != 16 || bytes.Count(got, []byte(`"value":""`)) != 100 {
		t.Fatalf("%d unknown, %s %v", len(unknown), got, err)
	}
	slices.Sort(unknown)
	if len(slices.Compact(unknown)) != 16 {
		t.Errorf("twice: %q", unknown)
	}
}
