// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// TestWithoutTracingNothingIsMade: a message costs no memory more, and its _meta is not looked at.
func TestWithoutTracingNothingIsMade(t *testing.T) {
	h := New(bridge.New(nil, nil, correlate.New(correlate.Options{}), bridge.Options{}), Options{})
	msg := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"n","_meta":{"traceparent":"00-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-aaaaaaaaaaaaaaaa-01"}}}`), jsonrpc.ProfileCanonical, jsonrpc.Limits{})
	in := &Inbound{Message: &msg, Header: http.Header{}, Transport: "http", Route: "/rpc"}
	req := &bridge.Request{Route: "/outrigger.v1.ToolService/CallTool"}
	reply, resp := &Reply{}, &bridge.Response{}
	allocations := testing.AllocsPerRun(100, func() {
		in.HTTP, in.span = h.Request(t.Context()), h.startSpan(in)
		in.endSpan(reply)
		h.RecordCall(t.Context(), req)(resp)
	})
	if allocations != 0 || in.hasLooked || in.span != nil || req.Span != nil {
		t.Errorf("%v allocations, %+v", allocations, in)
	}
}
