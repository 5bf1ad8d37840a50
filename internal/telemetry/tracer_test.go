// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

const (
	parentID  = "0af7651916cd43dd8448eb211c80319c"
	parent    = "00-" + parentID + "-b7ad6b7169203331-01"
	otherID   = "4bf92f3577b34da6a3ce929d0e0e4736"
	other     = "00-" + otherID + "-00f067aa0ba902b7-01"
	forever   = time.Hour
	noTime    = time.Nanosecond
	toolsCall = "tools/call"
)

// recorder returns a Tracer and what it exports. Both propagators are those of the default of OpenTelemetry.
func recorder(o telemetry.TracerOptions, sampler sdktrace.Sampler) (*telemetry.Tracer, *tracetest.InMemoryExporter) {
	out := tracetest.NewInMemoryExporter()
	o.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(out), sdktrace.WithSampler(sampler))
	o.Propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})
	return telemetry.NewTracer(o), out
}

func always() sdktrace.Sampler { return sdktrace.AlwaysSample() }

func TestTheParentIsInTheMessageElseInTheHeader(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		message         propagation.MapCarrier
		header          http.Header
		wantTrace, link string
	}{
		"neither":         {},
		"the message":     {message: propagation.MapCarrier{"traceparent": parent}, wantTrace: parentID},
		"the header":      {header: http.Header{"Traceparent": {parent}}, wantTrace: parentID},
		"both":            {message: propagation.MapCarrier{"traceparent": parent}, header: http.Header{"Traceparent": {other}}, wantTrace: parentID, link: otherID},
		"an empty one":    {message: propagation.MapCarrier{}, header: http.Header{"Traceparent": {other}}, wantTrace: otherID},
		"malformed":       {message: propagation.MapCarrier{"traceparent": "00-zz"}, header: http.Header{"Traceparent": {other}}, wantTrace: otherID},
		"only zeros":      {message: propagation.MapCarrier{"traceparent": "00-00000000000000000000000000000000-0000000000000000-01"}},
		"no state":        {message: propagation.MapCarrier{"traceparent": parent, "tracestate": "=,=;\x00"}, wantTrace: parentID},
		"a huge state":    {message: propagation.MapCarrier{"traceparent": parent, "tracestate": strings.Repeat("a=1,", 10_000)}, wantTrace: parentID},
		"hostile baggage": {header: http.Header{"Traceparent": {parent}, "Baggage": {strings.Repeat("k=\xff,", 10_000)}}, wantTrace: parentID},
	} {
		tracer, out := recorder(telemetry.TracerOptions{}, always())
		a := telemetry.Arrival{Method: toolsCall, Header: tc.header}
		if tc.message != nil {
			a.Message = tc.message
		}
		span := tracer.Start(a)
		sent := http.Header{"Baggage": {"kept=1"}, "Traceparent": {"old"}, "Tracestate": {"old=1"}}
		attempt := attemptOf(span, "p.S/M")
		attempt.Inject(sent)
		attempt.End(telemetry.Outcome{})
		span.End(telemetry.Outcome{})
		got := out.GetSpans()[1]
		if id := got.SpanContext.TraceID().String(); tc.wantTrace != "" && id != tc.wantTrace || id != span.TraceID() {
			t.Errorf("%s: trace %s, want %s", name, id, tc.wantTrace)
		}
		if isRoot := !got.Parent.IsValid(); isRoot != (tc.wantTrace == "") {
			t.Errorf("%s: root: %v", name, isRoot)
		}
		if links := len(got.Links); links != min(len(tc.link), 1) || links > 0 && got.Links[0].SpanContext.TraceID().String() != tc.link {
			t.Errorf("%s: links %v, want %q", name, got.Links, tc.link)
		}
		if want := "00-" + span.TraceID() + "-"; !strings.HasPrefix(sent.Get("Traceparent"), want) || sent.Get("Baggage") != "kept=1" || sent.Get("Tracestate") != "" {
			t.Errorf("%s: the backend gets %v", name, sent)
		}
	}
}

