// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

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

// holders finds the objects whose member has a refused name. The library hands out a location for this keyword that it
// goes on to overwrite: only its length is right, and so is the place in the schema. What is looked for are the objects
// at that depth which have the member; where the schema names a property, its last step has to be that property, in any
// of its spellings. Objects of one schema that share a bad name are all at fault.
func (r *reporter) holders(e *jsonschema.ValidationError, name string) [][]string {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	steps := strings.Split(fragment, "/")
	property := ""
	if n := len(steps); n >= 3 && steps[n-1] == "propertyNames" && steps[n-3] == "properties" {
		if text, err := url.PathUnescape(steps[n-2]); err == nil {
			property = strings.ReplaceAll(strings.ReplaceAll(text, "~1", "/"), "~0", "~")
		}
	}
	var out [][]string
	for _, way := range r.objectsAt(len(e.InstanceLocation)) {
		if property != "" && (len(way) == 0 || foldName(way[len(way)-1]) != foldName(property)) {
			continue
		}
		object, _ := lookUp(r.doc, way, false).(map[string]any)
		if _, has := object[name]; has {
			out = append(out, way)
		}
		if len(out) == DefaultMaxViolations || !r.budget.spend(1) {
			break
		}
	}
	if len(out) == 0 {
		out = append(out, e.InstanceLocation)
	}
	return out
}

// objectsAt lists the ways to all objects at one depth, sorted. It is asked for again and again, so it is kept.
func (r *reporter) objectsAt(depth int) [][]string {
	if ways, ok := r.objects[depth]; ok {
		return ways
	}
	var out [][]string
	var walk func(v any, way []string)
	walk = func(v any, way []string) {
		switch v := v.(type) {
		case map[string]any:
			if len(way) == depth {
				out = append(out, slices.Clone(way))
				return
			}
			for key, below := range v {
				walk(below, append(way, key))
			}
		case []any:
			for i, below := range v {
				if len(way) < depth {
					walk(below, append(way, strconv.Itoa(i)))
				}
			}
		}
	}
	walk(r.doc, nil)
	slices.SortFunc(out, slices.Compare)
	if r.objects == nil {
		r.objects = map[int][][]string{}
	}
	r.objects[depth] = out
	return out
}
