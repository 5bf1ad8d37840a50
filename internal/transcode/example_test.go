// SPDX-License-Identifier: Apache-2.0

package transcode_test

import (
	"errors"
	"fmt"
	"log"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// order is the descriptor of the message that the package documentation traces:
//
//	message Order {
//	  string order_id = 1;
//	  int32 quantity = 2 [(buf.validate.field).int32 = {gte: 1, lte: 100}];
//	  repeated Line lines = 3;
//	}
//	message Line {
//	  string sku = 1;
//	  int64 cents = 2;
//	}
func order() (protoreflect.MessageDescriptor, error) {
	field := func(name string, number int32, typ descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{
			Name: &name, Number: &number, Type: &typ, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
	}
	quantity := field("quantity", 2, descriptorpb.FieldDescriptorProto_TYPE_INT32)
	quantity.Options = &descriptorpb.FieldOptions{}
	proto.SetExtension(quantity.Options, validate.E_Field, validate.FieldRules_builder{
		Int32: validate.Int32Rules_builder{Gte: proto.Int32(1), Lte: proto.Int32(100)}.Build(),
	}.Build())
	lines := field("lines", 3, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	lines.TypeName, lines.Label = proto.String(".shop.v1.Line"), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("shop/v1/order.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Order"), Field: []*descriptorpb.FieldDescriptorProto{
				field("order_id", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), quantity, lines,
			}},
			{Name: proto.String("Line"), Field: []*descriptorpb.FieldDescriptorProto{
				field("sku", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING),
				field("cents", 2, descriptorpb.FieldDescriptorProto_TYPE_INT64),
			}},
		},
	}, nil)
	if err != nil {
		return nil, err
	}
	return file.Messages().Get(0), nil
}

// The message that the package documentation traces, in both directions.
func Example() {
	md, err := order()
	if err != nil {
		log.Fatal(err)
	}
	m, err := transcode.Compile(md, transcode.Options{})
	if err != nil {
		log.Fatal(err)
	}

	wire, err := m.ToWire(nil, []byte(`{"orderId": "A-7", "quantity": 2, "lines": [{"sku": "x", "cents": "990"}]}`))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("% x\n", wire)

	answer, err := m.ToJSON(nil, wire)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", answer)

	// Fields that are not on the wire and have no presence are written with their default.
	answer, err = m.ToJSON(nil, []byte{0x10, 0x02})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", answer)

	// Output:
	// 0a 03 41 2d 37 10 02 1a 06 0a 01 78 10 de 07
	// {"orderId":"A-7","quantity":2,"lines":[{"sku":"x","cents":"990"}]}
	// {"orderId":"","quantity":2,"lines":[]}
}

// A refused document is an *InputError with everything that was found, each with its place.
func ExampleInputError() {
	md, err := order()
	if err != nil {
		log.Fatal(err)
	}
	m, err := transcode.Compile(md, transcode.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, doc := range []string{
		`{"orderID": "A-7", "quantity": "many", "lines": [{"cents": 1.5}]}`,
		`{"orderId": "A-7", "quantity": 101}`,
	} {
		_, err := m.ToWire(nil, []byte(doc))
		var refused *transcode.InputError
		if !errors.As(err, &refused) {
			log.Fatal(err)
		}
		fmt.Println("structural:", refused.Structural)
		for _, v := range refused.Violations {
			fmt.Printf("%s %s: %s\n", v.Path, v.Keyword, v.Message)
		}
	}

	// Output:
	// structural: true
	// /lines/0/cents type: wanted integer or string, found 1.5
	// /orderID additionalProperties: wanted a known field, found unknown field "orderID"; did you mean "orderId"?
	// /quantity format: wanted an integer of type int32, found the string "many"
	// structural: false
	// /quantity int32.gte_lte: must be greater than or equal to 1 and less than or equal to 100, found 101
}
