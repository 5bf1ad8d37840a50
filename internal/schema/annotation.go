// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Field numbers of the option extensions. Protobuf's registry of extensions assigns them, so a number has one meaning.
// Options of different descriptors share numbers.
const (
	openAPINumber   = 1042      // grpc.gateway.protoc_gen_openapiv2.options
	signatureNumber = 1051      // google.api.method_signature
	resourceNumber  = 1053      // google.api.resource and resource_definition
	referenceNumber = 1055      // google.api.resource_reference
	pgvNumber       = 1071      // validate.rules, validate.required, validate.disabled
	pgvIgnored      = 1072      // validate.ignored
	gnosticNumber   = 1143      // gnostic.openapi.v3
	infoNumber      = 291403980 // google.api.field_info
)

// item is one field in the bytes of a message. Only the member that the type names is set.
type item struct {
	number protowire.Number
	typ    protowire.Type
	bytes  []byte // a length-delimited value
	bits   uint64 // any other value
	raw    []byte // all of it, with its tag
}

func (i item) text() string { return strings.ToValidUTF8(string(i.bytes), "\uFFFD") }

func (i item) isSet() bool { return i.typ == protowire.VarintType && i.bits != 0 }

func (i item) double() float64 { return math.Float64frombits(i.bits) }

// each visits the fields of a message up to the first that cannot be read. It reports whether there was none.
func each(body []byte, visit func(item)) bool {
	for len(body) > 0 {
		number, typ, n := protowire.ConsumeTag(body)
		if n < 0 {
			return false
		}
		size := protowire.ConsumeFieldValue(number, typ, body[n:])
		if size < 0 {
			return false
		}
		it := item{number: number, typ: typ, raw: body[:n+size]}
		value := body[n : n+size]
		switch typ {
		case protowire.BytesType:
			it.bytes, _ = protowire.ConsumeBytes(value)
		case protowire.VarintType:
			it.bits, _ = protowire.ConsumeVarint(value)
		case protowire.Fixed64Type:
			it.bits, _ = protowire.ConsumeFixed64(value)
		case protowire.Fixed32Type:
			bits, _ := protowire.ConsumeFixed32(value)
			it.bits = uint64(bits)
		case protowire.StartGroupType, protowire.EndGroupType:
		}
		visit(it)
		body = body[n+size:]
	}
	return true
}

// store puts a field's value where it goes, or adds it to a list. A value of another type than that wants is not there.
func (i item) store(to any) {
	switch to := to.(type) {
	case *string:
		if i.typ == protowire.BytesType {
			*to = i.text()
		}
	case *[]string:
		if i.typ == protowire.BytesType {
			*to = append(*to, i.text())
		}
	case *[]byte:
		if i.typ == protowire.BytesType {
			*to = i.bytes
		}
	case *bool:
		if i.typ == protowire.VarintType {
			*to = i.bits != 0
		}
	case **bool:
		if i.typ == protowire.VarintType {
			*to = new(i.bits != 0)
		}
	case **uint64:
		if i.typ == protowire.VarintType {
			*to = new(i.bits)
		}
	case **float64:
		if i.typ == protowire.Fixed64Type {
			*to = new(i.double())
		}
	}
}

// fields says where the fields of a message go, by their numbers. See item.store.
type fields map[protowire.Number]any

// read stores the fields of a message up to the first that cannot be read. It reports whether there was none.
func (f fields) read(body []byte) bool { return each(body, func(it item) { it.store(f[it.number]) }) }

// hasOptions reports whether a descriptor has options at all. Most have none.
func hasOptions(d protoreflect.Descriptor) bool {
	options := d.Options()
	return options != nil && options.ProtoReflect().IsValid()
}

// eachAnnotation visits the options of a descriptor. Options of linked-in files are typed; their bytes are the same.
func eachAnnotation(d protoreflect.Descriptor, visit func(item)) {
	if !hasOptions(d) {
		return
	}
	raw, err := proto.MarshalOptions{AllowPartial: true}.Marshal(d.Options())
	if err != nil {
		return
	}
	each(raw, visit)
}

// problems gathers which options of a descriptor cannot be read.
type problems []string

// unless notes that an option cannot be read.
func (p *problems) unless(ok bool, option string) {
	if !ok {
		*p = append(*p, fmt.Sprintf("option (%s) ignored: its bytes cannot be read", option))
	}
}

// foreign notes the examples of an option that hold a message of an unknown type.
func (p *problems) foreign(types []string, option string) {
	for _, name := range types {
		*p = append(*p, fmt.Sprintf("an example in option (%s) ignored: its type %q cannot be read", option, name))
	}
}

