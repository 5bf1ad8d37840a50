// SPDX-License-Identifier: Apache-2.0

package operationtest

import (
	"testing"

	"cloud.google.com/go/longrunning/autogen/longrunningpb"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Package is that of the services.
const Package = "studio.v1"

// Service is the full name of the service with operations, and Procedure begins the paths of its RPCs.
const (
	Service   = Package + ".StudioService"
	Procedure = "/" + Service + "/"
)

// file is the descriptor of the server's own file.
func file() *descriptorpb.FileDescriptorProto {
	text := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number), JsonName: proto.String(jsonName(name)),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}
	}
	number := func(name string, number int32) *descriptorpb.FieldDescriptorProto {
		f := text(name, number)
		f.Type = descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum()
		return f
	}
	of := func(name string, number int32, message string) *descriptorpb.FieldDescriptorProto {
		f := text(name, number)
		f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String("."+Package+"."+message)
		f.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		return f
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: proto.String(name), Field: fields}
	}
	begins := func(name string, info *longrunningpb.OperationInfo) *descriptorpb.MethodDescriptorProto {
		m := &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String("." + Package + ".ImportVideoRequest"), OutputType: proto.String(".google.longrunning.Operation"),
		}
		if info != nil {
			m.Options = &descriptorpb.MethodOptions{}
			proto.SetExtension(m.Options, longrunningpb.E_OperationInfo, info)
		}
		return m
	}
	return &descriptorpb.FileDescriptorProto{
		Name: proto.String("studio/v1/studio.proto"), Package: proto.String(Package), Syntax: proto.String("proto3"),
		Dependency: []string{"google/longrunning/operations.proto", "google/protobuf/timestamp.proto"},
		MessageType: []*descriptorpb.DescriptorProto{
			message("ImportVideoRequest", text("uri", 1)),
			message("Video", text("name", 1), number("seconds", 2)),
			message("ImportVideoMetadata", text("status_message", 1), number("progress_percent", 2)),
			message("ListVideosRequest", text("filter", 1), number("page_size", 2), text("page_token", 3)),
			message("ListVideosResponse", of("videos", 1, "Video"), text("next_page_token", 2), number("total_size", 3)),
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("StudioService"), Method: []*descriptorpb.MethodDescriptorProto{
			begins("ImportVideo", &longrunningpb.OperationInfo{ResponseType: "Video", MetadataType: "ImportVideoMetadata"}),
			begins("RenderVideo", &longrunningpb.OperationInfo{ResponseType: Package + ".Video", MetadataType: "google.protobuf.Struct"}),
			begins("ScheduleVideo", &longrunningpb.OperationInfo{ResponseType: "google.protobuf.Timestamp", MetadataType: "ImportVideoMetadata"}),
			begins("PublishVideos", nil),
			begins("MoveVideo", &longrunningpb.OperationInfo{ResponseType: "NoSuchMessage"}),
			{
				Name: proto.String("ListVideos"), InputType: proto.String("." + Package + ".ListVideosRequest"),
				OutputType: proto.String("." + Package + ".ListVideosResponse"),
				Options:    &descriptorpb.MethodOptions{IdempotencyLevel: descriptorpb.MethodOptions_NO_SIDE_EFFECTS.Enum()},
			},
		}}},
	}
}

// jsonName is the JSON name of a field.
func jsonName(name string) string {
	out, upper := []byte{}, false
	for i := range len(name) {
		switch {
		case name[i] == '_':
			upper = true
		case upper:
			out, upper = append(out, name[i]-'a'+'A'), false
		default:
			out = append(out, name[i])
		}
	}
	return string(out)
}

// Files returns the descriptors of the services, with all that they import.
func Files(tb testing.TB) *descriptorpb.FileDescriptorSet {
	tb.Helper()
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if seen[f.Path()] {
			return
		}
		seen[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		set.File = append(set.File, protodesc.ToFileDescriptorProto(f))
	}
	add(descriptor(tb))
	return set
}

// descriptor is the linked descriptor of the server's own file.
func descriptor(tb testing.TB) protoreflect.FileDescriptor {
	tb.Helper()
	f, err := protodesc.NewFile(file(), protoregistry.GlobalFiles)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}
