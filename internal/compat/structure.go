// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"fmt"
	"slices"
	"strings"
)

func (c *comparer) compareArrays(a, b view, where string, depth int) {
	c.compareEnds(a, b, where, "minItems", "", 1)
	c.compareEnds(a, b, where, "maxItems", "", -1)
	switch before, after := a.keywords["uniqueItems"] == true, b.keywords["uniqueItems"] == true; {
	case !before && after:
		c.report(b.place, where, aboutValue, narrows, "entries have to differ from each other")
	case before && !after:
		c.report(b.place, where, aboutValue, widens, "entries need not differ from each other any more")
	}
	c.compareBelow(a, b, "items", where+"[]", depth)
}

// compareBelow compares the schemas under a keyword; one that is absent admits anything.
func (c *comparer) compareBelow(a, b view, keyword, where string, depth int) {
	x, hasA := a.keywords[keyword]
	y, hasB := b.keywords[keyword]
	if !hasA && !hasB {
		return
	}
	before, after := a.anything(keyword), b.anything(keyword)
	if hasA {
		before = a.child(x, keyword)
	}
	if hasB {
		after = b.child(y, keyword)
	}
	c.compare(before, after, where, depth+1, true)
}

func (c *comparer) compareObjects(a, b view, where string, depth int) {
	c.compareEnds(a, b, where, "minProperties", "", 1)
	c.compareEnds(a, b, where, "maxProperties", "", -1)
	c.compareFields(a, b, where, depth)
	c.compareOneofs(a, b, where)
	c.compareOthers(a, b, where, depth)
	c.compareMemberNames(a, b, join(where, "(names)"), depth)
}

// compareMemberNames compares what is said about the names of members, which are strings in any case.
func (c *comparer) compareMemberNames(a, b view, where string, depth int) {
	x, hasA := a.keywords["propertyNames"]
	y, hasB := b.keywords["propertyNames"]
	if !hasA && !hasB {
		return
	}
	before, after := look(a.anything("propertyNames")), look(b.anything("propertyNames"))
	if hasA {
		before = look(a.child(x, "propertyNames"))
	}
	if hasB {
		after = look(b.child(y, "propertyNames"))
	}
	before.types, before.nullable = before.types&isString, false
	after.types, after.nullable = after.types&isString, false
	if c.isNew(before, after, " as names") {
		c.compareViews(before, after, where, depth+1)
	}
}

func join(where, name string) string {
	if where == "" {
		return name
	}
	return where + "." + name
}

func (c *comparer) compareFields(a, b view, where string, depth int) {
	for _, f := range a.fields {
		primary := f.names[0]
		now := b.sameField(f)
		if now == nil {
			c.report(f.schema, join(where, primary), aboutRemoved, narrows, c.gone(primary))
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
		case f.required && !c.isOutput:
			c.report(f.schema, at, aboutMust, narrows, "there is a new parameter, and it is required")
		case c.isOutput:
			c.report(f.schema, at, aboutAdded, 0, "there is a new field")
		default:
			c.report(f.schema, at, aboutAdded, 0, "there is a new parameter, which is optional")
		}
	}
}

func (c *comparer) gone(name string) string {
	if c.isOutput {
		return "the field " + readable(name) + " is gone"
	}
	return "the parameter " + readable(name) + " is gone"
}

// sameField finds the field that shares a name with another, by its primary name first.
func (v *view) sameField(f *field) *field {
	for _, name := range f.names {
		if found := v.fieldNamed(name); found != nil {
			return found
		}
	}
	return nil
}

// compareField compares the two versions of a field. Where it becomes required or optional, whether null stands for its
// absence changes with it, which is not said again.
func (c *comparer) compareField(before, after *field, where string, depth int) {
	x, y := before.schema, after.schema
	if before.required == after.required {
		c.compare(x, y, where, depth+1, true)
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
	if !c.isNew(va, vb, " without null") {
		return
	}
	c.compareNotes(va, vb, where)
	if !c.isOutput && va.nullable == before.mayMiss() && vb.nullable == after.mayMiss() {
		va.nullable, vb.nullable = false, false
	}
	c.compareViews(va, vb, where, depth+1)
}

func (f *field) mayMiss() bool { return !f.required }

// compareOthers compares what is said about members that are not declared.
func (c *comparer) compareOthers(a, b view, where string, depth int) {
	x, hasA := a.keywords["additionalProperties"]
	y, hasB := b.keywords["additionalProperties"]
	before, after := hasA && isNever(x), hasB && isNever(y)
	switch {
	case before && after:
	case before:
		c.report(b.place, where, aboutValue, widens, "members that are not declared are possible")
	case after:
		c.report(b.place, where, aboutValue, narrows, "members that are not declared are refused")
	default:
		c.compareBelow(a, b, "additionalProperties", join(where, "*"), depth)
	}
}

// compareOneofs compares which fields exclude each other, and of which groups one has to be set.
func (c *comparer) compareOneofs(a, b view, where string) {
	for _, o := range b.oneofs {
		before := a.oneofWith(o, b)
		c.compareExclusion(a, o, before, b, where)
		switch {
		case o.required && (before == nil || !before.required):
			c.report(b.place, where, aboutOneMust, narrows, "one of "+names(o.fields)+" has to be set")
		case !o.required && before != nil && before.required:
			c.report(b.place, where, aboutMay, widens, "none of "+names(o.fields)+" has to be set")
		}
	}
	for _, o := range a.oneofs {
		after := b.oneofWith(o, a)
		freed := slices.DeleteFunc(slices.Clone(o.fields), func(name string) bool {
			return b.fieldNamed(name) == nil || after != nil && slices.Contains(after.fields, b.fieldNamed(name).names[0])
		})
		if len(freed) > 0 && len(o.fields) > 1 {
			c.report(b.place, where, aboutValue, widens, names(freed)+" may be set beside the others of "+names(o.fields))
		} else if after == nil && o.required && len(o.fields) == 1 && len(freed) == 1 {
			c.report(b.place, where, aboutMay, widens, names(freed)+" is optional")
		}
	}
}

// compareExclusion reports fields that could be set together before and cannot now.
func (c *comparer) compareExclusion(a view, now oneof, before *oneof, b view, where string) {
	var known []string
	for _, name := range now.fields {
		if f := b.fieldNamed(name); f != nil && a.sameField(f) != nil {
			known = append(known, name)
		}
	}
	fresh := known
	if before != nil {
		fresh = slices.DeleteFunc(slices.Clone(known), func(name string) bool {
			old := a.sameField(b.fieldNamed(name))
			return slices.Contains(before.fields, old.names[0])
		})
	}
	if len(fresh) > 0 && len(known) > 1 {
		c.report(b.place, where, aboutValue, narrows, "at most one of "+names(known)+" may be set")
	}
}

// oneofWith finds the oneof that shares the most fields with one of another view.
func (v *view) oneofWith(o oneof, of view) *oneof {
	var best *oneof
	most := 0
	for i := range v.oneofs {
		shared := 0
		for _, name := range o.fields {
			if f := of.fieldNamed(name); f != nil {
				if own := v.sameField(f); own != nil && slices.Contains(v.oneofs[i].fields, own.names[0]) {
					shared++
				}
			}
		}
		if shared > most {
			best, most = &v.oneofs[i], shared
		}
	}
	return best
}

func names(list []string) string {
	out := make([]string, 0, len(list))
	for _, n := range list {
		out = append(out, readable(n))
	}
	return strings.Join(out, ", ")
}
