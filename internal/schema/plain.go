// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"slices"
	"strings"
)

// draft2020 is the only value of $schema that a plain schema may have.
const draft2020 = "https://json-schema.org/draft/2020-12/schema"

// maxPlainDigits is how many digits a count in a plain schema may have, so that it is an int on every machine.
const maxPlainDigits = 9

// maxPlainPattern is the size of a pattern, in instructions, up to which as many of them as a deferred schema has room for
// are not too large together.
const maxPlainPattern = 128

// isPlain reports whether a document is a schema that certainly compiles, as draft 2020-12: it has none but the keywords
// that most schemas are made of, each with a value that the metaschema admits, and refers to nothing. False says nothing:
// the compiler has to be asked. A differential fuzz test holds it to that.
func isPlain(document any) bool {
	root, ok := document.(map[string]any)
	if !ok {
		return false
	}
	if draft, ok := root["$schema"]; ok && draft != draft2020 {
		return false
	}
	return isPlainObject(root, true)
}

func isPlainSchema(value any) bool {
	switch v := value.(type) {
	case bool:
		return true
	case map[string]any:
		return isPlainObject(v, false)
	}
	return false
}

func isPlainObject(object map[string]any, isRoot bool) bool {
	for keyword, value := range object {
		if keyword == "$schema" && isRoot {
			continue
		}
		if !isPlainKeyword(keyword, value) {
			return false
		}
	}
	return true
}

// isPlainKeyword reports whether one member of a schema is known to compile.
func isPlainKeyword(keyword string, value any) bool {
	switch keyword {
	case "type":
		return isPlainType(value)
	case "properties", "$defs":
		return isMapOf(value, isPlainSchema)
	case "additionalProperties", "items", "propertyNames", "not":
		return isPlainSchema(value)
	case "anyOf", "oneOf", "allOf":
		list, ok := value.([]any)
		return ok && len(list) > 0 && isListOf(value, isPlainSchema)
	case "required":
		return isListOf(value, isText) && isEachOnce(value)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		_, ok := value.(json.Number)
		return ok
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return isCount(value)
	case "pattern":
		text, ok := value.(string)
		if !ok {
			return false
		}
		compiled, err := compileECMA(text)
		return err == nil && compiled.size <= maxPlainPattern
	case "title", "description", "$comment", "format":
		return isText(value)
	case "uniqueItems", "deprecated", "readOnly", "writeOnly":
		_, ok := value.(bool)
		return ok
	case "enum", "examples":
		_, ok := value.([]any)
		return ok
	case "const", "default":
		return true
	}
	// Extensions are annotations, whatever their value.
	return strings.HasPrefix(keyword, "x-")
}

func isPlainType(value any) bool {
	if isText(value) {
		return isTypeName(value)
	}
	list, ok := value.([]any)
	return ok && len(list) > 0 && isListOf(value, isTypeName) && isEachOnce(value)
}

func isTypeName(value any) bool {
	switch value {
	case "object", "array", "string", "number", "integer", "boolean", "null":
		return true
	}
	return false
}

func isText(value any) bool {
	_, ok := value.(string)
	return ok
}

// isCount holds for whole numbers that are written as digits.
func isCount(value any) bool {
	number, ok := value.(json.Number)
	return ok && len(number) <= maxPlainDigits && strings.Trim(string(number), "0123456789") == ""
}

func isListOf(value any, is func(any) bool) bool {
	list, ok := value.([]any)
	return ok && !slices.ContainsFunc(list, func(v any) bool { return !is(v) })
}

func isMapOf(value any, is func(any) bool) bool {
	object, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for _, v := range object {
		if !is(v) {
			return false
		}
	}
	return true
}

// maxPlainNames is how many texts are compared with each other; lists that are longer are left to the compiler.
const maxPlainNames = 64

// isEachOnce holds for lists in which no text is there twice.
func isEachOnce(value any) bool {
	list, _ := value.([]any)
	if len(list) > maxPlainNames {
		return false
	}
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			return false
		}
	}
	return true
}
