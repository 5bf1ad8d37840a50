// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"testing"

	"connectrpc.com/connect"

	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// streamSpans are those of streaming RPCs.
func streamSpans() []spanCase {
	grpc := connect.WithGRPC()
	return []spanCase{
		{"grpc: CallToolStream", func(t *testing.T, r *spanRig) {
			stream, err := r.api(t, grpc).CallToolStream(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.echo", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"nonce":"n"}`)}}))
			if err != nil {
				t.Fatal(err)
			}
			for stream.Receive() {
			}
			_ = stream.Close()
		}},
		{"grpc: CallToolStream, an unknown tool", func(t *testing.T, r *spanRig) {
			stream, err := r.api(t, grpc).CallToolStream(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.nothing"}))
			if err != nil {
				t.Fatal(err)
			}
			for stream.Receive() {
			}
			_ = stream.Close()
		}},
		{"grpc: Exchange", exchangeSpans},
		{"grpc: WatchTools", func(t *testing.T, r *spanRig) {
			ctx, leave := context.WithCancel(t.Context())
			stream, err := r.api(t, grpc).WatchTools(ctx, connect.NewRequest(&outriggerv1.WatchToolsRequest{}))
			if err != nil || !stream.Receive() {
				t.Fatal(err, stream.Err())
			}
			leave()
			_ = stream.Close()
		}},
		{"grpc: Subscribe to changes", func(t *testing.T, r *spanRig) {
			ctx, leave := context.WithCancel(t.Context())
			stream, err := r.api(t, grpc).Subscribe(ctx, connect.NewRequest(&outriggerv1.SubscribeRequest{Filter: &outriggerv1.SubscribeRequest_Changes{Changes: &outriggerv1.ChangeFilter{ToolsListChanged: true}}}))
			if err != nil || !stream.Receive() {
				t.Fatal(err, stream.Err())
			}
			leave()
			_ = stream.Close()
		}},
		{"grpc: a typed stream", func(t *testing.T, r *spanRig) {
			req := connect.NewRequest(&demov1.WatchVehiclesRequest{VehicleIds: []int64{101}, Rounds: 1})
			stream, err := demov1connect.NewFleetClient(mcptest.Client(t, 2), r.url, grpc).WatchVehicles(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			for stream.Receive() {
			}
			_ = stream.Close()
		}},
		{"grpc: Publish", func(t *testing.T, r *spanRig) {
			_, _ = r.api(t, grpc).Publish(t.Context(), connect.NewRequest(&outriggerv1.Notification{Method: "secret/event"}))
		}},
		{"connect: RegisterTool, which is for operators", func(t *testing.T, r *spanRig) {
			_, _ = r.api(t).RegisterTool(t.Context(), connect.NewRequest(&outriggerv1.RegisterToolRequest{}))
		}},
	}
}

// exchangeSpans sends a call, what is no method, and what is no message.
func exchangeSpans(t *testing.T, r *spanRig) {
	stream := r.api(t, connect.WithGRPC()).Exchange(t.Context())
	stream.RequestHeader().Set("Traceparent", inHeader)
	id := func(text string) *outriggerv1.Id { return &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: text}} }
	for _, e := range []*outriggerv1.Envelope{
		{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{Id: id("1"), Method: "tools/call", ParamsForm: &outriggerv1.Request_ParamsJson{
			ParamsJson: []byte(`{"name":"lab.echo",` + echo + `,` + tracedMeta + `}`),
		}}}},
		{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{Id: id("2"), Method: "secret"}}},
		{},
	} {
		if err := stream.Send(e); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Receive(); err != nil {
			t.Fatal(err)
		}
	}
	_ = stream.CloseRequest()
	_, _ = stream.Receive()
	_ = stream.CloseResponse()
}

