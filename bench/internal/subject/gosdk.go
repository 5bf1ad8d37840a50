// SPDX-License-Identifier: Apache-2.0

package subject

import (
	"context"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	benchv1 "github.com/outrigger-mcp/outrigger/bench/gen/outrigger/bench/v1"
	"github.com/outrigger-mcp/outrigger/bench/internal/desk"
)

// sdkHandler is a server on the official Go SDK with a typed tool. The SDK derives both schemas from the form, validates
// arguments and result against them, and writes the result a second time as text.
func sdkHandler(client benchv1.DeskClient, stateless bool) http.Handler {
	server := mcp.NewServer(&mcp.Implementation{Name: "desk", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: desk.MCPTool, Description: toolText},
		func(ctx context.Context, _ *mcp.CallToolRequest, in desk.Form) (*mcp.CallToolResult, *desk.Form, error) {
			out, err := echo(ctx, client, &in)
			return nil, out, err
		})
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{JSONResponse: true, Stateless: stateless})
}
