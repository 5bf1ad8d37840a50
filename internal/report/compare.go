// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// effect is what a difference does to the set of values that a schema admits. With both or neither bit known, nothing
// plain can be said.
type effect uint8

const (
	narrows effect = 1 << iota
	widens
)

// aspect is what a difference is about. Together with its effect and the direction it decides what breaks.
type aspect uint8

const (
	aboutValue      aspect = iota // an enum value, a bound, a length, a condition
	aboutType                     // the type, or what gives a string its meaning
	aboutRemoved                  // a field, or a name of it, that is gone
	aboutAdded                    // a field that is new and optional
	aboutMust                     // a field that has to be there, new or not
	aboutMay                      // a field that need no longer be there
	aboutUnclear                  // what is not plain
	aboutText                     // texts
	aboutDefault                  // the value that represents absence
	aboutDeprecated               // deprecation
)

// comparer compares the two versions of one schema of one tool.
type comparer struct {
	tool     string
	prefix   string // of the paths: the member of the tool that holds the schema
	isOutput bool
	limits   DiffLimits
	steps    int
	// seen are the pairs of places that were compared, or are being compared, which ends recursion.
	seen    map[pairKey]bool
	changes []Change
	// alarming counts the changes that break or may break.
	alarming int
}

type pairKey struct {
	a, b        string
	withoutNull bool
}

// compareSchemas compares the two versions of a tool's input or output.
func compareSchemas(tool, member string, isOutput bool, before, after json.RawMessage, l DiffLimits) []Change {
	if bytes.Equal(before, after) {
		return nil // which is so for most tools
	}
	c := &comparer{tool: tool, prefix: "/" + member, isOutput: isOutput, limits: l, seen: map[pairKey]bool{}}
	a, errA := parsed(before)
	b, errB := parsed(after)
	switch {
	case errA != nil || errB != nil:
		// ReadTools admits JSON only, so this is a tool that was put together by hand.
		c.report(place{}, "", aboutUnclear, 0, "one of the schemas is not JSON")
	case text(a) != text(b):
		c.compare(place{root: a, value: a}, place{root: b, value: b}, "", 0)
	}
	return c.changes
}

// compare compares two places and their texts.
func (c *comparer) compare(a, b place, where string, depth int) {
	va, vb := look(a), look(b)
	if va.at != a.at && vb.at != b.at && len(va.notes) > 1 && len(vb.notes) > 1 {
		// What is said where a definition is used is compared at each use, what it says itself only once.
		c.compareNotes(view{place: a, notes: va.notes[:1]}, view{place: b, notes: vb.notes[:1]}, where)
		va.notes, vb.notes = va.notes[1:], vb.notes[1:]
	}
	if c.isNew(va, vb, false) {
		c.compareNotes(va, vb, where)
		c.compareViews(va, vb, where, depth)
	}
}

// isNew reports whether a pair was not met before, and remembers it. A pair that was met says nothing new.
func (c *comparer) isNew(a, b view, withoutNull bool) bool {
	key := pairKey{a.at, b.at, withoutNull}
	isSeen := c.seen[key]
	c.seen[key] = true
	return !isSeen
}

func (c *comparer) compareViews(a, b view, where string, depth int) {
	if c.steps++; c.steps > c.limits.MaxSteps || depth > c.limits.MaxDepth {
		if text(a.value) != text(b.value) {
			c.report(b.place, where, aboutUnclear, 0, "it is too large to be compared, and differs")
		}
		return
	}
	if a.never || b.never {
		switch {
		case !b.never:
			c.report(b.place, where, aboutValue, widens, "values are accepted where there could be none")
		case !a.never:
			c.report(b.place, where, aboutValue, narrows, "no value is accepted any more")
		}
		return
	}
	switch {
	case a.nullable && !b.nullable:
		c.report(b.place, where, aboutValue, narrows, "null is no longer accepted")
	case !a.nullable && b.nullable:
		c.report(b.place, where, aboutType, widens, "it may be null")
	}
	if len(a.choices) > 0 || len(b.choices) > 0 {
		c.compareChoices(a, b, where, depth)
		return
	}
	both := c.compareTypes(a, b, where)
	if both == 0 && a.types != 0 {
		return // It is something else altogether, and more would say nothing more.
	}
	c.compareEnum(a, b, where)
	c.compareKeywords(a, b, where, both)
	if both&isArray != 0 {
		c.compareBelow(a, b, "items", where+"[]", depth)
	}
	if both&isObject != 0 {
		c.compareFields(a, b, where, depth)
		c.compareBelow(a, b, "additionalProperties", join(where, "*"), depth)
	}
	c.compareConditions(a.conditions, b.conditions, b.place, where)
}

