// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// isWellKnown holds for the types that ProtoJSON writes in a form of their own.
func isWellKnown(md protoreflect.MessageDescriptor) bool {
	if md.ParentFile() == nil || md.FullName().Parent() != "google.protobuf" {
		return false
	}
	switch md.Name() {
	case "Any", "Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Empty":
		return true
	default:
		return isWrapper(md)
	}
}

// isWrapper holds for google.protobuf.StringValue and its kin.
func isWrapper(md protoreflect.MessageDescriptor) bool {
	if md.FullName().Parent() != "google.protobuf" {
		return false
	}
	switch md.Name() {
	case "BoolValue", "StringValue", "BytesValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue":
		return true
	default:
		return false
	}
}

// IsWrapped reports whether a message at the root of an input or output is wrapped in an object {"value": ...}, because
// its ProtoJSON form need not be one. As input, a google.protobuf.Value is not wrapped: an object is a Value already.
func IsWrapped(md protoreflect.MessageDescriptor, dir Direction) bool { return isWrapped(md, dir) }

func isWrapped(md protoreflect.MessageDescriptor, dir Direction) bool {
	if !isWellKnown(md) {
		return false
	}
	switch md.Name() {
	case "Any", "Struct", "Empty":
		return false
	case "Value":
		return dir == Output
	default:
		return true
	}
}

// wrappedMember is the name that Any, too, gives to a value that is no object.
const wrappedMember = "value"

func wrapped(doc *object) *object {
	return newObject("type", "object", "properties", newObject(wrappedMember, doc), "required", []string{wrappedMember}, "additionalProperties", false)
}

// eitherForm admits the plain and the wrapped form. The only roots that come here have no references inside.
func eitherForm(doc *object) *object {
	return newObject("anyOf", []any{doc, wrapped(doc)})
}

// wellKnown writes ProtoJSON's form of a well-known type. fd is nil at the root.
func (d *deriver) wellKnown(md protoreflect.MessageDescriptor, fd protoreflect.FieldDescriptor, rules *validate.FieldRules, nullable bool) *object {
	if isWrapper(md) {
		return d.scalar(md.Fields().ByName("value").Kind(), value{rules: rules, nullable: nullable})
	}
	var doc *object
	str, obj := typeOrNull("string", nullable), typeOrNull("object", nullable)
	switch md.Name() {
	case "Timestamp":
		doc = d.timestamp(str)
	case "Duration":
		doc = d.duration(str)
	case "FieldMask":
		doc = d.fieldMask(str)
	case "Struct":
		doc = newObject("type", obj)
	case "ListValue":
		doc = newObject("type", typeOrNull("array", nullable), "items", &object{})
	case "Empty":
		doc = newObject("type", obj, "properties", &object{}, "additionalProperties", false)
	case "Any":
		doc = d.any(obj)
		doc.merge(anyLimits(rules))
	default: // Value
		doc = &object{}
		if fd == nil && d.dir == Input && !d.all {
			doc.set("type", "object")
		}
	}
	if md.Name() != "Any" {
		own, _ := doc.get("description").(string)
		d.describe(doc, own, otherRules(rules))
	}
	return doc
}

// any: the type's own fields stand beside @type, so nothing can be said about them here. ProtoJSON also reads {}.
func (d *deriver) any(obj any) *object {
	about := newObject("type", "string", "minLength", 1)
	d.describe(about, d.inBrief("Type URL, such as type.googleapis.com/google.protobuf.Duration. Its fields stand beside it, or value if its JSON is no object.",
		"Type URL of the message, such as type.googleapis.com/google.protobuf.Duration. The other members are its fields, or value for a type whose JSON is not an object."))
	doc := newObject("type", obj, "properties", newObject("@type", about))
	if d.dir == Output {
		return doc // {} is what an Any without a type is written as
	}
	if d.all {
		empty := newObject("maxProperties", 0)
		return doc.set("anyOf", []any{newObject("required", []string{"@type"}), empty})
	}
	return doc.set("required", []string{"@type"})
}

func anyLimits(rules *validate.FieldRules) *object {
	limits := &object{}
	if urls := rules.GetAny().GetIn(); len(urls) > 0 {
		limits.merge(newObject("properties", newObject("@type", newObject("enum", stringForms(urls, false)))))
	}
	if urls := rules.GetAny().GetNotIn(); len(urls) > 0 {
		limits.merge(newObject("properties", newObject("@type", newObject("not", newObject("enum", stringForms(urls, false))))))
	}
	return limits
}

// rawMoment is a pattern of how answers show a Timestamp or Duration that ProtoJSON has no form for, such as one out of range.
const rawMoment = `seconds:-?[0-9]+ nanos:-?[0-9]+`

// timestamp: what an answer shows is not always a date-time (see rawMoment), so its schema says so in words alone.
func (d *deriver) timestamp(str any) *object {
	doc := newObject("type", str)
	switch {
	case d.dir == Input:
		doc.set("format", formatDateTime)
		d.describe(doc, d.inBrief("", "RFC 3339, up to nine digits of fraction."))
	case d.isBrief():
		d.describe(doc, "RFC 3339.")
	default:
		doc.set("anyOf", []any{newObject("format", formatDateTime), newObject("pattern", "^"+rawMoment+"$")})
		d.describe(doc, "RFC 3339, up to nine digits of fraction.")
	}
	return doc
}

// duration: the canonical form is in the format, which also knows the signs and dots that ProtoJSON reads. What is
// shown and written has up to twelve digits of seconds, of which eleven are always in range, or is a rawMoment. Who reads an
// answer needs the words alone.
func (d *deriver) duration(str any) *object {
	doc := newObject("type", str)
	switch {
	case d.all:
		doc.set("format", formatDuration)
	case d.dir == Input:
		doc.set("pattern", d.inBrief(`^-?(0|[1-9]\d{0,10})(\.\d{1,9})?s$`, `^-?(0|[1-9][0-9]{0,10})(\.[0-9]{1,9})?s$`))
	case !d.isBrief():
		doc.set("pattern", `^(-?[0-9]{1,12}(\.[0-9]{1,9})?s|`+rawMoment+`)$`)
	}
	d.describe(doc, d.inBrief("Seconds, such as 3.5s.", "Seconds with the suffix s, such as 3.5s."))
	return doc
}

// fieldMask: paths in lowerCamelCase. What is written may contain every path.
func (d *deriver) fieldMask(str any) *object {
	doc := newObject("type", str)
	switch {
	case d.all:
		doc.set("format", formatFieldMask)
	case d.dir == Input:
		const path = `[a-z][a-zA-Z0-9]*(\.[a-z][a-zA-Z0-9]*)*`
		doc.set("pattern", "^("+path+"(,"+path+")*)?$")
	}
	d.describe(doc, d.inBrief("Field paths, such as displayName,address.city.", "Comma-separated field paths in lowerCamelCase, such as displayName,address.city."))
	return doc
}

// IsWellKnown reports whether ProtoJSON has a special form for a message, so that its fields are not members.
func IsWellKnown(md protoreflect.MessageDescriptor) bool { return isWellKnown(md) }
