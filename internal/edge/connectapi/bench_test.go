// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// BenchmarkCallTool is one plain call without its sockets: what the handler and
// the pipeline cost, with a backend that answers at once.
func BenchmarkCallTool(b *testing.B) {
	pipeline := dialect.New(bridge.New(mcptest.Memory(b), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	service := connectapi.New(pipeline, connectapi.Options{})
	b.ReportAllocs()
	for b.Loop() {
		resp, err := service.CallTool(b.Context(), connect.NewRequest(toolCall("lab.echo", `{"nonce":"n","signed":"-1"}`)))
		if err != nil || len(resp.Msg.GetResult().GetDataJson()) == 0 {
			b.Fatalf("got %v, %v", resp, err)
		}
	}
}
