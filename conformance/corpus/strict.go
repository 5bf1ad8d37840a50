// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Why a document that the strict profile's schema admits is refused all the same.
const (
	// ReasonInWords: the profile has no keywords for ranges, lengths, patterns and the exclusion of members, which its
	// descriptions say in words.
	ReasonInWords Reason = "limit that the strict profile says in words"
	// ReasonQuoted: what a string holds as JSON is only known when the call is made.
	ReasonQuoted Reason = "content of a string that holds JSON"
)

// inWords are the keywords of the canonical schema that the strict profile replaces by words.
func inWords(keyword string) bool {
	switch keyword {
	case "format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
		"minItems", "maxItems", "uniqueItems", "not", "oneOf", "enum", "range", "maxNumberLength":
		return true
	default:
		return false
	}
}

// strictly judges a document that the strict profile's schema admits: once what is in strings is decoded, the
// canonical schema admits it, or refuses it for what this profile says in words. It returns the excuses, or what does not
// hold.
func (c *check) strictly(doc []byte) (excuses []Reason, failed string) {
	plain, places := c.quoted.Unquote(doc)
	found, err := c.input[0].canonical.Validate(plain)
	if err != nil {
		return nil, err.Error()
	}
	for _, v := range found {
		isWithin := slices.ContainsFunc(places, func(place string) bool { return v.Path == place || strings.HasPrefix(v.Path, place+"/") })
		isText := false
		if at, ok := valueAt(plain, v.Path); ok {
			_, isText = at.(string)
		}
		switch {
		case isWithin:
			excuses = append(excuses, ReasonQuoted)
		case inWords(v.Keyword):
			excuses = append(excuses, ReasonInWords)
		case isText && (v.Keyword == "type" || v.Keyword == "anyOf"):
			excuses = append(excuses, ReasonQuoted) // a string that should hold an object, and does not
		default:
			return nil, fmt.Sprintf("at %q: %s: %s", v.Path, v.Keyword, v.Message)
		}
	}
	return excuses, ""
}

// valueAt follows a JSON Pointer.
func valueAt(doc []byte, path string) (any, bool) {
	root, err := parseTree(doc)
	if err != nil {
		return nil, false
	}
	for _, token := range strings.Split(path, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		switch v := root.(type) {
		case object:
			at := slices.IndexFunc(v, func(m member) bool { return m.name == token })
			if at < 0 {
				return nil, false
			}
			root = v[at].value
		case []any:
			var i int
			if _, err := fmt.Sscanf(token, "%d", &i); err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			root = v[i]
		default:
			return nil, false
		}
	}
	return root, true
}

// asShown writes a value the way a schema of the strict profile shows it: every member there, null where it is absent, and
// in a string what the schema has no words for. False means that the schema cannot show this value.
func asShown(shown map[string]any, value any, given bool) (any, bool) {
	if choices, ok := shown["anyOf"].([]any); ok {
		if !given {
			value = nil
		}
		for _, choice := range choices {
			below, _ := choice.(map[string]any)
			if below["type"] == "null" && value == nil {
				return nil, true
			}
			if below["type"] == "null" || value == nil {
				continue
			}
			if len(choices) > 2 && !isScalar(value) {
				continue // a Value is shown as scalars alone: text that holds JSON would be a Value too
			}
			if out, ok := asShown(below, value, true); ok {
				return out, true
			}
		}
		return nil, false
	}
	kind := shown["type"]
	switch v := value.(type) {
	case nil:
		switch {
		case kind == "array" && !given:
			return []any{}, true
		default:
			return nil, kind == "null"
		}
	case object:
		if kind == "string" {
			return string(appendTree(nil, v)), isAllowed(shown, string(appendTree(nil, v)))
		}
		if kind == "array" {
			return entriesAsShown(shown, v)
		}
		return membersAsShown(shown, v)
	case []any:
		if kind == "string" {
			return string(appendTree(nil, v)), isAllowed(shown, string(appendTree(nil, v)))
		}
		items, _ := shown["items"].(map[string]any)
		out := []any{}
		for _, item := range v {
			one, ok := asShown(items, item, true)
			if !ok {
				return nil, false
			}
			out = append(out, one)
		}
		return out, kind == "array"
	case string:
		return v, kind == "string" && isAllowed(shown, v)
	case bool:
		return v, kind == "boolean"
	case json.Number:
		return v, kind == "number" || kind == "integer"
	default:
		return nil, false
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case object, []any:
		return false
	default:
		return true
	}
}

func membersAsShown(shown map[string]any, v object) (any, bool) {
	properties, ok := shown["properties"].(map[string]any)
	if !ok || shown["type"] != "object" {
		return nil, false
	}
	for _, m := range v {
		if _, ok := properties[m.name]; !ok {
			return nil, false
		}
	}
	required, _ := shown["required"].([]any)
	out := object{}
	for _, r := range required {
		name, _ := r.(string)
		below, _ := properties[name].(map[string]any)
		value, given := v.get(name)
		if choices, _ := below["anyOf"].([]any); !given && (len(choices) > 2 || below["type"] == "null") {
			return nil, false // for a Value and a NullValue null is a value, and nothing else can stand for absence
		}
		one, ok := asShown(below, value, given)
		if !ok {
			return nil, false
		}
		out = append(out, member{name, one})
	}
	return out, true
}

// entriesAsShown writes a map as a list of entries.
func entriesAsShown(shown map[string]any, v object) (any, bool) {
	items, _ := shown["items"].(map[string]any)
	out := []any{}
	for _, m := range v {
		one, ok := asShown(items, object{{schema.EntryKey, m.name}, {schema.EntryValue, m.value}}, true)
		if !ok {
			return nil, false
		}
		out = append(out, one)
	}
	return out, true
}

func isAllowed(shown map[string]any, text string) bool {
	values, ok := shown["enum"].([]any)
	return !ok || slices.Contains(values, any(text))
}

// shownStrictly proves that what the strict profile shows can be used: a document in its form is admitted by the schema,
// and is the message that it was made of.
func (c *check) shownStrictly(doc []byte, differs func(wire []byte) string) (claim, detail string) {
	root, err := parseTree(doc)
	if err != nil {
		return "protojson writes JSON", err.Error()
	}
	at := slices.Index(profiles(), schema.ProfileStrict)
	shown, _ := c.input[at].advertised.Document().(map[string]any)
	if c.wrappedInput {
		root = object{{wrappedMember, root}}
	}
	form, ok := asShown(shown, root, true)
	if !ok {
		c.counts.NotShown++
		return "", ""
	}
	c.counts.Shown++
	written := appendTree(nil, form)
	if why := refusal(c.input[at].advertised, written); why != "" {
		return "the strict schema admits its own form", why + "\n\t" + string(written)
	}
	wire, err := c.quoted.ToWire(nil, written)
	if err != nil {
		return "ToWire takes the form of the strict profile", err.Error() + "\n\t" + string(written)
	}
	if difference := differs(wire); difference != "" {
		return "the form of the strict profile decodes to the message", difference + "\n\t" + string(written)
	}
	return "", ""
}

const wrappedMember = "value"