// FieldAnnotations is what the annotations of a field say. The zero value says nothing.
type FieldAnnotations struct {
	// Title and Description are OpenAPI's.
	Title, Description string
	// Default is OpenAPI's default and Examples its examples, both usually JSON.
	Default  string
	Examples []string
	// Format is a format of OpenAPI, or the one that google.api.field_info names, in OpenAPI's words; formatIP for both
	// versions of IP addresses.
	Format string
	// Pattern is OpenAPI's, which is ECMA 262's, where Rules could not take it: RE2 does not read it, or reads it otherwise.
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

// formatIP is the format of a field that takes IPv4 and IPv6.
const formatIP = "ip"

// AnnotationsOfField reads the annotations of a field. Problems are for the operator.
func AnnotationsOfField(fd protoreflect.FieldDescriptor) (FieldAnnotations, []string) {
	var out FieldAnnotations
	var bad problems
	openAPI, gnostic := keywords{}, keywords{of: fd.Message()}
	var pgv []byte
	var format *uint64
	eachAnnotation(fd, func(it item) {
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
			bad.unless(fields{1: &out.Resource, 2: &out.ChildResource}.read(it.bytes), "google.api.resource_reference")
		case infoNumber:
			bad.unless(fields{1: &format}.read(it.bytes), "google.api.field_info")
		}
	})
	bad.foreign(gnostic.unknown, "gnostic.openapi.v3.property")
	out.join(fd, &openAPI, &gnostic)
	if format != nil && *format < uint64(len(infoFormats)) {
		out.Format = cmp.Or(infoFormats[*format], out.Format)
	}
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
func (f *FieldAnnotations) join(fd protoreflect.FieldDescriptor, openAPI, gnostic *keywords) {
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

// infoFormats are the values of google.api.FieldInfo.Format, in OpenAPI's words.
var infoFormats = [...]string{"", "uuid", "ipv4", "ipv6", formatIP} //nolint:gochecknoglobals // a list that is never changed

// documentInfo is the Info in protoc-gen-openapiv2's Swagger and in gnostic's Document.
const documentInfo = 2

// FileAnnotations is what the OpenAPI annotations of a file say of its API.
type FileAnnotations struct{ Title, Description, Version string }

// AnnotationsOfFile reads protoc-gen-openapiv2's openapiv2_swagger, and gnostic's document where the first says nothing. What cannot be
// read says nothing.
func AnnotationsOfFile(fd protoreflect.FileDescriptor) FileAnnotations {
	var openAPI, gnostic FileAnnotations
	eachAnnotation(fd, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			openAPI = infoOf(it.bytes)
		case gnosticNumber:
			gnostic = infoOf(it.bytes)
		}
	})
	return cmp.Or(openAPI, gnostic)
}

// FileDescription is the description, else the title, that the OpenAPI annotations of a file have; empty for none.
func FileDescription(fd protoreflect.FileDescriptor) string {
	said := AnnotationsOfFile(fd)
	return cmp.Or(said.Description, said.Title)
}

func infoOf(document []byte) (out FileAnnotations) {
	each(document, func(part item) {
		if part.number == documentInfo {
			fields{1: &out.Title, 2: &out.Description, 6: &out.Version}.read(part.bytes)
		}
	})
	return out
}

// MessageAnnotations is what the annotations of a message say. The zero value says nothing.
type MessageAnnotations struct {
	// Title, Description and Examples are OpenAPI's.
	Title, Description string
	Examples           []string
	// Required are the names of fields that OpenAPI lists as required, in JSON or in the .proto file.
	Required []string
	// ResourceAnnotation is what google.api.resource declares; nil for a message that is none.
	Resource *ResourceAnnotation
}

// ResourceAnnotation is a kind of resource (AIP-123).
type ResourceAnnotation struct {
	// Type is such as "pubsub.googleapis.com/Topic", and Patterns are the forms of its names.
	Type     string
	Patterns []string
	// NameField is the field that holds the name of the resource: "name" unless declared.
	NameField string
}

