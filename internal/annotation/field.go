// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"cmp"
	"slices"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Field is what the annotations of a field say. The zero value says nothing.
type Field struct {
	// Title and Description are OpenAPI's.
	Title, Description string
	// Default is OpenAPI's default and Examples its examples, both usually JSON.
	Default  string
	Examples []string
	// Format is a format of OpenAPI, or the one that google.api.field_info names, in OpenAPI's words; FormatIP for both
	// versions of IP addresses.
	Format string
	// Pattern is OpenAPI's where Rules could not take it: it is no RE2.
	Pattern string
	// MultipleOf is OpenAPI's; nil for none.
	MultipleOf *float64
	// ReadOnly: OpenAPI says that only the service sets it.
	ReadOnly bool
	// Required: OpenAPI lists the field as required, under one of its names.
	Required bool
	// Rules are those of protoc-gen-validate, else OpenAPI's limits, in the terms of protovalidate; nil for none.
	Rules *validate.FieldRules
	// Resource is the type of the resource that the field names, and ChildResource the type whose parent it names.
	Resource, ChildResource string
}

// FormatIP is the format of a field that takes IPv4 and IPv6.
const FormatIP = "ip"

// OfField reads the annotations of a field. Problems are for the operator.
func OfField(fd protoreflect.FieldDescriptor) (Field, []string) {
	var out Field
	var bad problems
	openAPI, gnostic := keywords{}, keywords{of: fd.Message()}
	var pgv []byte
	format := ""
	eachOption(fd, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			bad.unless(openAPI.readOpenAPI(it.bytes), "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_field")
		case gnosticNumber:
			bad.unless(gnostic.readGnostic(it.bytes), "gnostic.openapi.v3.property")
		case pgvNumber:
			pgv = append(pgv, it.bytes...) // an option that is set in parts arrives in parts
		case referenceNumber:
			bad.unless(each(it.bytes, out.takeReference), "google.api.resource_reference")
		case infoNumber:
			bad.unless(each(it.bytes, func(info item) { format = cmp.Or(formatOf(info), format) }), "google.api.field_info")
		}
	})
	bad.foreign(gnostic.unknown, "gnostic.openapi.v3.property")
	out.join(fd, &openAPI, &gnostic)
	out.Format = cmp.Or(format, out.Format)
	if len(pgv) > 0 && !isUnchecked(fd.ContainingMessage()) {
		rules, ok := readPGV(pgv)
		bad.unless(ok, "validate.rules")
		if rules != nil {
			out.Rules, out.Pattern = rules, ""
		}
	}
	return out, bad
}

// join takes what the two OpenAPI annotations say, of each fact the first.
func (f *Field) join(fd protoreflect.FieldDescriptor, openAPI, gnostic *keywords) {
	f.Title = cmp.Or(openAPI.title, gnostic.title)
	f.Description = cmp.Or(openAPI.description, gnostic.description)
	f.Default = cmp.Or(openAPI.defaultValue, gnostic.defaultValue)
	f.Examples = slices.Concat(openAPI.examples, gnostic.examples)
	f.Format = cmp.Or(openAPI.format, gnostic.format)
	f.MultipleOf = cmp.Or(openAPI.multipleOf, gnostic.multipleOf)
	f.ReadOnly = openAPI.readOnly || gnostic.readOnly
	names := []string{fd.JSONName(), string(fd.Name())}
	for _, k := range []*keywords{openAPI, gnostic} {
		f.Required = f.Required || slices.ContainsFunc(k.required, func(name string) bool { return slices.Contains(names, name) })
		if f.Rules == nil {
			f.Rules = k.rules(fd)
		}
		if f.Pattern == "" && fd.Kind() == protoreflect.StringKind && !fd.IsList() && !f.Rules.GetString().HasPattern() {
			f.Pattern = k.pattern
		}
	}
}

// takeReference takes a field of google.api.ResourceReference.
func (f *Field) takeReference(it item) {
	switch it.number {
	case 1:
		f.Resource = it.text()
	case 2:
		f.ChildResource = it.text()
	}
}

// formatOf is the format of google.api.FieldInfo; empty for one that is not known.
func formatOf(info item) string {
	if info.number != 1 || info.typ != protowire.VarintType {
		return ""
	}
	switch info.bits {
	case 1:
		return "uuid"
	case 2:
		return "ipv4"
	case 3:
		return "ipv6"
	case 4:
		return FormatIP
	}
	return ""
}
