// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/catalog/search"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Search finds the tools that match a query best, the best one first, at most limit of them, each described. A compact catalog is
// searched by the sidecar, with all that it knows of the tools; a list of tools here, by the same ranking.
func Search(ctx context.Context, c Client, query string, limit int) ([]*Tool, error) {
	tools, err := c.Tools(ctx)
	if err != nil {
		return nil, err
	}
	if isCompact(tools) {
		return searchThere(ctx, c, query, limit)
	}
	return Rank(tools, query, limit), nil
}

// Rank finds the tools of a list that match a query best.
func Rank(tools []*Tool, query string, limit int) []*Tool {
	docs := make([]search.Document, len(tools))
	for i, t := range tools {
		docs[i] = compact.Described(t.Name, t.Title, t.Summary(), t.Description, t.Input, t.Output)
	}
	var out []*Tool
	for _, hit := range search.New(docs).Search(query, limit, nil, nil) {
		out = append(out, tools[hit.Doc])
	}
	return out
}

// isCompact reports whether a list has the tools that stand for a whole catalog.
func isCompact(tools []*Tool) bool {
	for _, t := range tools {
		if catalog.CompactOf(t.Name) == catalog.CompactSearch {
			return true
		}
	}
	return false
}

// searchThere has the sidecar search its compact catalog.
func searchThere(ctx context.Context, c Client, query string, limit int) ([]*Tool, error) {
	arguments := jsontext.AppendString([]byte(`{"`+catalog.QueryArgument+`":`), query)
	arguments = strconv.AppendInt(append(arguments, `,"`+catalog.LimitArgument+`":`...), int64(limit), 10)
	out, err := c.Call(ctx, &Call{Tool: catalog.SearchName, Arguments: append(arguments, '}')})
	if err != nil {
		return nil, err
	}
	found, ok := jsontext.Lookup(out.Data, "tools")
	if !ok || found[0] != '[' {
		return nil, fmt.Errorf("%s answered without tools", catalog.SearchName)
	}
	var tools []*Tool
	for hit := range jsontext.Elements(found) {
		name, _ := text(hit, "name")
		t, err := c.Tool(ctx, name)
		if err != nil {
			return nil, err
		}
		tools = append(tools, t)
	}
	return tools, nil
}

// Sample are arguments to begin with: those of the tool's first example, else the members that its input schema requires, with
// values of their types.
func (t *Tool) Sample() json.RawMessage {
	if len(t.Examples) > 0 {
		return jsontext.Compact(nil, t.Examples[0])
	}
	if raw := sample(t.Input, "", t.Input, sampleDepth); len(raw) > 0 && raw[0] == '{' {
		return jsontext.Compact(nil, raw)
	}
	return json.RawMessage(`{}`)
}

// sampleDepth is how deep a sample goes: what is deeper is for its reader to fill in.
const sampleDepth = 6

// sample is a value for a schema of a property. root has the definitions.
func sample(schema json.RawMessage, name string, root json.RawMessage, depth int) []byte {
	if depth == 0 || !jsontext.IsObject(schema) {
		return []byte("null")
	}
	for _, key := range []string{"const", "default"} {
		if raw := present(schema, key); raw != nil {
			return raw
		}
	}
	for _, key := range []string{"examples", "enum"} {
		if list := elements(schema, key); len(list) > 0 {
			return list[len(list)-1] // the first value of an enum is often that of "unspecified"
		}
	}
	if ref, ok := text(schema, "$ref"); ok {
		return sample(definition(root, ref), name, root, depth-1)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if list := elements(schema, key); len(list) > 0 {
			return sample(list[0], name, root, depth-1)
		}
	}
	kind, ok := text(schema, "type")
	if !ok {
		kinds := elements(schema, "type")
		if len(kinds) == 0 {
			return []byte("null")
		}
		kind, _ = jsontext.Text(kinds[0])
	}
	switch kind {
	case "object":
		return sampleObject(schema, root, depth)
	case "array":
		items, _ := jsontext.Lookup(schema, "items")
		if least, _ := number(schema, "minItems"); least == 0 {
			return []byte("[]")
		}
		return append(append([]byte{'['}, sample(items, name, root, depth-1)...), ']')
	case "integer", "number":
		if least := present(schema, "minimum"); least != nil && string(least) != "0" && least[0] != '-' {
			return least
		}
		return []byte("1")
	case "boolean":
		return []byte("true")
	case "string":
		return sampleText(schema, name)
	}
	return []byte("null")
}

func sampleObject(schema, root json.RawMessage, depth int) []byte {
	properties, _ := jsontext.Lookup(schema, "properties")
	out := []byte{'{'}
	for _, raw := range elements(schema, "required") {
		name, _ := jsontext.Text(raw)
		property, _ := jsontext.Lookup(properties, name)
		out = append(append(member(out, name), ':'), sample(property, name, root, depth-1)...)
	}
	return append(out, '}')
}

// sampleText is a string: a valid one of the formats of Protobuf's scalars, else the name of the property in capitals, which asks
// to be replaced.
func sampleText(schema json.RawMessage, name string) []byte {
	format, _ := text(schema, "format")
	pattern, _ := text(schema, "pattern")
	switch {
	case strings.Contains(format, "int") || strings.HasPrefix(pattern, `^-?\d`) || strings.HasPrefix(pattern, "^([1-9]"):
		return []byte(`"1"`)
	case format == "date-time":
		return []byte(`"2026-01-31T12:00:00Z"`)
	case strings.HasSuffix(pattern, "s$"):
		return []byte(`"1s"`)
	}
	return jsontext.AppendString(nil, strings.ToUpper(name))
}

// definition finds what a reference within a schema means.
func definition(root json.RawMessage, ref string) json.RawMessage {
	at, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	for name := range strings.SplitSeq(at, "/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		if root, ok = jsontext.Lookup(root, name); !ok {
			return nil
		}
	}
	return root
}

// elements are those of a member that is an array.
func elements(object json.RawMessage, name string) []json.RawMessage {
	raw, ok := jsontext.Lookup(object, name)
	if !ok || raw[0] != '[' {
		return nil
	}
	var out []json.RawMessage
	for e := range jsontext.Elements(raw) {
		out = append(out, e)
	}
	return out
}
