// SPDX-License-Identifier: Apache-2.0

package annotation

import (
	"math"
	"regexp"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

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
	if _, err := regexp.Compile(k.pattern); err == nil && k.pattern != "" {
		out.SetPattern(k.pattern)
	}
	if out.HasPattern() || k.minLength != nil || k.maxLength != nil || len(k.enum) > 0 {
		return out
	}
	return nil
}

// setNumber sets the bounds of a numeric kind, and reports whether there are any.
func (k *keywords) setNumber(kind protoreflect.Kind, out *validate.FieldRules) bool {
	field := out.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(strings.ToLower(kind.String())))
	if field == nil || field.Message() == nil {
		return false
	}
	numbers := out.ProtoReflect().NewField(field).Message()
	found := false
	set := func(name protoreflect.Name, bound *float64, round func(float64) float64) {
		rule := numbers.Descriptor().Fields().ByName(name)
		if bound == nil || rule == nil {
			return
		}
		if v, ok := numberOf(rule.Kind(), *bound, round); ok {
			numbers.Set(rule, v)
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
	if found {
		out.ProtoReflect().Set(field, protoreflect.ValueOfMessage(numbers))
	}
	return found
}

// maxExact is up to where a double holds every integer. Bounds beyond it would say another number than was meant.
const maxExact = 1 << 53

// numberOf is a bound as a value of the kind; false where the kind cannot hold it.
func numberOf(kind protoreflect.Kind, v float64, round func(float64) float64) (protoreflect.Value, bool) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return protoreflect.Value{}, false
	}
	switch kind {
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(v), true
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(v)), math.Abs(v) <= math.MaxFloat32
	default:
	}
	if v = round(v); math.Abs(v) > maxExact {
		return protoreflect.Value{}, false
	}
	n := int64(v)
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n)), n >= math.MinInt32 && n <= math.MaxInt32
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n), true
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n)), n >= 0 && n <= math.MaxUint32
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n)), n >= 0
	default:
		return protoreflect.Value{}, false
	}
}
