// SPDX-License-Identifier: Apache-2.0

package compat

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
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
	// Title is that of the annotations, if the entry has none of its own.
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
	for _, t := range sorted(c) {
		out = append(out, fromTool(t))
	}
	return out
}

// sorted are the tools that callers see, by name.
func sorted(c *catalog.Catalog) []*catalog.Tool {
	return slices.SortedFunc(slices.Values(c.Tools()), func(a, b *catalog.Tool) int { return cmp.Compare(a.Name, b.Name) })
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
