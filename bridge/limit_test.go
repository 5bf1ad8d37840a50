// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// onceInALongTime is a rate of one request, and the next after 1000 s.
func onceInALongTime() policy.Rate { return policy.Rate{PerSecond: 0.001} }

// clientAt is an HTTP client whose address is another one of this machine's.
func clientAt(t *testing.T, address string) *http.Client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{DialContext: dialer.DialContext, Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// asked is what came of one request.
type asked struct {
	code errmap.Code
	// status and retryAfter are those of a reply over HTTP.
	status     int
	retryAfter string
	wait       time.Duration
}

// posted asks by POST and reads a JSON-RPC reply.
func posted(path, body string, headers ...string) func(*testing.T, *http.Client, string) asked {
	return func(t *testing.T, client *http.Client, url string) asked {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(body))
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
		var m replyMessage
		if err := json.NewDecoder(resp.Body).Decode(&m); err != nil {
			t.Fatal(err)
		}
		return asked{m.code(), resp.StatusCode, resp.Header.Get("Retry-After"), time.Duration(m.data().RetryAfterMS) * time.Millisecond}
	}
}

// called is what came of an RPC.
func called(t *testing.T, err error) asked {
	t.Helper()
	got := asked{code: codeOfRPC(t, err)}
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return got
	}
	for _, d := range failed.Details() {
		if value, _ := d.Value(); value != nil {
			if info, ok := value.(*errdetails.RetryInfo); ok {
				got.wait = info.GetRetryDelay().AsDuration()
			}
		}
	}
	return got
}

// wayToAsk is one way to send a request that rates count.
type wayToAsk struct {
	name       string
	ask        func(*testing.T, *http.Client, string) asked
	status     int // of the refusal; 0 for RPCs
	retryAfter bool
}

// waysToAsk are a call and what is no call, on every edge in front of [allEdges].
func waysToAsk() []wayToAsk {
	api := func(c *http.Client, url string) outriggerv1connect.ToolServiceClient {
		return outriggerv1connect.NewToolServiceClient(c, url)
	}
	modern := func(method, name string) []string {
		h := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
		if name != "" {
			h = append(h, "Mcp-Name", name)
		}
		return h
	}
	return []wayToAsk{
		{"/rpc call", posted("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo"}}`), 429, true},
		{"/rpc message form", posted("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"tool_name":"lab.echo","arguments":{}}}`), 429, true},
		{"/rpc list", posted("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`), 429, true},
		{"/rpc get", posted("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/get","params":{"name":"lab.echo"}}`), 429, true},
		{"/rpc describe", posted("/rpc", `{"jsonrpc":"2.0","id":"1","method":"server/describe","params":{}}`), 429, true},
		{"modern call", posted("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo",`+modernMeta+`}}`, modern("tools/call", "lab_echo")...), 200, false},
		{"modern list", posted("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}`, modern("tools/list", "")...), 429, true},
		{"modern discover", posted("/mcp", `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+modernMeta+`}}`, modern("server/discover", "")...), 429, true},
		{"legacy call", posted("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo"}}`), 200, false},
		{"legacy list", posted("/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), 429, true},
		{"legacy initialize", posted("/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`), 429, true},
		{"CallTool", func(t *testing.T, c *http.Client, url string) asked {
			t.Helper()
			_, err := api(c, url).CallTool(t.Context(), connect.NewRequest(&outriggerv1.ToolCall{ToolName: "lab.echo"}))
			return called(t, err)
		}, 0, false},
		{"ListTools", func(t *testing.T, c *http.Client, url string) asked {
			t.Helper()
			_, err := api(c, url).ListTools(t.Context(), connect.NewRequest(&outriggerv1.ListToolsRequest{}))
			return called(t, err)
		}, 0, false},
		{"GetTool", func(t *testing.T, c *http.Client, url string) asked {
			t.Helper()
			_, err := api(c, url).GetTool(t.Context(), connect.NewRequest(&outriggerv1.GetToolRequest{ToolName: "lab.echo"}))
			return called(t, err)
		}, 0, false},
		{"typed pass-through", func(t *testing.T, c *http.Client, url string) asked {
			t.Helper()
			_, err := demov1connect.NewLabClient(c, url, connect.WithGRPC()).Echo(t.Context(), connect.NewRequest(&demov1.EchoRequest{}))
			return called(t, err)
		}, 0, false},
	}
}

func TestEveryEdgeCountsAgainstItsCallersRate(t *testing.T) {
	t.Parallel()
	for _, tc := range waysToAsk() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			url := mcptest.Serve(t, allEdges(fake(t, mcptest.Echo, bridge.Options{
				Limiter: policy.NewLimiter(policy.LimitOptions{Caller: onceInALongTime()}),
			})))
			here, there := mcptest.Client(t, 2), clientAt(t, "127.0.0.2")
			if got := tc.ask(t, here, url); got.code != "" {
				t.Fatalf("the first: %+v", got)
			}
			got := tc.ask(t, here, url)
			if got.code != errmap.RateLimited || got.status != tc.status || (got.retryAfter != "") != tc.retryAfter {
				t.Errorf("the second: %+v, want RATE_LIMITED with %d", got, tc.status)
			}
			if got.wait <= 900*time.Second || got.wait > 1000*time.Second || (tc.retryAfter && len(got.retryAfter) < 2) {
				t.Errorf("the wait: %+v, want about 1000 s", got)
			}
			// A header is no address, another connection no other caller.
			if again := posted("/rpc", `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`, "X-Forwarded-For", "192.0.2.1",
				"Forwarded", "for=192.0.2.1")(t, mcptest.Client(t, 1), url); again.code != errmap.RateLimited {
				t.Errorf("over another connection: %+v", again)
			}
			if other := tc.ask(t, there, url); other.code != "" {
				t.Errorf("another caller: %+v", other)
			}
		})
	}
}

