// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// spans are what a sidecar exports.
type spans struct{ *tracetest.InMemoryExporter }

// traced has a sidecar make spans. A threshold of an hour leaves the steps out.
func traced(o mcptest.Options, threshold time.Duration) (spans, mcptest.Options) {
	out := spans{tracetest.NewInMemoryExporter()}
	o.Change = mcptest.Traced(sdktrace.NewTracerProvider(sdktrace.WithSyncer(out)), threshold)
	return out, o
}

// tree is the spans that have ended as text, children below their parents. What differs from run to run is left out.
func (s spans) tree() string {
	all := s.GetSpans()
	names := map[trace.SpanID]string{}
	for _, span := range all {
		names[span.SpanContext.SpanID()] = span.Name
	}
	slices.SortStableFunc(all, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	var b strings.Builder
	var write func(parent trace.SpanID, indent string)
	write = func(parent trace.SpanID, indent string) {
		for _, span := range all {
			of := span.Parent.SpanID()
			if names[of] == "" {
				of = trace.SpanID{} // its parent is another process's, or has not ended
			}
			if of != parent {
				continue
			}
			fmt.Fprintf(&b, "%s%s [%s]%s\n", indent, span.Name, span.SpanKind, statusText(span.Status))
			for _, line := range factsOf(span, names) {
				b.WriteString(indent + "    " + line + "\n")
			}
			write(span.SpanContext.SpanID(), indent+"  ")
		}
	}
	write(trace.SpanID{}, "")
	return b.String()
}

func statusText(s sdktrace.Status) string {
	if s.Code == codes.Unset {
		return ""
	}
	description, _, _ := strings.Cut(s.Description, " (next probe in ") // differs
	return strings.TrimRight(" "+s.Code.String()+": "+description, " :")
}

// factsOf are the attributes, events and links of a span.
func factsOf(span tracetest.SpanStub, names map[trace.SpanID]string) (out []string) {
	for _, kv := range span.Attributes {
		switch kv.Key {
		case "server.port", "outrigger.queue.wait_us":
			out = append(out, string(kv.Key)) // differs
		case "exception.message":
			cause, _, _ := strings.Cut(kv.Value.String(), " (next probe in ") // differs
			out = append(out, string(kv.Key)+"="+cause)
		default:
			out = append(out, string(kv.Key)+"="+kv.Value.String())
		}
	}
	slices.Sort(out)
	for _, e := range span.Events {
		out = append(out, "event "+e.Name)
	}
	for _, l := range span.Links {
		out = append(out, "link to "+names[l.SpanContext.SpanID()])
	}
	return out
}

// faulty is the demo service, with the answers to its first so many calls lost on the way.
func faulty(t *testing.T, lost int64) string {
	t.Helper()
	service, err := mcptest.Demo()
	if err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	return "connect+" + mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Echo") && calls.Add(1) <= lost {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		service.ServeHTTP(w, r)
	}))
}

