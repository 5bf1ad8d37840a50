// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// page renders a listing. A cursor is refused: none was ever handed out.
func (s *Service) page(cat *catalog.Catalog, req *outriggerv1.ListToolsRequest) (*connect.Response[outriggerv1.ListToolsResponse], error) {
	if req.Cursor != nil {
		return nil, errmap.ToConnect(errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
			Path: "/cursor", Keyword: "cursor", Message: "this cursor was not handed out here; start again without one",
		})), errmap.About{})
	}
	out := &outriggerv1.ListToolsResponse{}
	for _, tool := range cat.Tools() {
		out.Tools = append(out.Tools, toolMessage(tool, false))
	}
	return connect.NewResponse(out), nil
}

// toolMessage describes a tool; the canonical schemas go with it where one tool
// was asked for.
func toolMessage(t *catalog.Tool, canonical bool) *outriggerv1.Tool {
	m := t.Method
	out := &outriggerv1.Tool{
		Name: t.Name, McpName: t.MCPName, Title: t.Title, Description: t.Description,
		InputSchemaForm:  &outriggerv1.Tool_InputSchemaJson{InputSchemaJson: t.Input.Advertised},
		OutputSchemaForm: &outriggerv1.Tool_OutputSchemaJson{OutputSchemaJson: t.Output.Advertised},
		Annotations: &outriggerv1.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.Annotations.ReadOnly, DestructiveHint: t.Annotations.Destructive,
			IdempotentHint: t.Annotations.Idempotent, OpenWorldHint: t.Annotations.OpenWorld,
		},
		Version: t.Version, Fingerprint: t.Fingerprint,
		Metadata: &outriggerv1.ToolMetadata{
			Module: t.Metadata.Module, Destructive: t.Metadata.Destructive, DeprecatedIn: t.Metadata.DeprecatedIn,
			CacheTtl: durationpb.New(t.Metadata.CacheTTL),
		},
		Execution: &outriggerv1.ToolExecution{ServerStreaming: m.ServerStreaming, ClientStreaming: m.ClientStreaming},
		Binding: &outriggerv1.ToolBinding{
			Service: string(m.Descriptor.Parent().FullName()), Method: string(m.Descriptor.Name()),
		},
	}
	if t.Timeout > 0 {
		out.Execution.Timeout = durationpb.New(t.Timeout)
	}
	if canonical {
		out.CanonicalInputSchemaJson = t.Input.Canonical
		out.CanonicalOutputSchemaJson = t.Output.Canonical
	}
	return out
}

// outcome wraps the JSON of a tool that succeeded.
func outcome(data []byte) *outriggerv1.ToolOutcome {
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status:   "success",
		DataForm: &outriggerv1.ToolResult_DataJson{DataJson: data},
	}}}
}
