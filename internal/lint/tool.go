// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compat"
	"github.com/outrigger-mcp/outrigger/internal/listcost"
)

// Tool is one tool as clients list it. Make one with [NewTool].
type Tool struct {
	// Name is the canonical name, or the only one that is known. MCPName is the one in MCP's list.
	Name, MCPName string
	// Method is "package.Service/Method", by which the configuration file names the tool; empty if that is not known.
	Method             string
	Title, Description string
	Hints              compat.Annotations
	// OwnInput is set if the configuration file declares the input schema, so that its entry cannot describe properties too.
	OwnInput bool
	// Tokens is what the entry costs in a list, by an estimate.
	Tokens int

	// hasTitle is set if the tool has a title, which a list leaves out if it says no more than the name.
	hasTitle bool
	// listedTitle is the title in the list.
	listedTitle string

	input, output any // schemas as they are parsed; output is nil where there is none
	leftOut       any // the output schema that the list does not show
}

// NewTool makes a tool of an entry of a list. method is "package.Service/Method", or empty if no entry of the configuration
// file is for this tool. The error says that a schema is no JSON.
func NewTool(t compat.Tool, method string) (*Tool, error) {
	out := &Tool{
		Name: t.Name, MCPName: listedName(t.Name), Method: method, Title: cmp.Or(t.Title, t.Listed.Title), Description: t.Description, Hints: t.Annotations,
	}
	out.hasTitle, out.listedTitle = strings.TrimSpace(out.Title) != "", out.Title
	switch {
	case t.Listed.Name != "":
		out.Name, out.MCPName, out.hasTitle = t.Listed.Name, t.Name, true
	case isOwn(t) && !(&catalog.Tool{Name: t.Name, Title: t.Title}).HasOwnTitle():
		out.listedTitle = ""
	}
	var err error
	if out.input, err = parsed(t.InputSchema); err != nil {
		return nil, fmt.Errorf("tool %s: input schema: %w", t.Name, err)
	}
	if out.output, err = parsed(t.OutputSchema); err != nil {
		return nil, fmt.Errorf("tool %s: output schema: %w", t.Name, err)
	}
	size, err := out.size()
	if err != nil {
		return nil, fmt.Errorf("tool %s: %w", t.Name, err)
	}
	out.Tokens = size / listcost.BytesPerToken
	return out, nil
}

// LeaveOut takes the output schema that the catalog has and the list does not show. It is judged by what holds for every client.
// The error says that it is no JSON.
func (t *Tool) LeaveOut(output json.RawMessage) error {
	var err error
	if t.leftOut, err = parsed(output); err != nil {
		return fmt.Errorf("tool %s: output schema: %w", t.Name, err)
	}
	return nil
}

// isOwn reports whether an entry is a sidecar's in the canonical form, which has all titles.
func isOwn(t compat.Tool) bool { return t.Metadata.Module != "" && catalog.IsCanonicalName(t.Name) }

// listedName is the name in MCP's list. Catalogs of the sidecar have canonical names, of which the list has another form. A name
// of another kind is from a list of another server, which nobody shortens.
func listedName(name string) string {
	if catalog.IsCanonicalName(name) {
		return catalog.MCPName(name)
	}
	return name
}

// NewTools makes tools of a list that was saved. A list does not say what their methods are: the names of derived tools say
// it most often.
func NewTools(list []compat.Tool) ([]*Tool, error) {
	out := make([]*Tool, 0, len(list))
	for _, t := range list {
		tool, err := NewTool(t, guessedMethod(cmp.Or(t.Listed.Module, t.Metadata.Module), cmp.Or(t.Listed.Name, t.Name)))
		if err != nil {
			return nil, err
		}
		out = append(out, tool)
	}
	return out, nil
}

func parsed(schema json.RawMessage) (any, error) {
	if len(schema) == 0 {
		return nil, nil
	}
	in := json.NewDecoder(bytes.NewReader(schema))
	in.UseNumber()
	var out any
	if err := in.Decode(&out); err != nil {
		return nil, err
	}
	return out, nil
}

// listEntry is the part of an entry of MCP's list that may reach a model.
type listEntry struct {
	Name         string             `json:"name"`
	Title        string             `json:"title,omitempty"`
	Description  string             `json:"description,omitempty"`
	InputSchema  any                `json:"inputSchema"`
	OutputSchema any                `json:"outputSchema,omitempty"`
	Annotations  compat.Annotations `json:"annotations"`
}

// size is the number of bytes of the entry, whatever white space and escapes the list has.
func (t *Tool) size() (int, error) {
	text, err := compactJSON(listEntry{t.MCPName, t.listedTitle, t.Description, t.input, t.output, t.Hints})
	return len(text), err
}

func compactJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	if err := to.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(out.Bytes(), "\n"), nil
}

// guessedMethod is the method that a derived name most likely comes from; empty if the module is no service,
// or the name has no words.
func guessedMethod(module, name string) string {
	at := strings.LastIndexByte(name, '.')
	if at < 0 || !strings.Contains(module, ".") || !isIdentifier(module) || !isIdentifier(name) {
		return ""
	}
	var method strings.Builder
	for word := range strings.SplitSeq(name[at+1:], "_") {
		if word != "" {
			method.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	if method.Len() == 0 {
		return ""
	}
	return module + "/" + method.String()
}

// isIdentifier reports whether a text has no other characters than names of Protobuf with their packages.
func isIdentifier(text string) bool {
	return text != "" && strings.IndexFunc(text, func(r rune) bool {
		return r != '_' && r != '.' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// words are the words of the method's name.
func (t *Tool) words() []string {
	return strings.FieldsFunc(strings.ToLower(t.Name[strings.LastIndexByte(t.Name, '.')+1:]), func(r rune) bool { return r == '_' || r == '-' })
}

// length counts as clients in JavaScript do: in UTF-16 code units.
func length(text string) int {
	n := 0
	for _, r := range text {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// schemaOf is one schema of a tool.
type schemaOf struct {
	member string // of the entry
	root   any
}

// schemas are the schemas that a fact is about.
func (t *Tool) schemas(f Fact) []schemaOf {
	var out []schemaOf
	w := f.Where
	if w&Inputs != 0 && t.input != nil {
		out = append(out, schemaOf{"inputSchema", t.input})
	}
	if w&Outputs != 0 && t.output != nil {
		out = append(out, schemaOf{"outputSchema", t.output})
	}
	if w&Outputs != 0 && t.leftOut != nil && f.Client == "" {
		out = append(out, schemaOf{"outputSchema", t.leftOut})
	}
	return out
}
