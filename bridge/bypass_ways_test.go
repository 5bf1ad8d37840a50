// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
)

// waysIn are the ways that lead to the tool where callers are trusted.
func waysIn() []way {
	var all []way
	for _, group := range [][]way{canonicalWays(), mcpWays(), stdioWays(), apiWays(), exchangeWays(), typedWays(), {streamedWay()}} {
		all = append(all, group...)
	}
	return all
}

// rpc asks /rpc with the params given; %d is the order.
func rpc(name, params string) way {
	return way{"/rpc, " + name, func(t *testing.T, g *gated, order uint64) errmap.Code {
		t.Helper()
		_, raw := send(t, g.one, http.MethodPost, g.url+"/rpc", canonicalCall(params, order))
		return codeOfReply(t, raw)
	}}
}

func canonicalCall(params string, order uint64) string {
	return `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":` + fmt.Sprintf(params, order) + `}`
}

func canonicalWays() []way {
	return []way{
		rpc("canonical name", `{"name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`),
		rpc("MCP name", `{"name":"fleet_cancel_order","arguments":{"orderId":"%d"}}`),
		rpc("field name of the .proto file", `{"name":"fleet.cancel_order","arguments":{"order_id":"%d"}}`),
		rpc("version", `{"name":"fleet.cancel_order","version":"^1","arguments":{"orderId":"%d"}}`),
		rpc("exact version", `{"name":"fleet_cancel_order","version":"1.0.0","arguments":{"orderId":"%d"}}`),
		rpc("escaped name", `{"name":"fleet\u002ecancel_order","arguments":{"orderId":"%d"}}`),
		rpc("escaped member", `{"n\u0061me":"fleet.cancel_order","arguments":{"orderId":"%d"}}`),
		rpc("claims in _meta", `{"name":"fleet.cancel_order","_meta":{"trust":"trusted","dev.outrigger/trust":"trusted"},"arguments":{"orderId":"%d"}}`),
		rpc("another name that was registered", `{"name":"desk.tidy","arguments":{"orderId":"%d"}}`),
		rpc("another name, MCP form", `{"name":"desk_tidy","arguments":{"orderId":"%d"}}`),
		rpc("message form", `{"tool_name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`),
		{"/rpc, claims in headers", func(t *testing.T, g *gated, order uint64) errmap.Code {
			t.Helper()
			_, raw := send(t, g.one, http.MethodPost, g.url+"/rpc",
				canonicalCall(`{"name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`, order),
				"X-Trust", "trusted", "X-Forwarded-For", "127.0.0.1", "Trust", "trusted")
			return codeOfReply(t, raw)
		}},
		{"/rpc, HTTP/2 and gzip", func(t *testing.T, g *gated, order uint64) errmap.Code {
			t.Helper()
			var zipped bytes.Buffer
			w := gzip.NewWriter(&zipped)
			_, _ = io.WriteString(w, canonicalCall(`{"name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`, order))
			_ = w.Close()
			_, raw := send(t, g.two, http.MethodPost, g.url+"/rpc", zipped.String(), "Content-Encoding", "gzip")
			return codeOfReply(t, raw)
		}},
		batch("of one", `[%s]`, 0),
		batch("behind a harmless call", `[{"jsonrpc":"2.0","id":"0","method":"tools/call","params":{"name":"lab.echo"}},%s]`, 1),
		batch("before a listing", `[%s,{"jsonrpc":"2.0","id":"0","method":"tools/list","params":{}}]`, 0),
		batch("beside its own notification", `[{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fleet.cancel_order","arguments":{"orderId":"1001"}}},%s]`, 0),
	}
}

// batch asks in a batch; at is the place of the answer.
func batch(name, form string, at int) way {
	return way{"/rpc, batch " + name, func(t *testing.T, g *gated, order uint64) errmap.Code {
		t.Helper()
		call := canonicalCall(`{"name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`, order)
		_, raw := send(t, g.one, http.MethodPost, g.url+"/rpc", fmt.Sprintf(form, call))
		var replies []json.RawMessage
		if err := json.Unmarshal(raw, &replies); err != nil || len(replies) <= at {
			t.Fatalf("no batch of answers: %v %s", err, raw)
		}
		return codeOfReply(t, replies[at])
	}}
}

