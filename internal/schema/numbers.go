// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
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
	var types []string
	if asNumber {
		types = append(types, "integer")
	}
	if asString {
		types = append(types, "string")
	}
	doc := newObject("type", typeOrNull(nullable, types...))
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

// IsIntegerPattern reports whether a pattern is one that canonical schemas give an integer that may come as a string. It says
// for strings what minimum and maximum say for numbers.
func IsIntegerPattern(pattern string) bool {
	return pattern == anyNumberPattern || strings.HasPrefix(pattern, "^(") && strings.HasSuffix(pattern, "|"+exoticPattern+")$")
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

// keys writes the schema of a map's member names. ProtoJSON reads an integer key as Go's strconv does, plus sign and
// leading zeros included; the canonical schema follows.
func (d *deriver) keys(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) *object {
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
		doc := newObject("type", typeOrNull(v.nullable, "number", "string"), "pattern", "^("+names+numberPattern+")$", "format", format)
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
	switch {
	case err != nil:
		return "0"
	case math.Abs(f) > maxSafe: // with an exponent it is no integer, which some readers cannot hold
		return json.Number(strconv.FormatFloat(f, 'e', -1, bits))
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

// maxRangePattern is where a pattern for a range stops being of use to a reader; beyond it only the digits are counted.
const maxRangePattern = 160

// plainPattern matches the decimal form of an integer of at most as many digits as the type has.
func plainPattern(t integerType) string {
	digits := len(t.most) - 1
	if t.least[0] == '-' {
		return fmt.Sprintf("(0|-?[1-9][0-9]{0,%d})", digits)
	}
	return fmt.Sprintf("(0|[1-9][0-9]{0,%d})", digits)
}

// rangePattern matches the decimal form of the integers from lo to hi, for integers in strings, where minimum and maximum
// do not apply. A bound that is the type's own is relaxed to its number of digits, since spelling it out takes hundreds of
// characters; the format or the transcoder holds it. For 1 to 100 it is ([1-9][0-9]{0,1}|100).
func rangePattern(lo, hi *big.Int, t integerType) string {
	var parts []string
	if lo.Cmp(hi) > 0 {
		return "[^\\s\\S]" // rules that contradict each other: nothing matches
	}
	if lo.Sign() < 0 {
		least := big.NewInt(1)
		if hi.Sign() < 0 {
			least = new(big.Int).Neg(hi)
		}
		if negative := magnitudes(least, new(big.Int).Neg(lo), lo.Cmp(t.lo()) == 0); len(negative) > 0 {
			parts = append(parts, "-"+group(negative))
		}
	}
	if hi.Sign() >= 0 {
		least := lo
		if lo.Sign() <= 0 {
			parts = append(parts, "0")
			least = big.NewInt(1)
		}
		if least.Cmp(hi) <= 0 {
			parts = append(parts, magnitudes(least, hi, hi.Cmp(t.hi()) == 0)...)
		}
	}
	pattern := "(" + strings.Join(parts, "|") + ")"
	if len(pattern) > maxRangePattern {
		return plainPattern(t)
	}
	return pattern
}

// magnitudes lists alternatives for the positive integers from lo to hi, one for each number of digits; numbers of
// digits that are complete share one.
func magnitudes(lo, hi *big.Int, relaxed bool) []string {
	var parts []string
	first, last := lo.String(), hi.String()
	fullFrom, fullTo := 0, 0
	flush := func() {
		switch {
		case fullFrom == 0:
		case fullFrom == fullTo:
			parts = append(parts, "[1-9]"+anyDigits(fullFrom-1))
		default:
			parts = append(parts, fmt.Sprintf("[1-9][0-9]{%d,%d}", fullFrom-1, fullTo-1))
		}
		fullFrom = 0
	}
	for n := len(first); n <= len(last); n++ {
		from, to := "1"+strings.Repeat("0", n-1), strings.Repeat("9", n)
		if n == len(first) {
			from = first
		}
		if n == len(last) && !relaxed {
			to = last
		}
		if from == "1"+strings.Repeat("0", n-1) && to == strings.Repeat("9", n) {
			if fullFrom == 0 {
				fullFrom = n
			}
			fullTo = n
			continue
		}
		flush()
		parts = append(parts, sameLength(from, to)...)
	}
	flush()
	return parts
}

// sameLength lists alternatives for the numbers from a to b, which have the same number of digits. It splits at the first
// digit: what begins like a, what begins like b, and what lies between and may go on with any digits. From 23 to 57:
// 2[3-9], [3-4][0-9], 5[0-7].
func sameLength(a, b string) []string {
	switch {
	case a == b:
		return []string{a}
	case len(a) == 1:
		return []string{digitClass(a[0], b[0])}
	case a[0] == b[0]:
		return []string{a[:1] + group(sameLength(a[1:], b[1:]))}
	}
	var head, tail []string
	lo, hi := a[0], b[0]
	if strings.Trim(a[1:], "0") != "" {
		head = []string{a[:1] + group(sameLength(a[1:], strings.Repeat("9", len(a)-1)))}
		lo++
	}
	if strings.Trim(b[1:], "9") != "" {
		tail = []string{b[:1] + group(sameLength(strings.Repeat("0", len(b)-1), b[1:]))}
		hi--
	}
	if lo <= hi {
		head = append(head, digitClass(lo, hi)+anyDigits(len(a)-1))
	}
	return append(head, tail...)
}

func digitClass(lo, hi byte) string {
	if lo == hi {
		return string(lo)
	}
	return fmt.Sprintf("[%c-%c]", lo, hi)
}

func anyDigits(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "[0-9]"
	default:
		return fmt.Sprintf("[0-9]{%d}", n)
	}
}

func group(parts []string) string {
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, "|") + ")"
}

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
func numberRulesOf(kind protoreflect.Kind, rules *validate.FieldRules) numberRules {
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
		r.outside = r.hi.Cmp(r.lo) < 0
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
	isX := func(y *big.Rat) bool { return x.Cmp(y) == 0 }
	if slices.ContainsFunc(r.refused, isX) {
		return false
	}
	above := r.lo == nil || x.Cmp(r.lo) > 0 || !r.loOpen && x.Cmp(r.lo) == 0
	below := r.hi == nil || x.Cmp(r.hi) < 0 || !r.hiOpen && x.Cmp(r.hi) == 0
	if r.outside && !above && !below || !r.outside && (!above || !below) {
		return false
	}
	return r.allowed == nil || slices.ContainsFunc(r.allowed, isX)
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
