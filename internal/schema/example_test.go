// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"fmt"
	"log"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// order is the descriptor of the message that the package documentation traces:
//
//	message Order {
//	  string order_id = 1;
//	  int32 quantity = 2 [(buf.validate.field).int32 = {gte: 1, lte: 100}];
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
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("shop/v1/order.proto"), Package: proto.String("shop.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: proto.String("Order"), Field: []*descriptorpb.FieldDescriptorProto{
				field("order_id", 1, descriptorpb.FieldDescriptorProto_TYPE_STRING), quantity,
			}},
		},
	}, nil)
	if err != nil {
		return nil, err
	}
	return file.Messages().Get(0), nil
}

// The message that the package documentation traces: what a client is shown, and what is enforced.
func Example() {
	md, err := order()
	if err != nil {
		log.Fatal(err)
	}
	in, err := schema.Derive(md, schema.Input, schema.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("advertised: %s\n", in.Advertised)
	fmt.Printf("canonical: %s\n", in.Canonical)

	out, err := schema.Derive(md, schema.Output, schema.Options{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("output: %s\n", out.Advertised)

	// Output:
	// advertised: {"type":"object","properties":{"orderId":{"type":"string"},"quantity":{"type":"integer","minimum":1,"maximum":100}},"required":["quantity"],"additionalProperties":false}
	// canonical: {"type":"object","properties":{"orderId":{"type":["string","null"]},"order_id":{"$ref":"#/properties/orderId"},"quantity":{"type":["integer","string"],"minimum":1,"maximum":100,"pattern":"^(([1-9][0-9]{0,1}|100)|-0|-?(0|[1-9][0-9]*)(\\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+))$","format":"int32","description":"From 1 to 100."}},"required":["quantity"],"additionalProperties":false,"dependentSchemas":{"orderId":{"properties":{"order_id":{"description":"wanted one name of the field, found \"order_id\" beside \"orderId\"","not":{}}}}}}
	// output: {"type":"object","properties":{"orderId":{"type":"string"},"quantity":{"type":"integer","minimum":1,"maximum":100}},"additionalProperties":false}
}

// A validator reports everything that is wrong with a document, sorted by place.
func ExampleValidator_Validate() {
	md, err := order()
	if err != nil {
		log.Fatal(err)
	}
	in, err := schema.Derive(md, schema.Input, schema.Options{})
	if err != nil {
		log.Fatal(err)
	}
	v, err := schema.Compile(in.Canonical)
	if err != nil {
		log.Fatal(err)
	}
	for _, doc := range []string{
		`{"order_id": "A-7", "quantity": "2"}`,
		`{"orderId": "A-7", "order_id": "A-8", "quantity": 101, "quantiy": 3}`,
		`{"quantity": 1, "quantity": 2}`,
	} {
		found, err := v.Validate([]byte(doc))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%d violations\n", len(found))
		for _, violation := range found {
			fmt.Printf("  %s %s: %s\n", violation.Path, violation.Keyword, violation.Message)
		}
	}

	// Output:
	// 0 violations
	// 3 violations
	//   /order_id not: wanted one name of the field, found "order_id" beside "orderId"
	//   /quantity maximum: wanted at most 100, found 101
	//   /quantiy additionalProperties: wanted a known field, found unknown field "quantiy"; did you mean "quantity"?
	// 1 violations
	//   /quantity duplicate: wanted each name once, found "quantity" again
}