// httpSpans are those of requests that never have a message.
func httpSpans() []spanCase {
	send := func(method, path, body string, headers ...string) func(*testing.T, *spanRig) {
		return func(t *testing.T, r *spanRig) { r.send(t, method, path, body, headers...) }
	}
	const connectCall = "/outrigger.v1.ToolService/CallTool"
	return []spanCase{
		{"http: a foreign host", send(http.MethodPost, "/mcp", "{}", "Host", "attacker.example")},
		{"http: a foreign origin", send(http.MethodPost, "/rpc", "{}", "Origin", "https://attacker.example")},
		{"http: a method that /mcp does not have", send(http.MethodPut, "/mcp", "{}", "Traceparent", inHeader)},
		{"http: a method that callers made up", send("SECRET", "/rpc", "{}")},
		{"http: a type of content", send(http.MethodPost, "/mcp", "{}", "Content-Type", "text/plain", "Traceparent", inHeader)},
		{"http: an Accept that allows nothing", send(http.MethodPost, "/mcp", "{}", "Accept", "text/plain")},
		{"http: an unknown path", send(http.MethodPost, "/secret/path", "{}")},
		{"http: an unknown path of an RPC", send(http.MethodPost, "/secret.Service/Method", "{}", "Connect-Protocol-Version", "1")},
		{"http: an unknown method of the tool API", send(http.MethodPost, "/outrigger.v1.ToolService/Secret", "{}")},
		{"http: Connect with a type of content", send(http.MethodPost, connectCall, "{}", "Content-Type", "text/plain")},
		{"http: Connect with what is no JSON", send(http.MethodPost, connectCall, "{")},
		{"http: Connect with an encoding", send(http.MethodPost, connectCall, "{}", "Content-Encoding", "br")},
		{"http: Connect by GET", send(http.MethodGet, connectCall, "")},
		{"http: health", send(http.MethodPost, "/grpc.health.v1.Health/Check", "{}")},
	}
}

// refusedSpans are those of callers without credentials, and of one who may do little.
func refusedSpans() []spanCase {
	all := callers()
	var out []spanCase
	for _, path := range []string{"/mcp", "/rpc", "/outrigger.v1.ToolService/CallTool", "/outrigger.demo.v1.Lab/Echo"} {
		out = append(out, spanCase{"unauthenticated: " + path, func(t *testing.T, r *spanRig) {
			r.send(t, http.MethodPost, path, "{}", "Authorization", "Bearer none", "Traceparent", inHeader)
		}})
	}
	for _, w := range all {
		if w.name != "issuer A: ann, without scopes" {
			continue
		}
		bearer := []string{"Authorization", "Bearer " + w.token}
		out = append(out, spanCase{"forbidden: modern", func(t *testing.T, r *spanRig) {
			r.post(t, "/mcp", message("1", "tools/call", `"name":"lab_echo",`+echo+`,`+plainMeta), append(bearer, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "lab_echo")...)
		}}, spanCase{"forbidden: rpc", func(t *testing.T, r *spanRig) {
			r.post(t, "/rpc", message(`"1"`, "tools/call", `"name":"lab.echo",`+echo), bearer...)
		}}, spanCase{"forbidden: connect", func(t *testing.T, r *spanRig) {
			r.post(t, "/outrigger.v1.ToolService/CallTool", `{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`, bearer...)
		}})
	}
	return out
}

// limitedSpans are those of calls over a rate.
func limitedSpans() []spanCase {
	return []spanCase{
		{"limited: the first call", func(t *testing.T, r *spanRig) {
			r.post(t, "/rpc", message(`"1"`, "tools/call", `"name":"lab.echo",`+echo))
		}},
		{"limited: modern", modernPost("tools/call", "lab_echo", `"name":"lab_echo",`+echo, plainMeta)},
		{"limited: rpc", func(t *testing.T, r *spanRig) {
			r.post(t, "/rpc", message(`"1"`, "tools/call", `"name":"lab.echo",`+echo))
		}},
		{"limited: connect", func(t *testing.T, r *spanRig) {
			r.post(t, "/outrigger.v1.ToolService/CallTool", `{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`)
		}},
	}
}
