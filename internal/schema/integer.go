// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// integerType is what ProtoJSON says of an integer kind: the format, and the range as literals.
type integerType struct {
	format      string
	least, most json.Number
	wide        bool // 64 bits: written as a string
}

func integerTypeOf(kind protoreflect.Kind) integerType {
	switch kind {
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return integerType{formatInt64, "-9223372036854775808", "9223372036854775807", true}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return integerType{formatUint64, "0", "18446744073709551615", true}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return integerType{formatUint32, "0", "4294967295", false}
	default:
		return integerType{formatInt32, "-2147483648", "2147483647", false}
	}
}

// lo and hi are the range to reckon with.
func (t integerType) lo() *big.Int { return bigInt(t.least) }
func (t integerType) hi() *big.Int { return bigInt(t.most) }

func bigInt(literal json.Number) *big.Int {
	n, _ := new(big.Int).SetString(string(literal), 10) // the literals above
	return n
}

// The grammar of a JSON number, and the part of it that is not a plain decimal integer.
const (
	numberPattern    = `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`
	anyNumberPattern = "^" + numberPattern + "$"
	exoticPattern    = `-0|-?(0|[1-9][0-9]*)(\.[0-9]+([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)`
)

// integer writes the schema of an integer. Canonical: a JSON integer or the same in a string, the way ProtoJSON reads
// both. Otherwise 32 bits are a JSON integer, and 64 bits a string. Numeric keywords speak about JSON numbers only, so
// for strings the range of rules goes into the pattern; the range of the type itself is in the format, where that is
// shown. The pattern only counts its digits: spelled out it would take 300 characters.
func (d *deriver) integer(kind protoreflect.Kind, v value) *object {
	t := integerTypeOf(kind)
	doc := d.anyInteger(t, v.nullable)
	if !v.isFree() {
		d.narrow(doc, kind, t, v)
	}
	return doc
}

// integerMayBe reports in which forms an integer may come.
func (d *deriver) integerMayBe(t integerType) (number, text bool) {
	return d.all || !t.wide, d.all || t.wide
}

// anyInteger is the schema of any integer of a type.
func (d *deriver) anyInteger(t integerType, nullable bool) *object {
	asNumber, asString := d.integerMayBe(t)
	types := make([]string, 0, 3)
	if asNumber {
		types = append(types, "integer")
	}
	if asString {
		types = append(types, "string")
	}
	if nullable {
		types = append(types, "null")
	}
	doc := newObject("type", oneOrMany(types))
	if asNumber {
		d.setRange(doc, t, t.lo(), t.hi())
	}
	if asString {
		plain := ""
		if !d.all {
			plain = d.shownPattern(t)
		}
		doc.set("pattern", d.integerPattern(plain))
		if d.dir == Input && d.mayShow(t.format) {
			doc.set("format", t.format)
		}
	}
	return doc
}

// narrow adds to the schema of an integer what the rules say.
func (d *deriver) narrow(doc *object, kind protoreflect.Kind, t integerType, v value) {
	asNumber, asString := d.integerMayBe(t)
	r := numberRulesOf(kind, v.rules)
	limits, note := &object{}, ""
	lo, hi := r.integerRange(t)
	switch {
	case r.allowed != nil:
		limits.set("enum", d.integerForms(r.admitted(), asNumber, asString, v.nullable))
	case r.outside:
		below, above := newObject(), newObject()
		note = fmt.Sprintf("At most %s or at least %s.", hi, lo)
		if asNumber {
			below.set("maximum", integerLiteral(hi))
			above.set("minimum", integerLiteral(lo))
		}
		if asString {
			below.set("pattern", d.integerPattern(rangePattern(t.lo(), hi, t)))
			above.set("pattern", d.integerPattern(rangePattern(lo, t.hi(), t)))
		}
		limits.set("anyOf", []any{below, above})
	default:
		if v.nonZero && lo.Sign() == 0 {
			lo = big.NewInt(1)
		}
		narrowed := lo.Cmp(t.lo()) != 0 || hi.Cmp(t.hi()) != 0
		if narrowed && asNumber {
			d.setRange(limits, t, lo, hi)
		}
		if narrowed && asString {
			limits.set("pattern", d.integerPattern(rangePattern(lo, hi, t)))
			note = rangeNote(lo, hi, t)
		}
	}
	refused := r.refused
	if v.nonZero && lo.Sign() <= 0 {
		refused = append(slices.Clip(refused), new(big.Rat))
	}
	if len(refused) > 0 && r.allowed == nil {
		limits.set("not", newObject("enum", d.integerForms(refused, asNumber, asString, false)))
	}
	d.finish(doc, limits, newObject("enum", []any{json.Number("0"), "0", nil}), v.rules)
	d.describe(doc, note)
}

