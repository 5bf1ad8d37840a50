// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	_ "buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	_ "google.golang.org/genproto/googleapis/rpc/status"
	_ "google.golang.org/protobuf/types/known/apipb"
	_ "google.golang.org/protobuf/types/known/sourcecontextpb"
	_ "google.golang.org/protobuf/types/known/typepb"
	_ "google.golang.org/protobuf/types/pluginpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Every message that is linked in has four schemas that compile, and an advertised one that a model API accepts.
func TestDeriveRegisteredMessages(t *testing.T) {
	t.Parallel()
	count := 0
	check := func(md protoreflect.MessageDescriptor) {
		count++
		for _, dir := range []schema.Direction{schema.Input, schema.Output} {
			s, err := schema.Derive(md, dir, schema.Options{Extensions: protoregistry.GlobalTypes})
			if err != nil {
				t.Errorf("%s: %v", md.FullName(), err)
				continue
			}
			for _, raw := range []json.RawMessage{s.Canonical, s.Advertised} {
				if _, err := schema.Compile(raw); err != nil {
					t.Errorf("%s: %v", md.FullName(), err)
				}
			}
			if len(s.Warnings) > 0 {
				t.Errorf("%s: %v", md.FullName(), s.Warnings)
			}
			plainRoot(t, md, s.Advertised)
		}
	}
	protoregistry.GlobalTypes.RangeMessages(func(mt protoreflect.MessageType) bool {
		check(mt.Descriptor())
		return true
	})
	for _, md := range messagesIn(shapes(t), "shapes.v1") {
		check(md)
	}
	if count < 150 {
		t.Errorf("only %d messages are linked in", count)
	}
}

func plainRoot(t *testing.T, md protoreflect.MessageDescriptor, raw json.RawMessage) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	if root["type"] != "object" {
		t.Errorf("%s: root of type %v", md.FullName(), root["type"])
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "$ref"} {
		if _, ok := root[keyword]; ok {
			t.Errorf("%s: root has %s", md.FullName(), keyword)
		}
	}
}

func TestDeriveRefuses(t *testing.T) {
	t.Parallel()
	if _, err := schema.Derive(nil, schema.Input, schema.Options{}); !errors.Is(err, schema.ErrNoDescriptor) {
		t.Errorf("nil descriptor: %v", err)
	}
	holder := withHole(t)
	if _, err := schema.Derive(holder.Fields().Get(0).Message(), schema.Input, schema.Options{}); err == nil {
		t.Error("a placeholder as root has a schema")
	}
	s, err := schema.Derive(holder, schema.Input, schema.Options{})
	if err != nil || len(s.Warnings) == 0 || !strings.Contains(s.Warnings[0], "gone.Gone") {
		t.Errorf("a placeholder below the root: %v, %v", s, err)
	}
}

// withHole is a message whose one field is of a type that the set does not have.
func withHole(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	file, err := protodesc.FileOptions{AllowUnresolvable: true}.New(&descriptorpb.FileDescriptorProto{
		Name: proto.String("hole.proto"), Syntax: proto.String("proto3"), Dependency: []string{"gone.proto"},
		MessageType: []*descriptorpb.DescriptorProto{{
			Name:  proto.String("Holder"),
			Field: []*descriptorpb.FieldDescriptorProto{messageField("gone", 1, ".gone.Gone")},
		}},
	}, &protoregistry.Files{})
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0)
}

func messageField(name string, number int32, typeName string) *descriptorpb.FieldDescriptorProto {
	return &descriptorpb.FieldDescriptorProto{
		Name: proto.String(name), Number: proto.Int32(number), TypeName: proto.String(typeName),
		Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
	}
}

// lattice is the worst case for inlining: each level holds the next one width times.
func lattice(t *testing.T, levels, width int) protoreflect.MessageDescriptor {
	t.Helper()
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("lattice.proto"), Package: proto.String("lattice"), Syntax: proto.String("proto3")}
	for i := range levels {
		m := &descriptorpb.DescriptorProto{Name: proto.String(fmt.Sprintf("Level%d", i))}
		for j := range width {
			if i+1 < levels {
				m.Field = append(m.Field, messageField(fmt.Sprintf("next_%d", j), int32(j+1), fmt.Sprintf(".lattice.Level%d", i+1)))
			}
		}
		file.MessageType = append(file.MessageType, m)
	}
	fd, err := protodesc.NewFile(file, &protoregistry.Files{})
	if err != nil {
		t.Fatal(err)
	}
	return fd.Messages().Get(0)
}

