// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// bound is one end of a range; open where the value itself is outside.
type bound struct {
	value *big.Rat // nil: there is no bound
	open  bool
}

// Numbers beyond these bounds are compared as text: 1e999999999 is a short text and a very long number. No double has
// an exponent over 324.
const (
	maxNumberBytes = 400
	maxExponent    = 400
)

func rational(v any) *big.Rat {
	n, ok := v.(json.Number)
	if !ok || len(n) > maxNumberBytes {
		return nil
	}
	if _, exponent, has := strings.Cut(strings.ToLower(n.String()), "e"); has {
		if e, err := strconv.Atoi(exponent); err != nil || e > maxExponent || e < -maxExponent {
			return nil
		}
	}
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		return nil
	}
	return r
}

// end is one end of a view's range. sign is 1 for the lower one and -1 for the upper one, so that more is tighter.
func (v *view) end(inclusive, exclusive string, sign int) (b bound, known bool) {
	known = true
	for _, k := range [...]struct {
		keyword string
		open    bool
	}{{inclusive, false}, {exclusive, true}} {
		value, has := v.keywords[k.keyword]
		if !has {
			continue
		}
		r := rational(value)
		if r == nil {
			known = false
			continue
		}
		if candidate := (bound{r, k.open}); b.compare(candidate, sign) < 0 {
			b = candidate
		}
	}
	return b, known
}

// compare orders bounds by tightness; none is the loosest.
func (b bound) compare(o bound, sign int) int {
	switch {
	case b.value == nil && o.value == nil:
		return 0
	case b.value == nil:
		return -1
	case o.value == nil:
		return 1
	}
	if order := b.value.Cmp(o.value) * sign; order != 0 {
		return order
	}
	return boolRank(b.open) - boolRank(o.open)
}

func (b bound) shown() string {
	if b.value == nil {
		return "none"
	}
	out := b.value.RatString()
	if f, _ := b.value.Float64(); !b.value.IsInt() {
		out = strconv.FormatFloat(f, 'g', -1, 64) // A message may round.
	}
	if b.open {
		out = "beyond " + out
	}
	return readable(out)
}

// compareEnds compares one end of a range, and returns what it has reported.
func (c *comparer) compareEnds(a, b view, where, inclusive, exclusive string, sign int) effect {
	before, okA := a.end(inclusive, exclusive, sign)
	after, okB := b.end(inclusive, exclusive, sign)
	if !okA || !okB {
		for _, k := range [...]string{inclusive, exclusive} {
			c.compareText(a, b, where, k)
		}
		return 0
	}
	order := after.compare(before, sign)
	if order == 0 {
		return 0
	}
	e := widens
	if order > 0 {
		e = narrows
	}
	c.report(b.place, where, aboutValue, e, fmt.Sprintf("the %s was %s, and is %s", words(inclusive), before.shown(), after.shown()))
	return e
}

// words is a keyword for people.
func words(keyword string) string {
	switch keyword {
	case "minLength":
		return "least length"
	case "maxLength":
		return "greatest length"
	case "minItems", "minProperties":
		return "least number of entries"
	case "maxItems", "maxProperties":
		return "greatest number of entries"
	}
	return keyword
}

// compareNumbers returns what it has reported about the range.
func (c *comparer) compareNumbers(a, b view, where string) effect {
	ends := c.compareEnds(a, b, where, "minimum", "exclusiveMinimum", 1)
	ends |= c.compareEnds(a, b, where, "maximum", "exclusiveMaximum", -1)
	x, y := a.keywords["multipleOf"], b.keywords["multipleOf"]
	if text(x) == text(y) {
		return ends
	}
	before, after := rational(x), rational(y)
	e := narrows | widens
	switch {
	case x == nil:
		e = narrows
	case y == nil:
		e = widens
	case before != nil && after != nil && before.Sign() > 0 && after.Sign() > 0:
		if new(big.Rat).Quo(before, after).IsInt() {
			e &^= narrows
		}
		if new(big.Rat).Quo(after, before).IsInt() {
			e &^= widens
		}
	}
	if e != 0 {
		c.report(b.place, where, aboutValue, e, fmt.Sprintf("it was a multiple of %s, and is one of %s", shownDefault(x), shownDefault(y)))
	}
	return ends
}

