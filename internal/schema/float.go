// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// float writes the schema of a float or double. Canonical: a JSON number, the same in a string, or one of the three
// names. On input the advertised schema shows the number only; an answer may be any of what ProtoJSON writes.
func (d *deriver) float(kind protoreflect.Kind, v value) *object {
	bits, format := 64, formatDouble
	if kind == protoreflect.FloatKind {
		bits, format = 32, formatFloat
	}
	r := numberRulesOf(kind, v.rules)
	limits := &object{}
	switch {
	case r.allowed != nil:
		limits.set("enum", d.floatForms(r.admitted(), bits, v.nullable))
	case r.outside:
		limits.set("anyOf", []any{bound(r.hi, r.hiOpen, false, bits), bound(r.lo, r.loOpen, true, bits)})
	default:
		if r.lo != nil {
			limits.merge(bound(r.lo, r.loOpen, true, bits))
		}
		if r.hi != nil {
			limits.merge(bound(r.hi, r.hiOpen, false, bits))
		}
	}
	refused := r.refused
	if v.nonZero {
		refused = append(slices.Clip(refused), new(big.Rat))
	}
	if len(refused) > 0 && r.allowed == nil {
		limits.set("not", newObject("enum", d.floatForms(refused, bits, false)))
	}
	names := r.names()
	if d.all {
		types := []string{"number", "string"}
		if v.nullable {
			types = append(types, "null")
		}
		doc := newObject("type", types, "pattern", "^("+names+numberPattern+")$", "format", format)
		d.finish(doc, limits, newObject("enum", []any{json.Number("0"), "0", nil}), v.rules)
		return doc
	}
	doc := newObject("type", "number", "format", format)
	d.finish(doc, limits, newObject("enum", []any{json.Number("0")}), v.rules)
	if d.dir == Output && names != "" && r.allowed == nil {
		return newObject("anyOf", []any{doc, newObject("type", "string", "pattern", "^("+names[:len(names)-1]+")$")})
	}
	return doc
}

// names is the part of a pattern, with a bar behind it, that admits the non-finite values which the rules leave. A
// range refuses NaN, since every comparison with it is false.
func (r numberRules) names() string {
	if r.finite || r.allowed != nil {
		return ""
	}
	if r.lo == nil && r.hi == nil {
		return "NaN|-?Infinity|"
	}
	switch {
	case r.outside || r.lo == nil && r.hi == nil:
		return "-?Infinity|"
	case r.hi == nil:
		return "Infinity|"
	case r.lo == nil:
		return "-Infinity|"
	default:
		return ""
	}
}

func bound(x *big.Rat, open, lower bool, bits int) *object {
	keyword := map[[2]bool]string{
		{true, false}: "minimum", {true, true}: "exclusiveMinimum", {false, false}: "maximum", {false, true}: "exclusiveMaximum",
	}[[2]bool{lower, open}]
	return newObject(keyword, floatLiteral(x, bits))
}

func (d *deriver) floatForms(values []*big.Rat, bits int, null bool) []any {
	out := []any{}
	for _, x := range values {
		literal := floatLiteral(x, bits)
		out = append(out, literal)
		if d.all {
			out = append(out, literal.String())
		}
	}
	if null {
		out = append(out, nil)
	}
	return out
}

// floatLiteral writes the shortest decimal that reads back as the value.
func floatLiteral(x *big.Rat, bits int) json.Number {
	f, _ := x.Float64()
	raw, err := json.Marshal(f)
	if bits == 32 {
		raw, err = json.Marshal(float32(f))
	}
	if err != nil {
		return "0"
	}
	return json.Number(raw)
}

// shortestRat is the decimal that a reader would write for a value: 0.1 as a float32 is 0.1, not 0.10000000149. A document
// that says 0.1 has to be within a bound of 0.1.
func shortestRat(f float64, bits int) *big.Rat {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	x, ok := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, bits))
	if !ok {
		return nil
	}
	return x
}