func mcpCall(name, meta string, order uint64) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{"orderId":"%d"}%s}}`, name, order, meta)
}

func mcpWays() []way {
	var all []way
	for _, name := range []string{"fleet_cancel_order", "fleet.cancel_order"} {
		for _, accept := range []string{"application/json, text/event-stream", "text/event-stream"} {
			all = append(all, way{"/mcp, modern, " + name + ", " + accept, func(t *testing.T, g *gated, order uint64) errmap.Code {
				t.Helper()
				_, raw := send(t, g.one, http.MethodPost, g.url+"/mcp", mcpCall(name, ","+modernMeta, order),
					"Accept", accept, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name)
				return codeOfReply(t, raw)
			}}, way{"/mcp, legacy, " + name + ", " + accept, func(t *testing.T, g *gated, order uint64) errmap.Code {
				t.Helper()
				_, raw := send(t, g.two, http.MethodPost, g.url+"/mcp", mcpCall(name, "", order),
					"Accept", accept, "Mcp-Protocol-Version", "2025-11-25")
				return codeOfReply(t, raw)
			}})
		}
	}
	return all
}

func stdioWays() []way {
	var all []way
	for name, line := range map[string]func(uint64) string{
		"canonical": func(order uint64) string {
			return canonicalCall(`{"name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`, order)
		},
		"message form": func(order uint64) string {
			return canonicalCall(`{"tool_name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`, order)
		},
		"modern": func(order uint64) string { return mcpCall("fleet_cancel_order", ","+modernMeta, order) },
		"legacy": func(order uint64) string {
			return `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}` + "\n" +
				mcpCall("fleet_cancel_order", "", order)
		},
	} {
		all = append(all, way{"stdio, " + name, func(t *testing.T, g *gated, order uint64) errmap.Code {
			t.Helper()
			var out bytes.Buffer
			if err := stdio.Serve(t.Context(), g.bridge, strings.NewReader(line(order)+"\n"), &out, stdio.Options{}); err != nil {
				t.Fatal(err)
			}
			for reply := range bytes.Lines(out.Bytes()) {
				if !bytes.Contains(reply, []byte(`"id":0`)) {
					return codeOfReply(t, reply)
				}
			}
			t.Fatalf("no answer: %s", out.Bytes())
			return ""
		}})
	}
	return all
}

// protocols are the ways to speak Connect's three protocols.
func protocols(g *gated) map[string]struct {
	client  *http.Client
	options []connect.ClientOption
} {
	type spoken = struct {
		client  *http.Client
		options []connect.ClientOption
	}
	return map[string]spoken{
		"Connect":             {g.one, nil},
		"Connect JSON":        {g.one, []connect.ClientOption{connect.WithProtoJSON()}},
		"Connect gzip":        {g.two, []connect.ClientOption{connect.WithSendGzip()}},
		"gRPC":                {g.two, []connect.ClientOption{connect.WithGRPC()}},
		"gRPC JSON":           {g.two, []connect.ClientOption{connect.WithGRPC(), connect.WithProtoJSON()}},
		"gRPC-Web":            {g.one, []connect.ClientOption{connect.WithGRPCWeb()}},
		"gRPC-Web, HTTP/2":    {g.two, []connect.ClientOption{connect.WithGRPCWeb()}},
		"Connect with a GET":  {g.one, []connect.ClientOption{connect.WithHTTPGet()}},
		"Connect JSON, HTTP2": {g.two, []connect.ClientOption{connect.WithProtoJSON()}},
	}
}

// protocolNames are the keys of protocols, for tables.
func protocolNames() []string {
	var names []string
	for name := range protocols(&gated{}) {
		names = append(names, name)
	}
	return names
}

