// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// typeMember is the member of an Any that names its type.
const typeMember = "@type"

// wanted is what the plan takes for granted of a field of a well-known type.
type wanted struct {
	kind  protoreflect.Kind
	shape shape
	below protoreflect.FullName // of a message, an enum, or the values of a map
	oneof bool
}

// formOf says what JSON a message has, and false for one that only has the name of a well-known type. Descriptors come
// from outside, and a file may define a google.protobuf.Timestamp of its own. The code for these types goes to fields by
// position and number, so their shape is checked once, here, and taken for granted everywhere else.
func formOf(md protoreflect.MessageDescriptor) (form, bool) {
	if !schema.IsWellKnown(md) {
		return formFields, true
	}
	const pkg = "google.protobuf."
	switch md.Name() {
	case "Timestamp":
		return formTimestamp, hasFields(md, wanted{kind: protoreflect.Int64Kind}, wanted{kind: protoreflect.Int32Kind})
	case "Duration":
		return formDuration, hasFields(md, wanted{kind: protoreflect.Int64Kind}, wanted{kind: protoreflect.Int32Kind})
	case "FieldMask":
		return formFieldMask, hasFields(md, wanted{kind: protoreflect.StringKind, shape: shapeList})
	case "Any":
		return formAny, hasFields(md, wanted{kind: protoreflect.StringKind}, wanted{kind: protoreflect.BytesKind})
	case "Empty":
		return formEmpty, md.Fields().Len() == 0
	case "Struct":
		return formStruct, hasFields(md, wanted{kind: protoreflect.MessageKind, shape: shapeMap, below: pkg + "Value"})
	case "ListValue":
		return formList, hasFields(md, wanted{kind: protoreflect.MessageKind, shape: shapeList, below: pkg + "Value"})
	case "Value":
		return formValue, hasFields(md,
			wanted{kind: protoreflect.EnumKind, below: pkg + "NullValue", oneof: true}, wanted{kind: protoreflect.DoubleKind, oneof: true},
			wanted{kind: protoreflect.StringKind, oneof: true}, wanted{kind: protoreflect.BoolKind, oneof: true},
			wanted{kind: protoreflect.MessageKind, below: pkg + "Struct", oneof: true}, wanted{kind: protoreflect.MessageKind, below: pkg + "ListValue", oneof: true})
	default:
		return formWrapper, isWrapperAsKnown(md)
	}
}

// hasFields holds where the fields are numbered from 1 and have the kinds that are wanted, without presence of their own.
func hasFields(md protoreflect.MessageDescriptor, fields ...wanted) bool {
	if md.Fields().Len() != len(fields) || md.ExtensionRanges().Len() > 0 {
		return false
	}
	for i, want := range fields {
		fd := md.Fields().Get(i)
		if int(fd.Number()) != i+1 || fd.Kind() != want.kind || shapeOf(fd) != want.shape || (fd.ContainingOneof() != nil) != want.oneof {
			return false
		}
		if want.shape == shapeOne && fd.Message() == nil && fd.HasPresence() != want.oneof || fd.Cardinality() == protoreflect.Required {
			return false
		}
		if want.below != "" && nameBelow(fd) != want.below {
			return false
		}
		if want.shape == shapeMap && fd.MapKey().Kind() != protoreflect.StringKind {
			return false
		}
	}
	return true
}

func shapeOf(fd protoreflect.FieldDescriptor) shape {
	switch {
	case fd.IsMap():
		return shapeMap
	case fd.IsList():
		return shapeList
	default:
		return shapeOne
	}
}

func nameBelow(fd protoreflect.FieldDescriptor) protoreflect.FullName {
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	switch {
	case fd.Message() != nil:
		return fd.Message().FullName()
	case fd.Enum() != nil:
		return fd.Enum().FullName()
	default:
		return ""
	}
}

func isWrapperAsKnown(md protoreflect.MessageDescriptor) bool {
	kinds := map[protoreflect.Name]protoreflect.Kind{
		"BoolValue": protoreflect.BoolKind, "StringValue": protoreflect.StringKind, "BytesValue": protoreflect.BytesKind,
		"Int32Value": protoreflect.Int32Kind, "Int64Value": protoreflect.Int64Kind, "UInt32Value": protoreflect.Uint32Kind,
		"UInt64Value": protoreflect.Uint64Kind, "FloatValue": protoreflect.FloatKind, "DoubleValue": protoreflect.DoubleKind,
	}
	return hasFields(md, wanted{kind: kinds[md.Name()]})
}
