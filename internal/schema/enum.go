// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// enum writes the schema of an enum. Canonical: the names, aliases included, or a number: any int32 of an open enum,
// only the known ones of a closed enum, where an unknown number would be lost on the way. Advertised: the first name of
// each number, in an input without the zero value that says nothing, since a caller can leave the field out; an answer may also be a number that a newer backend knows, of a closed enum too, because the Go runtime keeps
// what other languages put among the unknown fields.
func (d *deriver) enum(ed protoreflect.EnumDescriptor, v value) *object {
	if ed.FullName() == "google.protobuf.NullValue" {
		return d.nullValue()
	}
	r := d.enumRules(v)
	zero := v.rules != nil && ignoresZero(v.rules) && (d.all || d.dir == Output)
	var names, first []any
	var numbers []any
	var shown []protoreflect.EnumValueDescriptor
	seen := map[protoreflect.EnumNumber]bool{}
	for i := range ed.Values().Len() {
		ev := ed.Values().Get(i)
		if !r.admits(ev.Number()) && !(zero && ev.Number() == 0) {
			continue
		}
		names = append(names, string(ev.Name()))
		if seen[ev.Number()] {
			continue
		}
		seen[ev.Number()] = true
		if d.shown && d.dir == Input && isUnspecified(ev) && r.leaves(ed, ev.Number()) {
			continue
		}
		first = append(first, string(ev.Name()))
		numbers = append(numbers, enumLiteral(ev.Number()))
		shown = append(shown, ev)
	}
	open := !ed.IsClosed() && !r.defined && r.allowed == nil
	doc := &object{}
	switch {
	case d.all:
		byNumber := newObject("enum", orNothing(numbers))
		if open {
			byNumber = newObject("type", "integer", "minimum", json.Number(strconv.Itoa(math.MinInt32)), "maximum", json.Number(strconv.Itoa(math.MaxInt32)))
			if len(r.refused) > 0 {
				byNumber.set("not", newObject("enum", r.refusedLiterals()))
			}
		} else if r.allowed != nil && !ed.IsClosed() {
			byNumber = newObject("enum", r.allowedLiterals(zero))
		}
		branches := []any{newObject("enum", orNothing(names)), byNumber}
		if v.nullable {
			branches = append(branches, newObject("type", "null"))
		}
		doc.set("anyOf", branches)
	case d.dir == Output && !r.defined && r.allowed == nil:
		doc.set("anyOf", []any{newObject("type", "string", "enum", orNothing(names)), newObject("type", "integer")})
	case d.dir == Output && r.allowed != nil && !ed.IsClosed():
		doc.set("enum", append(slices.Clone(names), r.allowedLiterals(zero)...))
	default:
		doc.set("type", "string").set("enum", orNothing(first))
	}
	d.describe(doc, strings.TrimPrefix(d.enumWords(ed)+"\n"+d.valueComments(shown), "\n"))
	return doc
}

func orNothing(values []any) []any {
	if values == nil {
		return []any{}
	}
	return values
}

// enumRules is what rules leave of an enum's numbers.
type enumRules struct {
	allowed []int32 // nil: all
	refused []int32
	defined bool
}

func (d *deriver) enumRules(v value) enumRules {
	rules := v.rules.GetEnum()
	r := enumRules{refused: rules.GetNotIn(), defined: rules.GetDefinedOnly()}
	if len(rules.GetIn()) > 0 {
		r.allowed = rules.GetIn()
	}
	if rules.HasConst() {
		r.allowed = []int32{rules.GetConst()}
	}
	if v.nonZero {
		r.refused = append(slices.Clone(r.refused), 0)
	}
	return r
}

func (r enumRules) admits(n protoreflect.EnumNumber) bool {
	return (r.allowed == nil || slices.Contains(r.allowed, int32(n))) && !slices.Contains(r.refused, int32(n))
}

// leaves reports whether the rules admit another value than the given one.
func (r enumRules) leaves(ed protoreflect.EnumDescriptor, but protoreflect.EnumNumber) bool {
	for i := range ed.Values().Len() {
		if n := ed.Values().Get(i).Number(); n != but && r.admits(n) {
			return true
		}
	}
	return false
}

func (r enumRules) allowedLiterals(zero bool) []any {
	out := []any{}
	for _, n := range r.allowed {
		if r.admits(protoreflect.EnumNumber(n)) {
			out = append(out, enumLiteral(protoreflect.EnumNumber(n)))
		}
	}
	if zero && !slices.Contains(r.allowed, 0) {
		out = append(out, enumLiteral(0))
	}
	return out
}

func (r enumRules) refusedLiterals() []any {
	out := []any{}
	for _, n := range r.refused {
		out = append(out, enumLiteral(protoreflect.EnumNumber(n)))
	}
	return out
}

func enumLiteral(n protoreflect.EnumNumber) json.Number {
	return json.Number(strconv.Itoa(int(n)))
}

// nullValue: ProtoJSON writes null and also reads the name and any number.
func (d *deriver) nullValue() *object {
	if !d.all {
		return newObject("type", "null")
	}
	return newObject("anyOf", []any{
		newObject("enum", []any{nil, "NULL_VALUE"}),
		newObject("type", "integer", "minimum", json.Number(strconv.Itoa(math.MinInt32)), "maximum", json.Number(strconv.Itoa(math.MaxInt32))),
	})
}

// isUnspecified recognises the zero value that stands for nothing having been said.
func isUnspecified(ev protoreflect.EnumValueDescriptor) bool {
	return ev.Number() == 0 && strings.HasSuffix(string(ev.Name()), "_UNSPECIFIED")
}
