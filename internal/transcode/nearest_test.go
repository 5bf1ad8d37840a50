// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"errors"
	"math"
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
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

const oddFile = `name: "odd.proto" package: "odd.v1" syntax: "proto2"
dependency: "google/protobuf/any.proto" dependency: "google/protobuf/duration.proto" dependency: "google/protobuf/field_mask.proto"
dependency: "google/protobuf/struct.proto" dependency: "google/protobuf/timestamp.proto"
message_type { name: "Odd"
  field { name: "kept" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "at" number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Timestamp" }
  field { name: "span" number: 3 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Duration" }
  field { name: "mask" number: 4 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.FieldMask" }
  field { name: "value" number: 5 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Value" }
  field { name: "things" number: 6 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Struct" }
  field { name: "list" number: 7 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.ListValue" }
  field { name: "any" number: 8 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Any" }
  field { name: "times" number: 9 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".google.protobuf.Timestamp" }
  field { name: "spans" number: 10 type: TYPE_MESSAGE label: LABEL_REPEATED type_name: ".odd.v1.Odd.SpansEntry" }
  nested_type { name: "SpansEntry" options { map_entry: true }
    field { name: "key" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
    field { name: "value" number: 2 type: TYPE_MESSAGE label: LABEL_OPTIONAL type_name: ".google.protobuf.Duration" } } }`