// setRange sets the bounds of a JSON number. Schemas that models read leave out the limits of a 32-bit type, which few
// arguments come near: the canonical schema refuses what is beyond them. The 0 of unsigned types stays.
func (d *deriver) setRange(doc *object, t integerType, lo, hi *big.Int) {
	if !d.shown || lo.Sign() == 0 || lo.Cmp(t.lo()) != 0 {
		doc.set("minimum", integerLiteral(lo))
	}
	if !d.shown || hi.Cmp(t.hi()) != 0 {
		doc.set("maximum", integerLiteral(hi))
	}
}

// integerPattern anchors a pattern; the canonical schema also takes the other ways to write a JSON number.
func (d *deriver) integerPattern(plain string) string {
	switch {
	case !d.all:
		return "^" + plain + "$"
	case plain == "":
		return anyNumberPattern
	default:
		return "^(" + plain + "|" + exoticPattern + ")$"
	}
}

func (d *deriver) integerForms(values []*big.Rat, asNumber, asString, null bool) []any {
	out := []any{}
	for _, x := range values {
		if asNumber {
			out = append(out, integerLiteral(x.Num()))
		}
		if asString {
			out = append(out, x.Num().String())
		}
	}
	if null {
		out = append(out, nil)
	}
	return out
}

func rangeNote(lo, hi *big.Int, t integerType) string {
	switch {
	case hi.Cmp(t.hi()) == 0:
		return fmt.Sprintf("At least %s.", lo)
	case lo.Cmp(t.lo()) == 0:
		return fmt.Sprintf("At most %s.", hi)
	default:
		return fmt.Sprintf("From %s to %s.", lo, hi)
	}
}

func integerLiteral(x *big.Int) json.Number { return json.Number(x.String()) }

func number(n uint64) json.Number { return json.Number(strconv.FormatUint(n, 10)) }

func oneOrMany(types []string) any {
	if len(types) == 1 {
		return types[0]
	}
	return types
}

// keys writes the schema of a map's member names. ProtoJSON reads an integer key as Go's strconv does, plus sign and
// leading zeros included; the canonical schema follows.
func (d *deriver) keys(fd protoreflect.FieldDescriptor, rules *fieldRulesMessage) *object {
	switch kind := fd.Kind(); kind {
	case protoreflect.StringKind:
		doc := d.text(value{rules: rules})
		if doc.size() == 1 {
			return &object{} // only "type", which every name has
		}
		return doc
	case protoreflect.BoolKind:
		return newObject("enum", []any{"true", "false"})
	default:
		t := integerTypeOf(kind)
		r := numberRulesOf(kind, rules)
		doc := &object{}
		lo, hi := r.integerRange(t)
		narrowed := !r.outside && (lo.Cmp(t.lo()) != 0 || hi.Cmp(t.hi()) != 0)
		switch {
		case r.allowed != nil && !d.all:
			doc.set("enum", d.integerForms(r.admitted(), false, true, false))
		case narrowed && d.all:
			doc.set("pattern", "^("+rangePattern(lo, hi, t)+`|[+-]?0[0-9]+|\+[0-9]+|-0)$`)
		case narrowed:
			doc.set("pattern", "^"+rangePattern(lo, hi, t)+"$")
		case d.all && t.lo().Sign() < 0:
			doc.set("pattern", "^[+-]?[0-9]+$")
		case d.all:
			doc.set("pattern", "^[0-9]+$")
		default:
			doc.set("pattern", "^"+plainPattern(t)+"$")
		}
		if d.dir == Input && d.mayShow(t.format) {
			doc.set("format", t.format)
		}
		return doc
	}
}
