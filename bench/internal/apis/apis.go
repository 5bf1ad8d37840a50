// SPDX-License-Identifier: Apache-2.0

// Package apis writes descriptor sets of large APIs: of the size and the shape of googleapis, with services of ten methods,
// each in two versions and its own file, with comments, over messages that hold messages of common files.
package apis

import (
	"fmt"
	"os"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// PerService is how many methods one service makes, in its two versions.
const PerService = 20

// commonFiles is how many files the others import.
const commonFiles = 8

// Write writes a set of some services to a file, and one small file more where that is named.
func Write(path string, services int, more string) error {
	set := &descriptorpb.FileDescriptorSet{}
	for i := range commonFiles {
		f := newFile(fmt.Sprintf("apis/common/c%d.proto", i), "apis.common")
		f.message(fmt.Sprintf("Shared%d", i), 8)
		set.File = append(set.File, f.FileDescriptorProto)
	}
	for i := range services {
		set.File = append(set.File, service(i, "v1"), service(i, "v1beta1"))
	}
	if more != "" {
		f := newFile("apis/more.proto", "apis.more")
		f.message("Empty", 0)
		f.method(more, "Get", "Empty", "Empty")
		set.File = append(set.File, f.FileDescriptorProto)
	}
	raw, err := proto.Marshal(set)
	if err != nil {
		return err
	}
	// What watches the file must not see half of it.
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

func service(i int, version string) *descriptorpb.FileDescriptorProto {
	pkg := fmt.Sprintf("apis.s%d.%s", i, version)
	f := newFile(strings.ReplaceAll(pkg, ".", "/")+".proto", pkg)
	var shared []string
	for j := range 2 {
		n := (i + j) % commonFiles
		f.Dependency = append(f.Dependency, fmt.Sprintf("apis/common/c%d.proto", n))
		shared = append(shared, fmt.Sprintf(".apis.common.Shared%d", n))
	}
	f.message("Part", 6, shared...)
	f.message("Thing", 12, append(shared, "."+pkg+".Part")...)
	for j, verb := range []string{"Get", "List", "Create", "Update", "Delete", "Move", "Copy", "Export", "Import", "Watch"} {
		f.message(verb+"Request", 4, []string{"." + pkg + ".Thing"}[:j%2]...)
		f.message(verb+"Response", 2, "."+pkg+".Thing")
		f.method(fmt.Sprintf("Things%d", i), verb+"Thing", verb+"Request", verb+"Response")
	}
	return f.FileDescriptorProto
}

// file is a file that is being written, with its comments.
type file struct {
	*descriptorpb.FileDescriptorProto
}

func newFile(path, pkg string) file {
	return file{&descriptorpb.FileDescriptorProto{
		Name: new(path), Package: new(pkg), Syntax: new("proto3"), SourceCodeInfo: &descriptorpb.SourceCodeInfo{},
	}}
}

func (f file) comment(path ...int32) {
	f.SourceCodeInfo.Location = append(f.SourceCodeInfo.Location, &descriptorpb.SourceCodeInfo_Location{
		Path: path, Span: []int32{int32(len(f.SourceCodeInfo.GetLocation())), 2, 40},
		LeadingComments: new(fmt.Sprintf(" What %s holds at %v, in the words that the authors of an API have for it, such as units and bounds.\n",
			f.GetPackage(), path)),
	})
}

// method adds a method to the one service of the file.
func (f file) method(service, name, request, response string) {
	if len(f.Service) == 0 {
		f.Service = append(f.Service, &descriptorpb.ServiceDescriptorProto{Name: new(service)})
	}
	s := f.Service[0]
	f.comment(6, 0, 2, int32(len(s.GetMethod())))
	s.Method = append(s.Method, &descriptorpb.MethodDescriptorProto{
		Name: new(name), InputType: new("." + f.GetPackage() + "." + request), OutputType: new("." + f.GetPackage() + "." + response),
	})
}

// message has fields of several kinds, and one for each message that it holds.
func (f file) message(name string, fields int, holds ...string) {
	m := &descriptorpb.DescriptorProto{Name: new(name)}
	at := int32(len(f.MessageType))
	kinds := []descriptorpb.FieldDescriptorProto_Type{
		descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64,
		descriptorpb.FieldDescriptorProto_TYPE_BOOL, descriptorpb.FieldDescriptorProto_TYPE_DOUBLE,
	}
	for i := range fields + len(holds) {
		field := &descriptorpb.FieldDescriptorProto{
			Name: new(fmt.Sprintf("field_%d_of", i)), Number: new(int32(i + 1)), JsonName: new(fmt.Sprintf("field%dOf", i)),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if i < fields {
			field.Type = kinds[i%len(kinds)].Enum()
		} else {
			field.Type, field.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), new(holds[i-fields])
		}
		m.Field = append(m.Field, field)
		f.comment(4, at, 2, int32(i))
	}
	f.MessageType = append(f.MessageType, m)
	f.comment(4, at)
}
