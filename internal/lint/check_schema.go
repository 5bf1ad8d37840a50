// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// nodes asks each subschema of the fact's schemas what is wrong with it; empty for nothing. A finding names the first
// place and counts the others. Without a fix, the one for schemas is taken.
func (c *check) nodes(t *Tool, fix Fix, wrong func(n node) string) {
	for _, s := range t.schemas(c.fact) {
		var at, what string
		more := -1
		walk(s.root, "/"+s.member, func(n node) {
			text := wrong(n)
			if text == "" {
				return
			}
			if more++; more == 0 {
				at, what = n.at, text
			}
		})
		if more < 0 {
			continue
		}
		if more > 0 {
			what += ", and " + plural(more, "more place")
		}
		if fix.Text == "" {
			c.add(t, at, c.schemaFix(t, s), "%s", what)
		} else {
			c.add(t, at, fix, "%s", what)
		}
	}
}

// root asks the roots of the fact's schemas alone.
func (c *check) root(t *Tool, wrong func(n node) string) {
	c.nodes(t, Fix{}, func(n node) string {
		if !n.isRoot {
			return ""
		}
		return wrong(n)
	})
}

// whole looks at a schema as a whole; at is the place to show.
func (c *check) whole(t *Tool, wrong func(root any) (at, what string)) {
	for _, s := range t.schemas(c.fact) {
		if at, what := wrong(s.root); what != "" {
			c.add(t, "/"+s.member+at, c.schemaFix(t, s), "%s", what)
		}
	}
}

// schemaFix is what to do about a schema that a client does not take.
func (c *check) schemaFix(t *Tool, s schemaOf) Fix {
	switch {
	case s.member == "outputSchema" && c.fact.Rule == "recursive-ref":
		return c.entry(t, "show the result without what contains itself", "output_schema", opened(s.root))
	case !c.options.Strict:
		return Fix{Text: "advertise schemas in the subset that all providers take", change: change{strict: true}}.rendered()
	case s.member == "outputSchema":
		return c.entry(t, "show less of the result", "output_schema", anyObject)
	default:
		return Fix{Text: "declare an input_schema for the tool in the configuration file"}
	}
}

func (c *check) rootType(t *Tool) {
	c.root(t, func(n node) string {
		if n.schema["type"] == "object" {
			return ""
		}
		return `the root of the schema has no "type": "object"`
	})
}

func (c *check) rootProperties(t *Tool) {
	c.root(t, func(n node) string {
		if n.members("properties") != nil {
			return ""
		}
		return `the root of the schema has no "properties"`
	})
}

func (c *check) rootCombinator(t *Tool) {
	c.root(t, func(n node) string {
		if found := c.wordsIn(n); found != "" {
			return "the root of the schema has " + found
		}
		return ""
	})
}

// wordsIn names those words of the fact that are keywords of a schema.
func (c *check) wordsIn(n node) string {
	var found []string
	for _, word := range c.fact.Words {
		if _, ok := n.schema[word]; ok {
			found = append(found, word)
		}
	}
	return strings.Join(found, ", ")
}

func (c *check) keyword(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		if found := c.wordsIn(n); found != "" {
			return "the schema has " + found
		}
		return ""
	})
}

// propertyName looks at the arguments alone: providers do not look at what is in them.
func (c *check) propertyName(t *Tool) {
	pattern, err := regexp.Compile(c.fact.Pattern)
	if err != nil {
		return // a test compiles the patterns of all facts
	}
	c.root(t, func(n node) string {
		for _, name := range slices.Sorted(maps.Keys(n.members("properties"))) {
			if !pattern.MatchString(name) {
				return fmt.Sprintf("the argument %s does not match %s", quoted(name), c.fact.Pattern)
			}
		}
		return ""
	})
}

func (c *check) format(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		format, ok := n.schema["format"].(string)
		if !ok || !slices.Contains(n.types(), "string") || slices.Contains(c.fact.Words, format) {
			return ""
		}
		return "a string has the format " + quoted(format)
	})
}

func (c *check) typeList(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		if n.list("type") == nil {
			return ""
		}
		return "a schema has a list of types"
	})
}

func (c *check) enumType(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		if !areTexts(n.list("enum")) {
			return "an enum has values that are no strings"
		}
		return ""
	})
}

func (c *check) arrayItems(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		if _, ok := n.schema["items"]; ok || !slices.Contains(n.types(), "array") {
			return ""
		}
		return `an array has no "items"`
	})
}

func (c *check) emptyObject(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		if n.isRoot || !slices.Contains(n.types(), "object") || len(n.members("properties")) > 0 {
			return ""
		}
		return "an object has no properties"
	})
}

func (c *check) requiredAll(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		required := map[string]bool{}
		for _, name := range n.list("required") {
			if text, ok := name.(string); ok {
				required[text] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(n.members("properties"))) {
			if !required[name] {
				return "the property " + quoted(name) + " is not required"
			}
		}
		return ""
	})
}