// AnnotationsOfMessage reads the annotations of a message. Problems are for the operator.
func AnnotationsOfMessage(md protoreflect.MessageDescriptor) (MessageAnnotations, []string) {
	var out MessageAnnotations
	var bad problems
	openAPI, gnostic := keywords{}, keywords{of: md}
	eachAnnotation(md, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			bad.unless(openAPI.readOpenAPISchema(it.bytes), "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_schema")
		case gnosticNumber:
			bad.unless(gnostic.readGnostic(it.bytes), "gnostic.openapi.v3.schema")
		case resourceNumber:
			resource, ok := readResource(it.bytes)
			out.Resource = resource
			bad.unless(ok, "google.api.resource")
		}
	})
	bad.foreign(gnostic.unknown, "gnostic.openapi.v3.schema")
	out.Title = cmp.Or(openAPI.title, gnostic.title)
	out.Description = cmp.Or(openAPI.description, gnostic.description)
	out.Examples = slices.Concat(openAPI.examples, gnostic.examples)
	out.Required = slices.Concat(openAPI.required, gnostic.required)
	return out, bad
}

// readResource reads a google.api.ResourceDescriptor; nil where it has no type.
func readResource(body []byte) (*ResourceAnnotation, bool) {
	out := &ResourceAnnotation{}
	ok := fields{1: &out.Type, 2: &out.Patterns, 3: &out.NameField}.read(body)
	out.NameField = cmp.Or(out.NameField, "name")
	if out.Type == "" {
		return nil, ok
	}
	return out, ok
}

// resourcePatterns returns the patterns of the resources that a file and its direct imports declare, by type. What cannot be read
// is not in it.
func resourcePatterns(file protoreflect.FileDescriptor) map[string][]string {
	out := map[string][]string{}
	add := func(r *ResourceAnnotation) {
		if r != nil && out[r.Type] == nil {
			out[r.Type] = r.Patterns
		}
	}
	declared(file, add)
	for i := range file.Imports().Len() {
		declared(file.Imports().Get(i).FileDescriptor, add)
	}
	return out
}

// declared calls add with the resources that one file declares.
func declared(file protoreflect.FileDescriptor, add func(*ResourceAnnotation)) {
	read := func(it item) {
		if it.number == resourceNumber && it.typ == protowire.BytesType {
			r, _ := readResource(it.bytes)
			add(r)
		}
	}
	eachAnnotation(file, read)
	var within func(messages protoreflect.MessageDescriptors)
	within = func(messages protoreflect.MessageDescriptors) {
		for i := range messages.Len() {
			eachAnnotation(messages.Get(i), read)
			within(messages.Get(i).Messages())
		}
	}
	within(file.Messages())
}

// MethodAnnotations is what the annotations of a method say. The zero value says nothing.
type MethodAnnotations struct {
	// Summary is a line of OpenAPI, and Description its text.
	Summary, Description string
	// Signatures are those of google.api.method_signature: names of fields, the most important signature first. An empty
	// one is a call without arguments.
	Signatures [][]string
	// Responses are OpenAPI's examples of successful responses, usually JSON: those of protoc-gen-openapiv2 first, that of the
	// lowest status first.
	Responses []string
	// Deprecated is set where one of them says so.
	Deprecated bool
}

// AnnotationsOfMethod reads the annotations of a method. Problems are for the operator. Where both OpenAPI annotations are there, that
// of protoc-gen-openapiv2 counts.
func AnnotationsOfMethod(md protoreflect.MethodDescriptor) (MethodAnnotations, []string) {
	var out, gnostic MethodAnnotations
	var bad problems
	var ofOpenAPI, ofGnostic responses
	from := keywords{of: md.Output()}
	eachAnnotation(md, func(it item) {
		if it.typ != protowire.BytesType {
			return
		}
		switch it.number {
		case openAPINumber:
			fields{2: &out.Summary, 3: &out.Description, 11: &out.Deprecated}.read(it.bytes)
			bad.unless(eachWithin(it.bytes, ofOpenAPI.takeOpenAPI, openAPIResponses), "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_operation")
		case gnosticNumber:
			fields{2: &gnostic.Summary, 3: &gnostic.Description, 10: &gnostic.Deprecated}.read(it.bytes)
			ok := eachWithin(it.bytes, func(body []byte) bool { return ofGnostic.takeGnostic(body, &from) }, gnosticResponses)
			bad.unless(ok, "gnostic.openapi.v3.operation")
		case signatureNumber:
			out.Signatures = append(out.Signatures, signature(it.text()))
		}
	})
	bad.foreign(from.unknown, "gnostic.openapi.v3.operation")
	out.Deprecated = out.Deprecated || gnostic.Deprecated
	out.Responses = slices.Concat(ofOpenAPI.texts(), ofGnostic.texts())
	if out.Summary == "" && out.Description == "" {
		out.Summary, out.Description = gnostic.Summary, gnostic.Description
	}
	return out, bad
}

