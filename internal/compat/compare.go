// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// effect is what a difference does to the set of values that a schema admits.
type effect uint8

const (
	narrows effect = 1 << iota
	widens
)

// aspect is what a difference is about. Together with its effect and the direction it decides what breaks.
type aspect uint8

const (
	aboutValue      aspect = iota // an enum value, a bound, a length, a pattern, a condition
	aboutType                     // the type, or what gives a string its meaning
	aboutRemoved                  // a field, or a name of it, that is gone
	aboutAdded                    // a field that is new and optional
	aboutMust                     // a field that has to be there, new or not
	aboutOneMust                  // some fields of which one has to be there
	aboutMay                      // a field that need no longer be there
	aboutUnknown                  // what is not understood
	aboutText                     // texts
	aboutDefault                  // the value that stands for absence
	aboutDeprecated               // deprecation
)

// comparer compares the two versions of one schema of one tool.
type comparer struct {
	tool     string
	prefix   string // of the paths: the member of the tool that holds the schema
	isOutput bool
	limits   Limits
	steps    *int
	seen     map[pairKey]bool
	changes  []Change
	// breaking counts the changes that are.
	breaking int
}

// pairKey is a pair of places that were compared, or are being compared.
type pairKey struct {
	from *document // tells a comparison from the same one backwards
	a, b string
}

// compareSchemas compares the two versions of a tool's input or output.
func compareSchemas(tool, member string, isOutput bool, before, after json.RawMessage, l Limits) []Change {
	if bytes.Equal(before, after) {
		return nil // which is so for most tools
	}
	steps := 0
	c := &comparer{tool: tool, prefix: "/" + member, isOutput: isOutput, limits: l, steps: &steps, seen: map[pairKey]bool{}}
	a, errA := parseDocument(before)
	b, errB := parseDocument(after)
	if errA != nil || errB != nil {
		// ReadTools admits JSON only, so this is a tool that was put together by hand.
		c.report(place{}, "", aboutUnknown, narrows|widens, "one of the schemas is not JSON")
		return c.changes
	}
	if text(a.root) == text(b.root) {
		return nil
	}
	c.compare(a.whole(), b.whole(), "", 0, true)
	return c.changes
}

// attempt is a comparer to try something with, without reporting it. What is being compared already is taken to fit,
// as it is in the comparison itself; else a recursive schema would never end.
func (c *comparer) attempt() *comparer {
	t := *c
	t.seen, t.changes, t.breaking = maps.Clone(c.seen), nil, 0
	return &t
}

// trial counts what would be breaking.
func (c *comparer) trial(a, b place, depth int) (breaking int) {
	t := c.attempt()
	t.compare(a, b, "", depth, false)
	return t.breaking
}

// isNew reports whether a pair was not met before, and remembers it. A pair that was met says nothing new, which also
// ends recursion.
func (c *comparer) isNew(a, b view, how string) bool {
	key := pairKey{a.doc, a.at + a.tag + how, b.at + b.tag}
	if c.seen[key] {
		return false
	}
	c.seen[key] = true
	return true
}

// compare compares two places, and their texts where they are of interest.
func (c *comparer) compare(a, b place, where string, depth int, withTexts bool) {
	va, vb := look(a), look(b)
	isUse := va.at != a.at && vb.at != b.at
	if withTexts && isUse && len(va.notes) > 1 && len(vb.notes) > 1 {
		// What is said where a definition is used is compared at each use, what it says itself only once.
		c.compareNotes(view{place: a, notes: va.notes[:1]}, view{place: b, notes: vb.notes[:1]}, where)
		va.notes, vb.notes = va.notes[1:], vb.notes[1:]
	}
	if !c.isNew(va, vb, "") {
		return
	}
	if withTexts {
		c.compareNotes(va, vb, where)
	}
	c.compareViews(va, vb, where, depth)
}