// compareChoices compares lists of alternatives. A form that is new or gone is plain, and so is one that became another:
// an enum has its names as one of its forms.
func (c *comparer) compareChoices(a, b view, where string, depth int) {
	gone, added, isPlain := apart(a.choices, b.choices)
	switch {
	case !isPlain || len(a.choices) == 0 || len(b.choices) == 0:
		c.report(b.place, where, aboutUnclear, 0, "its forms differ")
	case len(gone) == 1 && len(added) == 1:
		if va, vb := look(gone[0]), look(added[0]); c.isNew(va, vb, false) {
			c.compareViews(va, vb, where, depth+1)
		}
	case len(gone) > 0 && len(added) > 0:
		c.report(b.place, where, aboutUnclear, 0, "its forms differ")
	case len(gone) > 0:
		c.report(b.place, where, aboutType, narrows, "one of its forms is gone")
	case len(added) > 0:
		c.report(b.place, where, aboutType, widens, "it has a new form")
	}
}

// compareConditions compares what holds beside the rest: one that is new or gone is plain.
func (c *comparer) compareConditions(before, after []place, at place, where string) {
	gone, added, isPlain := apart(before, after)
	switch {
	case len(gone) == 0 && len(added) == 0 && isPlain:
	case !isPlain || len(gone) > 0 && len(added) > 0:
		c.report(at, where, aboutUnclear, 0, "a condition differs")
	case len(gone) > 0:
		c.report(at, where, aboutValue, widens, "a condition is gone")
	default:
		c.report(at, where, aboutValue, narrows, "there is a new condition")
	}
}

// apart returns the subschemas that only one of two lists has; isPlain is false if one is too long to tell.
func apart(before, after []place) (gone, added []place, isPlain bool) {
	isPlain = true
	left := map[string][]place{}
	for _, p := range before {
		s, ok := p.spell()
		isPlain = isPlain && ok
		left[s] = append(left[s], p)
	}
	for _, p := range after {
		s, ok := p.spell()
		isPlain = isPlain && ok
		if same := left[s]; len(same) > 0 {
			left[s] = same[1:]
			continue
		}
		added = append(added, p)
	}
	for _, s := range sortedKeys(left) {
		gone = append(gone, left[s]...)
	}
	return gone, added, isPlain
}

// compareTypes returns the types that both sides have.
func (c *comparer) compareTypes(a, b view, where string) types {
	both := a.types & b.types
	if a.keywords["enum"] != nil && b.keywords["enum"] != nil && both != 0 {
		return both // The values say all.
	}
	var e effect
	if a.types&^b.types != 0 {
		e |= narrows
	}
	if b.types&^a.types != 0 {
		e |= widens
	}
	if e != 0 {
		c.report(b.place, where, aboutType, e, fmt.Sprintf("the type was %s, and is %s", a.types, b.types))
	}
	return both
}

func (c *comparer) compareEnum(a, b view, where string) {
	before, hasA := a.keywords["enum"].([]any)
	after, hasB := b.keywords["enum"].([]any)
	switch {
	case !hasA && !hasB:
	case !hasA:
		c.report(b.place, where, aboutValue, narrows, "only some values are accepted: "+listed(after))
	case !hasB:
		c.report(b.place, where, aboutValue, widens, "other values than "+listed(before)+" are possible")
	default:
		if gone := missing(before, after); len(gone) > 0 {
			c.report(b.place, where, aboutValue, narrows, fmt.Sprintf("%s no longer among the values: %s", oneOrMany(len(gone), "a value is", "values are"), listed(gone)))
		}
		if added := missing(after, before); len(added) > 0 {
			c.report(b.place, where, aboutValue, widens, fmt.Sprintf("%s new among the values: %s", oneOrMany(len(added), "a value is", "values are"), listed(added)))
		}
	}
}

