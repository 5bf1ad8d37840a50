// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// place is a subschema of a whole schema, by its JSON Pointer.
type place struct {
	root  any
	at    string
	value any
}

// child is the subschema under a keyword.
func (p place) child(value any, tokens ...string) place {
	for _, t := range tokens {
		p.at += "/" + strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1")
	}
	p.value = value
	return p
}

// maxHops bounds a chain of references to references.
const maxHops = 32

// pointerOf is the JSON Pointer of a reference within the same document.
func pointerOf(ref string) (string, bool) {
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok || fragment != "" && fragment[0] != '/' {
		return "", false
	}
	pointer, err := url.PathUnescape(fragment)
	return pointer, err == nil
}

// resolve finds what a reference names; ok is false for what is not in the document.
func (p place) resolve(ref string) (target place, ok bool) {
	pointer, ok := pointerOf(ref)
	if !ok {
		return place{}, false
	}
	value, ok := pointed(p.root, pointer)
	return place{root: p.root, at: pointer, value: value}, ok
}

// isAnnotation holds for keywords that admit and refuse nothing. "default" is one, and compared apart.
func isAnnotation(keyword string) bool {
	switch keyword {
	case "title", "description", "default", "deprecated", "examples", "readOnly", "writeOnly", "$comment", "$schema",
		"$id", "$defs", "definitions", "contentMediaType":
		return true
	}
	return strings.HasPrefix(keyword, "x-")
}

// isNever holds for the schemas that admit nothing.
func isNever(v any) bool {
	switch v := v.(type) {
	case bool:
		return !v
	case map[string]any:
		not, ok := v["not"]
		return ok && isAnything(not)
	}
	return false
}

// isAnything holds for the schemas that admit everything.
func isAnything(v any) bool {
	m, isObject := v.(map[string]any)
	return v == true || isObject && onlyKeywords(m)
}

// isJustNull holds for a schema that admits null, and nothing else.
func isJustNull(v any) bool {
	m, ok := v.(map[string]any)
	return ok && m["type"] == "null" && onlyKeywords(m, "type")
}

// onlyKeywords reports whether all keywords that matter are among those named.
func onlyKeywords(m map[string]any, names ...string) bool {
	for k := range m {
		if !isAnnotation(k) && !slices.Contains(names, k) {
			return false
		}
	}
	return true
}

