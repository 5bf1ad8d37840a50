// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// types is a set of JSON types. null is kept apart, since it mostly stands for absence.
type types uint8

const (
	isObject types = 1 << iota
	isArray
	isString
	isInteger
	isFraction // a number that is no integer
	isBool

	isNumber = isInteger | isFraction
	anyType  = isObject | isArray | isString | isNumber | isBool
)

func typeOf(name string) types {
	switch name {
	case "object":
		return isObject
	case "array":
		return isArray
	case "string":
		return isString
	case "number":
		return isNumber
	case "integer":
		return isInteger
	case "boolean":
		return isBool
	}
	return 0
}

// String names the types for people.
func (t types) String() string {
	if t == anyType {
		return "anything"
	}
	var out []string
	for _, n := range [...]struct {
		bits types
		name string
	}{{isObject, "object"}, {isArray, "array"}, {isString, "string"}, {isNumber, "number"}, {isInteger, "integer"}, {isBool, "boolean"}} {
		if t&n.bits == n.bits {
			out = append(out, n.name)
			t &^= n.bits
		}
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, " or ")
}

// view is a schema as it is compared: references followed, null apart, and the clauses of derived schemas read as what
// they stand for.
type view struct {
	place

	never    bool
	nullable bool
	types    types
	// keywords are those of an object schema, without the ones that were understood here.
	keywords map[string]any
	// choices are the alternatives of a schema that is nothing but anyOf or oneOf; exclusive for oneOf.
	choices   []place
	exclusive bool
	fields    []*field
	oneofs    []oneof
	// clauses are conditions that hold beside the rest.
	clauses []place
	// notes are the annotations, those nearest to the use first.
	notes []map[string]any
}

// field is a member of an object, under all its names.
type field struct {
	names    []string // the primary one first
	schema   place
	required bool
}

// oneof says that at most one of some fields may be set, by their primary names.
type oneof struct {
	fields   []string
	required bool
}

// look makes the view of a place.
func look(p place) view { return lookThrough(p, maxHops) }

// lookThrough follows at most as many references and sole alternatives as it has hops; beyond them what is left is
// compared as keywords that are not understood.
func lookThrough(p place, hops int) view {
	v := view{types: anyType, nullable: true}
	for ; hops > 0; hops-- {
		m, ok := p.value.(map[string]any)
		if !ok {
			break
		}
		v.notes = append(v.notes, m)
		ref, ok := m["$ref"].(string)
		if !ok {
			break
		}
		target, ok := p.doc.resolve(ref)
		if !ok {
			break // Compared as a keyword that is not understood.
		}
		if !onlyKeywords(m, "$ref") {
			beside := without(m, "$ref")
			v.clauses = append(v.clauses, place{doc: p.doc, at: p.at, value: beside, tag: "beside $ref"})
		}
		p = target
	}
	v.place = p
	m, ok := p.value.(map[string]any)
	if !ok || isNever(p.value) {
		v.never = isNever(p.value)
		v.nullable = !v.never
		return v
	}
	v.keywords = without(m)
	v.readTypes()
	if inner, ok := v.readChoices(hops); ok {
		inner.notes = slices.Concat(v.notes, inner.notes)
		return inner
	}
	v.readFields()
	v.readClauses()
	v.dropSecondNames()
	return v
}

// without copies an object schema without annotations and the named keywords.
func without(m map[string]any, names ...string) map[string]any {
	out := make(map[string]any, len(m))
	for k, value := range m {
		if !isAnnotation(k) && !slices.Contains(names, k) {
			out[k] = value
		}
	}
	return out
}

