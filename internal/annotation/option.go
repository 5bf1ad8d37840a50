// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"fmt"
	"math"
	"strings"

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

// eachOption visits the options of a descriptor. Options of linked-in files are typed; their bytes are the same.
func eachOption(d protoreflect.Descriptor, visit func(item)) {
	options := d.Options()
	if options == nil || !options.ProtoReflect().IsValid() {
		return
	}
	raw, err := proto.MarshalOptions{AllowPartial: true}.Marshal(options)
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