func apiWays() []way {
	var all []way
	for _, protocol := range protocolNames() {
		for form, call := range map[string]func(uint64) *outriggerv1.ToolCall{
			"bytes": func(order uint64) *outriggerv1.ToolCall {
				return &outriggerv1.ToolCall{ToolName: "fleet.cancel_order", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{
					ArgumentsJson: fmt.Appendf(nil, `{"orderId":"%d"}`, order),
				}}
			},
			"Struct": func(order uint64) *outriggerv1.ToolCall {
				return &outriggerv1.ToolCall{ToolName: "fleet.cancel_order", Version: "1", ArgumentsForm: &outriggerv1.ToolCall_Arguments{
					Arguments: &structpb.Struct{Fields: map[string]*structpb.Value{"order_id": structpb.NewStringValue(strconv.FormatUint(order, 10))}},
				}}
			},
		} {
			all = append(all, way{"CallTool, " + protocol + ", " + form, func(t *testing.T, g *gated, order uint64) errmap.Code {
				t.Helper()
				p := protocols(g)[protocol]
				_, err := outriggerv1connect.NewToolServiceClient(p.client, g.url, p.options...).CallTool(t.Context(), connect.NewRequest(call(order)))
				return codeOfRPC(t, err)
			}})
		}
	}
	return all
}

func exchangeWays() []way {
	var all []way
	for protocol, options := range map[string][]connect.ClientOption{
		"Connect": nil, "gRPC": {connect.WithGRPC()},
	} {
		for form, params := range map[string]string{
			"canonical":    `{"name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`,
			"MCP name":     `{"name":"fleet_cancel_order","arguments":{"orderId":"%d"}}`,
			"message form": `{"tool_name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`,
		} {
			all = append(all, way{"Exchange, " + protocol + ", " + form, func(t *testing.T, g *gated, order uint64) errmap.Code {
				t.Helper()
				return exchangeOnce(t, outriggerv1connect.NewToolServiceClient(g.two, g.url, options...), fmt.Appendf(nil, params, order))
			}})
		}
	}
	return all
}

// exchangeOnce makes one call on a stream of its own.
func exchangeOnce(t *testing.T, client outriggerv1connect.ToolServiceClient, params []byte) errmap.Code {
	t.Helper()
	stream := client.Exchange(t.Context())
	defer stream.CloseResponse()
	if err := stream.Send(&outriggerv1.Envelope{Message: &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
		Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: "1"}}, Method: "tools/call",
		ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: params},
	}}}); err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Receive()
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.CloseRequest(); err != nil {
		t.Fatal(err)
	}
	if failed := answer.GetErrorResponse(); failed != nil {
		return codeOfReply(t, fmt.Appendf(nil, `{"error":{"data":%s}}`, failed.GetError().GetDataJson()))
	}
	return codeOfReply(t, fmt.Appendf(nil, `{"result":%s}`, answer.GetSuccessResponse().GetResultJson()))
}

func typedWays() []way {
	var all []way
	for _, protocol := range protocolNames() {
		all = append(all, way{"typed pass-through, " + protocol, func(t *testing.T, g *gated, order uint64) errmap.Code {
			t.Helper()
			p := protocols(g)[protocol]
			_, err := demov1connect.NewFleetClient(p.client, g.url, p.options...).CancelOrder(t.Context(),
				connect.NewRequest(&demov1.CancelOrderRequest{OrderId: order}))
			return codeOfRPC(t, err)
		}})
	}
	return all
}

// streamedWay is a call whose outcome is the last event of a stream.
func streamedWay() way {
	return way{"CallToolStream", func(t *testing.T, g *gated, order uint64) errmap.Code {
		t.Helper()
		stream, err := outriggerv1connect.NewToolServiceClient(g.two, g.url, connect.WithGRPC()).CallToolStream(t.Context(),
			connect.NewRequest(&outriggerv1.ToolCall{ToolName: "fleet.cancel_order", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{
				ArgumentsJson: fmt.Appendf(nil, `{"orderId":"%d"}`, order),
			}}))
		if err != nil {
			t.Fatal(err)
		}
		outcomes := 0
		for stream.Receive() {
			if stream.Msg().GetOutcome() != nil {
				outcomes++
			}
		}
		failed := stream.Err()
		_ = stream.Close()
		if failed == nil && outcomes != 1 {
			t.Errorf("%d outcomes", outcomes)
		}
		return codeOfRPC(t, failed)
	}}
}