func TestDeriveBounds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		levels, width int
		opts          schema.Options
		warns, shares bool
	}{
		{"inline while small", 3, 2, schema.Options{}, false, false},
		{"shared once inlining grows", 40, 4, schema.Options{}, false, true},
		{"deep chain", 100, 1, schema.Options{}, false, true},
		{"cut to size", 40, 4, schema.Options{MaxBytes: 4096}, true, true},
		{"cut to number", 40, 4, schema.Options{MaxSchemas: 60}, true, true},
		{"nothing fits", 3, 30, schema.Options{MaxBytes: 100}, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := schema.Derive(lattice(t, tt.levels, tt.width), schema.Input, tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			if (len(s.Warnings) > 0) != tt.warns {
				t.Errorf("warnings: %v", s.Warnings)
			}
			if strings.Contains(string(s.Advertised), "$defs") != tt.shares {
				t.Errorf("shares: %s", s.Advertised)
			}
			if limit := tt.opts.MaxBytes; limit > 0 && (len(s.Canonical) > limit || len(s.Advertised) > limit) {
				t.Errorf("%d and %d bytes, over %d", len(s.Canonical), len(s.Advertised), limit)
			}
			for _, raw := range []json.RawMessage{s.Canonical, s.Advertised} {
				if _, err := schema.Compile(raw); err != nil {
					t.Errorf("%v in %s", err, raw)
				}
			}
		})
	}
}

func TestExtensionsAreFields(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	types := &protoregistry.Types{}
	ext, err := files.FindDescriptorByName("shapes.v1.nick_name")
	if err != nil {
		t.Fatal(err)
	}
	if err := types.RegisterExtension(dynamicExtension(ext)); err != nil {
		t.Fatal(err)
	}
	s, err := schema.Derive(shape(t, files, "shapes.v1.Legacy"), schema.Input, schema.Options{Extensions: types})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(s.Advertised), `"[shapes.v1.nick_name]":{"type":"string"}`) {
		t.Errorf("no extension in %s", s.Advertised)
	}
}

func TestOptionsLeaveOut(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	s, err := schema.Derive(shape(t, files, "shapes.v1.Texts"), schema.Input, schema.Options{WithoutRules: true, WithoutDescriptions: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"minLength", "required", "description", `"enum"`} {
		if strings.Contains(string(s.Advertised), word) {
			t.Errorf("%s is still there: %s", word, s.Advertised)
		}
	}
}

func TestBehaviorOf(t *testing.T) {
	t.Parallel()
	fields := shape(t, shapes(t), "shapes.v1.Account").Fields()
	want := map[protoreflect.Name]schema.Behavior{
		"id": {OutputOnly: true}, "display_name": {Required: true}, "password": {InputOnly: true, Required: true}, "members": {},
	}
	for name, b := range want {
		if got := schema.BehaviorOf(fields.ByName(name)); got != b {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if b := (schema.Behavior{OutputOnly: true}); !b.Hides(schema.Input) || b.Hides(schema.Output) {
		t.Error("an output-only field is hidden from the wrong side")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	files := shapes(t)
	tests := map[string]string{
		"shapes.v1.Scalars.an_int32": "anInt32 an_int32", "shapes.v1.Leaf.name": "name", "shapes.v1.Scalars.odd_name": "odd/na~me% odd_name",
		"shapes.v1.Legacy.oldgroup": "oldgroup OldGroup", "shapes.v1.nick_name": "[shapes.v1.nick_name]",
	}
	for field, want := range tests {
		d, err := files.FindDescriptorByName(protoreflect.FullName(field))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(schema.Names(d.(protoreflect.FieldDescriptor)), " "); got != want {
			t.Errorf("%s: %q, want %q", field, got, want)
		}
	}
}
