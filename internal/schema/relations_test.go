// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

//go:generate ./testdata/build.sh

// relations reads the test API without generated code of its annotations: its options are unknown bytes, as reflection has
// them.
func relations(t testing.TB) *protoregistry.Files {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "relations.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := (proto.UnmarshalOptions{Resolver: &protoregistry.Types{}}).Unmarshal(raw, set); err != nil {
		t.Fatal(err)
	}
	files, err := protodesc.NewFiles(set)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func find[D protoreflect.Descriptor](t testing.TB, files *protoregistry.Files, name protoreflect.FullName) D {
	t.Helper()
	d, err := files.FindDescriptorByName("relations.v1." + name)
	if err != nil {
		t.Fatal(err)
	}
	return d.(D)
}

// withOption is a message with one field of the kind that has one option of raw bytes.
func withOption(t testing.TB, kind descriptorpb.FieldDescriptorProto_Type, option []byte) protoreflect.FieldDescriptor {
	t.Helper()
	options := &descriptorpb.FieldOptions{}
	options.ProtoReflect().SetUnknown(option)
	field := &descriptorpb.FieldDescriptorProto{Name: new("value"), Number: new(int32(1)), Type: &kind, Options: options}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("one.proto"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: new("One"), Field: []*descriptorpb.FieldDescriptorProto{field}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0).Fields().Get(0)
}
