// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// operation is one of a JSON patch, RFC 6902.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// JSONPatch renders the edits for a pod in the form that the API server sent.
// It only adds and replaces what the edits name, so that fields that this
// program does not know stay as they are.
func (d Decision) JSONPatch(pod []byte) ([]byte, error) {
	var tree map[string]any
	if err := json.Unmarshal(pod, &tree); err != nil {
		return nil, fmt.Errorf("the pod: %w", err)
	}
	var out []operation
	for _, e := range d.Edits {
		operations, err := e.apply(tree)
		if err != nil {
			return nil, err
		}
		out = append(out, operations...)
	}
	return json.Marshal(out)
}

// apply changes a tree, and says how in JSON patch.
func (e Edit) apply(tree map[string]any) ([]operation, error) {
	var out []operation
	var here any = tree
	for n, name := range e.Path {
		pointer := pointerTo(e.Path[:n+1])
		switch parent := here.(type) {
		case map[string]any:
			next := parent[name]
			if next == nil {
				next = map[string]any{}
				if e.Key == "" && n == len(e.Path)-1 {
					next = []any{}
				}
				out = append(out, operation{"add", pointer, empty(next)})
				parent[name] = next
			}
			here = next
		case []any:
			index, err := strconv.Atoi(name)
			if err != nil || index < 0 || index >= len(parent) {
				return nil, fmt.Errorf("%s: the list has no such element", pointer)
			}
			here = parent[index]
		default:
			return nil, fmt.Errorf("%s: its parent is neither a map nor a list", pointer)
		}
	}
	if e.Key == "" {
		list, ok := here.([]any)
		if !ok {
			return nil, fmt.Errorf("%s is not a list", pointerTo(e.Path))
		}
		setAt(tree, e.Path, slices.Insert(list, 0, e.Value))
		return append(out, operation{"add", pointerTo(e.Path) + "/0", e.Value}), nil
	}
	parent, ok := here.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s is not a map", pointerTo(e.Path))
	}
	op := "add"
	if _, found := parent[e.Key]; found {
		op = "replace"
	}
	parent[e.Key] = e.Value
	return append(out, operation{op, pointerTo(append(slices.Clone(e.Path), e.Key)), e.Value}), nil
}

// empty is an empty copy, because the original is filled later.
func empty(v any) any {
	if _, list := v.([]any); list {
		return []any{}
	}
	return map[string]any{}
}

// setAt puts a list back where its path leads; appending may have moved it.
func setAt(tree map[string]any, path []string, list []any) {
	var here any = tree
	for _, name := range path[:len(path)-1] {
		switch parent := here.(type) {
		case map[string]any:
			here = parent[name]
		case []any:
			index, _ := strconv.Atoi(name) // was used before
			here = parent[index]
		}
	}
	if parent, ok := here.(map[string]any); ok {
		parent[path[len(path)-1]] = list
	}
}

// pointerTo is a path as RFC 6901 writes it.
func pointerTo(path []string) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
	}
	return b.String()
}