// missing are the values of one list that are not in the other.
func missing(of, from []any) (out []any) {
	known := make(map[string]bool, len(from))
	for _, v := range from {
		known[text(v)] = true
	}
	for _, v := range of {
		if !known[text(v)] {
			out = append(out, v)
		}
	}
	return out
}

// maxListed is how many values a message names: they fit on a line.
const maxListed = 8

func listed(values []any) string {
	var out []string
	for i, v := range values {
		if i == maxListed {
			out = append(out, fmt.Sprintf("and %d more", len(values)-i))
			break
		}
		if s, ok := v.(string); ok {
			out = append(out, readable(s))
		} else {
			out = append(out, readable(text(v)))
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}

func oneOrMany(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// compareKeywords compares the keywords that hold one value each, those of numbers, strings, arrays and objects where both
// sides have that type.
func (c *comparer) compareKeywords(a, b view, where string, both types) {
	hasOtherUnit := text(a.keywords["contentEncoding"]) != text(b.keywords["contentEncoding"])
	names := slices.Concat(sortedKeys(a.keywords), sortedKeys(b.keywords))
	slices.Sort(names)
	for _, k := range slices.Compact(names) {
		x, y := a.keywords[k], b.keywords[k]
		if k == "enum" || k == "items" || k == "additionalProperties" || spelledAlike(a, b, k) {
			continue
		}
		word := wordOf(k)
		about, e := aboutValue, narrows
		before, after := rational(x), rational(y)
		switch {
		case word.concerns != 0 && both&word.concerns == 0, hasOtherUnit && word.concerns&isString != 0 && k != "contentEncoding":
			continue // Lengths and patterns of another encoding have another unit.
		case k == "contentEncoding":
			about, e = aboutType, narrows|widens
		case word.concerns == 0,
			word.tighter != 0 && (x != nil && before == nil || y != nil && after == nil || !spelledAlike(a, b, word.other)):
			about = aboutUnclear
		case x == nil:
		case y == nil:
			e = widens
		case word.tighter == 0:
			about = aboutUnclear
		case after.Cmp(before) == 0:
			continue
		case after.Cmp(before) != word.tighter:
			e = widens
		}
		if k == "format" && about == aboutValue {
			about = aboutType
		}
		c.report(b.place, where, about, e, fmt.Sprintf("the %s was %s, and is %s", readable(word.name), shown(x), shown(y)))
	}
}

// word is what is known of a keyword that holds one value.
type word struct {
	// concerns are the types that it concerns; 0 for a keyword that is not known.
	concerns types
	// tighter is what comparing the new bound with the old one gives if it is tighter; 0 for what is no bound.
	tighter int
	// other is the other keyword for the same end of a range of numbers.
	other string
	// name is what people are shown in place of the keyword.
	name string
}

func wordOf(keyword string) word {
	switch keyword {
	case "minimum":
		return word{isNumber, 1, "exclusiveMinimum", keyword}
	case "exclusiveMinimum":
		return word{isNumber, 1, "minimum", keyword}
	case "maximum":
		return word{isNumber, -1, "exclusiveMaximum", keyword}
	case "exclusiveMaximum":
		return word{isNumber, -1, "maximum", keyword}
	case "minLength":
		return word{isString, 1, "", "least length"}
	case "maxLength":
		return word{isString, -1, "", "greatest length"}
	case "minItems":
		return word{isArray, 1, "", "least number of entries"}
	case "maxItems":
		return word{isArray, -1, "", "greatest number of entries"}
	case "minProperties":
		return word{isObject, 1, "", "least number of entries"}
	case "maxProperties":
		return word{isObject, -1, "", "greatest number of entries"}
	case "multipleOf":
		return word{isNumber, 0, "", keyword}
	case "format":
		return word{isString | isNumber, 0, "", keyword}
	case "pattern", "contentEncoding":
		return word{isString, 0, "", keyword}
	case "uniqueItems":
		return word{isArray, 0, "", keyword}
	}
	return word{name: keyword}
}

// spelledAlike reports whether a keyword means the same in two views as far as its text and its references say.
func spelledAlike(a, b view, keyword string) bool {
	x, okA := a.child(map[string]any{keyword: a.keywords[keyword]}).spell()
	y, okB := b.child(map[string]any{keyword: b.keywords[keyword]}).spell()
	return x == y && okA && okB && (a.keywords[keyword] == nil) == (b.keywords[keyword] == nil)
}

// Numbers beyond these bounds are not compared: 1e999999999 is a short text and a very long number. No double has an
// exponent over 324.
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
	r, _ := new(big.Rat).SetString(n.String())
	return r
}

// shown is the value of a keyword for people.
func shown(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case string:
		return orNone(v)
	}
	return readable(text(v))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return readable(s)
}

// compareBelow compares the schemas of entries, or of members that are not declared. One that is absent admits anything.
func (c *comparer) compareBelow(a, b view, keyword, where string, depth int) {
	x, hasA := a.keywords[keyword]
	y, hasB := b.keywords[keyword]
	hasA, hasB = hasA && !isAnything(x), hasB && !isAnything(y)
	about := aboutType
	if isNever(x) || isNever(y) {
		about = aboutValue // Members that are not declared are refused on one side.
	}
	switch {
	case hasA && hasB:
		c.compare(a.child(x, keyword), b.child(y, keyword), where, depth+1)
	case hasA:
		c.report(b.place, where, about, widens, "anything is possible")
	case hasB:
		c.report(b.place, where, about, narrows, "not everything is accepted any more")
	}
}

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

func (c *comparer) compareFields(a, b view, where string, depth int) {
	noun := "parameter"
	if c.isOutput {
		noun = "field"
	}
	for _, f := range a.fields {
		primary := f.names[0]
		now := b.sameField(f)
		if now == nil {
			c.report(f.schema, join(where, primary), aboutRemoved, narrows, "the "+noun+" "+readable(primary)+" is gone")
			continue
		}
		at := join(where, now.names[0])
		for _, name := range f.names {
			if b.fieldNamed(name) == nil {
				c.report(f.schema, at, aboutRemoved, narrows, fmt.Sprintf("the name %s is gone; it is %s now", readable(name), readable(now.names[0])))
			}
		}
		c.compareField(f, now, at, depth)
	}
	for _, f := range b.fields {
		if a.sameField(f) != nil {
			continue
		}
		at := join(where, f.names[0])
		switch {
		case c.isOutput:
			c.report(f.schema, at, aboutAdded, 0, "there is a new field")
		case f.required:
			c.report(f.schema, at, aboutMust, narrows, "there is a new parameter, and it is required")
		default:
			c.report(f.schema, at, aboutAdded, 0, "there is a new parameter, which is optional")
		}
	}
}

// compareField compares the two versions of a field. Where it becomes required or optional, whether null represents its
// absence changes with it, which is not said again.
func (c *comparer) compareField(before, after *field, where string, depth int) {
	x, y := before.schema, after.schema
	if before.required == after.required {
		c.compare(x, y, where, depth+1)
		return
	}
	switch {
	case c.isOutput && after.required:
		c.report(y, where, aboutValue, narrows, "it is always there")
	case c.isOutput:
		c.report(y, where, aboutMay, widens, "it may be absent")
	case after.required:
		c.report(y, where, aboutMust, narrows, "it is required")
	default:
		c.report(y, where, aboutMay, widens, "it is optional")
	}
	va, vb := look(x), look(y)
	if !c.isNew(va, vb, true) {
		return
	}
	c.compareNotes(va, vb, where)
	if !c.isOutput && va.nullable == !before.required && vb.nullable == !after.required {
		va.nullable, vb.nullable = false, false
	}
	c.compareViews(va, vb, where, depth+1)
}

// compareNotes compares the texts of two places, and whether they are deprecated.
func (c *comparer) compareNotes(a, b view, where string) {
	for _, k := range [...]string{"title", "description"} {
		if text(a.note(k)) != text(b.note(k)) {
			c.report(b.place, where, aboutText, 0, "the "+k+" differs")
		}
	}
	if before, after := a.note("default"), b.note("default"); text(before) != text(after) {
		c.report(b.place, where, aboutDefault, 0, fmt.Sprintf("the default was %s, and is %s", shown(before), shown(after)))
	}
	switch before, after := a.note("deprecated") == true, b.note("deprecated") == true; {
	case !before && after:
		c.report(b.place, where, aboutDeprecated, 0, "it is deprecated")
	case before && !after:
		c.report(b.place, where, aboutDeprecated, 0, "it is no longer deprecated")
	}
}
