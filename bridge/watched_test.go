// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// echo is a small call.
func echo(id string) *bridge.Request {
	return &bridge.Request{
		Op: bridge.OpCall, Tool: "lab.echo", Caller: "ann", Transport: "http", Route: "/mcp", Revision: "2026-07-28", ID: jsonrpc.StringID(id),
		Arguments: bridge.Payload{Bytes: []byte(`{"nonce":"n"}`)},
		Header:    http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}},
	}
}

// bridgeOf is a bridge to the demo's tools.
func bridgeOf(t testing.TB, backend mcptest.Upstream, o bridge.Options) *bridge.Bridge {
	t.Helper()
	return bridge.New(mcptest.Memory(t), backend, correlate.New(correlate.Options{}), o)
}

// ended is the one call that has ended since a number.
func ended(t *testing.T, b *bridge.Bridge, since uint64) *adminv1.Call {
	t.Helper()
	calls, _, omitted := b.EndedSince(since, 10)
	if len(calls) != 1 || omitted != 0 {
		t.Fatalf("%d calls and %d omitted, want one", len(calls), omitted)
	}
	return calls[0]
}

// addsUp is the names of the steps of a call, which begin one behind the other and take as long as the call.
func addsUp(t *testing.T, c *adminv1.Call) string {
	t.Helper()
	var names []string
	at, upstream := time.Duration(0), time.Duration(0)
	for _, s := range c.GetSteps() {
		if s.GetAt().AsDuration() != at || s.GetTook().AsDuration() < 0 {
			t.Errorf("%s begins at %v and takes %v, the one before ended at %v", s.GetName(), s.GetAt().AsDuration(), s.GetTook().AsDuration(), at)
		}
		at += s.GetTook().AsDuration()
		if s.GetIsUpstream() {
			upstream += s.GetTook().AsDuration()
		}
		names = append(names, s.GetName())
	}
	if took := c.GetTook().AsDuration(); at != took || upstream > took || c.GetUpstream().AsDuration() > took {
		t.Errorf("steps take %v, %v of it upstream, the call %v and %v", at, upstream, took, c.GetUpstream().AsDuration())
	}
	return strings.Join(names, " ")
}

// TestWatchedSteps: the steps of each kind of call, by name, and how it ended.
func TestWatchedSteps(t *testing.T) {
	t.Parallel()
	const rejects, start, end = "begin resolve gate limit room ", "begin resolve gate limit room admit envelope ", " finish"
	confirm := bridge.Options{Confirm: true}
	declines := func(_ context.Context, in *outriggerv1.InputRequired) (map[string]*outriggerv1.InputResponse, *errmap.Error) {
		time.Sleep(time.Second)
		out := map[string]*outriggerv1.InputResponse{}
		for name := range in.GetInputRequests() {
			out[name] = &outriggerv1.InputResponse{Response: &outriggerv1.InputResponse_Elicitation{
				Elicitation: &outriggerv1.ElicitationResult{Action: outriggerv1.ElicitationAction_ELICITATION_ACTION_DECLINE},
			}}
		}
		return out, nil
	}
	for name, tt := range map[string]struct {
		change func(*bridge.Request)
		opts   bridge.Options
		code   string
		steps  string
	}{
		"plain":         {func(*bridge.Request) {}, bridge.Options{}, "OK", start + "validate unary result" + end},
		"bad arguments": {func(r *bridge.Request) { r.Arguments.Bytes = []byte(`{"nope":1}`) }, bridge.Options{}, "INVALID_TOOL_INPUT", start + "validate" + end},
		"no such tool":  {func(r *bridge.Request) { r.Tool = "lab.nope" }, bridge.Options{}, "TOOL_NOT_FOUND", "begin resolve" + end},
		"blocked":       {func(r *bridge.Request) { r.Tool = "fleet.cancel_order" }, bridge.Options{}, "DESTRUCTIVE_BLOCKED", "begin resolve gate" + end},
		"over its rate": {func(*bridge.Request) {}, bridge.Options{Limiter: noCalls()}, "RATE_LIMITED", "begin resolve gate limit" + end},
		"shed":          {func(*bridge.Request) {}, bridge.Options{Shed: func() *errmap.Error { return errmap.New(errmap.Unavailable) }}, "UNAVAILABLE", strings.TrimSpace(rejects) + end},
		"a list":        {func(r *bridge.Request) { r.Op, r.Tool = bridge.OpServer, "" }, bridge.Options{}, "OK", "begin run" + end},
		"declined": {
			func(r *bridge.Request) {
				r.Tool, r.AskClient = "fleet.cancel_order", declines
				r.Arguments.Bytes = []byte(`{"orderId":"1"}`)
				r.Context = &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Form: true}}}
			}, confirm, "DESTRUCTIVE_BLOCKED",
			start + "wanted validate reopen confirm ask resolve gate limit admit envelope wanted validate reopen confirm" + end,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := mcptest.Memory(t)
			synctest.Test(t, func(t *testing.T) {
				b := bridge.New(memory, echoesAfter(time.Second), correlate.New(correlate.Options{}), tt.opts)
				defer b.Watch()()
				req := echo("1")
				tt.change(req)
				resp := b.Handle(t.Context(), req)
				got := ended(t, b, 0)
				steps := addsUp(t, got)
				if steps != tt.steps || got.GetCode() != tt.code {
					t.Errorf("%s: %s, want %s: %s (%v)", got.GetCode(), steps, tt.code, tt.steps, resp.Err)
				}
				for _, s := range got.GetSteps() {
					if waits := s.GetTook().AsDuration() >= time.Second; waits != s.GetIsUpstream() {
						t.Errorf("%s took %v, upstream: %v", s.GetName(), s.GetTook().AsDuration(), s.GetIsUpstream())
					}
				}
			})
		})
	}
}

