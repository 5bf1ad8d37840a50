// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// cancelForms are all the ways to ask for the one destructive tool.
func cancelForms() map[string]mcptest.Call {
	return map[string]mcptest.Call{
		"canonical name":        {Tool: "fleet.cancel_order"},
		"MCP name":              {Tool: "fleet_cancel_order", Names: mcptest.NamesMCP},
		"canonical name in MCP": {Tool: "fleet.cancel_order", Names: mcptest.NamesMCP},
		"MCP name elsewhere":    {Tool: "fleet_cancel_order"},
		"message form":          {Tool: "fleet.cancel_order", Names: mcptest.NamesCanonicalOnly},
		"with a version":        {Tool: "fleet.cancel_order", Version: "^1"},
		"procedure":             {Procedure: "/outrigger.demo.v1.Fleet/CancelOrder"},
		"procedure and a harmless name": {
			Procedure: "/outrigger.demo.v1.Fleet/CancelOrder", Tool: "lab.echo",
		},
	}
}

func TestTheGateHoldsBackEveryFormOfADestructiveCall(t *testing.T) {
	t.Parallel()
	wire, err := proto.Marshal(&demov1.CancelOrderRequest{OrderId: 1001})
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]mcptest.Call{
		"JSON":          {Arguments: `{"orderId":"1001"}`},
		"wire":          {IsWire: true, Wire: wire},
		"invalid input": {Arguments: `{"orderId":"x"}`}, // the gate comes first
	}
	for trust, configure := range map[string]func(*configv1.Config){"untrusted": nil, "trusted": trusted} {
		t.Run(trust, func(t *testing.T) {
			t.Parallel()
			b := fake(t, mcptest.Echo, configure)
			for form, req := range cancelForms() {
				for kind, written := range arguments {
					req.Origin, req.Arguments, req.Wire, req.IsWire = b.NewOrigin(), written.Arguments, written.Wire, written.IsWire
					want := errmap.DestructiveBlocked
					if trust == "trusted" {
						want = map[string]errmap.Code{"invalid input": errmap.InvalidToolInput}[kind]
					}
					if resp := b.Handle(t.Context(), &req); codeOf(resp) != want {
						t.Errorf("%s, %s: got %v, want %q", form, kind, resp.Err, want)
					}
				}
			}
		})
	}
}

func TestAToolThatOnlyMayBeDestructiveRuns(t *testing.T) {
	t.Parallel()
	b := mcptest.Pipe(t, mcptest.Parts{From: mcptest.Source("UpdateVehicle"), Backend: mcptest.Upstream(mcptest.Echo)})
	if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{}`)); resp.Err != nil {
		t.Errorf("got %v", resp.Err)
	}
	// Without its options fleet.update_vehicle says that it is idempotent, and nothing about harm.
	resp := b.Handle(t.Context(), toolCall(b, "fleet.update_vehicle",
		`{"vehicleId":"101","patch":{"driver":"Ann"},"updateMask":"driver"}`))
	if codeOf(resp) == errmap.DestructiveBlocked {
		t.Errorf("a tool that says nothing is held back: %v", resp.Err)
	}
}

func TestTheGateSaysWhatToDo(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, nil)
	got := answer(t, b, mcptest.Modern,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fleet_cancel_order","arguments":{"orderId":"1"},`+modernMeta+`}}`)
	if got.code() != errmap.DestructiveBlocked || got.Result == nil || !containsAll(got.Result.Content[0].Text, "trusted") {
		t.Errorf("got %+v, want a tool error that names the way out", got)
	}
}

// gated is every edge of a sidecar in front of the demo service, with a count of
// how often the one destructive RPC reached it.
type gated struct {
	bridge    *mcptest.Rig
	url       string
	operators string
	one, two  *http.Client
	cancelled atomic.Int64
	end       func()
}

func newGated(t *testing.T, configure func(*configv1.Config)) *gated {
	t.Helper()
	return newGatedBy(t, mcptest.Options{Configure: configure})
}

// newGatedBy is newGated with another sidecar.
func newGatedBy(t *testing.T, o mcptest.Options) *gated {
	t.Helper()
	g := &gated{one: mcptest.Client(t, 1), two: mcptest.Client(t, 2)}
	// A path that is not clean is answered with a redirect to the clean one,
	// which would be another request.
	g.one.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	o.Adjust = mcptest.Between(func(next mcptest.Upstream) mcptest.Upstream {
		return func(ctx context.Context, m *mcptest.Method, in []byte, h http.Header) (*mcptest.Answer, *errmap.Error) {
			if m.Procedure == demov1connect.FleetCancelOrderProcedure {
				g.cancelled.Add(1)
			}
			return next(ctx, m, in, h)
		}
	})
	rig := mcptest.Start(t, o)
	g.bridge, g.end = rig, rig.End
	g.url, g.operators = rig.Serve(t), rig.Operators(t)
	// A second name for the RPC that claims to be harmless.
	mcptest.Register(t, rig.Live, mcptest.Named{
		Name: "desk.tidy", Service: "outrigger.demo.v1.Fleet", Method: "CancelOrder", Input: `{"type":"object"}`, IsHarmless: true,
	})
	return g
}

