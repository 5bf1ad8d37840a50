// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// maxDepth is how deep places are looked for: messages that contain themselves have them at any depth.
const maxDepth = 14

// places are the places for values of some schemas: all ways along properties, items and entries, with every $ref followed.
// How the schemas are written down makes no difference to them.
type places struct {
	count  uint64
	digest string
}

// inputPlaces are those of the inputs that a list shows.
func inputPlaces(c *catalog.Catalog) (places, error) {
	var out places
	hash := sha256.New()
	for _, t := range c.Tools() {
		s, err := parse(string(c.ListForm().Input(t)))
		if err != nil {
			return places{}, fmt.Errorf("%s: %w", t.Name, err)
		}
		found, err := s.of(s.root, "#", maxDepth)
		if err != nil {
			return places{}, fmt.Errorf("%s: %w", t.Name, err)
		}
		out.count += found.count
		fmt.Fprintf(hash, "%s %x\n", t.Name, found.digest)
	}
	out.digest = hex.EncodeToString(hash.Sum(nil))
	return out, nil
}

// schema is a document whose places are counted.
type schema struct {
	root any
	// known are nodes by their pointer and the depth that is left.
	known map[string]node
}

func parse(text string) (*schema, error) {
	s := &schema{known: map[string]node{}}
	return s, json.Unmarshal([]byte(text), &s.root)
}

// node are the places below a subschema.
type node struct {
	count  uint64
	digest [sha256.Size]byte
}

// of counts the places below a subschema, which is at a pointer.
func (s *schema) of(value any, at string, depth int) (node, error) {
	key := fmt.Sprint(at, " ", depth)
	if n, ok := s.known[key]; ok {
		return n, nil
	}
	below := map[string]node{}
	if err := s.gather(value, at, depth, below, 0); err != nil {
		return node{}, err
	}
	n := node{}
	hash := sha256.New()
	for _, step := range slices.Sorted(maps.Keys(below)) {
		n.count += 1 + below[step].count
		fmt.Fprintf(hash, "%q %x\n", step, below[step].digest)
	}
	hash.Sum(n.digest[:0])
	s.known[key] = n
	return n, nil
}

// maxRefs bounds the references that lead to one another.
const maxRefs = 64

// gather collects the steps that lead on from a subschema.
func (s *schema) gather(value any, at string, depth int, below map[string]node, refs int) error {
	object, ok := value.(map[string]any)
	if !ok || depth == 0 {
		return nil
	}
	if ref, ok := object["$ref"].(string); ok {
		if refs == maxRefs {
			return fmt.Errorf("%s: references without an end", at)
		}
		target, err := s.follow(ref)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if err := s.gather(target, ref, depth, below, refs+1); err != nil {
			return err
		}
	}
	step := func(name string, value any, at string) error {
		n, err := s.of(value, at, depth-1)
		below[name] = n
		return err
	}
	properties, _ := object["properties"].(map[string]any)
	for name, property := range properties {
		if err := step("."+name, property, at+"/properties/"+name); err != nil {
			return err
		}
	}
	if items, ok := object["items"].(map[string]any); ok {
		if err := step("[]", items, at+"/items"); err != nil {
			return err
		}
	}
	if entries, ok := object["additionalProperties"].(map[string]any); ok {
		if err := step("{}", entries, at+"/additionalProperties"); err != nil {
			return err
		}
	}
	choices, _ := object["anyOf"].([]any)
	for i, choice := range choices {
		if err := s.gather(choice, fmt.Sprint(at, "/anyOf/", i), depth, below, refs); err != nil {
			return err
		}
	}
	return nil
}

// follow finds what a reference names.
func (s *schema) follow(ref string) (any, error) {
	at := s.root
	for token := range strings.SplitSeq(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
		if token == "" {
			continue
		}
		object, _ := at.(map[string]any)
		next, ok := object[token]
		if !ok {
			return nil, fmt.Errorf("%s leads nowhere", ref)
		}
		at = next
	}
	return at, nil
}
