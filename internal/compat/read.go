// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxNesting is the deepest JSON that is read. Protobuf itself nests at most 100 messages by default, and each is a few
// levels of a schema.
const maxNesting = 1_000

// FormatError is the reason why a text is not a list of tools.
type FormatError struct {
	// Path is a JSON Pointer to the fault; "" for the whole.
	Path   string
	Reason string
}

// Error returns the path and the reason.
func (e *FormatError) Error() string {
	if e.Path == "" {
		return "not a list of tools: " + e.Reason
	}
	return fmt.Sprintf("not a list of tools: at %s: %s", e.Path, e.Reason)
}

// ReadTools reads the output of `sidecar tools --json`: an array of tools, one tool, or the result of tools/list, in
// strict JSON. It returns the tools sorted by name. Errors are *FormatError.
func ReadTools(raw []byte, l Limits) ([]Tool, error) {
	l = l.withDefaults()
	if fault := jsonrpc.Check(raw, jsonrpc.Limits{MaxBytes: l.MaxBytes, MaxDepth: maxNesting}); fault != nil {
		return nil, &FormatError{Path: fault.Path, Reason: fault.Reason}
	}
	entries, prefix, err := splitTools(raw)
	if err != nil {
		return nil, err
	}
	if len(entries) > l.MaxTools {
		return nil, &FormatError{Path: prefix, Reason: fmt.Sprintf("it has %d tools; the limit is %d", len(entries), l.MaxTools)}
	}
	tools := make([]Tool, 0, len(entries))
	seen := make(map[string]bool, len(entries))
	for i, entry := range entries {
		at := fmt.Sprintf("%s/%d", prefix, i)
		t, err := readTool(entry, at)
		if err != nil {
			return nil, err
		}
		if seen[t.Name] {
			return nil, &FormatError{Path: at + "/name", Reason: "there are two tools " + readable(t.Name)}
		}
		seen[t.Name] = true
		tools = append(tools, t)
	}
	sortTools(tools)
	return tools, nil
}

// splitTools finds the entries, and the pointer to the array that they stand in.
func splitTools(raw []byte) (entries []json.RawMessage, prefix string, err error) {
	raw = bytes.TrimSpace(raw)
	if raw[0] == '[' { // Check has seen that there is a value
		if err := json.Unmarshal(raw, &entries); err != nil {
			return nil, "", &FormatError{Reason: err.Error()}
		}
		return entries, "", nil
	}
	var members map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &members) != nil {
		return nil, "", &FormatError{Reason: "wanted an array of tools, as `sidecar tools --json` prints it"}
	}
	list, isList := members["tools"]
	if !isList {
		return []json.RawMessage{raw}, "", nil
	}
	if err := json.Unmarshal(list, &entries); err != nil || entries == nil {
		return nil, "", &FormatError{Path: "/tools", Reason: "wanted an array of tools"}
	}
	return entries, "/tools", nil
}

func readTool(raw json.RawMessage, at string) (Tool, error) {
	var t Tool
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, &FormatError{Path: at, Reason: err.Error()}
	}
	if t.Name == "" {
		return t, &FormatError{Path: at, Reason: "wanted a tool, found something without a name"}
	}
	t.Listed = readListed(raw)
	if t.Title != "" {
		t.Listed.Title = ""
	}
	for _, s := range [...]struct {
		member string
		schema *json.RawMessage
		must   bool
	}{
		{"inputSchema", &t.InputSchema, true},
		{"outputSchema", &t.OutputSchema, false},
		{"canonicalInputSchema", &t.CanonicalInputSchema, false},
		{"canonicalOutputSchema", &t.CanonicalOutputSchema, false},
	} {
		if isNull(*s.schema) {
			*s.schema = nil
		}
		if *s.schema == nil && !s.must {
			continue
		}
		if !jsontext.IsObject(*s.schema) && !isBoolean(*s.schema) {
			return t, &FormatError{Path: at + "/" + s.member, Reason: "wanted a JSON Schema of tool " + readable(t.Name)}
		}
	}
	return t, nil
}

// readListed reads what is not in the canonical form. Other servers may put anything there, which is nobody's fault.
func readListed(raw json.RawMessage) Listed {
	var out Listed
	annotations, _ := jsontext.Lookup(raw, "annotations")
	title, _ := jsontext.Lookup(annotations, "title")
	out.Title, _ = jsontext.Text(title)
	meta, _ := jsontext.Lookup(raw, "_meta")
	own, _ := jsontext.Lookup(meta, "dev.outrigger/tool")
	name, _ := jsontext.Lookup(own, "name")
	out.Name, _ = jsontext.Text(name)
	metadata, _ := jsontext.Lookup(own, "metadata")
	module, _ := jsontext.Lookup(metadata, "module")
	out.Module, _ = jsontext.Text(module)
	return out
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func isBoolean(raw json.RawMessage) bool { return string(raw) == "true" || string(raw) == "false" }