// noWays are what looks like a way to the tool and leads nowhere, whether
// callers are trusted or not. Each returns something where it was refused.
func noWays() []way {
	all := []way{
		rpc("MCP name in the message form", `{"tool_name":"fleet_cancel_order","arguments":{"orderId":"%d"}}`),
		rpc("both forms", `{"name":"lab.echo","tool_name":"fleet.cancel_order","arguments":{"orderId":"%d"}}`),
		rpc("a version that is not there", `{"name":"fleet.cancel_order","version":"^2","arguments":{"orderId":"%d"}}`),
	}
	for _, name := range []string{
		"fleet.cancel_order@1.0.0", "fleet.cancel_order@^1", "fleet.cancel_order:1", "fleet.cancel_order#v1", "fleet.cancel_order/v1",
		"fleet.cancel_order?version=1", "fleet.cancel_order.v1", "fleet_cancel_order_v1", "FLEET.CANCEL_ORDER", "fleet.CancelOrder",
		" fleet.cancel_order", "fleet.cancel_order ", "fleet..cancel_order", "fleet.cancel_order\\u0000", "fleet.c\\u0430ncel_order",
		"outrigger.demo.v1.Fleet/CancelOrder", "/outrigger.demo.v1.Fleet/CancelOrder", "outrigger.demo.v1.Fleet.CancelOrder",
	} {
		all = append(all, rpc("name "+name, `{"name":"`+name+`","arguments":{"orderId":"%d"}}`))
	}
	return append(all, notCalls()...)
}

// notCalls are requests that are no call at all.
func notCalls() []way {
	plain := func(name, method, path, body string, headers ...string) way {
		return way{name, func(t *testing.T, g *gated, order uint64) errmap.Code {
			t.Helper()
			target := strings.ReplaceAll(path, "ORDER", strconv.FormatUint(order, 10))
			status, raw := send(t, g.one, method, g.url+target, strings.ReplaceAll(body, "ORDER", strconv.FormatUint(order, 10)), headers...)
			if status == http.StatusOK {
				return ""
			}
			return errmap.Code(fmt.Sprint(status, string(raw)))
		}}
	}
	const typed = "/outrigger.demo.v1.Fleet/CancelOrder"
	return []way{
		plain("notification to /rpc", http.MethodPost, "/rpc",
			`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fleet.cancel_order","arguments":{"orderId":"ORDER"}}}`),
		plain("batch of notifications", http.MethodPost, "/rpc",
			`[{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fleet.cancel_order","arguments":{"orderId":"ORDER"}}}]`),
		plain("notification to /mcp", http.MethodPost, "/mcp",
			`{"jsonrpc":"2.0","method":"tools/call","params":{"name":"fleet_cancel_order","arguments":{"orderId":"ORDER"}}}`),
		plain("batch to /mcp", http.MethodPost, "/mcp",
			`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fleet_cancel_order","arguments":{"orderId":"ORDER"}}}]`),
		plain("typed, GET", http.MethodGet, typed+`?connect=v1&encoding=json&message=%7B%22orderId%22%3A%22ORDER%22%7D`, ""),
		plain("typed, PUT", http.MethodPut, typed, `{"orderId":"ORDER"}`),
		plain("typed, two slashes", http.MethodPost, "/"+typed, `{"orderId":"ORDER"}`),
		plain("typed, slash at the end", http.MethodPost, typed+"/", `{"orderId":"ORDER"}`),
		plain("typed, another case", http.MethodPost, strings.ToLower(typed), `{"orderId":"ORDER"}`),
		plain("typed, escaped slash", http.MethodPost, "/outrigger.demo.v1.Fleet%2FCancelOrder", `{"orderId":"ORDER"}`,
			"Content-Type", "application/x-www-form-urlencoded"),
		plain("typed, version in the path", http.MethodPost, typed+"@1.0.0", `{"orderId":"ORDER"}`),
	}
}
