// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	demov1 "github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/demo/v1/demov1connect"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/rateservice"
	"github.com/outrigger-mcp/outrigger/internal/ratetest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// sharing has the pipeline ask a server. Nothing here is about time, so it waits for long.
func sharing(t *testing.T, peer *ratetest.Server, o bridge.Options) bridge.Options {
	t.Helper()
	target, err := backend.ParseTarget(peer.URL())
	if err != nil {
		t.Fatal(err)
	}
	client, err := backend.New(target, backend.Options{MaxHTTP2Conns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	o.Shared = rateservice.New(client, rateservice.Options{FailClosed: true, Timeout: testkit.Limit()}).Check
	return o
}

// sharingRig has a whole sidecar ask it.
func sharingRig(peer *ratetest.Server, more ...func(*configv1.Config)) func(*configv1.Config) {
	return func(c *configv1.Config) {
		c.RateService.Url, c.RateService.Failure, c.RateService.Timeout = peer.URL(), proto.String("closed"), durationpb.New(5*time.Second)
		for _, f := range more {
			f(c)
		}
	}
}

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

// TestEveryEdgeAsksTheRateService: what it refuses is the same error as that of the local rate, with the time that it says.
func TestEveryEdgeAsksTheRateService(t *testing.T) {
	t.Parallel()
	for _, tc := range waysToAsk() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			peer := ratetest.Start(t)
			peer.Answer(ratetest.Counting("caller", 1, 95*time.Second))
			limiter := policy.NewLimiter(policy.LimitOptions{})
			url := mcptest.Serve(t, allEdges(fake(t, mcptest.Echo, sharing(t, peer, bridge.Options{Limiter: limiter}))))
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
			if refused := limiter.Refused(); len(refused) != 1 || refused[0].Count != 1 {
				t.Errorf("counted as refused: %v", refused)
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
	rig := mcptest.Start(t, mcptest.Options{Configure: sharingRig(peer)})
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
	handle := func(req *bridge.Request) func(*testing.T) {
		return func(t *testing.T) {
			t.Helper()
			req.Origin = rig.Bridge.Flights().NewOrigin()
			if resp := rig.Bridge.Handle(t.Context(), req); resp.Err != nil {
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
		{"a ping", handle(&bridge.Request{Op: bridge.OpPing}), nil},
		{"a tool that takes a stream", handle(toolCall(rig.Bridge, "lab.relay", `{"items":[{},{},{},{}]}`)), []string{asksOf("lab.relay")}},
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
		{"a resource that is an RPC", handle(&bridge.Request{Op: bridge.OpReadResource, Message: &outriggerv1.ReadResourceRequest{Uri: "lagoon://vehicles/101"}}),
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
		local, shared int
		asked         int
	}{{"the local one is tighter", 2, 3, 2}, {"the shared one is tighter", 3, 2, 3}} {
		peer := ratetest.Start(t)
		peer.Answer(ratetest.Counting("tool", uint32(tc.shared), time.Minute))
		b := fake(t, mcptest.Echo, sharing(t, peer, bridge.Options{
			Limiter: policy.NewLimiter(policy.LimitOptions{Tool: policy.Rate{PerSecond: 0.01, Burst: tc.local}}),
		}))
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
	b := fake(t, mcptest.Echo, sharing(t, peer, bridge.Options{}))
	for _, req := range []*bridge.Request{{Op: bridge.OpCall, Tool: "lab.none"}, {Op: bridge.OpCall, Tool: "fleet.cancel_order"}} {
		req.Origin = b.Flights().NewOrigin()
		if resp := b.Handle(t.Context(), req); resp.Err == nil {
			t.Errorf("%+v ran", req)
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
	b := fake(t, mcptest.Echo, sharing(t, peer, bridge.Options{}))
	secondIsOver(t, b)
}

// TestWithoutARateServiceThereIsNothing: a sidecar that is not told of one has none of its metrics.
func TestWithoutARateServiceThereIsNothing(t *testing.T) {
	t.Parallel()
	peer := ratetest.Start(t)
	with := mcptest.Start(t, mcptest.Options{Configure: sharingRig(peer)})
	without := with.With(t, nil, server.Adjust{})
	for rig, want := range map[*mcptest.Rig]bool{with: true, without: false} {
		if resp := rig.Bridge.Handle(t.Context(), toolCall(rig.Bridge, "lab.echo", `{}`)); resp.Err != nil {
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
