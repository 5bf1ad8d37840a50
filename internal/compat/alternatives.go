// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"maps"
	"slices"
)

// compareChoices compares schemas of which at least one is a list of alternatives; the other counts as a list of one.
func (c *comparer) compareChoices(a, b view, where string, depth int) {
	before, after := a.alternatives(), b.alternatives()
	pairs, gone, added := c.pair(before, after, depth)
	reported := len(c.changes)
	for _, p := range pairs {
		c.compareAlternative(p[0], p[1], where, depth)
	}
	for _, x := range gone {
		if !c.coveredBy(x, after, depth) {
			c.report(b.place, where, aboutType, narrows, "one form is gone: "+describe(x))
		}
	}
	for _, y := range added {
		e := widens
		if b.exclusive && !isApart(y, after) {
			e |= narrows // What fits it and another alternative is refused.
		}
		switch {
		case e == widens && c.covers(before, y, depth):
		default:
			c.report(b.place, where, aboutType, e, "one form is new: "+describe(y))
		}
	}
	// Alternatives that exclude each other refuse what fits two of them, so one that admits more may take from another.
	if b.exclusive && (!a.exclusive || len(c.changes) > reported) && !slices.ContainsFunc(c.changes[reported:], isBreaking) &&
		slices.ContainsFunc(after, func(y place) bool { return !isApart(y, after) }) {
		c.report(b.place, where, aboutUnknown, narrows, "the forms exclude each other, and may overlap")
	}
}

func isBreaking(c Change) bool { return c.Breaking }

