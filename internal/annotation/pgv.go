// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Field numbers of protovalidate's FieldRules that protoc-gen-validate does not have.
const (
	rulesRequired = 25
	rulesIgnore   = 27
)

// Field numbers of the types of rules, which are the same in both. pgvMessage is protoc-gen-validate's alone.
const (
	rulesString   = 14
	rulesBytes    = 15
	rulesEnum     = 16
	pgvMessage    = 17
	rulesRepeated = 18
	rulesMap      = 19
	rulesAny      = 20
	rulesDuration = 21
	rulesTime     = 22
	lastNumber    = 12 // float to sfixed64
)

// Field numbers within them.
const (
	messageRequired = 2 // of MessageRules
	wktRequired     = 1 // of the rules of Any, Duration and Timestamp
	repeatedItems   = 4
	mapNoSparse     = 3
	mapKeys         = 4
	mapValues       = 5
)

// maxRulesDepth bounds rules of items within rules of items. Protobuf has no lists of lists, so one level is all there is.
const maxRulesDepth = 4

// ignoreEmptyOf is the number of ignore_empty in a type of rules; 0 for types without it.
func ignoreEmptyOf(kind protowire.Number) protowire.Number {
	switch {
	case kind >= 1 && kind <= lastNumber:
		return 8
	case kind == rulesString:
		return 26
	case kind == rulesBytes:
		return 14
	case kind == rulesRepeated:
		return 5
	case kind == rulesMap:
		return 6
	}
	return 0
}

// translate turns the bytes of protoc-gen-validate's FieldRules into those of protovalidate's, which kept the numbers and
// types of the former: only ignore_empty, required and message move.
func translate(body []byte, depth int) ([]byte, bool) {
	if depth > maxRulesDepth {
		return nil, false
	}
	var out []byte
	ok, isRequired, ignoresZero := true, false, false
	isRead := each(body, func(it item) {
		switch {
		case it.typ != protowire.BytesType:
		case it.number == pgvMessage:
			ok = each(it.bytes, func(rule item) { isRequired = isRequired || rule.number == messageRequired && rule.isSet() }) && ok
		default:
			var inner []byte
			isInner := each(it.bytes, func(rule item) {
				switch {
				case rule.number == ignoreEmptyOf(it.number) && rule.number != 0:
					ignoresZero = ignoresZero || rule.isSet()
				case it.number >= rulesAny && it.number <= rulesTime && rule.number == wktRequired:
					isRequired = isRequired || rule.isSet()
				case it.number == rulesMap && rule.number == mapNoSparse:
				case it.number == rulesRepeated && rule.number == repeatedItems, it.number == rulesMap && (rule.number == mapKeys || rule.number == mapValues):
					nested, isNested := translate(rule.bytes, depth+1)
					ok = ok && isNested
					inner = protowire.AppendBytes(protowire.AppendTag(inner, rule.number, protowire.BytesType), nested)
				default:
					inner = append(inner, rule.raw...)
				}
			})
			ok = ok && isInner
			out = protowire.AppendBytes(protowire.AppendTag(out, it.number, protowire.BytesType), inner)
		}
	})
	if isRequired {
		out = protowire.AppendVarint(protowire.AppendTag(out, rulesRequired, protowire.VarintType), 1)
	}
	if ignoresZero {
		out = protowire.AppendVarint(protowire.AppendTag(out, rulesIgnore, protowire.VarintType), uint64(validate.Ignore_IGNORE_IF_ZERO_VALUE))
	}
	return out, isRead && ok
}

// readPGV reads the rules of protoc-gen-validate. Nil rules say nothing.
func readPGV(body []byte) (*validate.FieldRules, bool) {
	raw, ok := translate(body, 0)
	if !ok {
		return nil, false
	}
	rules := &validate.FieldRules{}
	if (proto.UnmarshalOptions{AllowPartial: true, DiscardUnknown: true}).Unmarshal(raw, rules) != nil || !isText(rules.ProtoReflect()) {
		return nil, false
	}
	if proto.Size(rules) == 0 {
		return nil, true
	}
	return rules, true
}

// isText reports whether all strings of a message are UTF-8, which proto2 does not ask for.
func isText(m protoreflect.Message) bool {
	ok := true
	check := func(fd protoreflect.FieldDescriptor, v protoreflect.Value) {
		switch {
		case fd.Message() != nil:
			ok = ok && isText(v.Message())
		case fd.Kind() == protoreflect.StringKind:
			ok = ok && utf8.ValidString(v.String())
		}
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !fd.IsList() {
			check(fd, v)
			return ok
		}
		for i := range v.List().Len() {
			check(fd, v.List().Get(i))
		}
		return ok
	})
	return ok
}

// isUnchecked reports whether protoc-gen-validate makes no checks for a message.
func isUnchecked(md protoreflect.MessageDescriptor) bool {
	out := false
	eachOption(md, func(it item) {
		if it.number == pgvNumber || it.number == pgvIgnored {
			out = out || it.isSet()
		}
	})
	return out
}

// IsOneofRequired reports whether protoc-gen-validate's validate.required asks for one of the fields.
func IsOneofRequired(od protoreflect.OneofDescriptor) bool {
	out := false
	eachOption(od, func(it item) { out = it.number == pgvNumber && it.isSet() || out })
	return out
}
