// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// reporter turns the library's tree of errors into violations that a caller, often a model, can act on: one for each
// thing to repair, and of alternatives only the one that the document was closest to.
type reporter struct {
	source any // the schema
	doc    any
}

func (r *reporter) flatten(e *jsonschema.ValidationError) []Violation {
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
		path := AppendPointer(pointerOf(e.InstanceLocation), k.Property)
		return []Violation{r.at(path, "propertyNames", "wanted "+why+" as the name, found "+quote(k.Property))}
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

func typeList(types []string) string {
	slices.Sort(types)
	types = slices.Compact(types)
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
	return []Violation{r.at(pointerOf(e.InstanceLocation), "oneOf", text)}
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

// schemaAt finds the subschema that a location names, or nil.
func (r *reporter) schemaAt(location string) any {
	_, fragment, _ := strings.Cut(location, "#")
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	return lookUp(r.source, strings.Split(pointer, "/")[1:], true)
}

func lookUp(doc any, tokens []string, escaped bool) any {
	for _, t := range tokens {
		if escaped {
			t = strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~")
		}
		switch d := doc.(type) {
		case map[string]any:
			doc = d[t]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(d) {
				return nil
			}
			doc = d[i]
		default:
			return nil
		}
	}
	return doc
}

func (r *reporter) found(location []string) string {
	switch v := lookUp(r.doc, location, false).(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return clip(v.String())
	case string:
		return "the string " + quote(v)
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d", len(v))
	default:
		return "another value"
	}
}

func clip(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "..."
	}
	return s
}

func (r *reporter) wanted(e *jsonschema.ValidationError) string {
	switch k := e.ErrorKind.(type) {
	case *kind.Type:
		return "wanted " + typeList(slices.Clone(k.Want))
	case *kind.Enum:
		return "wanted " + r.choice(k.Want, e.InstanceLocation)
	case *kind.Const:
		return "wanted " + literal(k.Want)
	case *kind.Format:
		return "wanted " + formatText(k.Want)
	case *kind.Pattern:
		return "wanted text that matches " + clipPattern(k.Want)
	case *kind.Minimum:
		return "wanted at least " + decimal(k.Want)
	case *kind.Maximum:
		return "wanted at most " + decimal(k.Want)
	case *kind.ExclusiveMinimum:
		return "wanted more than " + decimal(k.Want)
	case *kind.ExclusiveMaximum:
		return "wanted less than " + decimal(k.Want)
	case *kind.MultipleOf:
		return "wanted a multiple of " + decimal(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("wanted at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("wanted at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("wanted at least %d items", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("wanted at most %d items", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("wanted at least %d entries", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("wanted at most %d entries", k.Want)
	case *kind.UniqueItems:
		return fmt.Sprintf("wanted every item once (%d and %d are equal)", k.Duplicates[0], k.Duplicates[1])
	case *kind.Not:
		return "wanted a value that is not refused"
	case *kind.FalseSchema:
		return "wanted no value here"
	default:
		return "wanted a value for which " + keywordOf(k) + " holds"
	}
}

// choice lists the values of an enum, or names the one that was most likely meant.
func (r *reporter) choice(values []any, location []string) string {
	var names []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			names = append(names, s)
		}
	}
	if len(names) == 0 {
		var all []string
		for _, v := range values {
			all = append(all, literal(v))
		}
		return "one of " + clip(strings.Join(all, ", "))
	}
	text := "one of " + list(names)
	if s, ok := lookUp(r.doc, location, false).(string); ok {
		if near := Nearest(s, names); near != "" {
			text += " (did you mean " + quote(near) + "?)"
		}
	}
	return text
}

func literal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return "another value"
	}
	return clip(string(raw))
}

// maxPatternShown keeps generated patterns, which explain nothing, out of messages.
const maxPatternShown = 100

func clipPattern(p string) string {
	if len(p) > maxPatternShown {
		return "the pattern of the schema"
	}
	return p
}

func decimal(x *big.Rat) string {
	if x.IsInt() {
		return clip(x.Num().String())
	}
	f, _ := x.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func formatText(name string) string {
	switch name {
	case formatInt32, formatInt64, formatUint32, formatUint64:
		return "an integer of type " + name
	case formatFloat, formatDouble:
		return "a number of type " + name
	case formatByte:
		return "base64"
	case formatDateTime:
		return "an RFC 3339 timestamp such as 2006-01-02T15:04:05Z"
	case formatDuration:
		return "a duration in seconds such as 3.5s"
	case formatFieldMask:
		return "comma-separated lowerCamelCase paths"
	default:
		return "the format " + name
	}
}