// noCalls is a limiter that lets no second call through, after one.
func noCalls() *policy.Limiter {
	l := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(1)}})
	_ = l.Check("ann", "lab.echo")
	return l
}

// TestWatchedCall: all that is known of a call, and nothing of its arguments.
func TestWatchedCall(t *testing.T) {
	t.Parallel()
	audit, err := trail.OpenAudit(trail.AuditOptions{Path: filepath.Join(t.TempDir(), "audit")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = audit.Close() }()
	b := bridgeOf(t, mcptest.Echo, bridge.Options{Audit: audit})
	defer b.Watch()()
	before := time.Now()
	b.Handle(identity.WithConsole(t.Context(), &identity.Console{Operator: "olga", Began: func(uint64) {}}), echo("one"))
	got := ended(t, b, 0)
	if got.GetTook().AsDuration() <= 0 || got.GetBegan().AsTime().Before(before.Add(-time.Second)) || got.GetUpstream().AsDuration() <= 0 {
		t.Errorf("%v", got)
	}
	found, ok := b.FindCall(got.GetId())
	if !ok || !found.IsAudited || !proto.Equal(found.Call, got) {
		t.Errorf("found %v %+v", ok, found)
	}
	if _, ok := b.FindCall(got.GetId() + 1); ok {
		t.Error("found a call that never was")
	}
	got.Steps, got.Took, got.Upstream, got.Began = nil, nil, nil, nil
	want := &adminv1.Call{
		Id: 1, Caller: "ann", Operator: "olga", Tool: "lab.echo", Edge: "mcp", Operation: "call_tool", Code: "OK", Revision: "2026-07-28", RequestId: "one",
		TraceId: "0af7651916cd43dd8448eb211c80319c",
	}
	if !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if err := audit.Close(); err != nil {
		t.Fatal(err)
	}
	if lines, note := audit.Lines(found.Audit); len(lines) != 1 || !strings.Contains(lines[0], `"tool":"lab.echo"`) {
		t.Errorf("%q %s", lines, note)
	}
}

// TestHostileTextsOfCallsAreCut: what is kept of texts of callers is bounded, valid, and no more.
func TestHostileTextsOfCallsAreCut(t *testing.T) {
	t.Parallel()
	b := bridgeOf(t, mcptest.Echo, bridge.Options{})
	req := echo(strings.Repeat("ä", 400))
	req.Tool, req.Caller = strings.Repeat("<script>", 1<<17), strings.Repeat("\xff", 1<<20)
	b.Handle(t.Context(), req)
	got := ended(t, b, 0)
	short := echo("1")
	short.Caller, short.Tool = "\xff\x1b", "\u202e"
	b.Handle(t.Context(), short)
	if calls, _, _ := b.EndedSince(1, 1); len(calls) != 1 || calls[0].GetCaller() != "\uFFFD\x1b" {
		t.Errorf("%v", calls)
	}
	if text, err := proto.Marshal(got); err != nil || len(text) == 0 {
		t.Errorf("no message can be made of it: %v", err)
	}
	if size := proto.Size(got); size > 3000 || got.GetTool() != "" || !utf8.ValidString(got.GetCaller()) || !strings.HasSuffix(got.GetRequestId(), "ä…") {
		t.Errorf("%d bytes: %v", size, got)
	}
}

// TestEndedCallsAreKept: failures always, others while somebody watches; both in bounds; and those that failed are not pushed out.
func TestEndedCallsAreKept(t *testing.T) {
	t.Parallel()
	b := bridgeOf(t, mcptest.Echo, bridge.Options{})
	call := func(n int, change func(*bridge.Request)) {
		for range n {
			req := echo("1")
			change(req)
			b.Handle(t.Context(), req)
		}
	}
	well := func(*bridge.Request) {}
	fails := func(r *bridge.Request) { r.Tool = "lab.nope" }
	call(3, well)
	call(2, fails)
	calls, last, omitted := b.EndedSince(0, 100)
	if len(calls) != 2 || last != 2 || omitted != 0 || calls[0].GetId() != 4 || calls[0].GetSteps() != nil || calls[0].GetMessage() == "" {
		t.Fatalf("no one watched: %d of %d, %d omitted: %v", len(calls), last, omitted, calls)
	}
	first, second := b.Watch(), b.Watch()
	call(700, well)
	calls, last, omitted = b.EndedSince(last, 100)
	if len(calls) != 100 || omitted != 600 || last != 702 || calls[99].GetId() != 705 || calls[0].GetId() != 606 {
		t.Errorf("%d of %d, %d omitted", len(calls), last, omitted)
	}
	calls, last, omitted = b.EndedSince(0, 1000)
	if len(calls) != 502 || omitted != 0 || calls[0].GetCode() != "TOOL_NOT_FOUND" || calls[501].GetId() != 705 {
		t.Errorf("%d are kept, %d omitted", len(calls), omitted)
	}
	call(1, fails)
	call(5, well)
	calls, last, omitted = b.EndedSince(last, 3)
	if len(calls) != 3 || calls[0].GetCode() != "TOOL_NOT_FOUND" || calls[2].GetId() != 711 || omitted != 3 {
		t.Errorf("a failure gives way to others: %v, %d omitted", calls, omitted)
	}
	if calls, again, omitted := b.EndedSince(last, 3); len(calls) > 0 || again != last || omitted != 0 {
		t.Errorf("nothing has ended since: %v", calls)
	}
	if calls, _, omitted := b.EndedSince(1<<40, 5); len(calls) != 5 || omitted != 498 {
		t.Errorf("a number of another process: %d, %d omitted", len(calls), omitted)
	}
	if calls, _, omitted := b.EndedSince(0, -1); len(calls) != 0 || omitted != 503 {
		t.Errorf("none wanted: %d, %d omitted", len(calls), omitted)
	}
	first()
	first()
	call(1, well)
	second()
	call(1, well)
	if calls, _, _ := b.EndedSince(last, 10); len(calls) != 1 {
		t.Errorf("%d calls, want the one before the last stop", len(calls))
	}
}

// waits is what is offered where a stream of changes lasts until it is let go.
type waits chan struct{}

func (w waits) Answer(context.Context, *bridge.Request) *bridge.Response {
	<-w
	return &bridge.Response{}
}

func (waits) HasResources(*catalog.Catalog) bool { return false }

// TestInFlight: what runs, the oldest first and streams last, with the step that it is in if somebody watched when it began.
func TestInFlight(t *testing.T) {
	t.Parallel()
	audit, err := trail.OpenAudit(trail.AuditOptions{Path: filepath.Join(t.TempDir(), "audit")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = audit.Close() }()
	memory := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		b := bridge.New(memory, echoesAfter(time.Minute), correlate.New(correlate.Options{}), bridge.Options{Audit: audit, Timeout: time.Hour})
		release := make(waits)
		b.SetOffers(release)
		var running sync.WaitGroup
		run := func(req *bridge.Request) {
			flight := b.Begin(t.Context(), req)
			running.Go(func() { flight.Run() })
		}
		run(&bridge.Request{Op: bridge.OpListen, Caller: "bob"})
		run(echo("unwatched"))
		synctest.Wait()
		defer b.Watch()()
		run(echo("watched"))
		time.Sleep(time.Second)
		b.Begin(t.Context(), echo("queued")) // nothing runs it yet
		synctest.Wait()
		calls, total := b.InFlight(10)
		var got []string
		for _, c := range calls {
			got = append(got, fmt.Sprintf("%s %s %q %s %v", c.GetOperation(), c.GetRequestId(), c.GetStep(), c.GetTool(), c.GetTook().AsDuration()))
			if c.GetStep() != "" {
				addsUp(t, c)
			}
		}
		want := []string{
			`call_tool unwatched "" lab.echo 1s`, `call_tool watched "unary" lab.echo 1s`, `call_tool queued "begin" lab.echo 0s`, `listen  ""  1s`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") || total != 4 {
			t.Errorf("%d in flight:\n%s", total, strings.Join(got, "\n"))
		}
		found, ok := b.FindCall(calls[1].GetId())
		if !ok || !found.IsAudited || found.Call.GetUpstream().AsDuration() != time.Second || found.Call.GetCode() != "" {
			t.Errorf("%v: %+v", ok, found)
		}
		if calls, total := b.InFlight(1); len(calls) != 1 || total != 4 || calls[0].GetRequestId() != "unwatched" {
			t.Errorf("%d of %d: %v", len(calls), total, calls)
		}
		b.AuditUnfinished() // not every request has a line
		close(release)
		time.Sleep(2 * time.Minute)
		running.Wait()
		if calls, total := b.InFlight(10); len(calls) != 1 || total != 1 {
			t.Errorf("%d of %d are left: %v", len(calls), total, calls)
		}
	})
}