func TestStepsAndOutcomes(t *testing.T) {
	t.Parallel()
	tracer, out := recorder(telemetry.TracerOptions{Threshold: 10 * time.Millisecond}, always())
	span := tracer.Start(telemetry.Arrival{Method: toolsCall, Links: []telemetry.Context{{}}})
	span.Step("long", time.Now().Add(-time.Second), telemetry.Int("n", 7))
	span.Step("short", span.Now())
	span.Step("none", time.Time{})
	span.Found("fleet_get")
	span.Link(span.Context())
	run := span.RunOn(telemetry.TaskSpan)
	run.End(telemetry.Outcome{})
	span.End(telemetry.Outcome{ErrorType: "-32603", Message: "Internal error"})
	span.End(telemetry.Outcome{})
	all := out.GetSpans()
	if len(all) != 3 || all[0].Name != "long" || all[2].Name != "tools/call fleet_get" || all[2].SpanKind != trace.SpanKindServer {
		t.Fatalf("got %+v", all)
	}
	if all[0].Parent.SpanID() != all[2].SpanContext.SpanID() || all[0].EndTime.Sub(all[0].StartTime) < time.Second {
		t.Errorf("the step: %+v", all[0])
	}
	if l := all[1].Links; len(l) != 1 || l[0].SpanContext.SpanID() != all[2].SpanContext.SpanID() || all[1].SpanContext.TraceID() != all[2].SpanContext.TraceID() {
		t.Errorf("the task: %+v", all[1])
	}
	if s := all[2].Status; s.Code != codes.Error || s.Description != "Internal error" || len(all[2].Links) != 0 ||
		!slices.Contains(all[2].Attributes, telemetry.Text(telemetry.ErrorType, "-32603")) {
		t.Errorf("the message: %+v", all[2])
	}
}

func TestAttemptsOfACall(t *testing.T) {
	t.Parallel()
	tracer, out := recorder(telemetry.TracerOptions{Threshold: forever}, always())
	span := tracer.Start(telemetry.Arrival{Method: toolsCall})
	ctx, calls := span.Calls(t.Context())
	for n := range 2 {
		calls.Begin(n + 1)
		a := telemetry.CallsOf(ctx).Attempt("p.S/M")
		for range n * 3 {
			a.Message()
		}
		a.Messages()
		a.End(telemetry.Outcome{})
	}
	calls.Held(3)
	span.End(telemetry.Outcome{})
	all := out.GetSpans()
	if len(all) != 3 || all[0].SpanKind != trace.SpanKindClient || all[0].Name != "p.S/M" {
		t.Fatalf("got %+v", all)
	}
	retry := telemetry.Int("outrigger.retry.attempt", 1)
	if slices.Contains(all[0].Attributes, retry) || !slices.Contains(all[1].Attributes, retry) || !slices.Contains(all[1].Attributes, telemetry.Int("outrigger.stream.messages", 3)) {
		t.Errorf("got %v and %v", all[0].Attributes, all[1].Attributes)
	}
	if len(all[0].Events) != 0 || len(all[1].Events) != 2 || len(all[2].Events) != 1 || all[2].Events[0].Name != "outrigger.breaker_open" {
		t.Errorf("events: %v, %v, %v", all[0].Events, all[1].Events, all[2].Events)
	}
}

// A span that is not sampled passes its context on, and nothing is made for it.
func TestWhatIsNotSampled(t *testing.T) {
	t.Parallel()
	tracer, out := recorder(telemetry.TracerOptions{Threshold: noTime, Payloads: true}, sdktrace.NeverSample())
	span := tracer.Start(telemetry.Arrival{Method: toolsCall})
	h := http.Header{}
	attemptOf(span, "p.S/M").Inject(h)
	if got := h.Get("Traceparent"); !strings.HasSuffix(got, "-00") || !strings.Contains(got, span.TraceID()) {
		t.Errorf("the backend gets %q", got)
	}
	if _, ok := span.Payloads(); ok || span.IsRecording() || !span.Now().IsZero() {
		t.Error("a span that is not sampled takes facts")
	}
	span.End(telemetry.Outcome{})
	if got := out.GetSpans(); len(got) != 0 {
		t.Errorf("exported %v", got)
	}
}