// readTypes takes "type", and what enum and const say about types.
func (v *view) readTypes() {
	switch t := v.keywords["type"].(type) {
	case string:
		v.types, v.nullable = typeOf(t), t == "null"
	case []any:
		v.types, v.nullable = 0, false
		for _, e := range t {
			name, _ := e.(string)
			v.types |= typeOf(name)
			v.nullable = v.nullable || name == "null"
		}
	}
	delete(v.keywords, "type")
	if c, ok := v.keywords["const"]; ok && v.keywords["enum"] == nil {
		v.keywords["enum"] = []any{c}
		delete(v.keywords, "const")
	}
	values, ok := v.keywords["enum"].([]any)
	if !ok {
		return
	}
	among, hasNull := types(0), false
	kept := []any{}
	for _, e := range values {
		if e == nil {
			hasNull = true
			continue
		}
		kept = append(kept, e)
		among |= valueType(e)
	}
	v.types &= among
	v.nullable = v.nullable && hasNull
	v.keywords["enum"] = kept
}

func valueType(v any) types {
	switch v := v.(type) {
	case map[string]any:
		return isObject
	case []any:
		return isArray
	case string:
		return isString
	case bool:
		return isBool
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return isNumber
		}
		return isInteger
	}
	return 0
}

// readChoices reads a schema that is nothing but alternatives. One alternative beside null is that alternative, and ok.
func (v *view) readChoices(hops int) (only view, ok bool) {
	for _, keyword := range [...]string{"anyOf", "oneOf"} {
		branches, isList := v.keywords[keyword].([]any)
		if !isList || hops <= 0 || len(v.keywords) > 1 || len(v.clauses) > 0 || v.types != anyType || !v.nullable {
			continue
		}
		if _, understood := v.asOneof(branches); understood {
			continue
		}
		delete(v.keywords, keyword)
		v.exclusive = keyword == "oneOf"
		v.nullable = false
		for i, b := range branches {
			if isJustType(b, "null") {
				v.nullable = true
				continue
			}
			v.choices = append(v.choices, v.child(b, keyword, strconv.Itoa(i)))
		}
		if len(v.choices) == 1 {
			only = lookThrough(v.choices[0], hops-1)
			only.nullable = only.nullable || v.nullable
			return only, true
		}
		return view{}, false
	}
	return view{}, false
}

// readFields groups the members of an object by field: the canonical schema has a second name as a reference to the
// first one.
func (v *view) readFields() {
	properties, _ := v.keywords["properties"].(map[string]any)
	byName := map[string]*field{}
	for _, name := range sortedKeys(properties) {
		if _, isSecond := v.firstName(properties, name); !isSecond {
			f := &field{names: []string{name}, schema: v.child(properties[name], "properties", name)}
			v.fields = append(v.fields, f)
			byName[name] = f
		}
	}
	for _, name := range sortedKeys(properties) {
		if first, isSecond := v.firstName(properties, name); isSecond {
			byName[first].names = append(byName[first].names, name)
		}
	}
	delete(v.keywords, "properties")
	required, ok := strs(v.keywords["required"])
	if !ok {
		return
	}
	delete(v.keywords, "required")
	for _, name := range required {
		v.require(name)
	}
}

// firstName is the name that another name of a field refers to.
func (v *view) firstName(properties map[string]any, name string) (string, bool) {
	m, _ := properties[name].(map[string]any)
	ref, _ := m["$ref"].(string)
	if ref == "" || !onlyKeywords(m, "$ref") {
		return "", false
	}
	pointer, _ := pointerOf(ref)
	token, ok := strings.CutPrefix(pointer, v.at+"/properties/")
	if !ok || strings.Contains(token, "/") {
		return "", false
	}
	first := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	// A name that refers to itself, or to another second name, stands for nothing of its own.
	target, ok := properties[first].(map[string]any)
	if !ok || first == name || target["$ref"] != nil {
		return "", false
	}
	return first, true
}

// fieldNamed finds a field by any of its names.
func (v *view) fieldNamed(name string) *field {
	for _, f := range v.fields {
		if slices.Contains(f.names, name) {
			return f
		}
	}
	return nil
}

// require marks a member as required; one that is not declared becomes a field that takes what such members take.
func (v *view) require(name string) {
	f := v.fieldNamed(name)
	if f == nil {
		f = &field{names: []string{name}, schema: v.anything("property " + name)}
		if others, ok := v.keywords["additionalProperties"]; ok {
			f.schema = v.child(others, "additionalProperties")
		}
		v.fields = append(v.fields, f)
	}
	f.required = true
}
