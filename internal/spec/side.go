// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

func sideOf(s *schema.Lazy) Side {
	advertised := s.Advertised()
	return Side{Fields: fieldsOf(advertised), Schema: advertised, Canonical: s.Canonical()}
}

// shape is what a field's line says of its schema.
type shape struct {
	Type        any             `json:"type"`
	Format      string          `json:"format"`
	Encoding    string          `json:"contentEncoding"`
	Enum        []any           `json:"enum"`
	Ref         string          `json:"$ref"`
	Description string          `json:"description"`
	Items       *shape          `json:"items"`
	AnyOf       []*shape        `json:"anyOf"`
	Others      json.RawMessage `json:"additionalProperties"`
	Properties  json.RawMessage `json:"properties"`
	Required    []string        `json:"required"`
}

// fieldsOf lists the members of an object schema, in the order in which they were written. A schema that says nothing
// about members has none.
func fieldsOf(raw json.RawMessage) []Field {
	fields := []Field{}
	var root shape
	if json.Unmarshal(raw, &root) != nil || len(root.Properties) == 0 {
		return fields
	}
	var members map[string]*shape
	if json.Unmarshal(root.Properties, &members) != nil {
		return fields
	}
	for _, name := range memberNames(root.Properties) {
		s := members[name]
		if s == nil {
			continue
		}
		fields = append(fields, Field{
			Name: name, Type: s.typeText(0), Required: slices.Contains(root.Required, name), Description: s.Description,
		})
	}
	return fields
}

// memberNames are the names of an object's members in their order, which a map forgets.
func memberNames(raw json.RawMessage) []string {
	var names []string
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if _, err := decoder.Token(); err != nil {
		return nil
	}
	for decoder.More() {
		name, err := decoder.Token()
		if err != nil {
			return names
		}
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return names
		}
		if s, ok := name.(string); ok {
			names = append(names, s)
		}
	}
	return names
}

// maxTypeDepth is how far a field's line looks into lists and maps; the schema below it has the rest.
const maxTypeDepth = 3

// typeText names a type for people.
func (s *shape) typeText(depth int) string {
	if s == nil || depth > maxTypeDepth {
		return "any"
	}
	if len(s.AnyOf) > 0 {
		var forms []string
		for _, f := range s.AnyOf {
			if text := f.typeText(depth + 1); !slices.Contains(forms, text) {
				forms = append(forms, text)
			}
		}
		return strings.Join(forms, " or ")
	}
	if s.Ref != "" {
		if s.Ref == "#" {
			return "the whole again"
		}
		return s.Ref[strings.LastIndexByte(s.Ref, '/')+1:]
	}
	switch s.Type {
	case nil:
		if len(s.Enum) > 0 {
			return "enum"
		}
		return "any"
	case "array":
		return "list of " + s.Items.typeText(depth+1)
	case "object":
		var values *shape
		if len(s.Properties) == 0 && json.Unmarshal(s.Others, &values) == nil && values != nil {
			return "map to " + values.typeText(depth+1)
		}
		return "object"
	case "string":
		switch {
		case len(s.Enum) > 0:
			return "enum"
		case s.Encoding != "":
			return s.Encoding
		case s.Format != "":
			return "string (" + s.Format + ")"
		}
	}
	if name, ok := s.Type.(string); ok {
		return name
	}
	return fmt.Sprint(s.Type)
}
