// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

//go:generate ./testdata/generate.sh

// shapes reads the test messages the way a catalog does: as descriptors without generated code.
func shapes(t testing.TB) *protoregistry.Files {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "shapes.binpb"))
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

func shape(t testing.TB, files *protoregistry.Files, name protoreflect.FullName) protoreflect.MessageDescriptor {
	t.Helper()
	d, err := files.FindDescriptorByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return d.(protoreflect.MessageDescriptor)
}

// messagesIn lists all messages of a package, nested ones too, map entries not.
func messagesIn(files *protoregistry.Files, pkg protoreflect.FullName) []protoreflect.MessageDescriptor {
	var out []protoreflect.MessageDescriptor
	files.RangeFilesByPackage(pkg, func(fd protoreflect.FileDescriptor) bool {
		out = append(out, messagesBelow(fd.Messages())...)
		return true
	})
	slices.SortFunc(out, func(a, b protoreflect.MessageDescriptor) int {
		if a.FullName() < b.FullName() {
			return -1
		}
		return 1
	})
	return out
}

func messagesBelow(mds protoreflect.MessageDescriptors) []protoreflect.MessageDescriptor {
	var out []protoreflect.MessageDescriptor
	for i := range mds.Len() {
		md := mds.Get(i)
		if md.IsMapEntry() {
			continue
		}
		out = append(out, md)
		out = append(out, messagesBelow(md.Messages())...)
	}
	return out
}

func dynamicExtension(d protoreflect.Descriptor) protoreflect.ExtensionType {
	return dynamicpb.NewExtensionType(d.(protoreflect.ExtensionDescriptor))
}
