// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// wrongExamples is a file with a service that is described by annotations alone, of which twelve are wrong.
func wrongExamples(t *testing.T) string {
	t.Helper()
	const openAPI, example, summary = 1042, 9, 2
	option := func(field protowire.Number, text string) []byte {
		body := protowire.AppendString(protowire.AppendTag(nil, field, protowire.BytesType), text)
		return protowire.AppendBytes(protowire.AppendTag(nil, openAPI, protowire.BytesType), body)
	}
	in := &descriptorpb.DescriptorProto{Name: proto.String("In")}
	for i := range 12 {
		options := &descriptorpb.FieldOptions{}
		options.ProtoReflect().SetUnknown(option(example, "many"))
		in.Field = append(in.Field, &descriptorpb.FieldDescriptorProto{
			Name: proto.String(fmt.Sprintf("n%d", i)), Number: proto.Int32(int32(i + 1)), Options: options,
			Type: descriptorpb.FieldDescriptorProto_TYPE_INT32.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		})
	}
	of := &descriptorpb.MethodOptions{}
	of.ProtoReflect().SetUnknown(option(summary, "Count things"))
	raw, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{
		Name: proto.String("wrong.proto"), Package: proto.String("wrong"), Syntax: proto.String("proto3"), MessageType: []*descriptorpb.DescriptorProto{in},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Wrong"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: proto.String("Count"), InputType: proto.String(".wrong.In"), OutputType: proto.String(".wrong.In"), Options: of},
		}}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "wrong.binpb")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
