// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Enum is what the annotations of an enum say. The zero value says nothing.
type Enum struct {
	// Title and Description are OpenAPI's.
	Title, Description string
}

// Field numbers of grpc.gateway.protoc_gen_openapiv2.options.EnumSchema.
const (
	enumDescription = 1
	enumTitle       = 3
)

// OfEnum reads the annotations of an enum. Problems are for the operator.
func OfEnum(ed protoreflect.EnumDescriptor) (Enum, []string) {
	var out Enum
	var bad problems
	eachOption(ed, func(it item) {
		if it.number != openAPINumber || it.typ != protowire.BytesType {
			return
		}
		bad.unless(each(it.bytes, out.take), "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_enum")
	})
	return out, bad
}

func (e *Enum) take(it item) {
	switch {
	case it.typ != protowire.BytesType:
	case it.number == enumDescription:
		e.Description = it.text()
	case it.number == enumTitle:
		e.Title = it.text()
	}
}