// compareStrings leaves out what a pattern says again: the range of numbers that may also come as strings, whose ends
// have been compared.
func (c *comparer) compareStrings(a, b view, where string, ends effect) {
	if text(a.keywords["contentEncoding"]) != text(b.keywords["contentEncoding"]) {
		return // compareFormat says that it means something else; lengths and patterns are in other units.
	}
	c.compareEnds(a, b, where, "minLength", "", 1)
	c.compareEnds(a, b, where, "maxLength", "", -1)
	x, hasA := a.keywords["pattern"].(string)
	y, hasB := b.keywords["pattern"].(string)
	switch {
	case x == y && hasA == hasB:
		c.compareText(a, b, where, "pattern") // It may be something else than a string.
	case !hasA:
		c.report(b.place, where, aboutValue, narrows, "it has to match "+readable(y))
	case !hasB:
		c.report(b.place, where, aboutValue, widens, "it no longer has to match "+readable(x)+" any more")
	default:
		var e effect
		within, known, work := patternsWithin(x, y)
		if !within || !known {
			e |= narrows
		}
		within, known, more := patternsWithin(y, x)
		if !within || !known {
			e |= widens
		}
		*c.steps += (work + more) / patternStep
		if e&^ends != 0 {
			c.report(b.place, where, aboutValue, e, fmt.Sprintf("the pattern was %s, and is %s", readable(x), readable(y)))
		}
	}
}

// patternStep is how many instructions of a pattern count as one step of the comparison: they take about as long.
const patternStep = 100

// formatRange is the range of the formats of whole numbers.
func formatRange(format any) (lo, hi *big.Int) {
	var bits uint
	signed := true
	switch format {
	case "int32":
		bits = 32
	case "int64":
		bits = 64
	case "uint32":
		bits, signed = 32, false
	case "uint64":
		bits, signed = 64, false
	default:
		return nil, nil
	}
	one := big.NewInt(1)
	if !signed {
		return new(big.Int), new(big.Int).Sub(new(big.Int).Lsh(one, bits), one)
	}
	half := new(big.Int).Lsh(one, bits-1)
	return new(big.Int).Neg(half), new(big.Int).Sub(half, one)
}

// compareFormat compares what gives strings and numbers their meaning.
func (c *comparer) compareFormat(a, b view, where string, both types) {
	if both&(isString|isNumber) == 0 {
		return
	}
	if x, y := a.keywords["contentEncoding"], b.keywords["contentEncoding"]; text(x) != text(y) {
		c.report(b.place, where, aboutType, narrows|widens, fmt.Sprintf("the encoding was %s, and is %s", orNone(x), orNone(y)))
		return
	}
	x, y := a.keywords["format"], b.keywords["format"]
	if text(x) == text(y) {
		return
	}
	e, about := narrows|widens, aboutType
	loA, hiA := formatRange(x)
	loB, hiB := formatRange(y)
	switch {
	case x == nil:
		e = narrows
	case y == nil:
		e = widens
	case loA != nil && loB != nil:
		e, about = 0, aboutValue
		if loA.Cmp(loB) < 0 || hiA.Cmp(hiB) > 0 {
			e |= narrows
		}
		if loB.Cmp(loA) < 0 || hiB.Cmp(hiA) > 0 {
			e |= widens
		}
	case x == "float" && y == "double":
		e, about = widens, aboutValue
	case x == "double" && y == "float":
		e, about = narrows, aboutValue
	}
	c.report(b.place, where, about, e, fmt.Sprintf("the format was %s, and is %s", orNone(x), orNone(y)))
}

func orNone(v any) string {
	if s, ok := v.(string); ok && s != "" {
		return readable(s)
	}
	return "none"
}

// compareText compares a keyword that cannot be read as a value.
func (c *comparer) compareText(a, b view, where, keyword string) {
	if text(a.keywords[keyword]) != text(b.keywords[keyword]) {
		c.report(b.place, where, aboutUnknown, narrows|widens, keyword+" differs and cannot be compared")
	}
}