// TestWatchedByMany: calls of many, and operators who look on, at once. The race detector judges.
func TestWatchedByMany(t *testing.T) {
	t.Parallel()
	b := bridgeOf(t, mcptest.Echo, bridge.Options{})
	done := make(chan struct{})
	var callers, operators sync.WaitGroup
	for i := range 4 {
		callers.Go(func() {
			for n := range 300 {
				req := echo(fmt.Sprint(i, "-", n))
				if n%3 == 0 {
					req.Tool = "lab.nope"
				}
				b.Handle(t.Context(), req)
			}
		})
	}
	for range 2 {
		operators.Go(func() {
			var last uint64
			for {
				select {
				case <-done:
					return
				default:
				}
				stop := b.Watch()
				var calls []*adminv1.Call
				calls, last, _ = b.EndedSince(last, 200)
				flights, _ := b.InFlight(200)
				for _, c := range append(calls, flights...) {
					b.FindCall(c.GetId())
				}
				stop()
			}
		})
	}
	callers.Wait()
	close(done)
	operators.Wait()
	if calls, total := b.InFlight(10); len(calls) != 0 || total != 0 {
		t.Errorf("%d calls are left", total)
	}
}

// BenchmarkWatchedCall is what a small call costs in the bridge alone, and what it costs more while somebody watches.
func BenchmarkWatchedCall(b *testing.B) {
	for name, isWatched := range map[string]bool{"alone": false, "watched": true} {
		b.Run(name, func(b *testing.B) {
			bridge := bridgeOf(b, mcptest.Echo, bridge.Options{})
			if isWatched {
				defer bridge.Watch()()
			}
			ctx := context.Background()
			b.ReportAllocs()
			for b.Loop() {
				bridge.Handle(ctx, echo("1"))
			}
		})
	}
}
