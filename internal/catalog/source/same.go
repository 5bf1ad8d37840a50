// SPDX-License-Identifier: Apache-2.0

package source

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// SameFile compares two files without their comments, and without what only the tool that wrote them knows.
func SameFile(a, b *descriptorpb.FileDescriptorProto) bool { return proto.Equal(bare(a), bare(b)) }

// bare is a shallow copy of a file without its comments and without unknown fields. It shares what both have, so that it
// costs no second copy of everything.
func bare(f *descriptorpb.FileDescriptorProto) *descriptorpb.FileDescriptorProto {
	out := &descriptorpb.FileDescriptorProto{}
	f.ProtoReflect().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if fd.Name() != "source_code_info" {
			out.ProtoReflect().Set(fd, v)
		}
		return true
	})
	return out
}
