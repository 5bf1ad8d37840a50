// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"math"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// bounds are the commonest rules, a least and a greatest value, in a form that costs no call. They only ever say that a
// value keeps its rules; whether another breaks them is for the compiled tests to say.
type bounds struct {
	domain    domain
	low, high uint64 // as numeric returns them
}

// domain is how the bits of a number are compared.
type domain uint8

const (
	domainNone domain = iota
	domainSigned
	domainUnsigned
	domainFloat
)

// hold says that a number is surely between the bounds.
func (b *bounds) hold(n uint64) bool {
	switch b.domain {
	case domainSigned:
		return int64(n) >= int64(b.low) && int64(n) <= int64(b.high)
	case domainUnsigned:
		return n >= b.low && n <= b.high
	case domainFloat:
		v := math.Float64frombits(n)
		return v >= math.Float64frombits(b.low) && v <= math.Float64frombits(b.high)
	default:
		return false
	}
}

// boundsOf reads the rules of a number, and returns none where they are more than a least and a greatest value, or say
// that the value is outside of the two.
func boundsOf(s *slot, of protoreflect.Message) bounds {
	var b bounds
	var encode func(protoreflect.Value) uint64
	switch {
	case s.kind == protoreflect.FloatKind || s.kind == protoreflect.DoubleKind:
		b = bounds{domainFloat, math.Float64bits(math.Inf(-1)), math.Float64bits(math.Inf(1))}
		encode = func(v protoreflect.Value) uint64 { return math.Float64bits(v.Float()) }
	case s.kind == protoreflect.EnumKind || s.kind == protoreflect.BoolKind:
		return bounds{}
	case s.signed():
		low := int64(math.MinInt64)
		b = bounds{domainSigned, uint64(low), math.MaxInt64}
		encode = func(v protoreflect.Value) uint64 { return uint64(v.Int()) }
	default:
		b = bounds{domainUnsigned, 0, math.MaxUint64}
		encode = protoreflect.Value.Uint
	}
	plain := eachRule(of, func(name protoreflect.Name, v protoreflect.Value) bool {
		switch name {
		case "gte":
			b.low = encode(v)
		case "lte":
			b.high = encode(v)
		default:
			return false
		}
		return true
	})
	if !plain || !b.hold(b.low) { // the latter: the two stand the other way round
		return bounds{}
	}
	return b
}

// shorterThan reads the rules of a text, and returns zero where they are more than a greatest length. Characters are
// not more than bytes. The result is in bytes, and the limit itself is included: a text of fewer bytes keeps the rule.
func shorterThan(of protoreflect.Message) int {
	most := uint64(math.MaxInt32)
	plain := eachRule(of, func(name protoreflect.Name, v protoreflect.Value) bool {
		if name != "max_len" && name != "max_bytes" {
			return false
		}
		most = min(most, v.Uint())
		return true
	})
	if !plain {
		return 0
	}
	return int(most) + 1
}
