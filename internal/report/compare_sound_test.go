// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// valueSchema draws a schema of a scalar, an array, an object or alternatives.
func valueSchema(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		kinds := []string{"integer", "string", "mixed", "enum", "boolean"}
		if depth > 0 {
			kinds = append(kinds, "array", "object", "map", "anyOf", "oneOf", "not", "allOf")
		}
		small := rapid.IntRange(0, 3)
		maybe := func(m map[string]any, keyword string, g *rapid.Generator[int]) {
			if rapid.Bool().Draw(t, "has "+keyword) {
				m[keyword] = g.Draw(t, keyword)
			}
		}
		m := map[string]any{}
		switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
		case "integer", "mixed":
			m["type"] = kind
			if kind == "mixed" {
				m["type"] = []any{"integer", "string", "null"}
				m["pattern"] = rapid.SampledFrom([]string{"^[0-9]+$", "^(0|[1-9][0-9]*)$", "1", "^$"}).Draw(t, "pattern")
			}
			maybe(m, "minimum", small)
			maybe(m, "exclusiveMaximum", small)
			maybe(m, "multipleOf", rapid.IntRange(1, 3))
		case "string":
			m["type"] = "string"
			maybe(m, "minLength", small)
			maybe(m, "maxLength", small)
			if rapid.Bool().Draw(t, "has pattern") {
				m["pattern"] = rapid.SampledFrom([]string{"^a", "^a+$", "b", "^[ab]*$", "^(ab)?$"}).Draw(t, "pattern")
			}
		case "boolean":
			m["type"] = "boolean"
		case "enum":
			m["enum"] = rapid.SliceOfN(rapid.SampledFrom([]any{"a", "b", json.Number("1"), nil, true}), 1, 3).Draw(t, "enum")
		case "array":
			m["type"] = "array"
			m["items"] = valueSchema(depth-1).Draw(t, "items")
			maybe(m, "minItems", small)
			maybe(m, "maxItems", small)
			if rapid.Bool().Draw(t, "unique") {
				m["uniqueItems"] = true
			}
		case "map":
			m["type"] = []any{"object", "null"}
			m["additionalProperties"] = valueSchema(depth-1).Draw(t, "values")
			m["propertyNames"] = map[string]any{"pattern": rapid.SampledFrom([]string{"^x", "x|y"}).Draw(t, "names")}
			maybe(m, "maxProperties", small)
		case "object":
			m = objectSchema(depth-1).Draw(t, "object")
		case "not":
			m["not"] = valueSchema(depth-1).Draw(t, "not")
		default:
			var list []any
			for range rapid.IntRange(1, 3).Draw(t, "branches") {
				list = append(list, any(valueSchema(depth-1).Draw(t, "branch")))
			}
			m[kind] = list
			if rapid.Bool().Draw(t, "or null") && kind == "anyOf" {
				m[kind] = append(list, map[string]any{"type": "null"})
			}
		}
		return m
	})
}

// objectSchema draws an object with the clauses of derived schemas.
func objectSchema(depth int) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		properties := map[string]any{}
		required := []any{}
		for _, name := range []string{"x", "y"} {
			if rapid.Bool().Draw(t, name) {
				properties[name] = valueSchema(depth).Draw(t, name)
				if rapid.Bool().Draw(t, name+" is required") {
					required = append(required, name)
				}
			}
		}
		m := map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
		if len(properties) == 2 && rapid.Bool().Draw(t, "oneof") {
			branches := []any{map[string]any{"required": []any{"x"}}, map[string]any{"required": []any{"y"}}}
			if rapid.Bool().Draw(t, "may be empty") {
				branches = append(branches, map[string]any{"properties": map[string]any{"x": false, "y": false}})
			}
			clause := map[string]any{"oneOf": branches}
			switch rapid.IntRange(0, 2).Draw(t, "form") {
			case 0:
				m["allOf"] = []any{clause}
			case 1:
				m["if"], m["else"] = clause, map[string]any{"not": map[string]any{}}
			default:
				m["type"] = []any{"object", "null"}
				m["allOf"] = []any{map[string]any{"if": map[string]any{"type": "object"}, "then": map[string]any{"allOf": []any{clause}}}}
			}
		}
		return m
	})
}

