// SPDX-License-Identifier: Apache-2.0

package schema

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

// BooleanForm returns the schema of a form with one required yes-or-no question: an object with a required boolean, in
// the subset of JSON Schema for forms (MCP, elicitation).
func BooleanForm(name, title, description string) []byte {
	dst := jsontext.AppendString([]byte(`{"type":"object","properties":{`), name)
	dst = jsontext.AppendString(append(dst, `:{"type":"boolean","title":`...), title)
	dst = jsontext.AppendString(append(dst, `,"description":`...), description)
	dst = jsontext.AppendString(append(dst, `}},"required":[`...), name)
	return append(dst, `]}`...)
}
