// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// IsRecursive reports whether a schema contains itself by $ref, so that a client that replaces references by what they
// lead to never ends. References by another keyword than $ref count as such; those out of the schema lead nowhere. The time
// grows with the size of the schema.
func IsRecursive(schema json.RawMessage) bool {
	if !slices.ContainsFunc(append(otherReferences[:], "$ref"), func(keyword string) bool { return bytes.Contains(schema, []byte(`"`+keyword+`"`)) }) {
		return false
	}
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	w := refWalk{root: root, open: map[string]bool{}, done: map[string]bool{}}
	return w.follow("#") // what contains the root contains itself
}

// refWalk follows the references of a schema, each target once.
type refWalk struct {
	root       any
	open, done map[string]bool
}

// follow reports whether a target leads back to one that is being followed.
func (w *refWalk) follow(target string) bool {
	switch {
	case w.open[target]:
		return true
	case w.done[target]:
		return false
	}
	w.open[target] = true
	defer func() { w.open[target], w.done[target] = false, true }()
	value, ok := at(w.root, target)
	return ok && w.within(value, target == "#")
}

// within looks for references below a value. Definitions count where something refers to them.
func (w *refWalk) within(value any, isRoot bool) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			switch ref, isText := child.(string); {
			case slices.Contains(otherReferences[:], name):
				return true
			case name == "$ref" && isText:
				if w.follow(ref) {
					return true
				}
			case isRoot && (name == "$defs" || name == "definitions"):
			case w.within(child, false):
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(child any) bool { return w.within(child, false) })
	}
	return false
}

// at is what a JSON Pointer in a fragment leads to.
func at(root any, fragment string) (any, bool) {
	pointer, isLocal := strings.CutPrefix(fragment, "#")
	if !isLocal {
		return nil, false
	}
	for _, token := range strings.Split(pointer, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := root.(type) {
		case map[string]any:
			root = v[token]
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
	return root, root != nil
}
