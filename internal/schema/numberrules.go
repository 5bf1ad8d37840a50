// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"math/big"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
)

type fieldRulesMessage = validate.FieldRules

// numberRules is what protovalidate's rules say of a number, whatever its kind.
type numberRules struct {
	lo, hi         *big.Rat // nil: none
	loOpen, hiOpen bool     // the bound itself is refused
	outside        bool     // the upper bound lies below the lower: the value must not lie between
	allowed        []*big.Rat
	refused        []*big.Rat
	finite         bool
}

// numberRulesOf reads the rules of a kind: all twelve messages use the same names for the same things. Rules of another
// kind than the field's are a fault that protovalidate reports; they say nothing here.
func numberRulesOf(kind protoreflect.Kind, rules *fieldRulesMessage) numberRules {
	var r numberRules
	if rules == nil {
		return r
	}
	m := rules.ProtoReflect()
	fd := m.Descriptor().Fields().ByName(protoreflect.Name(strings.ToLower(kind.String())))
	if fd == nil || !m.Has(fd) {
		return r
	}
	m = m.Get(fd).Message()
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch fd.Name() {
		case "const":
			r.allowed = appendRat(r.allowed, v)
		case "in":
			for i := range v.List().Len() {
				r.allowed = appendRat(r.allowed, v.List().Get(i))
			}
		case "not_in":
			for i := range v.List().Len() {
				r.refused = appendRat(r.refused, v.List().Get(i))
			}
		case "gt", "gte":
			r.lo, r.loOpen = rat(v), fd.Name() == "gt"
		case "lt", "lte":
			r.hi, r.hiOpen = rat(v), fd.Name() == "lt"
		case "finite":
			r.finite = v.Bool()
		}
		return true
	})
	if r.lo != nil && r.hi != nil {
		c := r.hi.Cmp(r.lo)
		r.outside = c < 0
	}
	return r
}

// rat is nil for what is not a finite number: such a bound says nothing that a schema could.
func rat(v protoreflect.Value) *big.Rat {
	switch x := v.Interface().(type) {
	case int32:
		return new(big.Rat).SetInt64(int64(x))
	case int64:
		return new(big.Rat).SetInt64(x)
	case uint32:
		return new(big.Rat).SetUint64(uint64(x))
	case uint64:
		return new(big.Rat).SetUint64(x)
	case float32:
		return shortestRat(float64(x), 32)
	case float64:
		return shortestRat(x, 64)
	default:
		return nil
	}
}

func appendRat(list []*big.Rat, v protoreflect.Value) []*big.Rat {
	if x := rat(v); x != nil {
		list = append(list, x)
	}
	return list
}

func (r numberRules) holds(x *big.Rat) bool {
	for _, y := range r.refused {
		if x.Cmp(y) == 0 {
			return false
		}
	}
	above := r.lo == nil || x.Cmp(r.lo) > 0 || !r.loOpen && x.Cmp(r.lo) == 0
	below := r.hi == nil || x.Cmp(r.hi) < 0 || !r.hiOpen && x.Cmp(r.hi) == 0
	if r.outside && !above && !below || !r.outside && (!above || !below) {
		return false
	}
	if r.allowed == nil {
		return true
	}
	for _, y := range r.allowed {
		if x.Cmp(y) == 0 {
			return true
		}
	}
	return false
}

// admitted are the allowed values that the other rules admit as well.
func (r numberRules) admitted() []*big.Rat {
	var out []*big.Rat
	for _, x := range r.allowed {
		if r.holds(x) {
			out = append(out, x)
		}
	}
	return out
}

// integerRange narrows the range of a type, with bounds that belong to it.
func (r numberRules) integerRange(t integerType) (lo, hi *big.Int) {
	lo, hi = t.lo(), t.hi()
	if r.lo != nil {
		lo = new(big.Int).Set(r.lo.Num())
		if r.loOpen {
			lo.Add(lo, big.NewInt(1))
		}
	}
	if r.hi != nil {
		hi = new(big.Int).Set(r.hi.Num())
		if r.hiOpen {
			hi.Sub(hi, big.NewInt(1))
		}
	}
	return lo, hi
}