func TestABatchIsAsManyRequests(t *testing.T) {
	t.Parallel()
	url := mcptest.Serve(t, allEdges(fake(t, mcptest.Echo, bridge.Options{
		Limiter: policy.NewLimiter(policy.LimitOptions{Caller: policy.Rate{PerSecond: 0.01, Burst: 2}}),
	})))
	call := func(id string) string {
		return `{"jsonrpc":"2.0","id":"` + id + `","method":"tools/call","params":{"name":"lab.echo"}}`
	}
	_, raw := send(t, mcptest.Client(t, 1), http.MethodPost, url+"/rpc", "["+call("1")+","+call("2")+","+call("3")+","+call("4")+"]")
	var replies []replyMessage
	if err := json.Unmarshal(raw, &replies); err != nil {
		t.Fatal(err)
	}
	limited := 0
	for _, r := range replies {
		if r.code() == errmap.RateLimited {
			limited++
		}
	}
	if len(replies) != 4 || limited != 2 {
		t.Errorf("%d of %d are refused, want 2 of 4", limited, len(replies))
	}
}

func TestAnExchangeIsOneCaller(t *testing.T) {
	t.Parallel()
	url := mcptest.Serve(t, allEdges(fake(t, mcptest.Echo, bridge.Options{
		Limiter: policy.NewLimiter(policy.LimitOptions{Caller: onceInALongTime()}),
	})))
	params := []byte(`{"name":"lab.echo"}`)
	for _, want := range []errmap.Code{"", errmap.RateLimited} {
		if got := exchangeOnce(t, outriggerv1connect.NewToolServiceClient(mcptest.Client(t, 2), url), params); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := exchangeOnce(t, outriggerv1connect.NewToolServiceClient(clientAt(t, "127.0.0.2"), url), params); got != "" {
		t.Errorf("another caller: %q", got)
	}
}

func TestStandardInputIsOneCaller(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{Limiter: policy.NewLimiter(policy.LimitOptions{Caller: onceInALongTime()})})
	secondIsOver(t, b)
}

// secondIsOver lists tools twice over standard input, in two conversations of one caller, whose rate allows one.
func secondIsOver(t *testing.T, b *dialect.Handler) {
	t.Helper()
	var out bytes.Buffer
	lines := `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}` + "\n"
	for range 2 { // also across conversations
		if err := stdio.Serve(t.Context(), b, strings.NewReader(lines), &out, stdio.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	first, second, _ := bytes.Cut(out.Bytes(), []byte("\n"))
	if codeOfReply(t, first) != "" || codeOfReply(t, second) != errmap.RateLimited {
		t.Errorf("got %s", out.Bytes())
	}
}

func TestAToolHasARateForAllCallersTogether(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{Limiter: policy.NewLimiter(policy.LimitOptions{Tool: onceInALongTime()})})
	ask := func(caller, tool string, names bridge.NameForm) *bridge.Response {
		req := toolCall(b, tool, `{}`)
		req.Caller, req.Names = caller, names
		return b.Handle(t.Context(), req)
	}
	if resp := ask("a", "lab.echo", bridge.NamesCanonical); resp.Err != nil {
		t.Fatal(resp.Err)
	}
	for name, resp := range map[string]*bridge.Response{
		"another caller": ask("b", "lab.echo", bridge.NamesCanonical),
		"another name":   ask("a", "lab_echo", bridge.NamesMCP),
		"procedure": b.Handle(t.Context(), &bridge.Request{
			Op: bridge.OpCall, Origin: b.Flights().NewOrigin(), Caller: "c", Procedure: "/outrigger.demo.v1.Lab/Echo",
		}),
	} {
		if codeOf(resp) != errmap.RateLimited || resp.Err.RetryAfter <= 900*time.Second {
			t.Errorf("%s: got %v, want RATE_LIMITED", name, resp.Err)
		}
	}
	if resp := ask("a", "lab.inspect", bridge.NamesCanonical); codeOf(resp) == errmap.RateLimited {
		t.Errorf("another tool: got %v", resp.Err)
	}
}

// What is refused before the limit costs nothing, and a ping never does.
func TestWhatDoesNotCount(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, bridge.Options{Limiter: policy.NewLimiter(policy.LimitOptions{Caller: onceInALongTime()})})
	for range 3 {
		for _, req := range []*bridge.Request{
			{Op: bridge.OpPing},
			{Op: bridge.OpCall, Tool: "lab.none"},
			{Op: bridge.OpCall, Tool: "fleet.cancel_order"},
		} {
			req.Origin = b.Flights().NewOrigin()
			if resp := b.Handle(t.Context(), req); codeOf(resp) == errmap.RateLimited {
				t.Errorf("%+v: got %v", req, resp.Err)
			}
		}
	}
	if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":7}`)); codeOf(resp) != errmap.InvalidToolInput {
		t.Errorf("the token is spent: %v", resp.Err)
	}
	if resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{"nonce":7}`)); codeOf(resp) != errmap.RateLimited {
		t.Errorf("the limit comes before the arguments are looked at: %v", resp.Err)
	}
}
