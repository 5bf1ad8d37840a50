// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// What must not be in the log: an argument, and so the result, and a credential.
const (
	canaryText  = "canary-argument-5f2c"
	canaryToken = "canary-token-91be"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceParent = "00-" + traceID + "-b7ad6b7169203331-01"
)

// TestEveryEdgeLeavesALineForEachCall calls a tool at each edge and looks at the
// line and the series that it leaves.
func TestEveryEdgeLeavesALineForEachCall(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "stdio", "--demo")
	post := func(path, body string, headers ...string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.main+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set("Authorization", "Bearer "+canaryToken)
		req.Header.Set("Traceparent", traceParent)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		if status, answer := fetch(t, req); status != http.StatusOK || !strings.Contains(answer, canaryText) {
			t.Fatalf("%s: %d %s", path, status, answer)
		}
	}
	const params = `"name":"lab_echo","arguments":{"nonce":"` + canaryText + `"}`
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: h2}
	t.Cleanup(transport.CloseIdleConnections)
	rpc := func(options ...connect.ClientOption) {
		t.Helper()
		client := outriggerv1connect.NewToolServiceClient(&http.Client{Transport: transport}, p.main, options...)
		req := connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.echo", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"nonce":"` + canaryText + `"}`)}})
		req.Header().Set("Authorization", "Bearer "+canaryToken)
		req.Header().Set("Traceparent", traceParent)
		if _, err := client.CallTool(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		edge, route, id, caller string
		call                    func()
	}{
		{"mcp", "/mcp", "modern", "127.0.0.1", func() {
			post("/mcp", `{"jsonrpc":"2.0","id":"modern","method":"tools/call","params":{`+params+`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
				`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}}}}`,
				"Mcp-Method", "tools/call", "Mcp-Name", "lab_echo", "MCP-Protocol-Version", "2026-07-28")
		}},
		{"rpc", "/rpc", "r", "127.0.0.1", func() {
			post("/rpc", `{"jsonrpc":"2.0","id":"r","method":"tools/call","params":{`+params+`}}`)
		}},
		{"stdio", "", "s", "stdio", func() {
			if _, err := io.WriteString(p.stdin, `{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{`+params+`,"_meta":{"traceparent":"`+traceParent+`"}}}`+"\n"); err != nil {
				t.Fatal(err)
			}
		}},
		{"connect", "outrigger.v1.ToolService/CallTool", "", "127.0.0.1", func() { rpc() }},
		{"grpc", "outrigger.v1.ToolService/CallTool", "", "127.0.0.1", func() { rpc(connect.WithGRPC()) }},
		{"grpcweb", "outrigger.v1.ToolService/CallTool", "", "127.0.0.1", func() { rpc(connect.WithGRPCWeb()) }},
		{"typed", "outrigger.demo.v1.Lab/Echo", "", "127.0.0.1", func() {
			req := connect.NewRequest(&demov1.EchoRequest{Nonce: canaryText})
			req.Header().Set("Authorization", "Bearer "+canaryToken)
			req.Header().Set("Traceparent", traceParent)
			if _, err := demov1connect.NewLabClient(&http.Client{Transport: transport}, p.main, connect.WithGRPC()).Echo(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		tt.call()
		l := p.await(t, "call")
		var got struct {
			Level     string
			Edge      string  `json:"outrigger.edge"`
			Route     string  `json:"http.route"`
			RPC       string  `json:"rpc.method"`
			Method    string  `json:"mcp.method.name"`
			Operation string  `json:"outrigger.operation"`
			Caller    string  `json:"outrigger.caller"`
			Tool      string  `json:"outrigger.tool.name"`
			Code      *string `json:"outrigger.error.code"`
			ErrorType *string `json:"error.type"`
			Duration  float64 `json:"duration_ms"`
			Upstream  float64 `json:"upstream_duration_ms"`
			RequestID string  `json:"jsonrpc.request.id"`
			TraceID   string  `json:"trace_id"`
		}
		if err := json.Unmarshal(l.raw, &got); err != nil {
			t.Fatal(err)
		}
		if got.Level != "info" || got.Edge != tt.edge || got.Route+got.RPC != tt.route || (got.Method == "tools/call") == (got.RPC != "") || got.Operation != "call_tool" || got.Caller != tt.caller ||
			got.Tool != "lab.echo" || got.Code != nil || got.ErrorType != nil || got.Duration <= 0 || got.Upstream <= 0 || got.TraceID != traceID ||
			got.RequestID != tt.id {
			t.Errorf("%s: %s", tt.edge, l.raw)
		}
		if bytes.Contains(l.raw, []byte("canary")) {
			t.Errorf("%s: the log holds what callers sent: %s", tt.edge, l.raw)
		}
		wantSample(t, p, `outrigger_calls_total{code="OK",edge="`+tt.edge+`",tool="lab.echo"} 1`)
	}
	wantSample(t, p, `outrigger_call_duration_seconds_count{tool="lab.echo"} 7`, `outrigger_call_overhead_seconds_count{edge="typed"} 1`)
}

// TestWhatAFailedCallSays looks at the lines of calls that fail, each of them for
// another party's fault.
func TestWhatAFailedCallSays(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo")
	for _, tt := range []struct{ tool, arguments, want string }{
		{"lab.echo", `{"nonce":7}`, `"outrigger.error.code":"INVALID_TOOL_INPUT","duration_ms":`},
		{"lab.echo", `{"nonce":7}`, `"violations":1`},
		{"lab.fail", `{"code":5,"message":"` + canaryText + `"}`, `"outrigger.backend.status_code":"not_found"`},
		{"no.such_tool", `{}`, `"outrigger.tool.requested":"no.such_tool"`},
		{"fleet.cancel_order", `{"orderId":"1"}`, `"outrigger.tool.name":"fleet.cancel_order","rpc.response.status_code":"`},
		{"fleet.cancel_order", `{"orderId":"1"}`, `"outrigger.error.code":"DESTRUCTIVE_BLOCKED"`},
	} {
		postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+tt.tool+`","arguments":`+tt.arguments+`}}`)
		if l := p.await(t, "call"); !bytes.Contains(l.raw, []byte(tt.want)) || bytes.Contains(l.raw, []byte("canary")) {
			t.Errorf("%s %s: %s, want %s", tt.tool, tt.arguments, l.raw, tt.want)
		}
	}
	postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"nonsense","params":{}}`)
	if l := p.await(t, "message refused"); !bytes.Contains(l.raw, []byte(`"outrigger.error.code":"METHOD_NOT_FOUND"`)) {
		t.Errorf("%s", l.raw)
	}
	wantSample(t, p, `outrigger_calls_total{code="TOOL_NOT_FOUND",edge="rpc",tool=""} 1`, `outrigger_calls_total{code="INVALID_TOOL_INPUT",edge="rpc",tool="lab.echo"} 2`,
		`outrigger_requests_total{code="METHOD_NOT_FOUND",edge="rpc",operation=""} 1`)
}