// An answer keeps all that ProtoJSON has a form for, whatever else is in it; what has none is shown in the nearest form, which
// the output schemas admit, and is noted. Both engines agree on the rest.
func TestValuesWithoutAForm(t *testing.T) {
	t.Parallel()
	file := new(descriptorpb.FileDescriptorProto)
	if err := prototext.Unmarshal([]byte(oddFile), file); err != nil {
		t.Fatal(err)
	}
	fd, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	files := new(protoregistry.Files)
	if err := files.RegisterFile(fd); err != nil {
		t.Fatal(err)
	}
	for i := range fd.Imports().Len() {
		if err := files.RegisterFile(fd.Imports().Get(i).FileDescriptor); err != nil {
			t.Fatal(err)
		}
	}
	md := fd.Messages().Get(0)
	wire := func(field protoreflect.Name, values ...proto.Message) []byte {
		var out []byte
		for _, v := range values {
			out = append(out, byte(md.Fields().ByName(field).Number()<<3|2))
			body := encoded(t, v)
			out = append(append(out, byte(len(body))), body...)
		}
		return out
	}
	late, negative := &timestamppb.Timestamp{Seconds: 253402300800, Nanos: 5}, &timestamppb.Timestamp{Seconds: 1, Nanos: -1}
	const raw = `"seconds:253402300800 nanos:5"`
	inAny := func(m proto.Message) *anypb.Any {
		return &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: encoded(t, m)}
	}
	odd := dynamicpb.NewMessage(md)
	if err := proto.Unmarshal(wire("at", late), odd); err != nil {
		t.Fatal(err)
	}
	entry := encoded(t, &durationpb.Duration{Nanos: 1e9})
	entry = append([]byte{1<<3 | 2, 1, 'k', 2<<3 | 2, byte(len(entry))}, entry...)
	spans := append([]byte{10<<3 | 2, byte(len(entry))}, entry...)
	tests := []struct {
		name string
		wire []byte
		want string // the document, or the members before those that are always there
		path string // of the value that is noted
	}{
		{"a Timestamp after 9999", wire("at", late), `"at":` + raw, "/at"},
		{"a Timestamp before 0001", wire("at", &timestamppb.Timestamp{Seconds: math.MinInt64}), `"at":"seconds:-9223372036854775808 nanos:0"`, "/at"},
		{"nanos of a Timestamp", wire("at", negative), `"at":"seconds:1 nanos:-1"`, "/at"},
		{"a Timestamp in a list", wire("times", &timestamppb.Timestamp{}, late), `{"times":["1970-01-01T00:00:00Z",` + raw + `],"spans":{}}`, "/times/1"},
		{"a Duration out of range", wire("span", &durationpb.Duration{Seconds: 315576000001}), `"span":"seconds:315576000001 nanos:0"`, "/span"},
		{"a Duration with two signs", wire("span", &durationpb.Duration{Seconds: 1, Nanos: -5}), `"span":"seconds:1 nanos:-5"`, "/span"},
		{"a Duration in a map", spans, `{"times":[],"spans":{"k":"seconds:0 nanos:1000000000"}}`, "/spans/k"},
		{"nothing odd", wire("at", &timestamppb.Timestamp{}), `"at":"1970-01-01T00:00:00Z"`, ""},
		{"a mask of everything", wire("mask", &fieldmaskpb.FieldMask{Paths: []string{"*"}}), `"mask":"*"`, "/mask"},
		{"a mask with a number", wire("mask", &fieldmaskpb.FieldMask{Paths: []string{"display_name", "custom_label_0", "x.y"}}), `"mask":"displayName,custom_label_0,x.y"`, "/mask"},
		{"a mask with a key", wire("mask", &fieldmaskpb.FieldMask{Paths: []string{"labels.`a\"b`", "Upper"}}), `"mask":"labels.` + "`" + `a\"b` + "`" + `,Upper"`, "/mask"},
		{"NaN", wire("value", structpb.NewNumberValue(math.NaN())), `"value":"NaN"`, "/value"},
		{"infinity in a list", wire("list", &structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(math.Inf(-1))}}), `"list":["-Infinity"]`, "/list/0"},
		{"NaN in a Struct", wire("things", &structpb.Struct{Fields: map[string]*structpb.Value{"a/b": structpb.NewNumberValue(math.NaN())}}), `"things":{"a/b":"NaN"}`, "/things/a~1b"},
		{"a Value without a kind", wire("value", &structpb.Value{}), `"value":null`, "/value"},
		{"a Value without a kind in a Struct", wire("things", &structpb.Struct{Fields: map[string]*structpb.Value{"k": {}}}), `"things":{"k":null}`, "/things/k"},
		{"in an Any", wire("any", inAny(late)), `"any":{"@type":"type.googleapis.com/google.protobuf.Timestamp","value":` + raw + `}`, "/any/value"},
		{"in a message in an Any", wire("any", inAny(odd)), `"any":{"@type":"type.googleapis.com/odd.v1.Odd","at":` + raw + `,"times":[],"spans":{}}`, "/any/at"},
		{"an Any that is torn", wire("any", &anypb.Any{TypeUrl: "x/odd.v1.Odd", Value: []byte{1<<3 | 2, 9}}), `"any":{"@type":"x/odd.v1.Odd","value":"Cgk="}`, "/any"},
		{"an Any without a type", wire("any", &anypb.Any{Value: []byte{1}}), `"any":{"value":"AQ=="}`, "/any"},
		{"text that is not UTF-8", []byte{1<<3 | 2, 3, 'a', 0xff, 'b'}, `"kept":"a` + "\uFFFD" + `b"`, "/kept"},
		{"beside a field in two places", append(wire("times", late), append([]byte{1<<3 | 2, 1, 'x'}, wire("times", &timestamppb.Timestamp{})...)...), `{"kept":"x","times":[` + raw + `,"1970-01-01T00:00:00Z"],"spans":{}}`, "/times/0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := tt.want
			if want[0] != '{' {
				want = "{" + want + `,"times":[],"spans":{}}`
			}
			m, err := transcode.Compile(md, transcode.Options{Resolver: newListed(files)})
			if err != nil {
				t.Fatal(err)
			}
			got, noted, err := m.ToJSONNoting(t.Context(), nil, nil, tt.wire)
			if err != nil || string(got) != want {
				t.Fatalf("got  %s, %v\nwant %s", got, err, want)
			}
			var paths []string
			for _, o := range noted.Odd {
				paths = append(paths, o.Path)
			}
			if strings.Join(paths, " ") != tt.path || noted.More > 0 {
				t.Errorf("noted %+v, want %q", noted, tt.path)
			}
			admittedByOutputSchemas(t, md, got)
			if all, err := transcode.NewOracle(m).ToJSON(nil, tt.wire); err != nil || string(all) != want {
				t.Errorf("compared: %s, %v", all, err)
			}
		})
	}
}

func admittedByOutputSchemas(t *testing.T, md protoreflect.MessageDescriptor, doc []byte) {
	t.Helper()
	for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
		out, err := schema.Derive(md, schema.Output, schema.Options{Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		for _, raw := range [][]byte{out.Canonical, out.Advertised} {
			if found, err := validator(t, raw).Validate(doc); err != nil || len(found) > 0 {
				t.Errorf("an output schema of %v refuses it: %v %v", profile, found, err)
			}
		}
	}
}

// There are only so many notes, however many values need one.
func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	m := compiled(t, "google.protobuf.ListValue")
	values := make([]*structpb.Value, 100)
	for i := range values {
		values[i] = structpb.NewNumberValue(math.Inf(1))
	}
	got, noted, err := m.ToJSONNoting(t.Context(), nil, []byte("kept"), encoded(t, &structpb.ListValue{Values: values}))
	if err != nil || strings.Count(string(got), `"Infinity"`) != 100 || len(noted.Odd) != 16 || noted.More != 84 || noted.Odd[15].Path != "/15" {
		t.Errorf("%s: %v, %v", got, noted, err)
	}
	var broken *transcode.OutputError
	if _, err := m.ToJSON(nil, []byte{0xff}); !errors.As(err, &broken) {
		t.Errorf("what is no encoding: %v", err)
	}
}