// alternatives are a view's choices, or the view itself, type by type. Null is compared apart.
func (v *view) alternatives() []place {
	if len(v.choices) > 0 {
		return v.choices
	}
	p := v.place
	m, _ := p.value.(map[string]any)
	if list, ok := m["type"].([]any); ok && len(v.clauses) == 0 {
		// Each type is a form of its own, under the keywords that concern it.
		var out []place
		for _, t := range list {
			if name, _ := t.(string); typeOf(name) != 0 {
				one := maps.Clone(m)
				one["type"] = name
				out = append(out, place{doc: p.doc, at: p.at, value: one, tag: p.tag + " as " + name})
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	p.tag += " as the only form"
	return []place{p}
}

// compareAlternative compares two alternatives. One that stands for a whole schema has had its null compared.
func (c *comparer) compareAlternative(x, y place, where string, depth int) {
	va, vb := look(x), look(y)
	if x.tag != "" || y.tag != "" {
		va.nullable, vb.nullable = false, false
	}
	if !c.isNew(va, vb, " as a form") {
		return
	}
	c.compareViews(va, vb, where, depth+1)
}

// breakingBetween counts what would break if one alternative became the other.
func (c *comparer) breakingBetween(x, y place, depth int) int {
	t := c.attempt()
	t.compareAlternative(x, y, "", depth)
	return t.breaking
}

// pair finds for each old alternative the new one that it has become: the same text, else the one with the least that
// breaks, else whatever is left beside it.
func (c *comparer) pair(before, after []place, depth int) (pairs [][2]place, gone, added []place) {
	partner := make([]int, len(before))
	taken := make([]bool, len(after))
	take := func(i, j int) {
		partner[i], taken[j] = j, true
		pairs = append(pairs, [2]place{before[i], after[j]})
	}
	for i := range before {
		partner[i] = -1
		for j := range after {
			if !taken[j] && text(before[i].value) == text(after[j].value) {
				take(i, j)
				break
			}
		}
	}
	for i := range before {
		best, least := -1, 0
		for j := range after {
			if partner[i] >= 0 || taken[j] || look(before[i]).types&look(after[j]).types == 0 {
				continue
			}
			if n := c.breakingBetween(before[i], after[j], depth); best < 0 || n < least {
				best, least = j, n
			}
		}
		if best >= 0 {
			take(i, best)
		}
	}
	for i := range before {
		if partner[i] < 0 {
			gone = append(gone, before[i])
		}
	}
	for j := range after {
		if !taken[j] {
			added = append(added, after[j])
		}
	}
	if len(gone) == 1 && len(added) == 1 {
		return append(pairs, [2]place{gone[0], added[0]}), nil, nil
	}
	return pairs, gone, added
}

// coveredBy reports whether what fitted an old alternative fits one of the new ones.
func (c *comparer) coveredBy(x place, after []place, depth int) bool {
	return slices.ContainsFunc(after, func(y place) bool { return c.asInput().breakingBetween(x, y, depth) == 0 })
}

// covers reports whether what fits a new alternative fitted one of the old ones.
func (c *comparer) covers(before []place, y place, depth int) bool {
	return slices.ContainsFunc(before, func(x place) bool { return c.asInput().breakingBetween(y, x, depth) == 0 })
}

// asInput is a comparer for which "nothing breaks" means "whatever fitted still fits".
func (c *comparer) asInput() *comparer {
	t := *c
	t.isOutput = false
	return &t
}

// isApart reports whether no value can fit an alternative and another one of the list.
func isApart(one place, all []place) bool {
	v := look(one)
	for _, other := range all {
		if other.at == one.at && other.tag == one.tag {
			continue
		}
		o := look(other)
		if v.types&o.types == 0 || v.types&o.types == isObject && haveDifferentMark(v, o) {
			continue
		}
		return false
	}
	return true
}

// haveDifferentMark reports whether two objects require a member whose possible values differ, as tagged unions do.
func haveDifferentMark(a, b view) bool {
	for _, f := range a.fields {
		other := b.fieldNamed(f.names[0])
		if other == nil || !f.required || !other.required {
			continue
		}
		x, y := look(f.schema), look(other.schema)
		before, hasA := x.keywords["enum"].([]any)
		after, hasB := y.keywords["enum"].([]any)
		if hasA && hasB && !(x.nullable && y.nullable) && len(missing(before, after)) == len(before) {
			return true
		}
	}
	return false
}

// describe names an alternative.
func describe(p place) string {
	v := look(p)
	if values, ok := v.keywords["enum"].([]any); ok {
		return listed(values)
	}
	if title, ok := v.note("title").(string); ok && title != "" {
		return readable(title)
	}
	return v.types.String()
}

// compareClauses compares conditions that hold beside the rest: one more admits less.
func (c *comparer) compareClauses(a, b view, where string, depth int) {
	pairs, gone, added := c.pair(a.clauses, b.clauses, depth)
	for _, p := range pairs {
		c.compare(p[0], p[1], where, depth+1, false)
	}
	for range gone {
		c.report(b.place, where, aboutValue, widens, "a condition is gone")
	}
	for _, p := range added {
		c.report(p, where, aboutValue, narrows, "a condition is new"+conditionText(p))
	}
}

// conditionText is what a condition says about itself.
func conditionText(p place) string {
	m, _ := p.value.(map[string]any)
	if s, ok := m["description"].(string); ok && s != "" {
		return ": " + readable(s)
	}
	return ""
}

// compareNot compares exclusions, for which more means less.
func (c *comparer) compareNot(a, b view, where string, depth int) {
	x, hasA := a.keywords["not"]
	y, hasB := b.keywords["not"]
	switch {
	case !hasA && !hasB:
	case !hasA:
		c.report(b.place, where, aboutValue, narrows, "some values are refused: "+describe(b.child(y, "not")))
	case !hasB:
		c.report(b.place, where, aboutValue, widens, "values that were refused are possible: "+describe(a.child(x, "not")))
	default:
		before, after := a.child(x, "not"), b.child(y, "not")
		var e effect
		if c.asInput().trial(after, before, depth+1) > 0 {
			e |= narrows
		}
		if c.asInput().trial(before, after, depth+1) > 0 {
			e |= widens
		}
		if e != 0 {
			c.report(b.place, where, aboutValue, e, "the refused values were "+describe(before)+", and are "+describe(after))
		}
	}
}