// TestSpansOfCalls holds the spans of calls in the modern era against a golden file: names, kinds, parents, links, attributes
// and status.
func TestSpansOfCalls(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	show := func(title string, s spans) {
		fmt.Fprintf(&out, "# %s\n\n%s\n", title, s.tree())
		s.Reset()
	}
	recorded, options := traced(mcptest.Options{Configure: func(c *configv1.Config) {
		c.Tools = append(c.Tools, &configv1.ToolOverlay{
			Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{Timeout: durationpb.New(2 * time.Second)},
		})
	}}, time.Hour)
	demoRig := mcptest.Start(t, options)
	ann := modernClient{t: t, bridge: demoRig, caller: "ann", heard: func(string) {}}
	for _, tc := range []struct{ title, method, params string }{
		{"success", "tools/call", `"name":"lab_echo","arguments":{"nonce":"n"}`},
		{"an error of the tool", "tools/call", `"name":"lab.fail","arguments":{"code":"FAIL_CODE_NOT_FOUND","message":"no such thing"}`},
		{"arguments that are wrong", "tools/call", `"name":"lab_echo","arguments":{"signed":"x"}`},
		{"an unknown tool", "tools/call", `"name":"nothing"`},
		{"a timeout", "tools/call", `"name":"lab_sleep","arguments":{"duration":"60s"}`},
		{"blocked", "tools/call", `"name":"fleet_cancel_order","arguments":{"orderId":"1"}`},
		{"a list", "tools/list", ``},
	} {
		ann.send(tc.method, tc.params)
		show(tc.title, recorded)
	}

	retried, options := traced(mcptest.Options{Behind: faulty(t, 1)}, time.Hour)
	(modernClient{t: t, bridge: mcptest.Start(t, options), caller: "ann"}).send("tools/call", `"name":"lab_echo"`)
	show("a retry", retried)

	held, options := traced(mcptest.Options{Behind: faulty(t, 1<<40), Configure: func(c *configv1.Config) {
		c.Resilience.Breaker.MinCalls, c.Resilience.Breaker.OpenFor = proto.Int32(1), durationpb.New(time.Minute)
	}}, time.Hour)
	bob := modernClient{t: t, bridge: mcptest.Start(t, options), caller: "bob"}
	bob.send("tools/call", `"name":"lab_echo"`)
	bob.send("tools/call", `"name":"lab_echo"`)
	show("a circuit breaker that opens", held)

	limited, options := traced(mcptest.Options{Configure: func(c *configv1.Config) {
		c.Limits.CallerRate = &configv1.Rate{PerSecond: 0.001, Burst: proto.Int32(1)}
	}}, time.Hour)
	dora := modernClient{t: t, bridge: mcptest.Start(t, options), caller: "dora"}
	dora.send("tools/call", `"name":"lab_echo"`)
	limited.Reset()
	dora.send("tools/call", `"name":"lab_echo"`)
	show("over the rate", limited)

	asked, options := traced(mcptest.Options{}, time.Hour)
	desk, carl := deskOf(t, options, mcptest.NativeTool{
		Declared: mcptest.JSONTool("break", "Fails.", mcptest.NoArguments, ""),
		Outcome: &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
			Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "Broken", ErrorMessage: "It broke."},
		}}},
	})
	_ = desk
	carl.send("tools/call", `"name":"break"`)
	show("a native tool that fails", asked)
	sign := `"name":"sign","arguments":{"letter":1}`
	carl.send("tools/call", sign+","+signed+`,"requestState":`+string(carl.send("tools/call", sign).Result["requestState"]))
	show("a question and its answer", asked)
	carl.send("resources/read", `"uri":"desk://notes/1"`)
	show("a resource", asked)

	golden := filepath.Join("testdata", "spans.txt")
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("spans (-want +got; go test ./bridge/blackbox -update rewrites them):\n%s", diff)
	}
}

// Payloads are there only where they are asked for, and without what is secret.
func TestPayloadsInSpansAreRedacted(t *testing.T) {
	t.Parallel()
	recorded, options := traced(mcptest.Options{}, time.Hour)
	ann := modernClient{t: t, bridge: mcptest.Start(t, options), caller: "ann"}
	ann.send("tools/call", `"name":"lab_inspect","arguments":{"replyHeaders":{"password":"hunter2","x-a":"b"}}`)
	if tree := recorded.tree(); strings.Contains(tree, "hunter2") || !strings.Contains(tree, `"x-a":"b"`) {
		t.Errorf("got\n%s", tree)
	}
}

// What the audit trail keeps of other operations is not in their spans: payloads there are those of tools.
func TestPayloadsOfOtherOperationsAreInNoSpan(t *testing.T) {
	t.Parallel()
	_, configure := audited(t, func(a *configv1.Audit) { a.Payloads = true })
	recorded, options := traced(mcptest.Options{Native: mcptest.Desk(), Configure: configure}, time.Hour)
	ann := modernClient{t: t, bridge: mcptest.Start(t, options), caller: "ann"}
	ann.send("prompts/get", `"name":"greet","arguments":{"name":"hunter2"}`)
	if tree := recorded.tree(); strings.Contains(tree, "hunter2") || !strings.Contains(tree, "prompts/get") {
		t.Errorf("got\n%s", tree)
	}
}