func TestPayloadsAreBoundedAndRedacted(t *testing.T) {
	t.Parallel()
	tracer, out := recorder(telemetry.TracerOptions{Payloads: true, MaxPayload: 64}, always())
	named := tracer.Redacting([]string{"a"}).Start(telemetry.Arrival{Method: toolsCall})
	named.Payload(telemetry.ToolArguments, []byte(`{"a":"hunter2"}`), 15, nil)
	named.End(telemetry.Outcome{})
	if text := out.GetSpans()[0].Attributes[0].Value.AsString(); strings.Contains(text, "hunter2") {
		t.Errorf("named: %s", text)
	}
	out.Reset()
	span := tracer.Start(telemetry.Arrival{Method: toolsCall})
	small, large := []byte(`{"password":"hunter2","a":1}`), []byte(`{"a":"`+strings.Repeat("x", 100)+`"}`)
	span.Payload(telemetry.ToolArguments, small, len(small), nil)
	span.Payload(telemetry.ToolResult, large, len(large), nil)
	span.End(telemetry.Outcome{})
	got := out.GetSpans()[0].Attributes
	if text := got[0].Value.AsString(); strings.Contains(text, "hunter2") || !strings.Contains(text, `"a":1`) {
		t.Errorf("arguments: %s", text)
	}
	if text := got[1].Value.AsString(); strings.Contains(text, "xxx") || !strings.Contains(text, "too large") {
		t.Errorf("result: %s", text)
	}
}

func TestAContextIsReadBack(t *testing.T) {
	t.Parallel()
	tracer, _ := recorder(telemetry.TracerOptions{}, always())
	want := tracer.Start(telemetry.Arrival{Method: toolsCall}).Context()
	raw := telemetry.AppendContext(nil, want)
	got := telemetry.ReadContext(raw)
	if len(raw) != telemetry.ContextSize || got.TraceID() != want.TraceID() || got.SpanID() != want.SpanID() || got.TraceFlags() != want.TraceFlags() {
		t.Errorf("%v, want %v", got, want)
	}
	for _, wrong := range [][]byte{nil, {}, raw[1:], append(raw, 0), make([]byte, telemetry.ContextSize)} {
		if telemetry.ReadContext(wrong).IsValid() {
			t.Errorf("%x is valid", wrong)
		}
	}
}

// TestOffCostsNothing: everything works on nil, without an allocation.
func TestOffCostsNothing(t *testing.T) {
	var tracer *telemetry.Tracer
	ctx := context.Background()
	h := http.Header{"Traceparent": {parent}}
	failed := errors.New("failed")
	if got := testing.AllocsPerRun(100, func() {
		span := tracer.Start(telemetry.Arrival{Method: toolsCall, Header: h})
		defer span.Step(telemetry.StepQueue, span.Now())
		span.Found("x")
		span.Link(span.Context())
		span.Event("outrigger.breaker_open")
		within, calls := span.Calls(ctx)
		calls.Begin(1)
		calls.Held(2)
		a := telemetry.CallsOf(within).Attempt("p.S/M")
		a.Inject(h)
		a.Message()
		a.Messages()
		a.Set()
		a.End(telemetry.Outcome{Message: failed.Error()})
		attemptOf(span, "p.S/M").End(telemetry.Outcome{})
		span.RunOn(telemetry.TaskSpan).End(telemetry.Outcome{})
		span.Payload(telemetry.ToolResult, nil, 7, nil)
		_ = span.TraceID() + span.SpanID()
		span.End(telemetry.Outcome{})
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
	if tracer.IsOn() || len(h) != 1 {
		t.Errorf("on: %v, headers %v", tracer.IsOn(), h)
	}
}

// attemptOf starts the first attempt of a call of a message.
func attemptOf(span *telemetry.Span, rpc string) *telemetry.Attempt {
	_, calls := span.Calls(context.Background())
	return calls.Attempt(rpc)
}