func signature(text string) []string {
	out := []string{}
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// ServiceDescription is the description of a service in protoc-gen-openapiv2's openapiv2_tag; empty for none.
func ServiceDescription(sd protoreflect.ServiceDescriptor) string {
	out := ""
	eachAnnotation(sd, func(it item) {
		if it.number == openAPINumber {
			fields{2: &out}.read(it.bytes)
		}
	})
	return out
}

// enumAnnotations is what the annotations of an enum say. The zero value says nothing.
type enumAnnotations struct {
	// Title and Description are OpenAPI's.
	Title, Description string
}

// annotationsOfEnum reads the annotations of an enum. Problems are for the operator.
func annotationsOfEnum(ed protoreflect.EnumDescriptor) (enumAnnotations, []string) {
	var out enumAnnotations
	var bad problems
	eachAnnotation(ed, func(it item) {
		if it.number != openAPINumber || it.typ != protowire.BytesType {
			return
		}
		bad.unless(fields{1: &out.Description, 3: &out.Title}.read(it.bytes), "grpc.gateway.protoc_gen_openapiv2.options.openapiv2_enum")
	})
	return out, bad
}

// rules are the keywords in the terms of protovalidate; nil for none. OpenAPI's keywords hold for values that are there, so
// the zero value of a field, which ProtoJSON may leave out, is exempt. A keyword that says nothing about the field's type
// has no effect, as in JSON Schema.
func (k *keywords) rules(fd protoreflect.FieldDescriptor) *validate.FieldRules {
	out := &validate.FieldRules{}
	switch {
	case fd.IsMap():
		if k.minProperties == nil && k.maxProperties == nil {
			return nil
		}
		out.SetMap(validate.MapRules_builder{MinPairs: k.minProperties, MaxPairs: k.maxProperties}.Build())
	case fd.IsList():
		if k.minItems == nil && k.maxItems == nil && !k.unique {
			return nil
		}
		list := validate.RepeatedRules_builder{MinItems: k.minItems, MaxItems: k.maxItems}.Build()
		if k.unique {
			list.SetUnique(true)
		}
		out.SetRepeated(list)
	case fd.Kind() == protoreflect.StringKind:
		text := k.textRules()
		if text == nil {
			return nil
		}
		out.SetString(text)
	case fd.Message() == nil && fd.Enum() == nil:
		if !k.setNumber(fd.Kind(), out) {
			return nil
		}
	default:
		return nil
	}
	out.SetIgnore(validate.Ignore_IGNORE_IF_ZERO_VALUE)
	return out
}

func (k *keywords) textRules() *validate.StringRules {
	out := validate.StringRules_builder{MinLen: k.minLength, MaxLen: k.maxLength, In: k.enum}.Build()
	// The pattern is ECMA 262's, and a rule is RE2's: what they read differently stays the words of its author.
	if k.pattern != "" && isPortable(k.pattern) && isAlike(k.pattern, false) {
		out.SetPattern(k.pattern)
	}
	if out.HasPattern() || k.minLength != nil || k.maxLength != nil || len(k.enum) > 0 {
		return out
	}
	return nil
}

// maxExact is up to where a double holds every integer. Bounds beyond it would say another number than was meant.
const maxExact = 1 << 53

// setNumber sets the bounds of a numeric kind, and reports whether there are any. One that the kind cannot hold is none.
func (k *keywords) setNumber(kind protoreflect.Kind, out *validate.FieldRules) bool {
	found := false
	set := func(name string, bound *float64, round func(float64) float64) {
		if bound == nil {
			return
		}
		v := *bound
		if kind != protoreflect.DoubleKind && kind != protoreflect.FloatKind {
			if v = round(v) + 0; math.Abs(v) > maxExact { // 0, or a rounded bound would be -0
				return
			}
		}
		rule := &validate.FieldRules{}
		if protojson.Unmarshal(fmt.Appendf(nil, `{%q:{%q:%v}}`, kind, name, v), rule) == nil {
			proto.Merge(out, rule)
			found = true
		}
	}
	// A bound between two integers excludes no integer by being exclusive: rounding outwards keeps the meaning.
	if k.openMinimum {
		set("gt", k.minimum, math.Floor)
	} else {
		set("gte", k.minimum, math.Ceil)
	}
	if k.openMaximum {
		set("lt", k.maximum, math.Ceil)
	} else {
		set("lte", k.maximum, math.Floor)
	}
	return found
}
