// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// services makes a descriptor set of n services with that many methods each. Every
// method has its own messages, of eight fields like those of a usual API: so
// the work grows with the number of tools and nothing is shared by luck.
func services(n, methods int) (*descriptorpb.FileDescriptorSet, []string) {
	set := &descriptorpb.FileDescriptorSet{}
	var names []string
	for s := range n {
		file := &descriptorpb.FileDescriptorProto{
			Name: proto.String(fmt.Sprintf("bench/s%d.proto", s)), Package: proto.String("bench.v1"), Syntax: proto.String("proto3"),
		}
		service := &descriptorpb.ServiceDescriptorProto{Name: proto.String(fmt.Sprintf("Area%d", s))}
		for m := range methods {
			in, out := fmt.Sprintf("S%dM%dRequest", s, m), fmt.Sprintf("S%dM%dResponse", s, m)
			file.MessageType = append(file.MessageType, message(in), message(out))
			service.Method = append(service.Method, &descriptorpb.MethodDescriptorProto{
				Name:       proto.String(fmt.Sprintf("GetThing%d", m)),
				InputType:  proto.String(".bench.v1." + in),
				OutputType: proto.String(".bench.v1." + out),
			})
		}
		file.Service = append(file.Service, service)
		set.File = append(set.File, file)
		names = append(names, "bench.v1."+service.GetName())
	}
	return set, names
}

func message(name string) *descriptorpb.DescriptorProto {
	m := &descriptorpb.DescriptorProto{Name: proto.String(name)}
	for i, kind := range []descriptorpb.FieldDescriptorProto_Type{
		descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_INT64,
		descriptorpb.FieldDescriptorProto_TYPE_UINT32, descriptorpb.FieldDescriptorProto_TYPE_BOOL,
		descriptorpb.FieldDescriptorProto_TYPE_DOUBLE, descriptorpb.FieldDescriptorProto_TYPE_BYTES,
		descriptorpb.FieldDescriptorProto_TYPE_STRING, descriptorpb.FieldDescriptorProto_TYPE_FIXED64,
	} {
		field := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fmt.Sprintf("field_%d", i)), Number: proto.Int32(int32(i + 1)), Type: kind.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		if i == 6 {
			field.Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		}
		m.Field = append(m.Field, field)
	}
	return m
}