// Every line of a request has the ids of its span.
func TestLinesHaveTheIdsOfTheSpan(t *testing.T) {
	t.Parallel()
	core, lines := observer.New(zap.InfoLevel)
	recorded, options := traced(mcptest.Options{Log: zap.New(core)}, time.Hour)
	ann := modernClient{t: t, bridge: mcptest.Start(t, options), caller: "ann"}
	ann.send("tools/call", `"name":"lab_fail","arguments":{"code":"FAIL_CODE_NOT_FOUND"}`)
	ann.send("no/such", ``)
	all := recorded.GetSpans()
	ids := map[string]bool{}
	for _, span := range all {
		ids[span.SpanContext.TraceID().String()+" "+span.SpanContext.SpanID().String()] = span.SpanKind == trace.SpanKindServer
	}
	for _, message := range []string{"call", "message refused"} {
		found := lines.FilterMessage(message).All()
		if len(found) != 1 {
			t.Fatalf("%d lines %q", len(found), message)
		}
		fields := found[0].ContextMap()
		if key := fmt.Sprint(fields["trace_id"], " ", fields["span_id"]); !ids[key] {
			t.Errorf("%s: the ids %s are of no span of a message", message, key)
		}
	}
}

// The span of a stream has the number of messages, and when the first and the last came.
func TestTheSpanOfAStreamHasItsMessages(t *testing.T) {
	t.Parallel()
	recorded, options := traced(mcptest.Options{}, time.Hour)
	rig := mcptest.Start(t, options)
	ann := modernClient{t: t, bridge: rig, caller: "ann", heard: func(string) {}}
	ann.send("tools/call", `"name":"fleet_watch_vehicles","arguments":{"rounds":3,"interval":"0s"}`)
	tree := recorded.tree()
	for _, want := range []string{"outrigger.demo.v1.Fleet/WatchVehicles [client]", "outrigger.stream.messages" + "=",
		"event " + "outrigger.stream.first_message", "event " + "outrigger.stream.last_message"} {
		if !strings.Contains(tree, want) {
			t.Errorf("%s is missing:\n%s", want, tree)
		}
	}
}

// What the backend gets is the context of the attempt, in place of the caller's, whatever the list of headers says. Without
// tracing it is the caller's.
func TestTheBackendGetsTheContextOfTheAttempt(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_inspect","_meta":{"traceparent":"` + parent +
		`","tracestate":"a=1","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	for name, configure := range map[string]func(*configv1.Config){"listed": nil, "not listed": ownHeadersOnly} {
		recorded, options := traced(mcptest.Options{Configure: configure}, time.Hour)
		with := seenBy(t, mcptest.Start(t, options), call)
		attempt := recorded.GetSpans()[0].SpanContext
		want := fmt.Sprintf("00-%s-%s-01", attempt.TraceID(), attempt.SpanID())
		if got := with["traceparent"].Values; len(got) != 1 || got[0] != want || !strings.Contains(want, parent[3:35]) {
			t.Errorf("%s: the backend got %q, want %s", name, got, want)
		}
		if got := with["tracestate"].Values; len(got) != 1 || got[0] != "a=1" {
			t.Errorf("%s: the backend got the state %q", name, got)
		}
	}
	without := seenBy(t, mcptest.Start(t, mcptest.Options{}), call)
	if got := without["traceparent"].Values; len(got) != 1 || got[0] != parent {
		t.Errorf("without tracing the backend got %q", got)
	}
}

