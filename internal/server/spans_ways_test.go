// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// slowly authenticates everybody, and takes its time.
type slowly struct{ took time.Duration }

func (s slowly) Authenticate(context.Context, identity.Credentials) (*identity.Identity, error) {
	time.Sleep(s.took)
	every := []string{"*"}
	return identity.NewIdentityOf(identity.Grant{Name: "c", Tools: every, Trust: identity.Trusted}, identity.Facts{}), nil
}

// TestStepsBeforeTheMessage: authentication and reading the body are inside the span of the message, which began with the
// request, and are children of it where they take long.
func TestStepsBeforeTheMessage(t *testing.T) {
	t.Parallel()
	const took = 20 * time.Millisecond
	r := newExporter()
	r.Rig = mcptest.Start(t, mcptest.Options{Change: func(o *server.Options) {
		o.Authenticator = slowly{took}
		o.Tracer = telemetry.NewTracer(telemetry.TracerOptions{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(r.exporter)), Threshold: time.Nanosecond})
	}})
	r.serve(t, r.Rig)
	for path, body := range map[string]string{
		"/rpc":                               message(`"1"`, "tools/call", `"name":"lab.echo",`+echo),
		"/mcp":                               message("1", "tools/call", `"name":"lab_echo",`+echo),
		"/outrigger.v1.ToolService/CallTool": `{"tool_name":"lab.echo","arguments":{"nonce":"n"}}`,
		"/outrigger.demo.v1.Lab/Echo":        `{"nonce":"n"}`,
	} {
		r.post(t, path, body)
		r.handling.Wait()
		all := r.exporter.GetSpans()
		of := r.taken()
		if len(of) != 1 {
			t.Fatalf("%s: %d spans", path, len(of))
		}
		steps := map[string]int{}
		for _, s := range all {
			if s.Parent.SpanID() != of[0].SpanContext.SpanID() {
				continue
			}
			steps[s.Name]++
			if s.Name == telemetry.StepAuthenticate && (s.EndTime.Sub(s.StartTime) < took || s.StartTime.Before(of[0].StartTime)) {
				t.Errorf("%s: authentication took %v, from %v after the start", path, s.EndTime.Sub(s.StartTime), s.StartTime.Sub(of[0].StartTime))
			}
		}
		if steps[telemetry.StepAuthenticate] != 1 || steps[telemetry.StepReadBody] != 1 {
			t.Errorf("%s: steps %v", path, steps)
		}
	}
	// Of the entries of a batch the first one has them.
	r.post(t, "/rpc", `[`+message(`"1"`, "ping", "")+`,`+message(`"2"`, "ping", "")+`]`)
	r.handling.Wait()
	got := 0
	for _, s := range r.exporter.GetSpans() {
		if s.Name == telemetry.StepAuthenticate {
			got++
		}
	}
	if got != 1 {
		t.Errorf("a batch: %d spans of authentication", got)
	}
}

// TestCallsOfTheProcess: what the process calls itself is in the trace of its context.
func TestCallsOfTheProcess(t *testing.T) {
	t.Parallel()
	r := newSpanRig(t, nil, nil)
	tracer := sdktrace.NewTracerProvider().Tracer("program")
	ctx, own := tracer.Start(t.Context(), "own")
	for tool, code := range map[string]string{"lab.echo": "", "lab.nothing": "TOOL_NOT_FOUND"} {
		r.App().Call(ctx, "go", "CallTool", tool, []byte(`{"nonce":"n"}`), nil, content.Wanted{})
		of := r.taken()
		if len(of) != 1 {
			t.Fatalf("%d spans", len(of))
		}
		if of[0].Parent.SpanID() != own.SpanContext().SpanID() || !strings.HasPrefix(of[0].Name, "CallTool") || attributeOf(&of[0], telemetry.ErrorCode) != code {
			t.Error(r.line(&of[0]))
		}
	}
	own.End()
	if r.App().Call(t.Context(), "go", "CallTool", "lab.echo", nil, nil, content.Wanted{}); r.taken()[0].Parent.IsValid() {
		t.Error("a parent out of nothing")
	}
}

// TestRequestsOfADrain: what comes while the sidecar shuts down is refused in a span.
func TestRequestsOfADrain(t *testing.T) {
	t.Parallel()
	r := newSpanRig(t, nil, nil)
	if err := r.Bridge.Flights().Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"/rpc": message(`"1"`, "tools/call", `"name":"lab.echo",`+echo), "/mcp": message("1", "tools/call", `"name":"lab_echo",`+echo),
		"/outrigger.v1.ToolService/CallTool": `{"tool_name":"lab.echo"}`,
	} {
		r.post(t, path, body)
		of := r.taken()
		if len(of) != 1 || attributeOf(&of[0], telemetry.ErrorCode) != "UNAVAILABLE" || of[0].Status.Code == 0 {
			t.Errorf("%s: %d spans: %v", path, len(of), of)
		}
	}
}

// TestUnsampledTraces: nothing of a trace that its caller does not sample is exported.
func TestUnsampledTraces(t *testing.T) {
	t.Parallel()
	r := newSpanRig(t, nil, nil)
	for _, path := range []string{"/rpc", "/mcp", "/secret", "/outrigger.v1.ToolService/CallTool"} {
		r.send(t, http.MethodPost, path, message(`"1"`, "ping", ""), "Traceparent", strings.TrimSuffix(inHeader, "1")+"0")
		if of := r.taken(); len(of) != 0 {
			t.Errorf("%s: %v", path, of)
		}
	}
}

// TestSpansOfACancelledCall: of a call that is cancelled, a second one with its id, and the cancellation, each has a span.
func TestSpansOfACancelledCall(t *testing.T) {
	t.Parallel()
	r := newSpanRig(t, nil, nil)
	sleep := message(`"1"`, "tools/call", `"name":"lab.sleep","arguments":{"duration":"20s"}`)
	r.talk(t, sleep, sleep, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`)
	codes := map[string]int{}
	for _, s := range r.taken() {
		codes[attributeOf(&s, telemetry.MethodName)+" "+attributeOf(&s, telemetry.ErrorCode)]++
		if s.Status.Code != 0 {
			t.Errorf("the caller's doing is an error of ours: %v", s.Status)
		}
	}
	want := map[string]int{"tools/call DUPLICATE_REQUEST_ID": 1, "tools/call CANCELLED": 1, "notifications/cancelled ": 1}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Error(diff)
	}
}
