// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// parsed reads a schema; nil if there is none. Numbers stay as they are written: bounds of 64-bit integers are beyond a float64.
func parsed(schema json.RawMessage) (any, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	in := json.NewDecoder(bytes.NewReader(schema))
	in.UseNumber()
	var out any
	if err := in.Decode(&out); err != nil {
		return nil, err
	}
	return out, nil
}

// compactJSON is a value without white space, and without escapes for HTML.
func compactJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// pointed finds what a JSON Pointer leads to in a schema.
func pointed(root any, pointer string) (value any, ok bool) {
	if pointer == "" {
		return root, true
	}
	if pointer[0] != '/' {
		return nil, false
	}
	for token := range strings.SplitSeq(pointer[1:], "/") {
		switch v := root.(type) {
		case map[string]any:
			if root, ok = v[unescape(token)]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			root = v[i]
		default:
			return nil, false
		}
	}
	return root, true
}

// unescape is a token of a JSON Pointer as the name that it represents.
func unescape(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// node is one subschema.
type node struct {
	at     string // JSON Pointer in the entry of the list
	level  int    // objects and arrays around it
	schema map[string]any
	isRoot bool
	// property is set for the schema of a property.
	property bool
	// path is by which the configuration file names the property: names with dots between them, through lists and maps. It is
	// empty for the root, and where there is none: in $defs, and below names with dots.
	path string
	// isEntry is set for the members of list items with key and value alone, which can be entries of a map.
	isEntry bool
}

// pathOf is the path of what is under a keyword, and name within it; empty for none.
func (n node) pathOf(keyword, name string) string {
	switch {
	case n.path == "" && !n.isRoot:
		return ""
	case keyword == "properties" && strings.ContainsAny(name, ". \t\n"):
		return ""
	case keyword == "properties" && n.isRoot:
		return name
	case keyword == "properties":
		return n.path + "." + name
	case keyword == "items", keyword == "additionalProperties", keyword == "anyOf":
		return n.path
	default:
		return ""
	}
}

// walk calls f with a schema and all below it, in the order of their pointers. Lists are read with a bound on their
// depth, so the recursion has one too.
func walk(root any, at string, f func(node)) {
	object, ok := root.(map[string]any)
	if ok {
		walkFrom(node{at: at, schema: object, isRoot: true}, f)
	}
}

func walkFrom(n node, f func(node)) {
	f(n)
	level := n.level
	if n.isContainer() {
		level++
	}
	below := func(value any, at, keyword, name string) {
		if object, ok := value.(map[string]any); ok {
			below := node{at: at, level: level, schema: object, property: keyword == "properties", path: n.pathOf(keyword, name), isEntry: n.isEntry}
			below.isEntry = below.isEntry || keyword == "items" && below.isMapEntry()
			walkFrom(below, f)
		}
	}
	for _, keyword := range slices.Sorted(maps.Keys(n.schema)) {
		at := schema.AppendPointer(n.at, keyword)
		switch value := n.schema[keyword].(type) {
		case map[string]any:
			switch {
			case holdsSchemas(keyword):
				for _, name := range slices.Sorted(maps.Keys(value)) {
					below(value[name], schema.AppendPointer(at, name), keyword, name)
				}
			case isSchema(keyword):
				below(value, at, keyword, "")
			}
		case []any:
			if listsSchemas(keyword) {
				for i, one := range value {
					below(one, at+"/"+strconv.Itoa(i), keyword, "")
				}
			}
		}
	}
}

// isMapEntry reports whether the schema has the form that the profile strict gives to an entry of a map.
func (n node) isMapEntry() bool {
	members := n.members("properties")
	return len(members) == 2 && members[schema.EntryKey] != nil && members[schema.EntryValue] != nil
}

// isContainer reports whether the schema is one of objects with members, or of arrays.
func (n node) isContainer() bool {
	_, hasProperties := n.schema["properties"]
	_, hasItems := n.schema["items"]
	return hasProperties || hasItems || slices.Contains(n.types(), "object") || slices.Contains(n.types(), "array")
}

// types are the types that the schema names.
func (n node) types() []string {
	switch kind := n.schema["type"].(type) {
	case string:
		return []string{kind}
	case []any:
		var out []string
		for _, one := range kind {
			if name, ok := one.(string); ok {
				out = append(out, name)
			}
		}
		return out
	default:
		return nil
	}
}

// members is an object of the schema, such as its properties.
func (n node) members(keyword string) map[string]any {
	out, _ := n.schema[keyword].(map[string]any)
	return out
}

// list is an array of the schema, such as its enum.
func (n node) list(keyword string) []any {
	out, _ := n.schema[keyword].([]any)
	return out
}

func holdsSchemas(keyword string) bool {
	switch keyword {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
		return true
	default:
		return false
	}
}

func isSchema(keyword string) bool {
	switch keyword {
	case "items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "additionalItems",
		"unevaluatedItems", "unevaluatedProperties", "contentSchema":
		return true
	default:
		return false
	}
}

func listsSchemas(keyword string) bool {
	switch keyword {
	case "allOf", "anyOf", "oneOf", "prefixItems", "items":
		return true
	default:
		return false
	}
}

// reference is one $ref of a schema: where it is, and the pointer that it follows, both in the schema itself.
type reference struct{ at, target string }

// references lists the references of a schema. Those that lead out of it are not resolved by anybody.
func references(root any) []reference {
	var out []reference
	walk(root, "", func(n node) {
		ref, ok := n.schema["$ref"].(string)
		if !ok {
			return
		}
		target, isLocal := strings.CutPrefix(ref, "#")
		if plain, err := url.PathUnescape(target); err == nil {
			target = plain
		}
		if !isLocal {
			target = ref
		}
		out = append(out, reference{n.at, target})
	})
	return out
}

// recursive returns the place of a reference by which a schema contains itself. Lists come from anybody, so each target is
// followed once: the time grows with the number of references, and with how deep they stand.
func recursive(root any) (at string, ok bool) {
	g := graphOf(references(root))
	for _, r := range g.refs {
		if at, ok := g.returns(r); ok {
			return at, true
		}
	}
	return "", false
}

// graph is the references of a schema with what they lead to.
type graph struct {
	refs  []reference // in the order of the schema
	below []placed    // sorted by their keys
	state map[string]visit
}

// placed is a reference with its place as a key. Keys end in a slash, so that a place and all below it are neighbours.
type placed struct {
	key string
	reference
}

// visit says how far a target has been followed.
type visit uint8

const (
	unseen   visit = iota
	open           // what it holds is being followed
	finished       // nothing that it leads to contains itself
)

func graphOf(refs []reference) *graph {
	g := &graph{refs: refs, state: map[string]visit{}}
	for _, r := range refs {
		g.below = append(g.below, placed{r.at + "/", r})
	}
	slices.SortFunc(g.below, func(a, b placed) int { return cmp.Compare(a.key, b.key) })
	return g
}

// held are the references at a place and below it.
func (g *graph) held(place string) []placed {
	key := place + "/"
	from := sort.Search(len(g.below), func(i int) bool { return g.below[i].key >= key })
	n := sort.Search(len(g.below)-from, func(i int) bool { return !strings.HasPrefix(g.below[from+i].key, key) })
	return g.below[from : from+n]
}

// returns follows a reference until one leads back to where the way has been, and returns the place of that one. The way is
// as long as the schema makes it, so this is no recursion.
func (g *graph) returns(from reference) (at string, ok bool) {
	type step struct {
		target string
		left   []placed
	}
	var way []step
	next := from
	for {
		switch g.state[next.target] {
		case open:
			return next.at, true
		case unseen:
			g.state[next.target] = open
			way = append(way, step{next.target, g.held(next.target)})
		case finished:
		}
		for len(way) > 0 && len(way[len(way)-1].left) == 0 {
			g.state[way[len(way)-1].target] = finished
			way = way[:len(way)-1]
		}
		if len(way) == 0 {
			return "", false
		}
		last := &way[len(way)-1]
		next, last.left = last.left[0].reference, last.left[1:]
	}
}
