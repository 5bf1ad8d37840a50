// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Tool is the part of a tool that is compared: one entry of `sidecar tools --json`.
type Tool struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// InputSchema and OutputSchema are what clients see. They are compared if a side lacks the canonical ones.
	InputSchema           json.RawMessage `json:"inputSchema"`
	OutputSchema          json.RawMessage `json:"outputSchema,omitempty"`
	Annotations           Annotations     `json:"annotations"`
	Version               string          `json:"version,omitempty"`
	Fingerprint           string          `json:"fingerprint,omitempty"`
	Metadata              Metadata        `json:"metadata"`
	CanonicalInputSchema  json.RawMessage `json:"canonicalInputSchema,omitempty"`
	CanonicalOutputSchema json.RawMessage `json:"canonicalOutputSchema,omitempty"`
	// Listed is what an entry of MCP's list says in other places. It is not compared.
	Listed Listed `json:"-"`
}

// Listed is what an entry of MCP's list says of a tool beside the members that the two forms have in common.
type Listed struct {
	// Title is that of the annotations, if the entry has none.
	Title string
	// Name and Module are the canonical name and the module that a sidecar's list has in _meta; empty in lists of other servers,
	// and in the canonical form.
	Name, Module string
}

// Annotations are MCP's hints; nil means unset.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Metadata is the part of a tool's metadata that is compared.
type Metadata struct {
	Module      string `json:"module"`
	Destructive bool   `json:"destructive"`
	// DeprecatedIn is nil if the tool is not deprecated.
	DeprecatedIn *string `json:"deprecated_in"`
	// CacheTTL is in seconds.
	CacheTTL int64 `json:"cache_ttl"`
}

// FromCatalog returns the tools visible to callers, sorted by name. It derives every schema.
func FromCatalog(c *catalog.Catalog) []Tool {
	out := make([]Tool, 0, len(c.Tools()))
	for _, t := range c.Tools() {
		out = append(out, fromTool(t))
	}
	sortTools(out)
	return out
}

// fromTool derives the schemas of a tool.
func fromTool(t *catalog.Tool) Tool {
	tool := Tool{
		Name: t.Name, Title: t.Title, Description: t.Description,
		InputSchema: t.Input.Advertised(), OutputSchema: t.Output.Advertised(),
		CanonicalInputSchema: t.Input.Canonical(), CanonicalOutputSchema: t.Output.Canonical(),
		Annotations: Annotations(t.Annotations),
		Version:     t.Version, Fingerprint: t.Fingerprint(),
		Metadata: Metadata{
			Module: t.Metadata.Module, Destructive: t.Metadata.Destructive,
			CacheTTL: int64(t.Metadata.CacheTTL.Seconds()),
		},
	}
	if since := t.Metadata.DeprecatedIn; since != "" {
		tool.Metadata.DeprecatedIn = &since
	}
	return tool
}

func sortTools(tools []Tool) {
	slices.SortFunc(tools, func(a, b Tool) int { return cmp.Compare(a.Name, b.Name) })
}

// DiffLimits bound the cost of a comparison. The zero value means the defaults.
type DiffLimits struct {
	// MaxBytes is the maximum size of a list of tools that is read. The default is 512 MiB: as many tools as a
	// catalog holds, at 26 KiB each.
	MaxBytes int
	// MaxTools is the maximum number of tools in a list. The default is [defaults.MaxTools], the limit of a catalog.
	MaxTools int
	// MaxDepth is the maximum depth of a schema, references included. The default is 128: derived schemas stay under 64.
	MaxDepth int
	// MaxSteps is the maximum number of subschema pairs compared for one schema of a tool. The default is 200,000, twenty
	// times the largest derived schema. A schema beyond it counts as changed.
	MaxSteps int
	// MaxChanges is the maximum number of changes reported for one tool. The default is 1,000. If there are more, one
	// additional change says so. Breaking changes are kept first.
	MaxChanges int
}

func (l DiffLimits) withDefaults() DiffLimits {
	defaults.Fill(&l.MaxBytes, 512<<20)
	defaults.Fill(&l.MaxTools, defaults.MaxTools)
	defaults.Fill(&l.MaxDepth, 128)
	defaults.Fill(&l.MaxSteps, 200_000)
	defaults.Fill(&l.MaxChanges, 1_000)
	return l
}

// maxNesting is the deepest JSON that is read. Protobuf itself nests at most 100 messages by default, and each is a few
// levels of a schema.
const maxNesting = 1_000

// formatError is the reason why a text is not a list of tools.
type formatError struct {
	// Path is a JSON Pointer to the fault; "" for the whole.
	Path   string
	Reason string
}

// Error returns the path and the reason.
func (e *formatError) Error() string {
	if e.Path == "" {
		return "not a list of tools: " + e.Reason
	}
	return fmt.Sprintf("not a list of tools: at %s: %s", e.Path, e.Reason)
}

// ReadTools reads the output of `sidecar tools --json`: an array of tools, one tool, or the result of tools/list, in
// strict JSON. It returns the tools sorted by name. Errors are *formatError.
func ReadTools(raw []byte, l DiffLimits) ([]Tool, error) {
	l = l.withDefaults()
	if fault := jsonrpc.Check(raw, jsonrpc.Limits{MaxBytes: l.MaxBytes, MaxDepth: maxNesting}); fault != nil {
		return nil, &formatError{Path: fault.Path, Reason: fault.Reason}
	}
	entries, prefix, err := splitTools(raw)
	if err != nil {
		return nil, err
	}
	if len(entries) > l.MaxTools {
		return nil, &formatError{Path: prefix, Reason: fmt.Sprintf("it has %d tools; the limit is %d", len(entries), l.MaxTools)}
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
			return nil, &formatError{Path: at + "/name", Reason: "there are two tools " + readable(t.Name)}
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
			return nil, "", &formatError{Reason: err.Error()}
		}
		return entries, "", nil
	}
	var members map[string]json.RawMessage
	if raw[0] != '{' || json.Unmarshal(raw, &members) != nil {
		return nil, "", &formatError{Reason: "wanted an array of tools, as `sidecar tools --json` prints it"}
	}
	list, isList := members["tools"]
	if !isList {
		return []json.RawMessage{raw}, "", nil
	}
	if err := json.Unmarshal(list, &entries); err != nil || entries == nil {
		return nil, "", &formatError{Path: "/tools", Reason: "wanted an array of tools"}
	}
	return entries, "/tools", nil
}

func readTool(raw json.RawMessage, at string) (Tool, error) {
	var t Tool
	if err := json.Unmarshal(raw, &t); err != nil {
		return t, &formatError{Path: at, Reason: err.Error()}
	}
	if t.Name == "" {
		return t, &formatError{Path: at, Reason: "wanted a tool, found something without a name"}
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
			return t, &formatError{Path: at + "/" + s.member, Reason: "wanted a JSON Schema of tool " + readable(t.Name)}
		}
	}
	return t, nil
}

// readListed reads what is not in the canonical form. Other servers may put anything there, which is no one's fault.
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
