// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
	"google.golang.org/protobuf/encoding/protojson"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
)

// mcpgoTyped is a server on mcp-go with a typed tool: the SDK derives the schemas from the form, binds the arguments to
// it, and writes the result a second time as text. Its validation against the schemas is off unless asked for, and is
// left so, which is the cheaper way.
func mcpgoTyped(client benchv1.DeskClient) http.Handler {
	tool := mcp.NewTool(desk.MCPTool, mcp.WithDescription(toolText), mcp.WithInputSchema[desk.Form](), mcp.WithOutputSchema[desk.Form]())
	return mcpgoHandler(tool, mcp.NewStructuredToolHandler(
		func(ctx context.Context, _ mcp.CallToolRequest, in desk.Form) (*desk.Form, error) {
			return echo(ctx, client, &in)
		}))
}

// mcpgoRaw is a server on mcp-go that takes the arguments as the text that came and leaves both directions to protojson.
func mcpgoRaw(client benchv1.DeskClient) http.Handler {
	tool := mcp.NewTool(desk.MCPTool, mcp.WithDescription(toolText), mcp.WithInputSchema[desk.Form]())
	return mcpgoHandler(tool, func(ctx context.Context, req mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in := new(benchv1.EchoRequest)
		if err := protojson.Unmarshal(req.Params.RawArguments, in); err != nil {
			return mcp.NewToolResultErrorFromErr("arguments", err), nil
		}
		out, err := client.Echo(ctx, in)
		if err != nil {
			return mcp.NewToolResultErrorFromErr("call", err), nil
		}
		text, err := protojson.Marshal(out)
		if err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
		return mcp.NewToolResultStructured(json.RawMessage(text), string(text)), nil
	})
}

func mcpgoHandler(tool mcp.Tool, handler server.ToolHandlerFunc) http.Handler {
	s := server.NewMCPServer("desk", "1.0.0")
	s.AddTool(tool, handler)
	return server.NewStreamableHTTPServer(s, server.WithStateLess(true))
}
