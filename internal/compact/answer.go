// SPDX-License-Identifier: Apache-2.0

package compact

import (
	"encoding/json"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// MaxOutputSchema is the size in bytes up to which a description has the output schema of its tool. tools/get of the
// canonical dialect has it in any case.
const MaxOutputSchema = 4096

// Query is the query of a search and its limit. The arguments are valid by the input schema.
func Query(arguments []byte) (query string, limit int) {
	limit = catalog.DefaultSearchResults
	for name, raw := range jsontext.Members(arguments) {
		switch name {
		case catalog.QueryArgument:
			query, _ = jsontext.Text(raw)
		case catalog.LimitArgument:
			if n, err := strconv.ParseFloat(string(raw), 64); err == nil { // a schema also takes 5.0
				limit = int(n)
			}
		}
	}
	return query, limit
}

// AppendFound appends the result of a search. named returns the name of a tool as the caller knows it.
func AppendFound(dst []byte, tools []*catalog.Tool, named func(*catalog.Tool) string) []byte {
	dst = append(dst, `{"tools":[`...)
	for i, t := range tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"name":`...)
		dst = jsontext.AppendString(dst, named(t))
		dst = append(dst, `,"summary":`...)
		dst = append(jsontext.AppendString(dst, t.Summary()), '}')
	}
	return append(dst, `]}`...)
}

// AppendDescription appends what a caller has to know of a tool to call it.
func AppendDescription(dst []byte, t *catalog.Tool, name string) ([]byte, error) {
	dst = append(dst, `{"name":`...)
	dst = jsontext.AppendString(dst, name)
	dst = append(dst, `,"description":`...)
	dst = jsontext.AppendString(dst, t.Description)
	dst = append(dst, `,"inputSchema":`...)
	dst = append(dst, t.Input.Advertised()...)
	if output := t.Output.Advertised(); len(output) > 0 && len(output) <= MaxOutputSchema {
		dst = append(dst, `,"outputSchema":`...)
		dst = append(dst, output...)
	}
	dst = append(dst, `,"annotations":`...)
	dst = t.AppendAnnotations(dst)
	if len(t.Examples) > 0 {
		examples, err := json.Marshal(t.Examples)
		if err != nil {
			return nil, err
		}
		dst = append(dst, `,"examples":`...)
		dst = append(dst, examples...)
	}
	return jsontext.Compact(nil, append(dst, '}')), nil
}

// Called are the arguments of a call: the tool, its arguments (nil for none), and how much of the result is wanted, where the
// caller says so.
type Called struct {
	Name               string
	Arguments          []byte
	Fields, StreamTime string
}

// Call reads the arguments of a call. It is false if they are not what the input schema asks for; then the schema says what is
// wrong. Strings that hold arguments are left to the caller, as are the values of the last two members.
func Call(arguments []byte) (called Called, ok bool) {
	for member, raw := range jsontext.Members(arguments) {
		var text *string
		switch member {
		case catalog.NameArgument:
			text = &called.Name
		case catalog.ArgumentsArgument:
			called.Arguments = raw
			continue
		case catalog.FieldsArgument:
			text = &called.Fields
		case catalog.StreamTimeArgument:
			text = &called.StreamTime
		default:
			return Called{}, false
		}
		if jsontext.IsNull(raw) && text != &called.Name {
			continue // absent, as strict clients say it
		}
		if *text, ok = jsontext.Text(raw); !ok || *text == "" {
			return Called{}, false
		}
	}
	return called, called.Name != ""
}

// IsObject reports whether arguments are an object, and not one in a string, or something else.
func IsObject(arguments []byte) bool { return len(arguments) > 0 && arguments[0] == '{' }

// Name is the tool that a description is asked for.
func Name(arguments []byte) string {
	raw, _ := jsontext.Lookup(arguments, catalog.NameArgument)
	name, _ := jsontext.Text(raw)
	return name
}
