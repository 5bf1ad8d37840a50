// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

func compiled(t testing.TB, name protoreflect.FullName) *transcode.Message {
	t.Helper()
	files := shapes(t)
	m, err := transcode.Compile(shape(t, files, name), transcode.Options{Resolver: newListed(files)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wireOf encodes a document without asking any rule.
func wireOf(t testing.TB, name protoreflect.FullName, doc string) []byte {
	t.Helper()
	files := shapes(t)
	m := dynamicpb.NewMessage(shape(t, files, name))
	if err := (protojson.UnmarshalOptions{Resolver: newListed(files), AllowPartial: true}).Unmarshal([]byte(doc), m); err != nil {
		t.Fatal(err)
	}
	wire, err := proto.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func TestToJSON(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, message, doc, want string }{
		{"defaults are written", "shapes.v1.Enums", `{}`, `{"grade":"GRADE_UNSPECIFIED","manyGrades":[],"aliased":"ALIASED_UNSPECIFIED","byName":{}}`},
		{"input-only fields are not", "shapes.v1.Secrets", `{"accounts":{"k":{"id":"1","password":"secret-1"}},"owner":{"id":"2","password":"secret-2","members":[{"id":"3","password":"secret-3"}]}}`,
			`{"accounts":{"k":{"id":"1","displayName":"","state":"STATE_UNSPECIFIED","members":[]}},"owner":{"id":"2","displayName":"","state":"STATE_UNSPECIFIED","members":[{"id":"3","displayName":"","state":"STATE_UNSPECIFIED","members":[]}]}}`},
		{"exact numbers", "shapes.v1.Maps", `{"longs":{"a":"-9223372036854775808"},"uint64Keys":{"18446744073709551615":"x"}}`,
			`{"int32Keys":{},"int64Keys":{},"uint32Keys":{},"uint64Keys":{"18446744073709551615":"x"},"sint32Keys":{},"sint64Keys":{},"fixed32Keys":{},"fixed64Keys":{},"sfixed32Keys":{},"sfixed64Keys":{},"boolKeys":{},"stringKeys":{},"leaves":{},"longs":{"a":"-9223372036854775808"},"doubles":{}}`},
		{"no html escapes", "shapes.v1.Leaf", `{"name":"<a> & \" \\ \u2028"}`, "{\"name\":\"<a> & \\\" \\\\ \u2028\"}"},
		{"any", "shapes.v1.Holder", `{"detail":{"@type":"x.y/shapes.v1.Leaf","name":"n"}}`, `{"detail":{"@type":"x.y/shapes.v1.Leaf","name":"n"},"details":[]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := compiled(t, protoreflect.FullName(tt.message))
			wire := wireOf(t, protoreflect.FullName(tt.message), tt.doc)
			for range 5 { // protojson varies its spaces from build to build; what we write has none
				got, err := m.ToJSON([]byte("kept"), wire)
				if err != nil {
					t.Fatal(err)
				}
				if string(got) != "kept"+tt.want {
					t.Fatalf("want %s\ngot  %s", tt.want, got[4:])
				}
			}
		})
	}
}

func TestToJSONRefuses(t *testing.T) {
	t.Parallel()
	nest := &anypb.Any{TypeUrl: "far.away/Thing"}
	for range 1005 {
		nest = &anypb.Any{TypeUrl: "x/google.protobuf.Any", Value: encoded(t, nest)}
	}
	tests := []struct {
		name, message string
		wire          []byte
		step          string
	}{
		{"garbage", "shapes.v1.Leaf", []byte{0xff, 0xff, 0xff}, "decode"},
		{"cut off", "shapes.v1.Leaf", []byte{0x0a, 5, 'a'}, "decode"},
		{"invalid UTF-8", "shapes.v1.Leaf", []byte{0x0a, 1, 0xff}, "decode"},
		{"required field missing", "shapes.v1.Legacy", nil, "decode"},
		{"deep nesting", "shapes.v1.Node", nested(5000), "decode"},
		{"Any in Any without end", "google.protobuf.Any", encoded(t, nest), "encode"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := compiled(t, protoreflect.FullName(tt.message)).ToJSON([]byte("kept"), tt.wire)
			var broken *transcode.OutputError
			if !errors.As(err, &broken) || broken.Step != tt.step || broken.Unwrap() == nil {
				t.Errorf("got %v", err)
			}
			if string(got) != "kept" {
				t.Errorf("dst is %q", got)
			}
		})
	}
}

// nested encodes a Node with that many parents.
func nested(levels int) []byte {
	var wire []byte
	for range levels {
		wire = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), wire)
	}
	return wire
}

func TestRulesOfAnswers(t *testing.T) {
	t.Parallel()
	m := compiled(t, "shapes.v1.Inner")
	bad := wireOf(t, "shapes.v1.Inner", `{"code":"ab","deeper":{"code":"long"}}`)
	var refused *transcode.InputError
	if _, err := m.ToJSON(nil, bad); !errors.As(err, &refused) || refused.Structural || refused.Violations[0].Path != "/deeper/code" {
		t.Errorf("ToJSON: %v", err)
	}
	refused = nil
	if err := m.CheckWire(t.Context(), bad); !errors.As(err, &refused) || refused.Structural {
		t.Errorf("CheckWire: %v", err)
	}
	if err := m.CheckWire(t.Context(), wireOf(t, "shapes.v1.Inner", `{"code":"ab"}`)); err != nil {
		t.Errorf("CheckWire: %v", err)
	}
	var broken *transcode.OutputError
	if err := m.CheckWire(t.Context(), []byte{0xff}); !errors.As(err, &broken) {
		t.Errorf("CheckWire: %v", err)
	}
}

// The password's rule is not asked of an answer, nor the id's of an input; passed through, both are where they are set.
func TestRulesFollowTheDirection(t *testing.T) {
	t.Parallel()
	m := compiled(t, "shapes.v1.Account")
	if _, err := m.ToJSON(nil, wireOf(t, "shapes.v1.Account", `{"id":"1"}`)); err != nil {
		t.Errorf("answer: %v", err)
	}
	if _, err := m.ToJSON(nil, wireOf(t, "shapes.v1.Account", `{"displayName":"x"}`)); err == nil {
		t.Error("an answer without the id passes, though its rule wants one")
	}
	if err := m.CheckWire(t.Context(), wireOf(t, "shapes.v1.Account", `{"displayName":"x"}`)); err != nil {
		t.Errorf("pass-through: %v", err)
	}
	if err := m.CheckWire(t.Context(), wireOf(t, "shapes.v1.Account", `{"password":"short"}`)); err == nil {
		t.Error("pass-through takes a password that breaks its rule")
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	if _, err := transcode.Compile(nil, transcode.Options{}); !errors.Is(err, transcode.ErrNoDescriptor) {
		t.Errorf("nil descriptor: %v", err)
	}
	var broken *transcode.RuleError
	if _, err := transcode.Compile(brokenRule(t), transcode.Options{}); !errors.As(err, &broken) || broken.Message != "broken.Broken" {
		t.Errorf("a rule that does not compile: %v", err)
	}
}

// brokenRule declares a CEL expression of the wrong type, as raw option bytes.
func brokenRule(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	str := func(n protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, n, protowire.BytesType), s)
	}
	cel := append(str(1, "id"), str(3, "this + 'x'")...)
	rules := protowire.AppendBytes(protowire.AppendTag(nil, 23, protowire.BytesType), cel)
	options := &descriptorpb.FieldOptions{}
	options.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1159, protowire.BytesType), rules))
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("broken.proto"), Package: proto.String("broken"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: proto.String("Broken"),
			Field: []*descriptorpb.FieldDescriptorProto{{
				Name: proto.String("count"), Number: proto.Int32(1), Options: options,
				Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
			}},
		}},
	}, &protoregistry.Files{})
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

// One message serves many calls at once, also when its validators are built by the first of them.
func TestMessagesAreShared(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	together := transcode.New(transcode.Options{Resolver: newListed(files)})
	var wg sync.WaitGroup
	for _, name := range []protoreflect.FullName{"shapes.v1.Choices", "shapes.v1.Account", "shapes.v1.Legacy", "shapes.v1.Inner"} {
		m, err := together.Compile(shape(t, files, name))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			wg.Go(func() {
				bad := `{"unknown` + strings.Repeat("x", i) + `":1}`
				if _, err := m.ToWire(nil, []byte(bad)); err == nil || !strings.Contains(err.Error(), "transcode") {
					t.Errorf("%s: %v", name, err)
				}
				if err := m.CheckWire(t.Context(), binary.AppendUvarint(nil, 7)); err == nil {
					t.Errorf("%s takes garbage", name)
				}
			})
		}
	}
	wg.Wait()
}