// trust has an operator say whether callers are trusted.
func (g *gated) trust(t *testing.T, to string) {
	t.Helper()
	if status, body := send(t, g.one, http.MethodPost, g.operators+"/trust", `{"trust":"`+to+`"}`); status != http.StatusOK {
		t.Fatalf("/trust: %d %s", status, body)
	}
}

// order places an order that can be cancelled.
func (g *gated) order(t *testing.T) uint64 {
	t.Helper()
	resp := g.bridge.Handle(t.Context(), toolCall(g.bridge, "fleet.place_order",
		`{"customer":"Ann","destination":{"stopId":"1"},"parcels":[{"contents":"a coconut","weightKg":1}]}`))
	if resp.Err != nil {
		t.Fatalf("place an order: %v %+v", resp.Err, resp.Err.Violations)
	}
	var placed struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(resp.Result, &placed); err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(placed.ID, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// send sends a request and returns status and body.
func send(t *testing.T, client *http.Client, method, url, body string, headers ...string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, raw
}

// codeOfReply is the canonical code in a JSON-RPC reply, empty on success.
func codeOfReply(t *testing.T, raw []byte) errmap.Code {
	t.Helper()
	if _, event, ok := bytes.Cut(raw, []byte("data: ")); ok {
		raw = event
	}
	m := decodeText(t, bytes.TrimSpace(raw))
	if m.Error == nil && m.Result == nil {
		t.Errorf("this is no reply: %s", raw)
	}
	return m.code()
}

// codeOfRPC is the canonical code of an RPC's error, empty on success.
func codeOfRPC(t *testing.T, err error) errmap.Code {
	t.Helper()
	if err == nil {
		return ""
	}
	var failed *connect.Error
	if !errors.As(err, &failed) {
		t.Fatalf("no RPC error: %v", err)
	}
	for _, d := range failed.Details() {
		if value, _ := d.Value(); value != nil {
			if info, ok := value.(*errdetails.ErrorInfo); ok {
				return errmap.Code(info.GetReason())
			}
		}
	}
	return errmap.Code("no ErrorInfo: " + failed.Error())
}

// way is one way to ask for the destructive tool. It returns the canonical code
// of the refusal, empty on success.
type way struct {
	name string
	ask  func(t *testing.T, g *gated, order uint64) errmap.Code
}

func TestNothingGetsAroundTheGate(t *testing.T) {
	t.Parallel()
	g := newGated(t, nil)
	for _, phase := range []struct {
		trust string
		want  errmap.Code
		calls int64
	}{
		{"untrusted", errmap.DestructiveBlocked, 0},
		{"trusted", "", 1},
		{"untrusted", errmap.DestructiveBlocked, 0}, // and it closes again
	} {
		g.trust(t, phase.trust)
		for _, w := range waysIn() {
			before := g.cancelled.Load()
			if got := w.ask(t, g, g.order(t)); got != phase.want {
				t.Errorf("%s, %s: got %q, want %q", phase.trust, w.name, got, phase.want)
			}
			if calls := g.cancelled.Load() - before; calls != phase.calls {
				t.Errorf("%v, %s: the backend was called %d times, want %d", phase.trust, w.name, calls, phase.calls)
			}
		}
		for _, w := range noWays() {
			before := g.cancelled.Load()
			if got := w.ask(t, g, g.order(t)); got == "" {
				t.Errorf("%v, %s: succeeds", phase.trust, w.name)
			}
			if calls := g.cancelled.Load() - before; calls != 0 {
				t.Errorf("%v, %s: the backend was called", phase.trust, w.name)
			}
		}
	}
}

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
			if err := g.bridge.Stdio(t.Context(), strings.NewReader(line(order)+"\n"), &out); err != nil {
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

// exchangeOnce makes one call on its own stream.
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

// deleting is a catalog of shop.get, shop.add and shop.delete, which google.api.http says by its verbs, and shop.touch,
// without any annotation.
func deleting() *descriptorpb.FileDescriptorSet {
	file := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a.v1"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service:     []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("Shop")}},
	}
	for name, verb := range map[string]protowire.Number{"Get": 2, "Add": 4, "Delete": 5, "Touch": 0, "Kill": 0, "MemberRemove": 4, "PurgeView": 2, "ListDeleted": 0} {
		options := &descriptorpb.MethodOptions{}
		if verb > 0 {
			rule := protowire.AppendString(protowire.AppendTag(nil, verb, protowire.BytesType), "/v1/things")
			options.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 72295728, protowire.BytesType), rule))
		}
		file.Service[0].Method = append(file.Service[0].Method, &descriptorpb.MethodDescriptorProto{
			Name: proto.String(name), InputType: proto.String(".a.v1.M"), OutputType: proto.String(".a.v1.M"), Options: options,
		})
	}
	return &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{file}}
}

