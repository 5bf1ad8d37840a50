// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"slices"
	"strconv"
)

// readClauses takes the conditions beside an object's members apart. Those that derived schemas have are understood:
// "required under one of its names" and oneofs. The others are kept as schemas of their own.
func (v *view) readClauses() {
	if all, ok := v.keywords["allOf"].([]any); ok {
		delete(v.keywords, "allOf")
		for i, c := range all {
			v.readClause(v.child(c, "allOf", strconv.Itoa(i)), false)
		}
	}
	for _, keyword := range [...]string{"anyOf", "oneOf"} {
		if branches, ok := v.keywords[keyword]; ok {
			delete(v.keywords, keyword)
			v.readClause(place{doc: v.doc, at: v.at, value: map[string]any{keyword: branches}, tag: "only " + keyword}, false)
		}
	}
	// A condition that must not fail is how an advertised schema says allOf, which model APIs refuse at the root.
	if condition, ok := v.keywords["if"]; ok && isNever(v.keywords["else"]) && v.keywords["else"] != nil && v.keywords["then"] == nil {
		delete(v.keywords, "if")
		delete(v.keywords, "else")
		v.readClause(v.child(condition, "if"), false)
	}
}

// readClause takes one condition; isGuarded where it holds for objects only.
func (v *view) readClause(p place, isGuarded bool) {
	m, ok := p.value.(map[string]any)
	if !ok {
		v.clauses = append(v.clauses, p)
		return
	}
	if all, ok := m["allOf"].([]any); ok && onlyKeywords(m, "allOf") {
		for i, c := range all {
			v.readClause(p.child(c, "allOf", strconv.Itoa(i)), isGuarded)
		}
		return
	}
	// Where nothing but an object or null is possible, only null is exempt.
	if then, ok := m["then"]; ok && v.types == isObject && isJustType(m["if"], "object") && onlyKeywords(m, "if", "then") {
		v.readClause(p.child(then, "then"), true)
		return
	}
	if names, ok := strs(m["required"]); ok && onlyKeywords(m, "required") {
		for _, n := range names {
			v.require(n)
		}
		return
	}
	if branches, ok := m["anyOf"].([]any); ok && onlyKeywords(m, "anyOf") {
		if f := v.requiredUnderOneName(branches); f != nil {
			f.required = true
			return
		}
	}
	if branches, ok := m["oneOf"].([]any); ok && onlyKeywords(m, "oneOf") {
		if o, understood := v.asOneof(branches); understood {
			v.oneofs = append(v.oneofs, o)
			if !isGuarded && len(branches) > 1 {
				// What is no object fits all branches, and so is refused.
				v.types, v.nullable = v.types&isObject, false
			}
			return
		}
	}
	v.clauses = append(v.clauses, p)
}

// requiredUnderOneName finds the field of which alternatives require one name each.
func (v *view) requiredUnderOneName(branches []any) *field {
	var of *field
	for _, b := range branches {
		m, _ := b.(map[string]any)
		names, ok := strs(m["required"])
		if !ok || len(names) != 1 || !onlyKeywords(m, "required") {
			return nil
		}
		f := v.fieldNamed(names[0])
		if f == nil || of != nil && f != of {
			return nil
		}
		of = f
	}
	return of
}

// asOneof reads alternatives as a oneof: each requires one member, not null where null counts as absent; a last one in
// which no member is set lets the oneof be empty.
func (v *view) asOneof(branches []any) (o oneof, understood bool) {
	o.required = true
	for _, b := range branches {
		m, isObject := b.(map[string]any)
		if !isObject || !onlyKeywords(m, "required", "properties") {
			return o, false
		}
		properties, _ := m["properties"].(map[string]any)
		names, hasRequired := strs(m["required"])
		if !hasRequired {
			if !o.required || len(properties) == 0 || !allUnset(properties) {
				return o, false
			}
			o.required = false
			continue
		}
		if len(names) != 1 || !isSetClause(properties, names[0]) {
			return o, false
		}
		primary := names[0]
		if f := v.fieldNamed(primary); f != nil {
			primary = f.names[0]
		}
		if !slices.Contains(o.fields, primary) {
			o.fields = append(o.fields, primary)
		}
	}
	return o, len(o.fields) > 0
}

func allUnset(properties map[string]any) bool {
	for _, p := range properties {
		if !isNever(p) && !isJustType(p, "null") {
			return false
		}
	}
	return true
}

// isSetClause holds where properties say nothing, or only that the member is not null.
func isSetClause(properties map[string]any, name string) bool {
	if len(properties) == 0 {
		return true
	}
	m, ok := properties[name].(map[string]any)
	return ok && len(properties) == 1 && onlyKeywords(m, "not") && isJustType(m["not"], "null")
}

// dropSecondNames drops dependentSchemas that only refuse a field under two of its names: the names say so already.
func (v *view) dropSecondNames() {
	dependent, ok := v.keywords["dependentSchemas"].(map[string]any)
	if !ok {
		return
	}
	for name, d := range dependent {
		m, _ := d.(map[string]any)
		refused, _ := m["properties"].(map[string]any)
		f := v.fieldNamed(name)
		if f == nil || len(refused) == 0 || !onlyKeywords(m, "properties") {
			return
		}
		for second, s := range refused {
			if !isNever(s) || !slices.Contains(f.names, second) {
				return
			}
		}
	}
	delete(v.keywords, "dependentSchemas")
}
