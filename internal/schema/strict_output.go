// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"slices"
)

// strictOutput is the advertised schema of an output in ProfileStrict, made of the one for ProfileMCP. Clients hold results
// to it, so it says less, and nothing else: each result that matches the schema of ProfileMCP matches this one. It has the
// keywords of strict inputs; only that properties need not be required, nor objects closed. References are replaced by what they
// lead to, and below the bounds by an open object: some clients drop all tools of a server for a schema that contains itself.
func (d *deriver) strictOutput(doc *object) *object {
	defs, _ := doc.get("$defs").(*object)
	for levels := strictLevels; ; levels-- {
		r := &resolver{root: doc, defs: defs, levels: levels, room: d.opts.MaxSchemas}
		out := r.value(doc, []string{rootOnly})
		if levels == 0 || r.room > 0 && len(appendJSON(nil, out)) <= min(strictBytes, d.opts.MaxBytes) {
			return out
		}
	}
}

// rootOnly is the reference to a document as a whole.
const rootOnly = "#"

// resolver writes a schema without references. It belongs to one attempt.
type resolver struct {
	root, defs *object
	levels     int // references in one another
	room       int // subschemas that may still be written
}

// value writes a schema. path are the references that led to it.
func (r *resolver) value(doc *object, path []string) *object {
	r.room--
	if ref, ok := doc.get("$ref").(string); ok {
		target := r.target(ref)
		if target == nil || r.room < 0 || len(path) > r.levels || count(path, ref) >= strictRepeats {
			return described(newObject("type", "object"), doc)
		}
		return described(r.value(target, append(slices.Clip(path), ref)), doc)
	}
	out := &object{}
	for _, m := range doc.members {
		switch m.name {
		case "description", "required":
			out.set(m.name, m.value)
		case "properties":
			out.set(m.name, r.members(m.value, path))
		case "items", "additionalProperties":
			out.set(m.name, r.below(m.value, path))
		case "anyOf":
			if choices, ok := r.choices(m.value, path); ok {
				out.set(m.name, choices)
			}
		}
	}
	setTypes(out, doc)
	return typeFirst(out)
}

// typeFirst puts the type of a schema before the rest, where readers look for it.
func typeFirst(doc *object) *object {
	kind := doc.get("type")
	if kind == nil {
		return doc
	}
	out := newObject("type", kind)
	for _, m := range doc.members {
		out.set(m.name, m.value)
	}
	return out
}

func (r *resolver) target(ref string) *object {
	if ref == rootOnly {
		return r.root
	}
	if r.defs == nil || len(ref) <= len(defsRef) || ref[:len(defsRef)] != defsRef {
		return nil
	}
	out, _ := r.defs.get(ref[len(defsRef):]).(*object)
	return out
}

func (r *resolver) members(value any, path []string) *object {
	out := &object{}
	if from, ok := value.(*object); ok {
		for _, m := range from.members {
			out.set(m.name, r.below(m.value, path))
		}
	}
	return out
}

// below is a value that is a schema, or true or false.
func (r *resolver) below(value any, path []string) any {
	if doc, ok := value.(*object); ok {
		return r.value(doc, path)
	}
	return value
}

// choices are the schemas of an anyOf. One that only limits a value without naming its type would allow everything.
func (r *resolver) choices(value any, path []string) ([]any, bool) {
	from, _ := value.([]any)
	var out []any
	for _, choice := range from {
		doc, ok := choice.(*object)
		if !ok {
			return nil, false
		}
		one := r.value(doc, path)
		if !one.has("type") && !one.has("anyOf") {
			return nil, false
		}
		out = append(out, one)
	}
	return out, len(out) > 0
}

// setTypes sets type and enum of a schema, or what they mean in an anyOf. A list of types becomes a choice, and an enum with
// other values than strings loses its values.
func setTypes(out, doc *object) {
	values, _ := doc.get("enum").([]any)
	var types []string
	switch kind := doc.get("type").(type) {
	case string:
		types = []string{kind}
	case []string:
		types = kind
	}
	if doc.has("enum") && len(types) == 0 {
		types = typesOf(values)
	}
	if len(types) != 1 {
		if len(types) > 1 && !out.has("anyOf") {
			var choices []any
			for _, kind := range types {
				choices = append(choices, newObject("type", kind))
			}
			out.set("anyOf", choices)
		}
		return
	}
	if out.has("anyOf") {
		out.remove("anyOf") // beside a type it only limits the value further
	}
	out.set("type", types[0])
	if len(values) > 0 && len(values) <= strictEnum && areStrings(values) {
		out.set("enum", values)
	}
}

// typesOf are the types of the values of an enum.
func typesOf(values []any) []string {
	var out []string
	for _, v := range values {
		kind := "null"
		switch v.(type) {
		case string:
			kind = "string"
		case bool:
			kind = "boolean"
		case json.Number, int:
			kind = "number"
		}
		if !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out
}

// described gives a schema the description of the reference to it, which knows more of its place.
func described(doc, ref *object) *object {
	if text := ref.get("description"); text != nil {
		doc.set("description", text)
	}
	return doc
}

func count(path []string, ref string) int {
	n := 0
	for _, one := range path {
		if one == ref {
			n++
		}
	}
	return n
}
