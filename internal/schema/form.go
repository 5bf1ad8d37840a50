// SPDX-License-Identifier: Apache-2.0

package schema

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

// BooleanForm is the schema of a form that asks one question which has to be answered with yes or no: an object with a
// required boolean, in the part of JSON Schema that forms for people have (MCP, elicitation).
func BooleanForm(name, title, description string) []byte {
	dst := jsontext.AppendString([]byte(`{"type":"object","properties":{`), name)
	dst = jsontext.AppendString(append(dst, `:{"type":"boolean","title":`...), title)
	dst = jsontext.AppendString(append(dst, `,"description":`...), description)
	dst = jsontext.AppendString(append(dst, `}},"required":[`...), name)
	return append(dst, `]}`...)
}
