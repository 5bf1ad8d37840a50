// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog/internal/shown"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// HeaderParam is an argument that an MCP client repeats in an HTTP header (MCP 2026-07-28, Streamable HTTP, custom
// headers). The server compares the header with the argument.
type HeaderParam struct {
	// Header is the part of the header's name after "Mcp-Param-": an RFC 9110 token, unique within the tool regardless
	// of case.
	Header string
	// Path holds the member names that lead to the argument. Pointer is the same path as a JSON Pointer into the arguments.
	Path    []string
	Pointer string
	// Type is the type that the schema gives the argument: "string", "integer" or "boolean".
	Type string
}

// headerKeyword is what a property's schema says to have its value repeated in a header.
const headerKeyword = "x-mcp-header"

// headerParams finds the keyword in an input schema. Where it stands anywhere else than MCP allows, or says anything
// else, clients leave out the whole tool, so that is a fault.
func headerParams(document any) ([]HeaderParam, []schema.Violation) {
	w := &headerWalk{taken: map[string]string{}}
	w.schema(document, "", way{})
	return w.found, w.faults
}

// headerWalk is a walk through a schema, in the order of the names.
type headerWalk struct {
	found  []HeaderParam
	faults []schema.Violation
	// taken are the headers so far in lower case, with the places that they stand at.
	taken map[string]string
}

// way is how a schema is reached: through properties alone, or past another keyword, the first of which is named. From
// there on there is no place for the keyword.
type way struct {
	properties []string
	isOff      bool
	by         string
}

// off is the way past a keyword that is not "properties".
func (w way) off(keyword string) way {
	if w.isOff {
		return w
	}
	return way{isOff: true, by: keyword}
}

// schema looks at one schema and those within it.
func (w *headerWalk) schema(value any, at string, on way) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, keyword := range shown.SortedKeys(object) {
		value, here := object[keyword], schema.AppendPointer(at, keyword)
		switch keyword {
		case headerKeyword:
			w.keyword(value, here, object["type"], on)
		case "const", "enum", "default", "examples":
			// These hold data, in which a name is only a name.
		case "properties":
			w.schemas(value, here, on)
		case "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			w.schemas(value, here, on.off(keyword))
		default:
			w.below(value, here, on.off(keyword))
		}
	}
}

// schemas looks at an object whose members are schemas under names of somebody's choice.
func (w *headerWalk) schemas(value any, at string, on way) {
	object, ok := value.(map[string]any)
	if !ok {
		return
	}
	for _, name := range shown.SortedKeys(object) {
		next := on
		if !on.isOff {
			next.properties = slices.Concat(on.properties, []string{name})
		}
		w.schema(object[name], schema.AppendPointer(at, name), next)
	}
}

// below looks at the value of a keyword that holds a schema or several, or something unknown.
func (w *headerWalk) below(value any, at string, on way) {
	list, ok := value.([]any)
	if !ok {
		w.schema(value, at, on)
		return
	}
	for i, entry := range list {
		w.below(entry, fmt.Sprintf("%s/%d", at, i), on)
	}
}

// keyword takes one finding, or says what is wrong with it.
func (w *headerWalk) keyword(value any, at string, kind any, on way) {
	name, isText := value.(string)
	folded := strings.ToLower(name)
	fault := ""
	switch {
	case on.isOff:
		fault = fmt.Sprintf("a header needs a property that is reached only through \"properties\"; this one is below %q", shown.Clip(on.by))
	case len(on.properties) == 0:
		fault = "a header needs a property; this is the root"
	case !isText || !isToken(name):
		fault = "wanted the name of a header: letters, digits and !#$%&'*+-.^_`|~, at least one of them"
	case kind != "string" && kind != "integer" && kind != "boolean":
		fault = `a header is made of a value of "type": "string", "integer" or "boolean"`
	case w.taken[folded] != "":
		fault = fmt.Sprintf("the header %q is made of %s already; case makes no difference", shown.Clip(name), shown.Clip(w.taken[folded]))
	}
	if fault != "" {
		w.faults = append(w.faults, schema.Violation{Path: at, Keyword: headerKeyword, Message: fault})
		return
	}
	pointer := ""
	for _, step := range on.properties {
		pointer = schema.AppendPointer(pointer, step)
	}
	w.taken[folded] = pointer
	text, _ := kind.(string)
	w.found = append(w.found, HeaderParam{Header: name, Path: on.properties, Pointer: pointer, Type: text})
}

// isToken reports whether the text is a token of RFC 9110, section 5.6.2.
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		if !isUpper(c) && !isLower(c) && !isDigit(c) && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}