func (c *check) closedObjects(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		if !slices.Contains(n.types(), "object") || n.schema["additionalProperties"] == false {
			return ""
		}
		return `an object has no "additionalProperties": false`
	})
}

func (c *check) ref(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		if ref, ok := n.schema["$ref"].(string); ok {
			return "the schema has $ref " + quoted(ref)
		}
		return ""
	})
}

func (c *check) recursiveRef(t *Tool) {
	c.whole(t, func(root any) (string, string) {
		if at, ok := recursive(root); ok {
			return at + "/$ref", "the schema contains itself by $ref"
		}
		return "", ""
	})
}

func (c *check) danglingRef(t *Tool) {
	c.whole(t, func(root any) (string, string) {
		for _, r := range references(root) {
			if !resolves(root, r.target) {
				return r.at + "/$ref", "the reference " + quoted(r.target) + " leads nowhere in the schema"
			}
		}
		return "", ""
	})
}

func (c *check) depth(t *Tool) {
	c.whole(t, func(root any) (at, what string) {
		deepest := 0
		walk(root, "", func(n node) {
			if level := n.level + 1; n.isContainer() && level > deepest {
				deepest, at = level, n.at
			}
		})
		return at, c.above(deepest, "levels of objects and arrays")
	})
}

// above says that a number is above the limit of the fact; empty if it is not.
func (c *check) above(n int, of string) string {
	if n <= c.fact.Limit {
		return ""
	}
	return fmt.Sprintf("the schema has %d %s; %s", n, of, c.limit(of))
}

// sum adds up what the subschemas have.
func (c *check) sum(t *Tool, of string, count func(n node) int) {
	c.whole(t, func(root any) (string, string) {
		sum := 0
		walk(root, "", func(n node) { sum += count(n) })
		return "", c.above(sum, of)
	})
}

func (c *check) propertyCount(t *Tool) {
	c.sum(t, "properties", func(n node) int { return len(n.members("properties")) })
}

func (c *check) enumSize(t *Tool) {
	c.sum(t, "values of enums", func(n node) int { return len(n.list("enum")) })
}

// manyValues is the number of values of an enum above which the length of their text counts.
const manyValues = 250

func (c *check) enumText(t *Tool) {
	c.nodes(t, Fix{}, func(n node) string {
		values := n.list("enum")
		if len(values) <= manyValues {
			return ""
		}
		return c.above(textOf(values), "characters in an enum")
	})
}

// textOf is the length of all texts among some values.
func textOf(values []any) int {
	sum := 0
	for _, v := range values {
		if text, ok := v.(string); ok {
			sum += length(text)
		}
	}
	return sum
}

func (c *check) schemaText(t *Tool) {
	c.sum(t, "characters in names and enums", func(n node) int {
		sum := textOf(n.list("enum"))
		for _, keyword := range [...]string{"properties", "$defs"} {
			for name := range n.members(keyword) {
				sum += length(name)
			}
		}
		if text, ok := n.schema["const"].(string); ok {
			sum += length(text)
		}
		return sum
	})
}

// anyObject is the schema of a result that says nothing.
const anyObject = `{"type":"object"}`

// maxOpened is the largest schema that a fix proposes, in bytes.
const maxOpened = 16 << 10

// opened is a schema that all clients take and that allows everything that another one does: a reference becomes any object,
// and of the keywords those remain that every provider knows.
func opened(root any) string {
	text, err := compactJSON(openedSchema(root))
	if err != nil || len(text) > maxOpened {
		return anyObject
	}
	return string(text)
}

func openedSchema(value any) any {
	from, ok := value.(map[string]any)
	if !ok {
		return value // true or false
	}
	out := map[string]any{}
	if text, ok := from["description"]; ok {
		out["description"] = text
	}
	if _, ok := from["$ref"]; ok {
		out["type"] = "object"
		return out
	}
	for name, member := range from {
		switch m := member.(type) {
		case string:
			if name == "type" {
				out[name] = m
			}
		case map[string]any:
			switch name {
			case "properties":
				properties := make(map[string]any, len(m))
				for property, one := range m {
					properties[property] = openedSchema(one)
				}
				out[name] = properties
			case "items", "additionalProperties":
				out[name] = openedSchema(m)
			}
		case []any:
			switch {
			case name == "required", name == "enum" && areTexts(m):
				out[name] = m
			case name == "anyOf":
				choices := make([]any, len(m))
				for i, one := range m {
					choices[i] = openedSchema(one)
				}
				out[name] = choices
			}
		case bool:
			if name == "additionalProperties" {
				out[name] = m
			}
		}
	}
	return out
}

func areTexts(values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool { _, isText := v.(string); return !isText })
}