// TestWhatIsShownAsDestructiveIsGated by every scope of the gate, in every dialect and for callers by procedure, and is
// marked in the metadata, also under a second name.
func TestWhatIsShownAsDestructiveIsGated(t *testing.T) {
	t.Parallel()
	not := false
	all := map[string]bool{"delete": true, "add": true, "touch": true, "kill": true, "member_remove": true, "list_deleted": true}
	for name, tt := range map[string]struct {
		scope     string
		configure func(*configv1.Config)
		held      map[string]bool
	}{
		"verbs":                                 {"verbs", nil, map[string]bool{"delete": true, "kill": true, "member_remove": true}},
		"verbs, and the overlay takes one back": {"verbs", overlaid("*/Kill", &configv1.ToolOptions{Destructive: &not}), map[string]bool{"delete": true, "member_remove": true}},
		"verbs, under a name that hides one":    {"verbs", overlaid("*/Kill", &configv1.ToolOptions{Name: "shop.end"}), map[string]bool{"delete": true, "end": true, "member_remove": true}},
		"verbs, under a name that has one":      {"verbs", overlaid("*/Touch", &configv1.ToolOptions{Name: "shop.wipe"}), map[string]bool{"delete": true, "kill": true, "member_remove": true, "wipe": true}},
		"marked":                                {"marked", nil, map[string]bool{"delete": true}},
		"unproven":                              {"unproven", nil, all},
		"writes":                                {"writes", nil, all},
		"marked, and the overlay takes the verb back":            {"marked", overlaid("*/Delete", &configv1.ToolOptions{Destructive: &not}), map[string]bool{}},
		"writes, and the overlay says that nothing is destroyed": {"writes", overlaid("*/Add", &configv1.ToolOptions{Destructive: &not}), all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ran := false
			b := mcptest.Pipe(t, mcptest.Parts{
				From: mcptest.Files(deleting()), Configure: both(compacted, tt.configure, func(c *configv1.Config) { c.Gate = &tt.scope }),
				Backend: mcptest.Upstream(func(context.Context, *mcptest.Method, []byte, http.Header) (*mcptest.Answer, *errmap.Error) {
					ran = true
					return &mcptest.Answer{}, nil
				}),
			})
			live := b.Live
			mcptest.Register(t, live, mcptest.Named{Name: "other.delete", Service: "a.v1.Shop", Method: "Delete", Input: `{"type":"object"}`, IsHarmless: true})
			if registered, ok := live.Current().Lookup("other.delete"); !ok || registered.Metadata.Destructive != tt.held["delete"] {
				t.Errorf("the second name: %+v", registered)
			}
			for _, tool := range live.Current().Tools() {
				_, method, _ := strings.Cut(tool.Name, ".")
				if shown := tool.Annotations.Destructive; shown != nil && *shown != tool.Metadata.Destructive {
					t.Errorf("%s is shown as %v and marked %v", tool.Name, *shown, tool.Metadata.Destructive)
				}
				for _, raw := range []struct {
					dialect mcptest.Dialect
					text    string
				}{
					{mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"NAME"}}`},
					{mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"NAME","arguments":{}}}`},
					{mcptest.Modern, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME",` + modernMeta + `}}`},
					{mcptest.Legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"NAME"}}`},
					{mcptest.Legacy, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"catalog_call","arguments":{"name":"NAME"}}}`},
				} {
					ran = false
					reply := b.Send(t.Context(), inbound(b.NewOrigin(), raw.dialect, strings.Replace(raw.text, "NAME", tool.Name, 1)))
					blocked := strings.Contains(string(reply.Bytes()), string(errmap.DestructiveBlocked))
					if blocked != tt.held[method] || ran == tt.held[method] {
						t.Errorf("%v, %s: ran %v: %s", raw.dialect, tool.Name, ran, reply.Bytes())
					}
				}
				ran = false
				resp := b.Handle(t.Context(), &mcptest.Call{Origin: b.NewOrigin(), Procedure: tool.Method.Procedure})
				if (codeOf(resp) == errmap.DestructiveBlocked) != tt.held[method] || ran == tt.held[method] {
					t.Errorf("by procedure, %s: ran %v, %v", tool.Name, ran, resp.Err)
				}
			}
		})
	}
}
