// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compact"
)

// listTTL is how long a page of tools may be used again: the contract's default
// for what discovery answers (300 s), as in MCP's lists.
const listTTL = 300 * time.Second

// listForm is the form of a list: all tools, unless the compact form is asked for, so that sidecars can be put in front of
// one another.
func listForm(isCompact bool) compact.List {
	if isCompact {
		return compact.ListCompact
	}
	return compact.ListAll
}

// toolsPage renders a page.
func toolsPage(resp *bridge.Response) *outriggerv1.ListToolsResponse {
	tools := resp.Catalog.Tools()
	out := &outriggerv1.ListToolsResponse{
		Tools:      make([]*outriggerv1.Tool, 0, resp.Next-resp.First),
		NextCursor: resp.NextCursor,
		Cache:      &outriggerv1.CachePolicy{Ttl: durationpb.New(listTTL), Scope: resp.CacheScope()},
	}
	for _, tool := range tools[resp.First:resp.Next] {
		out.Tools = append(out.Tools, toolMessage(tool, false))
	}
	return out
}

// toolMessage describes a tool; the canonical schemas and the digest go with it
// where one tool was asked for.
func toolMessage(t *catalog.Tool, canonical bool) *outriggerv1.Tool {
	out := &outriggerv1.Tool{
		Name: t.Name, McpName: t.MCPName, Title: t.Title, Description: t.Description, Icons: t.Icons,
		InputSchemaForm: &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: t.Input.Advertised()},
		Annotations: &outriggerv1.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.Annotations.ReadOnly, DestructiveHint: t.Annotations.Destructive,
			IdempotentHint: t.Annotations.Idempotent, OpenWorldHint: t.Annotations.OpenWorld,
		},
		Version: t.Version, Fingerprint: t.Fingerprint(),
		Metadata: &outriggerv1.ToolMetadata{
			Module: t.Metadata.Module, Destructive: t.Metadata.Destructive, DeprecatedIn: t.Metadata.DeprecatedIn,
			CacheTtl: durationpb.New(t.Metadata.CacheTTL),
		},
		Execution: &outriggerv1.ToolExecution{
			TaskSupport: t.TaskSupport, ServerStreaming: t.Method.ServerStreaming, ClientStreaming: t.Method.ClientStreaming,
		},
		Tags: t.Tags,
	}
	if t.HasOutput() {
		out.OutputSchemaForm = &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: t.Output.Advertised()}
	}
	if t.Timeout > 0 {
		out.Execution.Timeout = durationpb.New(t.Timeout)
	}
	if !t.Native {
		// What runs a native tool is its backend's affair.
		rpc := t.Method.Descriptor
		out.Binding = &outriggerv1.ToolBinding{Service: string(rpc.Parent().FullName()), Method: string(rpc.Name())}
	}
	for _, e := range t.Examples {
		out.Examples = append(out.Examples, &outriggerv1.ToolExample{
			Name: e.Name, Description: e.Description, ArgumentsJson: string(e.Arguments), DataJson: string(e.Data), Status: e.Status,
		})
	}
	if len(t.Meta) > 0 {
		out.MetaForm = &outriggerv1.Tool_MetaJson{MetaJson: t.Meta}
	}
	if canonical {
		out.CanonicalInputSchemaJson = t.Input.Canonical()
		out.CanonicalOutputSchemaJson = t.Output.Canonical()
		out.Digest = t.Digest()
	}
	return out
}
