// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// TestFieldsMarkedDebugRedactAreNotRecorded looks through both messages of a
// tool, recursion included, for fields that are marked.
func TestFieldsMarkedDebugRedactAreNotRecorded(t *testing.T) {
	t.Parallel()
	field := func(name string, number int32, message string, redact bool) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(number),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
		}
		if message != "" {
			f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String(message)
		}
		if redact {
			f.Options = &descriptorpb.FieldOptions{DebugRedact: proto.Bool(true)}
		}
		return f
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("pay.proto"), Package: proto.String("pay"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Request"), Field: []*descriptorpb.FieldDescriptorProto{
				field("card_number", 1, "", true), field("shop", 2, "", false), field("next", 3, ".pay.Request", false),
			}},
			{Name: proto.String("Response"), Field: []*descriptorpb.FieldDescriptorProto{
				field("receipt", 1, ".pay.Receipt", false),
			}},
			{Name: proto.String("Receipt"), Field: []*descriptorpb.FieldDescriptorProto{field("iban", 1, "", true)}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name:   proto.String("Till"),
			Method: []*descriptorpb.MethodDescriptorProto{{Name: proto.String("Pay"), InputType: proto.String(".pay.Request"), OutputType: proto.String(".pay.Response")}},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tool := &catalog.Tool{Method: &catalog.Method{Descriptor: file.Services().Get(0).Methods().Get(0)}}
	got := redactedNames(tool)
	slices.Sort(got)
	if want := []string{"cardNumber", "card_number", "iban", "iban"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