// Members of baggage cross if they are listed, with spans and without them.
func TestBaggageCrossesByMember(t *testing.T) {
	t.Parallel()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_inspect","_meta":{"baggage":"tenant=7,,secret=8",` +
		`"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	lists := func(names ...string) func(*configv1.Config) {
		return func(c *configv1.Config) { c.Telemetry.Baggage = names }
	}
	for name, tc := range map[string]struct {
		configure func(*configv1.Config)
		want      []string
	}{
		"by default":  {nil, []string{"tenant=7,secret=8"}},
		"one":         {lists("tenant"), []string{"tenant=7"}},
		"another one": {lists("other"), nil},
		"none":        {lists(), nil},
	} {
		_, with := traced(mcptest.Options{Configure: tc.configure}, time.Hour)
		for _, options := range []mcptest.Options{with, {Configure: tc.configure}} {
			if got := seenBy(t, mcptest.Start(t, options), call)["baggage"].Values; !slices.Equal(got, tc.want) {
				t.Errorf("%s: the backend got %q, want %q", name, got, tc.want)
			}
		}
	}
}

// seenBy is the metadata that the backend got with a call of lab.inspect.
func seenBy(t *testing.T, rig *mcptest.Rig, call string) (out map[string]struct{ Values []string }) {
	t.Helper()
	got := (modernClient{t: t, bridge: rig, caller: "ann"}).sendRaw(call)
	var seen struct {
		Metadata map[string]struct{ Values []string }
	}
	if err := json.Unmarshal(got.Result["structuredContent"], &seen); err != nil {
		t.Fatalf("%v: %s", err, got.raw)
	}
	return seen.Metadata
}

// Steps of the sidecar have spans where they take long.
func TestStepsHaveSpans(t *testing.T) {
	t.Parallel()
	recorded, options := traced(mcptest.Options{}, time.Nanosecond)
	(modernClient{t: t, bridge: mcptest.Start(t, options), caller: "ann"}).send("tools/call", `"name":"lab_echo"`)
	tree := recorded.tree()
	for _, want := range []string{"outrigger.authorize", "outrigger.queue", "outrigger.validate", "outrigger.result"} {
		if !strings.Contains(tree, "  "+want+" [internal]") {
			t.Errorf("%s is missing:\n%s", want, tree)
		}
	}
}

// A task has its own span in the trace of its call, with a link to it, and so have requests about the task.
func TestATaskLinksToItsCall(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{"at once": 0, "after a while": 10 * time.Millisecond} {
		recorded, options := traced(mcptest.Options{Configure: func(c *configv1.Config) {
			c.Tools = append(c.Tools, &configv1.ToolOverlay{Method: "outrigger.demo.v1.Lab/Sleep", Tool: &configv1.ToolOptions{
				TaskSupport: "optional", TaskAfter: durationpb.New(after),
			}})
		}}, time.Hour)
		rig := mcptest.Start(t, options)
		ann := modernClient{t: t, bridge: rig, caller: "ann", capabilities: withTasks}
		got := ann.send("tools/call", `"name":"lab_sleep","arguments":{"duration":"0.3s"}`)
		ann.send("tasks/get", `"taskId":`+string(got.Result["taskId"]))
		rig.End()
		tree := recorded.tree()
		task := strings.Index(tree, "  outrigger.task [internal]\n      rpc.")
		if task < 0 {
			task = strings.Index(tree, "  outrigger.task [internal]\n")
		}
		if n := strings.Count(tree, "link to tools/call lab_sleep"); task < 0 || n != 2 {
			t.Errorf("%s: %d links to the call, want 2:\n%s", name, n, tree)
		}
		if below := strings.Contains(tree, "    outrigger.demo.v1.Lab/Sleep [client]"); below != (after == 0) {
			t.Errorf("%s: the attempt below the task: %v\n%s", name, below, tree)
		}
	}
}

// A caller who leaves ends the span, and the attempt. It leaves when the backend has
// the call: before that there may be no attempt.
func TestACancelledCallHasASpan(t *testing.T) {
	t.Parallel()
	service, err := mcptest.Demo()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	url := mcptest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Sleep") {
			cancel()
		}
		service.ServeHTTP(w, r)
	}))
	recorded, options := traced(mcptest.Options{Behind: "grpc" + strings.TrimPrefix(url, "http")}, time.Hour)
	rig := mcptest.Start(t, options)
	rig.Send(ctx, inbound(rig.NewOrigin(), mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.sleep","arguments":{"duration":"10s"}}}`))
	all := recorded.GetSpans()
	if len(all) != 2 || all[0].Status.Code != codes.Error || all[1].Status.Code != codes.Unset {
		t.Fatalf("got\n%s", recorded.tree())
	}
	if !slices.Contains(all[1].Attributes, attribute.String("outrigger.error.code", "CANCELLED")) {
		t.Errorf("got\n%s", recorded.tree())
	}
}