func (c *comparer) compareViews(a, b view, where string, depth int) {
	if *c.steps++; *c.steps > c.limits.MaxSteps || depth > c.limits.MaxDepth {
		if text(a.value) != text(b.value) {
			c.report(b.place, where, aboutUnknown, narrows|widens, "it is too large to be compared, and differs")
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
	c.compareNull(a, b, where)
	if len(a.choices) > 0 || len(b.choices) > 0 {
		c.compareChoices(a, b, where, depth)
		return
	}
	both := c.compareTypes(a, b, where)
	if both == 0 && a.types != 0 {
		return // It is something else altogether, and more would say nothing more.
	}
	c.compareEnum(a, b, where)
	var ends effect
	if both&isNumber != 0 {
		ends = c.compareNumbers(a, b, where)
	}
	if both&isString != 0 {
		c.compareStrings(a, b, where, ends)
	}
	c.compareFormat(a, b, where, both)
	if both&isArray != 0 {
		c.compareArrays(a, b, where, depth)
	}
	if both&isObject != 0 {
		c.compareObjects(a, b, where, depth)
	}
	c.compareClauses(a, b, where, depth)
	c.compareNot(a, b, where, depth)
	c.compareUnknown(a, b, where)
}

func (c *comparer) compareNull(a, b view, where string) {
	switch {
	case a.nullable && !b.nullable:
		c.report(b.place, where, aboutValue, narrows, "null is no longer accepted")
	case !a.nullable && b.nullable:
		c.report(b.place, where, aboutType, widens, "it may be null")
	}
}

// compareTypes returns the types that both sides have.
func (c *comparer) compareTypes(a, b view, where string) types {
	_, enumA := a.keywords["enum"]
	_, enumB := b.keywords["enum"]
	both := a.types & b.types
	if enumA && enumB && both != 0 {
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
			c.report(b.place, where, aboutValue, narrows, fmt.Sprintf("%s no longer among the values: %s", plural(len(gone), "a value is", "values are"), listed(gone)))
		}
		if added := missing(after, before); len(added) > 0 {
			c.report(b.place, where, aboutValue, widens, fmt.Sprintf("%s new among the values: %s", plural(len(added), "a value is", "values are"), listed(added)))
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

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// compareUnknown compares what nothing above has understood. It may mean anything, so a difference is breaking.
func (c *comparer) compareUnknown(a, b view, where string) {
	var names []string
	for _, k := range slices.Concat(sortedKeys(a.keywords), sortedKeys(b.keywords)) {
		if !isCompared(k) && !slices.Contains(names, k) {
			names = append(names, k)
		}
	}
	for _, k := range names {
		before, hasA := a.keywords[k]
		after, hasB := b.keywords[k]
		if hasA != hasB || text(before) != text(after) {
			c.report(b.place, where, aboutUnknown, narrows|widens, fmt.Sprintf("%s differs and cannot be compared", readable(k)))
		}
	}
}

// isCompared holds for the keywords that are compared by their meaning.
func isCompared(keyword string) bool {
	switch keyword {
	case "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
		"pattern", "format", "contentEncoding", "items", "minItems", "maxItems", "uniqueItems", "additionalProperties",
		"propertyNames", "minProperties", "maxProperties", "not":
		return true
	}
	return false
}

// compareNotes compares the texts of two places, and whether they are deprecated.
func (c *comparer) compareNotes(a, b view, where string) {
	for _, k := range [...]string{"title", "description"} {
		if text(a.note(k)) != text(b.note(k)) {
			c.report(b.place, where, aboutText, 0, "the "+k+" differs")
		}
	}
	if before, after := a.note("default"), b.note("default"); text(before) != text(after) {
		c.report(b.place, where, aboutDefault, 0, fmt.Sprintf("the default was %s, and is %s", shownDefault(before), shownDefault(after)))
	}
	switch before, after := a.note("deprecated") == true, b.note("deprecated") == true; {
	case !before && after:
		c.report(b.place, where, aboutDeprecated, 0, "it is deprecated")
	case before && !after:
		c.report(b.place, where, aboutDeprecated, 0, "it is no longer deprecated")
	}
}

func shownDefault(v any) string {
	if v == nil {
		return "none"
	}
	return readable(text(v))
}

// note is an annotation, as the place nearest to the use has it.
func (v *view) note(keyword string) any {
	for _, m := range v.notes {
		if n, ok := m[keyword]; ok {
			return n
		}
	}
	return nil
}