// text is the one spelling of a JSON value, by which values are equal: members sorted, numbers as they were written.
func text(v any) string {
	raw, err := json.Marshal(v) // sorts members; what came from JSON can go back
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// strs are the strings of an array of strings; ok is false for anything else.
func strs(v any) (out []string, ok bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	for _, e := range list {
		s, isString := e.(string)
		if !isString {
			return nil, false
		}
		out = append(out, s)
	}
	return out, true
}

// maxSpelled bounds the text of one condition with all that its references lead to.
const maxSpelled = 64 << 10

// speller writes a subschema without annotations and with its references followed, so that equal texts mean the same.
type speller struct {
	out strings.Builder
	// following are the pointers of the references that are being followed.
	following []string
	isTooLong bool
}

// spell returns the text of a subschema; ok is false if it is too long.
func (p place) spell() (text string, ok bool) {
	s := &speller{}
	s.schema(p)
	return s.out.String(), !s.isTooLong
}

func (s *speller) schema(p place) {
	m, isObject := p.value.(map[string]any)
	if s.isTooLong = s.isTooLong || s.out.Len() > maxSpelled; s.isTooLong || !isObject {
		s.out.WriteString(text(p.value))
		return
	}
	s.out.WriteByte('{')
	for _, k := range sortedKeys(m) {
		if isAnnotation(k) {
			continue
		}
		s.out.WriteString(strconv.Quote(k) + ":")
		s.keyword(p, k, m[k])
		s.out.WriteByte(',')
	}
	s.out.WriteByte('}')
}

func (s *speller) keyword(p place, keyword string, value any) {
	members, _ := value.(map[string]any)
	list, _ := value.([]any)
	switch keyword {
	case "$ref":
		ref, _ := value.(string)
		target, ok := p.resolve(ref)
		if again := slices.Index(s.following, target.at); !ok || again >= 0 {
			s.out.WriteString(fmt.Sprint(text(value), again))
			return
		}
		s.following = append(s.following, target.at)
		s.schema(target)
		s.following = s.following[:len(s.following)-1]
	case "properties", "patternProperties", "dependentSchemas":
		for _, name := range sortedKeys(members) {
			s.out.WriteString(strconv.Quote(name) + ":")
			s.schema(p.child(members[name]))
			s.out.WriteByte(',')
		}
	case "allOf", "anyOf", "oneOf", "prefixItems":
		for _, e := range list {
			s.schema(p.child(e))
			s.out.WriteByte(',')
		}
	case "not", "if", "then", "else", "items", "additionalProperties", "propertyNames", "contains":
		s.schema(p.child(value))
	default:
		s.out.WriteString(text(value))
	}
}

// types is a set of JSON types. null is kept apart, since it mostly represents absence.
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

// namedTypes are the types with their names, those of more bits first.
var namedTypes = [...]struct {
	bits types
	name string
}{{isObject, "object"}, {isArray, "array"}, {isString, "string"}, {isNumber, "number"}, {isInteger, "integer"}, {isBool, "boolean"}}

func typeOf(name string) types {
	for _, n := range namedTypes {
		if n.name == name {
			return n.bits
		}
	}
	return 0
}

// String names the types for people.
func (t types) String() string {
	if t == anyType {
		return "anything"
	}
	var out []string
	for _, n := range namedTypes {
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

// view is a schema as it is compared: references followed, null apart, and the two names of a field as one field.
type view struct {
	place

	never    bool
	nullable bool
	types    types
	// keywords are those of an object schema, without the ones that were understood here.
	keywords map[string]any
	// choices are the alternatives, but for null, of a schema that is nothing but anyOf.
	choices []place
	fields  []*field
	// conditions hold beside the rest.
	conditions []place
	// notes are the annotations, those nearest to the use first.
	notes []map[string]any
}

// field is a member of an object, under all its names.
type field struct {
	names    []string // the primary one first
	schema   place
	required bool
}

// look makes the view of a place. It follows at most as many references and sole alternatives as it has hops; beyond them
// what is left is compared as keywords that are not understood.
func look(p place) view { return lookThrough(p, maxHops) }

func lookThrough(p place, hops int) view {
	v := view{types: anyType, nullable: true}
	for ; hops > 0; hops-- {
		m, ok := p.value.(map[string]any)
		if !ok {
			break
		}
		v.notes = append(v.notes, m)
		ref, _ := m["$ref"].(string)
		target, ok := p.resolve(ref)
		if !ok {
			break // Compared as a keyword that is not understood.
		}
		if !onlyKeywords(m, "$ref") {
			beside := maps.Clone(m)
			delete(beside, "$ref")
			v.conditions = append(v.conditions, p.child(beside))
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
	v.keywords = maps.Clone(m)
	maps.DeleteFunc(v.keywords, func(k string, _ any) bool { return isAnnotation(k) })
	v.readTypes()
	if only, ok := v.readChoices(hops); ok {
		only.notes = slices.Concat(v.notes, only.notes)
		return only
	}
	v.readFields()
	v.dropSecondNames()
	v.readConditions()
	return v
}

// readTypes takes "type", what enum and const say about types, and what derived schemas of integers say twice: their
// pattern and format repeat the range for strings.
func (v *view) readTypes() {
	list, isList := v.keywords["type"].([]any)
	if t, ok := v.keywords["type"].(string); ok {
		list, isList = []any{t}, true
	}
	if isList {
		v.types, v.nullable = 0, false
		for _, e := range list {
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
	if pattern, _ := v.keywords["pattern"].(string); schema.IsIntegerPattern(pattern) && v.types&isInteger != 0 &&
		v.keywords["minimum"] != nil && v.keywords["maximum"] != nil {
		v.keywords["pattern"] = "an integer in the range"
		delete(v.keywords, "format")
	}
	if v.keywords["uniqueItems"] == false {
		delete(v.keywords, "uniqueItems")
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
		if t := valueType(e); t&v.types != 0 {
			kept = append(kept, e)
			among |= t
		}
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
	branches, isList := v.keywords["anyOf"].([]any)
	if !isList || hops <= 0 || len(v.keywords) > 1 || len(v.conditions) > 0 {
		return view{}, false
	}
	delete(v.keywords, "anyOf")
	v.nullable = false
	for i, b := range branches {
		if isJustNull(b) {
			v.nullable = true
			continue
		}
		v.choices = append(v.choices, v.child(b, "anyOf", strconv.Itoa(i)))
	}
	if len(v.choices) != 1 {
		return view{}, false
	}
	only = lookThrough(v.choices[0], hops-1)
	only.nullable = only.nullable || v.nullable
	return only, true
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
		f := v.fieldNamed(name)
		if f == nil { // It takes what members that are not declared take.
			f = &field{names: []string{name}, schema: v.child(true, "properties", name)}
			if others, ok := v.keywords["additionalProperties"]; ok {
				f.schema = v.child(others, "additionalProperties")
			}
			v.fields = append(v.fields, f)
		}
		f.required = true
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
	first := unescape(token)
	// A name that refers to itself, or to another second name, is a field like any other.
	target, ok := properties[first].(map[string]any)
	return first, ok && first != name && target["$ref"] == nil
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

// sameField finds the field that shares a name with another, by its primary name first.
func (v *view) sameField(f *field) *field {
	for _, name := range f.names {
		if found := v.fieldNamed(name); found != nil {
			return found
		}
	}
	return nil
}

// readConditions takes apart what holds beside an object's members. "Required under one of its names" is understood.
func (v *view) readConditions() {
	all, _ := v.keywords["allOf"].([]any)
	for i, c := range all {
		m, _ := c.(map[string]any)
		branches, _ := m["anyOf"].([]any)
		if f := v.requiredUnderOneName(branches); f != nil && onlyKeywords(m, "anyOf") {
			f.required = true
			continue
		}
		v.conditions = append(v.conditions, v.child(c, "allOf", strconv.Itoa(i)))
	}
	if all != nil {
		delete(v.keywords, "allOf")
	}
	for _, group := range [...][]string{{"anyOf"}, {"oneOf"}, {"not"}, {"propertyNames"}, {"contains"}, {"dependentSchemas"}, {"if", "then", "else"}} {
		condition := map[string]any{}
		for _, k := range group {
			if value, ok := v.keywords[k]; ok {
				condition[k] = value
				delete(v.keywords, k)
			}
		}
		if len(condition) > 0 {
			v.conditions = append(v.conditions, v.child(condition))
		}
	}
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

// note is an annotation, as the place nearest to the use has it.
func (v *view) note(keyword string) any {
	for _, m := range v.notes {
		if n, ok := m[keyword]; ok {
			return n
		}
	}
	return nil
}
