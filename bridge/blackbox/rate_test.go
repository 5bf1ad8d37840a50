// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/ratetest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// onceInALongTime is a rate of one request, and the next after 1000 s.
func onceInALongTime() *configv1.Rate { return &configv1.Rate{PerSecond: 0.001} }

func rate(perSecond float64, burst int32) *configv1.Rate {
	return &configv1.Rate{PerSecond: perSecond, Burst: &burst}
}

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

// waysToAsk are a call and what is no call, on every edge in front of the main listener.
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
			url := fake(t, mcptest.Echo, callerRate(onceInALongTime())).Serve(t)
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
	url := fake(t, mcptest.Echo, callerRate(rate(0.01, 2))).Serve(t)
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
	url := fake(t, mcptest.Echo, callerRate(onceInALongTime())).Serve(t)
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
	b := fake(t, mcptest.Echo, callerRate(onceInALongTime()))
	secondIsOver(t, b)
}

// secondIsOver lists tools twice over standard input, in two conversations of one caller, whose rate allows one.
func secondIsOver(t *testing.T, b *mcptest.Rig) {
	t.Helper()
	var out bytes.Buffer
	lines := `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}` + "\n"
	for range 2 { // also across conversations
		if err := b.Stdio(t.Context(), strings.NewReader(lines), &out); err != nil {
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
	b := fake(t, mcptest.Echo, toolRate(onceInALongTime()))
	ask := func(caller, tool string, names mcptest.NameForm) *mcptest.Outcome {
		req := toolCall(b, tool, `{}`)
		req.Caller, req.Names = caller, names
		return b.Handle(t.Context(), req)
	}
	if resp := ask("a", "lab.echo", mcptest.NamesCanonical); resp.Err != nil {
		t.Fatal(resp.Err)
	}
	for name, resp := range map[string]*mcptest.Outcome{
		"another caller": ask("b", "lab.echo", mcptest.NamesCanonical),
		"another name":   ask("a", "lab_echo", mcptest.NamesMCP),
		"procedure": b.Handle(t.Context(), &mcptest.Call{
			Origin: b.NewOrigin(), Caller: "c", Procedure: "/outrigger.demo.v1.Lab/Echo",
		}),
	} {
		if codeOf(resp) != errmap.RateLimited || resp.Err.RetryAfter <= 900*time.Second {
			t.Errorf("%s: got %v, want RATE_LIMITED", name, resp.Err)
		}
	}
	if resp := ask("a", "lab.inspect", mcptest.NamesCanonical); codeOf(resp) == errmap.RateLimited {
		t.Errorf("another tool: got %v", resp.Err)
	}
}

// What is refused before the limit costs nothing, and a ping never does.
func TestWhatDoesNotCount(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, callerRate(onceInALongTime()))
	for range 3 {
		if got := answer(t, b, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`); got.code() != "" {
			t.Errorf("a ping: %+v", got)
		}
		for _, tool := range []string{"lab.none", "fleet.cancel_order"} {
			if resp := b.Handle(t.Context(), toolCall(b, tool, "")); codeOf(resp) == errmap.RateLimited {
				t.Errorf("%s: got %v", tool, resp.Err)
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

// sharing has a sidecar ask a server.
func sharing(peer *ratetest.Server, more ...func(*configv1.Config)) func(*configv1.Config) {
	return func(c *configv1.Config) {
		c.RateService.Url, c.RateService.Failure, c.RateService.Timeout = peer.URL(), proto.String("closed"), durationpb.New(5*time.Second)
		both(more...)(c)
	}
}

// patient waits for the server as long as a test lasts, which is longer than a configuration may say.
func patient(c *configv1.Config) { c.RateService.Timeout = durationpb.New(testkit.Limit()) }

// keysOf are the keys of what a server was asked, one text for each question.
func keysOf(peer *ratetest.Server) (out []string) {
	for _, r := range peer.Asked() {
		var keys []string
		for _, d := range r.GetDescriptors() {
			var path []string
			for _, e := range d.GetEntries() {
				key := e.GetKey()
				if key != "caller" {
					key += "=" + e.GetValue()
				}
				path = append(path, key)
			}
			keys = append(keys, strings.Join(path, "/"))
		}
		out = append(out, strings.Join(keys, " "))
	}
	return out
}

// asksOf is what a server is asked about a call.
func asksOf(tool string) string { return "caller tool=" + tool + " caller/tool=" + tool }

// refusedOnce is the count of one refusal, of whatever tool.
var refusedOnce = regexp.MustCompile(`outrigger_calls_refused_total\{code="RATE_LIMITED",tool="[^"]*"\} 1\n`)

// TestEveryEdgeAsksTheRateService: what it refuses is the same error as that of the local rate, with the time that it says.
func TestEveryEdgeAsksTheRateService(t *testing.T) {
	t.Parallel()
	for _, tc := range waysToAsk() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			peer := ratetest.Start(t)
			peer.Answer(ratetest.Counting("caller", 1, 95*time.Second))
			rig := fake(t, mcptest.Echo, sharing(peer, patient))
			url := rig.Serve(t)
			here, there := mcptest.Client(t, 2), clientAt(t, "127.0.0.2")
			if got := tc.ask(t, here, url); got.code != "" {
				t.Fatalf("the first: %+v", got)
			}
			got := tc.ask(t, here, url)
			if got.code != errmap.RateLimited || got.status != tc.status || (got.retryAfter != "") != tc.retryAfter {
				t.Errorf("the second: %+v, want RATE_LIMITED with %d", got, tc.status)
			}
			if got.wait != 95*time.Second || (tc.retryAfter && got.retryAfter != "95") {
				t.Errorf("the wait: %+v, want 95 s", got)
			}
			if other := tc.ask(t, there, url); other.code != "" {
				t.Errorf("another caller: %+v", other)
			}
			if page := rig.Metrics(t); strings.Count(page, `outrigger_calls_refused_total{code="RATE_LIMITED",`) != 1 || !refusedOnce.MatchString(page) {
				t.Error("it is not counted as refused once")
			}
			asked := keysOf(peer)
			if len(asked) < 3 || (asked[0] != "caller" && asked[0] != asksOf("lab.echo")) {
				t.Errorf("asked %q", asked)
			}
			peer.Answer(ratetest.Failing(status.Error(codes.Internal, "no")))
			if got := tc.ask(t, there, url); got.code != errmap.Unavailable || got.wait != time.Second {
				t.Errorf("fail closed: %+v", got)
			}
		})
	}
}

// TestWhatTheRateServiceIsAskedOnce: one hit for a call, an entry of a batch, a listing and a stream, and none for its messages.
func TestWhatTheRateServiceIsAskedOnce(t *testing.T) {
	t.Parallel()
	peer := ratetest.Start(t)
	rig := mcptest.Start(t, mcptest.Options{Configure: sharing(peer)})
	url := rig.Serve(t)
	client := mcptest.Client(t, 2)
	call := `{"jsonrpc":"2.0","id":"%","method":"tools/call","params":{"name":"lab.echo"}}`
	list := `{"jsonrpc":"2.0","id":"%","method":"tools/list","params":{}}`
	rpc := func(bodies ...string) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			var batch []string
			for i, b := range bodies {
				batch = append(batch, strings.ReplaceAll(b, "%", string(rune('a'+i))))
			}
			if _, raw := send(t, client, http.MethodPost, url+"/rpc", "["+strings.Join(batch, ",")+"]"); bytes.Contains(raw, []byte(`"error"`)) {
				t.Errorf("%s", raw)
			}
		}
	}
	handle := func(req *mcptest.Call) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			req.Origin = rig.NewOrigin()
			if resp := rig.Handle(t.Context(), req); resp.Err != nil {
				t.Error(resp.Err)
			}
		}
	}
	for _, tc := range []struct {
		name string
		ask  func(*testing.T)
		want []string
	}{
		{"a batch", rpc(call, list, call), []string{"caller", asksOf("lab.echo"), asksOf("lab.echo")}},
		{"a ping", func(t *testing.T) {
			t.Helper()
			answer(t, rig, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}}`)
		}, nil},
		{"a tool that takes a stream", handle(toolCall(rig, "lab.relay", `{"items":[{},{},{},{}]}`)), []string{asksOf("lab.relay")}},
		{"a typed stream", func(t *testing.T) {
			t.Helper()
			stream := demov1connect.NewLabClient(client, url, connect.WithGRPC()).Relay(t.Context())
			for range 5 {
				if err := stream.Send(&demov1.EchoRequest{}); err != nil {
					t.Fatal(err)
				}
				if _, err := stream.Receive(); err != nil {
					t.Fatal(err)
				}
			}
			_ = stream.CloseRequest()
			_ = stream.CloseResponse()
		}, []string{asksOf("lab.relay")}},
		{"a typed server stream", func(t *testing.T) {
			t.Helper()
			stream, err := demov1connect.NewFleetClient(client, url).WatchVehicles(t.Context(),
				connect.NewRequest(&demov1.WatchVehiclesRequest{Rounds: 3, Interval: durationpb.New(0)}))
			if err != nil {
				t.Fatal(err)
			}
			for stream.Receive() {
			}
			if stream.Err() != nil {
				t.Error(stream.Err())
			}
			_ = stream.Close()
		}, []string{asksOf("fleet.watch_vehicles")}},
		{"an exchange", func(t *testing.T) {
			t.Helper()
			exchangeOnce(t, outriggerv1connect.NewToolServiceClient(client, url), []byte(`{"name":"lab.echo"}`))
		}, []string{asksOf("lab.echo")}},
		// The caller is counted once for a read, and the tool for the call that it takes.
		{"a resource that is an RPC", handle(&mcptest.Call{Question: &outriggerv1.ReadResourceRequest{Uri: "lagoon://vehicles/101"}}),
			[]string{"caller", "tool=fleet.get_vehicle caller/tool=fleet.get_vehicle"}},
	} {
		tc.ask(t)
		got := keysOf(peer)
		slices.Sort(got)
		slices.Sort(tc.want)
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: asked %q, want %q", tc.name, got, tc.want)
		}
	}
}

// TestTheLocalRateIsInFront: what it rejects is not asked about, and the tightest of both wins.
func TestTheLocalRateIsInFront(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name          string
		local, shared int32
		asked         int
	}{{"the local one is tighter", 2, 3, 2}, {"the shared one is tighter", 3, 2, 3}} {
		peer := ratetest.Start(t)
		peer.Answer(ratetest.Counting("tool", uint32(tc.shared), time.Minute))
		b := fake(t, mcptest.Echo, sharing(peer, patient, toolRate(rate(0.01, tc.local))))
		ran := 0
		for range 5 {
			switch resp := b.Handle(t.Context(), toolCall(b, "lab.echo", `{}`)); codeOf(resp) {
			case "":
				ran++
			case errmap.RateLimited:
			default:
				t.Error(resp.Err)
			}
		}
		if asked := len(peer.Asked()); ran != 2 || asked != tc.asked {
			t.Errorf("%s: %d ran, %d asked", tc.name, ran, asked)
		}
	}
}

// TestWhatIsRefusedBeforeIsNotAsked: a call that may not run for another reason costs nothing.
func TestWhatIsRefusedBeforeIsNotAsked(t *testing.T) {
	t.Parallel()
	peer := ratetest.Start(t)
	b := fake(t, mcptest.Echo, sharing(peer, patient))
	for _, tool := range []string{"lab.none", "fleet.cancel_order"} {
		if resp := b.Handle(t.Context(), toolCall(b, tool, "")); resp.Err == nil {
			t.Errorf("%s ran", tool)
		}
	}
	if asked := peer.Asked(); len(asked) != 0 {
		t.Errorf("asked %v", asked)
	}
}

func TestStandardInputAsksTheRateService(t *testing.T) {
	t.Parallel()
	peer := ratetest.Start(t)
	peer.Answer(ratetest.Counting("caller", 1, time.Minute))
	b := fake(t, mcptest.Echo, sharing(peer, patient))
	secondIsOver(t, b)
}

// TestWithoutARateServiceThereIsNothing: a sidecar that is not told of one has none of its metrics.
func TestWithoutARateServiceThereIsNothing(t *testing.T) {
	t.Parallel()
	peer := ratetest.Start(t)
	with := mcptest.Start(t, mcptest.Options{Configure: sharing(peer)})
	without := with.Again(t, nil)
	for rig, want := range map[*mcptest.Rig]bool{with: true, without: false} {
		if resp := rig.Handle(t.Context(), toolCall(rig, "lab.echo", `{}`)); resp.Err != nil {
			t.Fatal(resp.Err)
		}
		_, page := send(t, mcptest.Client(t, 1), http.MethodGet, rig.Operators(t)+"/metrics", "")
		if got := bytes.Contains(page, []byte("\noutrigger_rate_service_requests_total{outcome=\"ok\"} 1\n")); got != want {
			t.Errorf("metrics of a rate service: %v, want %v", got, want)
		}
		if !want && bytes.Contains(page, []byte("outrigger_rate_service")) {
			t.Error("metrics of what there is not")
		}
	}
	if asked := peer.Asked(); len(asked) != 1 {
		t.Errorf("asked %v", asked)
	}
}