// randomDocument draws values that are likely to be near a bound of the schemas above.
func randomDocument(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kind := rapid.IntRange(0, 6).Draw(t, "kind")
		if depth == 0 && kind > 4 {
			kind -= 4
		}
		switch kind {
		case 0:
			return nil
		case 1, 2:
			return rapid.SampledFrom([]any{"", "a", "b", "ab", "aa", "1", "10", "01"}).Draw(t, "string")
		case 3:
			return rapid.IntRange(-1, 4).Draw(t, "integer")
		case 4:
			return rapid.Bool().Draw(t, "boolean")
		case 5:
			list := []any{}
			for range rapid.IntRange(0, 3).Draw(t, "entries") {
				list = append(list, randomDocument(depth-1).Draw(t, "entry"))
			}
			return list
		}
		object := map[string]any{}
		for _, name := range []string{"x", "y"} {
			if rapid.Bool().Draw(t, "has "+name) {
				object[name] = randomDocument(depth-1).Draw(t, name)
			}
		}
		return object
	})
}

// changed draws a schema that differs from another in few places.
func changed(from map[string]any) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		if rapid.IntRange(0, 4).Draw(t, "anew") == 0 {
			return objectSchema(2).Draw(t, "other")
		}
		var copied map[string]any
		if err := json.Unmarshal([]byte(text(from)), &copied); err != nil {
			t.Fatal(err)
		}
		mutate(t, copied, 3)
		return copied
	})
}

func mutate(t *rapid.T, m map[string]any, depth int) {
	other := valueSchema(1).Draw(t, "mutation")
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0: // one keyword goes
		if keys := sortedKeys(m); len(keys) > 0 {
			k := rapid.SampledFrom(keys).Draw(t, "keyword")
			if k != "additionalProperties" { // an open object that closes a property is compatible by convention
				delete(m, k)
			}
		}
	case 1: // keywords come
		for k, v := range other {
			if k != "additionalProperties" {
				m[k] = v
			}
		}
	default: // something below changes
		var below []map[string]any
		for _, k := range sortedKeys(m) {
			switch v := m[k].(type) {
			case map[string]any:
				below = append(below, v)
				if k == "properties" {
					below = below[:len(below)-1]
					for _, name := range sortedKeys(v) {
						if p, ok := v[name].(map[string]any); ok {
							below = append(below, p)
						}
					}
				}
			case []any:
				for _, e := range v {
					if p, ok := e.(map[string]any); ok {
						below = append(below, p)
					}
				}
			}
		}
		if len(below) > 0 && depth > 0 {
			mutate(t, rapid.SampledFrom(below).Draw(t, "below"), depth-1)
		}
	}
}

// TestNothingCompatibleRefusesWhatWorked looks for arguments that the old input admits and the new one refuses, although
// no change between them is said to break them, or that it may.
func TestNothingCompatibleRefusesWhatWorked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := objectSchema(2).Draw(t, "before")
		after := changed(before).Draw(t, "after")
		old, err := schema.Compile(json.RawMessage(text(before)))
		if err != nil {
			t.Skip(err)
		}
		now, err := schema.Compile(json.RawMessage(text(after)))
		if err != nil {
			t.Skip(err)
		}
		changes := compareSchemas("t", "s", false, json.RawMessage(text(before)), json.RawMessage(text(after)), DiffLimits{}.withDefaults())
		if mayBreak(changes) {
			return
		}
		for range 10 {
			raw := []byte(text(randomDocument(3).Draw(t, "document")))
			worked, err := old.Validate(raw)
			if err != nil || len(worked) > 0 {
				continue
			}
			if refused, err := now.Validate(raw); err != nil || len(refused) > 0 {
				t.Fatalf("%s\nwas admitted by %s\nand is refused by %s: %v %v\nchanges:\n%s", raw, text(before), text(after), refused, err, dump(changes))
			}
		}
	})
}

// TestSameIsNoChange: nothing differs from itself, written in another order.
func TestSameIsNoChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := objectSchema(3).Draw(t, "schema")
		turned := json.RawMessage(strings.Replace(text(s), "{", `{"x-made":"anew",`, 1))
		if changes := compareSchemas("t", "s", false, json.RawMessage(text(s)), turned, DiffLimits{}.withDefaults()); len(changes) > 0 {
			t.Fatalf("%s\n%s", text(s), dump(changes))
		}
	})
}

// TestBothWays: what breaks nothing in either direction changes nothing but texts.
func TestBothWays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := objectSchema(2).Draw(t, "before")
		after := changed(before).Draw(t, "after")
		there := compareSchemas("t", "s", false, json.RawMessage(text(before)), json.RawMessage(text(after)), DiffLimits{}.withDefaults())
		back := compareSchemas("t", "s", false, json.RawMessage(text(after)), json.RawMessage(text(before)), DiffLimits{}.withDefaults())
		if len(there) > 0 && !mayBreak(there) && !mayBreak(back) {
			t.Fatalf("%s\n%s\nthere:\n%s\nback:\n%s", text(before), text(after), dump(there), dump(back))
		}
	})
}
