// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// reporter turns the library's tree of errors into violations that a caller, often a model, can act on: one for each
// thing to repair, and of alternatives only the one that the document was closest to. It reads the schema beside the error:
// what was known, what a description says. It belongs to one document.
type reporter struct {
	source  any // the schema
	doc     any
	objects map[int][][]string // see objectsAt
	budget  *Budget            // of the report alone
}

// flatten words one failure and what caused it. Keywords that a derived schema uses as a means (anyOf for the forms of a
// value, oneOf for a oneof, not for a second name) are never reported by their name alone: a caller knows fields, and not how
// the schema is built.
func (r *reporter) flatten(e *jsonschema.ValidationError) []Violation {
	if !r.budget.spend(workPerFault) {
		return nil // what was found so far has to do
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return r.alternatives(e)
	case *kind.OneOf:
		return r.exclusive(e, k)
	case *kind.AdditionalProperties:
		return r.unknown(e, k.Properties)
	case *kind.Required:
		var out []Violation
		for _, name := range k.Missing {
			out = append(out, r.at(AppendPointer(pointerOf(e.InstanceLocation), name), "required", "wanted this field, found nothing"))
		}
		return out
	case *kind.PropertyNames:
		why := "an admitted name"
		if inner := r.flattenAll(e.Causes); len(inner) > 0 {
			why, _, _ = strings.Cut(strings.TrimPrefix(inner[0].Message, "wanted "), ", found")
		}
		var out []Violation
		for _, location := range r.holders(e, k.Property) {
			path := AppendPointer(pointerOf(location), k.Property)
			out = append(out, r.at(path, "propertyNames", "wanted "+why+" as the name, found "+quote(k.Property)))
		}
		return out
	case *kind.Not:
		if text := r.described(e); text != "" {
			return []Violation{r.at(pointerOf(e.InstanceLocation), "not", text)}
		}
	}
	if len(e.Causes) > 0 {
		return r.flattenAll(e.Causes)
	}
	return []Violation{r.at(pointerOf(e.InstanceLocation), keywordOf(e.ErrorKind), r.wanted(e)+", found "+r.found(e.InstanceLocation))}
}

// workPerFault is what it takes to word a fault, in steps.
const workPerFault = 4

func (r *reporter) flattenAll(causes []*jsonschema.ValidationError) []Violation {
	var out []Violation
	for _, c := range causes {
		out = append(out, r.flatten(c)...)
	}
	return out
}

func (r *reporter) at(path, keyword, message string) Violation {
	return Violation{Path: path, Keyword: keyword, Message: message}
}

func pointerOf(location []string) string {
	p := ""
	for _, token := range location {
		p = AppendPointer(p, token)
	}
	return p
}

func keywordOf(k jsonschema.ErrorKind) string {
	path := k.KeywordPath()
	if len(path) == 0 {
		return "schema"
	}
	return path[len(path)-1]
}

// alternatives chooses among the branches of an anyOf. A branch that wants another type than the value has was not
// meant; if that goes for all, the types are listed together. Of the rest the one with the fewest faults is reported.
func (r *reporter) alternatives(e *jsonschema.ValidationError) []Violation {
	here := pointerOf(e.InstanceLocation)
	var meant [][]Violation
	var types []string
	for _, cause := range e.Causes {
		if wanted := typesWanted(cause, len(e.InstanceLocation)); wanted != nil {
			types = append(types, wanted...)
			continue
		}
		meant = append(meant, r.flatten(cause))
	}
	if len(meant) == 0 {
		return []Violation{r.at(here, "type", "wanted "+typeList(types)+", found "+r.found(e.InstanceLocation))}
	}
	// Names of one required field: the first is the one that ProtoJSON writes.
	return slices.MinFunc(meant, func(a, b []Violation) int { return cmp.Compare(len(a), len(b)) })
}

// typesWanted returns what types a failed branch wants, where the type of the value itself is what it failed on.
func typesWanted(e *jsonschema.ValidationError, depth int) []string {
	if k, ok := e.ErrorKind.(*kind.Type); ok && len(e.InstanceLocation) == depth {
		return k.Want
	}
	switch e.ErrorKind.(type) {
	case *kind.Reference, *kind.Schema, *kind.Group:
	default:
		return nil
	}
	for _, c := range e.Causes {
		if wanted := typesWanted(c, depth); wanted != nil {
			return wanted
		}
	}
	return nil
}

// typeList leaves null out where there is anything else to suggest: it only stands for leaving the member out.
func typeList(types []string) string {
	slices.Sort(types)
	types = slices.Compact(types)
	if i := slices.Index(types, "null"); i >= 0 && len(types) > 1 {
		types = slices.Delete(types, i, i+1)
	}
	if len(types) == 1 {
		return types[0]
	}
	return strings.Join(types[:len(types)-1], ", ") + " or " + types[len(types)-1]
}

// exclusive reports a oneOf; a derived schema says in words what it stands for.
func (r *reporter) exclusive(e *jsonschema.ValidationError, k *kind.OneOf) []Violation {
	if k.Subschemas == nil && r.described(e) == "" {
		return r.alternatives(e)
	}
	text := "wanted exactly one of the alternatives to hold, found several"
	if said := r.described(e); said != "" {
		text = said
	}
	return []Violation{r.at(pointerOf(e.InstanceLocation), "oneOf", text+r.both(e, k))}
}

// both names the members of two branches that hold at once.
func (r *reporter) both(e *jsonschema.ValidationError, k *kind.OneOf) string {
	s, _ := r.schemaAt(e.SchemaURL).(map[string]any)
	branches, _ := s["oneOf"].([]any)
	var names []string
	for _, i := range k.Subschemas {
		if i >= len(branches) {
			continue
		}
		branch, _ := branches[i].(map[string]any)
		required, _ := branch["required"].([]any)
		if len(required) == 1 {
			names = append(names, fmt.Sprintf("%q", required[0]))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " Found " + strings.Join(names, " and ") + "."
}

func (r *reporter) unknown(e *jsonschema.ValidationError, names []string) []Violation {
	var known []string
	if s, ok := r.schemaAt(e.SchemaURL).(map[string]any); ok {
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			if !isAlias(p) {
				known = append(known, name)
			}
		}
	}
	slices.Sort(known)
	// A document may consist of nothing else; more than can be reported need not be worded.
	slices.Sort(names)
	names = names[:min(len(names), DefaultMaxViolations)]
	var out []Violation
	for _, name := range names {
		out = append(out, r.at(AppendPointer(pointerOf(e.InstanceLocation), name), "additionalProperties", unknownMember(name, known)))
	}
	return out
}

// isAlias recognises the second name of a field: nothing but a reference to the property of the first.
func isAlias(property any) bool {
	p, ok := property.(map[string]any)
	if !ok || len(p) != 1 {
		return false
	}
	ref, _ := p["$ref"].(string)
	return strings.Contains(ref, "/properties/")
}

func (r *reporter) described(e *jsonschema.ValidationError) string {
	s, _ := r.schemaAt(e.SchemaURL).(map[string]any)
	text, _ := s["description"].(string)
	return text
}
