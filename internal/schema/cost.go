// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Bounds of what a schema costs, however few bytes it has.
const (
	// maxSubschemas bounds the time to compile a schema, which grows with the square of their number: a second.
	maxSubschemas = 10000
	// maxExpansion bounds how many schemas are put to one value, counting each as often as references lead to it.
	maxExpansion = 1 << 14
	// maxPatternSize bounds the memory of all patterns of a schema, in instructions of 40 bytes.
	maxPatternSize = 1 << 18
)

// inPlace lists the schemas that are put to the same value as a schema itself.
func inPlace(s *jsonschema.Schema) []*jsonschema.Schema {
	out := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, slices.Collect(maps.Values(s.DependentSchemas)))
	out = append(out, s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else)
	if s.DynamicRef != nil {
		out = append(out, s.DynamicRef.Ref)
	}
	for _, d := range s.Dependencies {
		below, _ := d.(*jsonschema.Schema)
		out = append(out, below)
	}
	return slices.DeleteFunc(out, isNil)
}

// ofMembers and ofItems list the schemas that are put to each member of an object, or item of an array. Those of single
// members are in Properties.
func ofMembers(s *jsonschema.Schema) []*jsonschema.Schema {
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	out := append(slices.Collect(maps.Values(s.PatternProperties)), s.PropertyNames, s.UnevaluatedProperties, additional)
	return slices.DeleteFunc(out, isNil)
}

func ofItems(s *jsonschema.Schema) []*jsonschema.Schema {
	out := append(slices.Clone(s.PrefixItems), s.Items2020, s.Contains, s.UnevaluatedItems)
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		out = append(out, items)
	case []*jsonschema.Schema:
		out = append(out, items...)
	}
	additional, _ := s.AdditionalItems.(*jsonschema.Schema)
	return slices.DeleteFunc(append(out, additional), isNil)
}

func isNil(s *jsonschema.Schema) bool { return s == nil }

// graphOf lists a schema and all that it leads to, each once.
func graphOf(root *jsonschema.Schema) []*jsonschema.Schema {
	seen := map[*jsonschema.Schema]bool{root: true}
	all := []*jsonschema.Schema{root}
	for i := 0; i < len(all); i++ {
		s := all[i]
		for _, below := range slices.Concat(inPlace(s), ofMembers(s), ofItems(s), slices.Collect(maps.Values(s.Properties))) {
			if !seen[below] {
				seen[below] = true
				all = append(all, below)
			}
		}
	}
	return all
}

// checkExpansion refuses schemas that put too many schemas to one value, or one to it without end.
func checkExpansion(all []*jsonschema.Schema) error {
	sizes := map[*jsonschema.Schema]int{} // 0 while a schema is being looked at
	var size func(s *jsonschema.Schema) (int, error)
	size = func(s *jsonschema.Schema) (int, error) {
		if n, ok := sizes[s]; ok {
			if n == 0 {
				return 0, fmt.Errorf("%s refers to itself without a property or an item between", place(s))
			}
			return n, nil
		}
		sizes[s] = 0
		n := 1
		for _, below := range inPlace(s) {
			more, err := size(below)
			if err != nil {
				return 0, err
			}
			if n += more; n > maxExpansion {
				return 0, fmt.Errorf("%s puts more than %d schemas to one value, counting each as often as references lead to it; "+
					"use fewer nested references, allOf, anyOf or oneOf", place(s), maxExpansion)
			}
		}
		sizes[s] = n
		return n, nil
	}
	for _, s := range all {
		if _, err := size(s); err != nil {
			return err
		}
	}
	return nil
}

func place(s *jsonschema.Schema) string {
	if at := s.Location[len(resourceURL):]; at != "#" {
		return at
	}
	return "the root"
}

// countSubschemas counts what may be schemas in a document: objects, and true and false.
func countSubschemas(document any) int {
	n := 0
	switch v := document.(type) {
	case bool:
		return 1
	case map[string]any:
		n = 1
		for name, member := range v {
			switch name {
			case "enum", "const", "default", "examples":
				if _, isSchema := member.(map[string]any); !isSchema || name == "const" || name == "default" {
					continue
				}
			}
			n += countSubschemas(member)
		}
	case []any:
		for _, item := range v {
			n += countSubschemas(item)
		}
	}
	return n
}

// cost is what it takes to put one schema to a value, without what the schemas below take for themselves.
type cost struct {
	any               int
	object, perMember int
	perItem           int
	members           map[string]int // more for these
}

func costOf(s *jsonschema.Schema) cost {
	// A branch that fails leaves an error behind until the others have failed too.
	branches := headsOf(s.AnyOf) + headsOf(s.OneOf)
	c := cost{any: 1 + headsOf(inPlace(s)) + branches, object: len(s.Required), perMember: 1 + headsOf(ofMembers(s)), perItem: 1 + headsOf(ofItems(s))}
	for _, names := range s.DependentRequired {
		c.object += 1 + len(names)
	}
	for name, below := range s.Properties {
		if n := headOf(below); n > 1 {
			if c.members == nil {
				c.members = map[string]int{}
			}
			c.members[name] = n
		}
	}
	if s.UniqueItems {
		c.perItem += 2
	}
	return c
}

func (c *cost) of(value any) int {
	switch v := value.(type) {
	case map[string]any:
		n := c.any + c.object + len(v)*c.perMember
		for name, more := range c.members {
			if _, ok := v[name]; ok {
				n += more
			}
		}
		return n
	case []any:
		return c.any + len(v)*c.perItem
	case string:
		return c.any + len(v)/(64*bytesPerStep) // its length is counted
	}
	return c.any
}

// headOf is what the type and the fixed values of a schema take, which the library looks at first.
func headOf(s *jsonschema.Schema) int {
	n := 0
	if s.Enum != nil {
		n += valuesOf(s.Enum.Values)
	}
	if s.Const != nil {
		n += valuesOf(*s.Const)
	}
	return 1 + n/valuesPerStep
}

func headsOf(list []*jsonschema.Schema) int {
	n := 0
	for _, s := range list {
		n += headOf(s)
	}
	return n
}

// valuesPerStep is how many fixed values are compared in the time of a step; a number takes the time of that many others.
const valuesPerStep = 8

func valuesOf(value any) int {
	n := 1
	switch v := value.(type) {
	case json.Number:
		return valuesPerStep
	case map[string]any:
		for _, member := range v {
			n += valuesOf(member)
		}
	case []any:
		for _, item := range v {
			n += valuesOf(item)
		}
	}
	return n
}
