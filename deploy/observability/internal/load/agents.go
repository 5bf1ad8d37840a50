// SPDX-License-Identifier: Apache-2.0

package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/rig"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
)

// agents call the sidecar over every edge that HTTP has. Answers are read and dropped: errors are a part of the load.
type agents struct {
	url    string
	client *http.Client
	tools  map[string]outriggerv1connect.ToolServiceClient
	tracer trace.Tracer
	// transports are closed at the end.
	transports []*http.Transport
	ids        atomic.Int64
}

func newAgents(url string, tracers trace.TracerProvider) *agents {
	transport := &http.Transport{MaxIdleConnsPerHost: callers + burst}
	client := &http.Client{Transport: transport}
	h2 := &http.Transport{Protocols: new(http.Protocols), MaxIdleConnsPerHost: callers}
	h2.Protocols.SetUnencryptedHTTP2(true)
	return &agents{
		url: url, client: client, tracer: tracers.Tracer("agent"), transports: []*http.Transport{transport, h2},
		tools: map[string]outriggerv1connect.ToolServiceClient{
			"connect": outriggerv1connect.NewToolServiceClient(client, url),
			"grpc":    outriggerv1connect.NewToolServiceClient(&http.Client{Transport: h2}, url, connect.WithGRPC()),
			"grpcweb": outriggerv1connect.NewToolServiceClient(client, url, connect.WithGRPCWeb()),
		},
	}
}

// close ends idle connections.
func (a *agents) close() {
	for _, t := range a.transports {
		t.CloseIdleConnections()
	}
}

// usual makes the call of a number below 20.
func (a *agents) usual(ctx context.Context, caller string, which int) {
	switch which {
	case 0:
		a.rpc(ctx, caller, "lab.echo", `{"nonce":7}`) // a wrong type
	case 1:
		a.rpc(ctx, caller, "lab.fail", `{"code":"FAIL_CODE_NOT_FOUND"}`)
	case 2:
		a.mcp(ctx, caller, "fleet_cancel_order", `{"orderId":"1"}`) // destructive
	case 3:
		a.rpc(ctx, caller, "shop.none", `{}`) // no such tool
	case 4:
		a.mcp(ctx, caller, "fleet_get_map", `{}`) // the policy denies it to one caller
	case 5:
		a.post(ctx, "", "/rpc", `{}`) // no token
	case 6:
		a.post(ctx, caller, "/none", `{}`) // no such path
	case 7:
		a.session(ctx, caller)
	case 8:
		a.mcp(ctx, caller, "lab_sleep", `{"duration":"0.15s"}`)
	case 9, 10:
		a.typed(ctx, caller, "grpc", "fleet.list_vehicles", `{}`)
	case 11:
		a.typed(ctx, caller, "connect", "lab.echo", `{"nonce":"c"}`)
	case 12:
		a.typed(ctx, caller, "grpcweb", "lab.echo", `{"nonce":"w"}`)
	case 13, 14:
		a.rpc(ctx, caller, "lab.echo", `{"nonce":"r"}`)
	default:
		a.mcp(ctx, caller, "fleet_find_orders", `{}`)
	}
}

// rpc calls a tool over JSON-RPC.
func (a *agents) rpc(ctx context.Context, caller, tool, arguments string) {
	ctx, span := a.tracer.Start(ctx, "call "+tool, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	a.post(ctx, caller, "/rpc", fmt.Sprintf(`{"jsonrpc":"2.0","id":"%d","method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s}}}`,
		a.ids.Add(1), tool, arguments, traceMeta(ctx)))
}

// mcp calls a tool over MCP, in the revision without sessions.
func (a *agents) mcp(ctx context.Context, caller, tool, arguments string) {
	ctx, span := a.tracer.Start(ctx, "tools/call "+tool, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	const client = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},` +
		`"io.modelcontextprotocol/clientInfo":{"name":"agent","version":"1"}`
	a.post(ctx, caller, "/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{%s,%s}}}`,
		a.ids.Add(1), tool, arguments, client, traceMeta(ctx)),
		"Mcp-Method", "tools/call", "Mcp-Name", tool, "MCP-Protocol-Version", "2026-07-28")
}

// typed calls a tool over the tool API.
func (a *agents) typed(ctx context.Context, caller, protocol, tool, arguments string) {
	ctx, span := a.tracer.Start(ctx, "CallTool "+tool, trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	req := connect.NewRequest(&outriggerv1.ToolCall{ToolName: tool, ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(arguments)}})
	req.Header().Set("Authorization", "Bearer "+rig.Token(caller))
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header()))
	_, _ = a.tools[protocol].CallTool(ctx, req)
}

// session is that of a client of an older revision of MCP: it lists the tools and leaves.
func (a *agents) session(ctx context.Context, caller string) {
	const version = "2025-06-18"
	id := a.post(ctx, caller, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+
		`","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}}`)
	if id == "" {
		return
	}
	headers := []string{"Mcp-Session-Id", id, "MCP-Protocol-Version", version}
	a.post(ctx, caller, "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, headers...)
	a.post(ctx, caller, "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, headers...)
	a.send(ctx, http.MethodDelete, caller, "/mcp", "", headers...)
}

// post sends a body by POST. It returns the id of the session that the answer begins, if any.
func (a *agents) post(ctx context.Context, caller, path, body string, headers ...string) string {
	return a.send(ctx, http.MethodPost, caller, path, body, headers...)
}

// send sends a body with a caller's token; an empty caller sends none.
func (a *agents) send(ctx context.Context, method, caller, path, body string, headers ...string) string {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, strings.NewReader(body))
	if err != nil {
		return ""
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if caller != "" {
		req.Header.Set("Authorization", "Bearer "+rig.Token(caller))
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := a.client.Do(req)
	if err != nil {
		return ""
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res.Header.Get("Mcp-Session-Id")
}

// traceMeta are the members of _meta that carry the trace context.
func traceMeta(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return fmt.Sprintf(`"traceparent":%q`, carrier["traceparent"])
}
