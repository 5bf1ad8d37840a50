// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// document is one schema with its definitions.
type document struct{ root any }

func parseDocument(raw json.RawMessage) (*document, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // bounds of 64-bit integers are beyond a float64
	d := &document{}
	if err := decoder.Decode(&d.root); err != nil {
		return nil, fmt.Errorf("parse schema: %w", err)
	}
	return d, nil
}

// place is a subschema where it stands.
type place struct {
	doc *document
	// at is its JSON Pointer within the document.
	at    string
	value any
	// tag tells a schema that was made up from a part of another apart from that other, which has the same pointer.
	tag string
}

func (d *document) whole() place { return place{doc: d, value: d.root} }

// anything is the schema that admits all, standing where a keyword is absent.
func (p place) anything(keyword string) place {
	return place{doc: p.doc, at: p.at, value: true, tag: "no " + keyword}
}

// child is the subschema under a keyword.
func (p place) child(value any, tokens ...string) place {
	var at strings.Builder
	at.WriteString(p.at)
	for _, t := range tokens {
		at.WriteString("/" + escapeToken(t))
	}
	return place{doc: p.doc, at: at.String(), value: value}
}

func escapeToken(t string) string {
	return strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1")
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
func (d *document) resolve(ref string) (p place, ok bool) {
	pointer, ok := pointerOf(ref)
	if !ok {
		return place{}, false
	}
	value := d.root
	if pointer != "" {
		for token := range strings.SplitSeq(pointer[1:], "/") {
			token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
			switch v := value.(type) {
			case map[string]any:
				if value, ok = v[token]; !ok {
					return place{}, false
				}
			case []any:
				i, err := strconv.Atoi(token)
				if err != nil || i < 0 || i >= len(v) {
					return place{}, false
				}
				value = v[i]
			default:
				return place{}, false
			}
		}
	}
	return place{doc: d, at: pointer, value: value}, true
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
		if not, ok := v["not"]; ok {
			inner, isObject := not.(map[string]any)
			return not == true || isObject && len(inner) == 0
		}
	}
	return false
}

// isJustType holds for a schema that says the type, and nothing else that matters.
func isJustType(v any, name string) bool {
	m, ok := v.(map[string]any)
	return ok && m["type"] == name && onlyKeywords(m, "type")
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
