// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"encoding/json"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// keywords are what the two OpenAPI annotations say of a value, as far as it is used. A nil bound is unset.
type keywords struct {
	title, description, format, pattern string
	defaultValue                        string // JSON
	examples, enum                      []string
	required                            []string
	readOnly, unique                    bool
	multipleOf                          *float64
	minimum, maximum                    *float64
	openMinimum, openMaximum            bool // the bound itself is refused
	minLength, maxLength                *uint64
	minItems, maxItems                  *uint64
	minProperties, maxProperties        *uint64

	// of is the message that is described, which examples may hold; nil for other values.
	of protoreflect.MessageDescriptor
	// unknown are the types of examples that cannot be read.
	unknown []string
}

// Field numbers of grpc.gateway.protoc_gen_openapiv2.options.JSONSchema.
const (
	keyTitle         = 5
	keyDescription   = 6
	keyDefault       = 7
	keyReadOnly      = 8
	keyExample       = 9
	keyMultipleOf    = 10
	keyMaximum       = 11
	keyOpenMaximum   = 12
	keyMinimum       = 13
	keyOpenMinimum   = 14
	keyMaxLength     = 15
	keyMinLength     = 16
	keyPattern       = 17
	keyMaxItems      = 20
	keyMinItems      = 21
	keyUnique        = 22
	keyMaxProperties = 24
	keyMinProperties = 25
	keyRequired      = 26
	keyFormat        = 36
	keyEnum          = 46
)

// openAPINumberOf is the number in JSONSchema of a field of gnostic.openapi.v3.Schema that has the same type; 0 for none.
func openAPINumberOf(gnostic protowire.Number) protowire.Number {
	switch {
	case gnostic >= keyMultipleOf && gnostic <= keyPattern:
		return gnostic
	case gnostic >= 18 && gnostic <= 20: // max_items, min_items, unique_items
		return gnostic + (keyMaxItems - 18)
	case gnostic >= 21 && gnostic <= 23: // max_properties, min_properties, required
		return gnostic + (keyMaxProperties - 21)
	}
	switch gnostic {
	case 3:
		return keyReadOnly
	case 9:
		return keyTitle
	case 34:
		return keyDescription
	case 35:
		return keyFormat
	}
	return 0
}

// Field numbers of gnostic.openapi.v3.Schema whose types differ from those of JSONSchema.
const (
	gnosticExample = 7  // Any
	gnosticEnum    = 24 // repeated Any
	gnosticDefault = 33 // DefaultType
)

// readOpenAPI adds what a JSONSchema says.
func (k *keywords) readOpenAPI(body []byte) bool { return each(body, k.take) }

// readGnostic adds what a gnostic Schema says.
func (k *keywords) readGnostic(body []byte) bool {
	ok := true
	isRead := each(body, func(it item) {
		switch it.number {
		case gnosticExample:
			ok = k.readAny(it.bytes, &k.examples) && ok
		case gnosticEnum:
			ok = k.readAny(it.bytes, &k.enum) && ok
		case gnosticDefault:
			ok = each(it.bytes, k.takeDefault) && ok
		default:
			if it.number = openAPINumberOf(it.number); it.number != 0 {
				k.take(it)
			}
		}
	})
	return isRead && ok
}

func (k *keywords) takeDefault(it item) {
	switch {
	case it.number == 1 && it.typ == protowire.Fixed64Type:
		if raw, err := json.Marshal(it.double()); err == nil {
			k.defaultValue = string(raw)
		}
	case it.number == 2 && it.typ == protowire.VarintType:
		k.defaultValue = strconv.FormatBool(it.bits != 0)
	case it.number == 3 && it.typ == protowire.BytesType:
		raw, _ := json.Marshal(it.text()) //nolint:errchkjson // a string
		k.defaultValue = string(raw)
	}
}

// take adds one field of a JSONSchema. One of another type than it should have is not there.
func (k *keywords) take(it item) {
	switch it.typ {
	case protowire.BytesType:
		k.takeText(it.number, it.text())
	case protowire.VarintType:
		k.takeNumber(it)
	case protowire.Fixed64Type:
		k.takeBound(it)
	case protowire.Fixed32Type, protowire.StartGroupType, protowire.EndGroupType:
	}
}

func (k *keywords) takeText(number protowire.Number, text string) {
	switch number {
	case keyTitle:
		k.title = text
	case keyDescription:
		k.description = text
	case keyDefault:
		k.defaultValue = text
	case keyExample:
		k.examples = append(k.examples, text)
	case keyPattern:
		k.pattern = text
	case keyRequired:
		k.required = append(k.required, text)
	case keyFormat:
		k.format = text
	case keyEnum:
		k.enum = append(k.enum, text)
	}
}

func (k *keywords) takeNumber(it item) {
	n := it.bits
	switch it.number {
	case keyReadOnly:
		k.readOnly = it.isSet()
	case keyOpenMaximum:
		k.openMaximum = it.isSet()
	case keyOpenMinimum:
		k.openMinimum = it.isSet()
	case keyUnique:
		k.unique = it.isSet()
	case keyMaxLength:
		k.maxLength = &n
	case keyMinLength:
		k.minLength = &n
	case keyMaxItems:
		k.maxItems = &n
	case keyMinItems:
		k.minItems = &n
	case keyMaxProperties:
		k.maxProperties = &n
	case keyMinProperties:
		k.minProperties = &n
	}
}

func (k *keywords) takeBound(it item) {
	v := it.double()
	switch it.number {
	case keyMultipleOf:
		k.multipleOf = &v
	case keyMaximum:
		k.maximum = &v
	case keyMinimum:
		k.minimum = &v
	}
}
