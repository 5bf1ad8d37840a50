// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// own returns a tracer that samples by itself, as that of a sidecar, and what it exports.
func own(o telemetry.TracerOptions, s telemetry.Sampling) (*telemetry.Tracer, *tracetest.InMemoryExporter) {
	out := tracetest.NewInMemoryExporter()
	o.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(out), sdktrace.WithSampler(always()), sdktrace.WithIDGenerator(telemetry.IDs{}))
	o.Sampling = &s
	return telemetry.NewTracer(o), out
}

// provided returns a tracer of a program that embeds the sidecar.
func provided(o telemetry.TracerOptions, s sdktrace.Sampler) *telemetry.Tracer {
	o.Provider = sdktrace.NewTracerProvider(sdktrace.WithSampler(s))
	return telemetry.NewTracer(o)
}

// TestTheRatioDecidesByTheTrace: spans of a trace that begins here are sampled together, by an id that other services decide by, too.
func TestTheRatioDecidesByTheTrace(t *testing.T) {
	t.Parallel()
	const ratio = 0.5
	for range 200 {
		tracer, out := own(telemetry.TracerOptions{}, telemetry.Sampling{Ratio: ratio})
		span := tracer.Start(telemetry.Arrival{Method: toolsCall})
		attempt := attemptOf(span, "p.S/M")
		h := http.Header{}
		attempt.Inject(h)
		attempt.End(telemetry.Outcome{})
		span.RunOn(telemetry.TaskSpan).End(telemetry.Outcome{})
		span.End(telemetry.Outcome{})
		decision := sdktrace.TraceIDRatioBased(ratio).ShouldSample(sdktrace.SamplingParameters{ParentContext: t.Context(), TraceID: span.Context().TraceID()}).Decision
		want := 0
		if decision == sdktrace.RecordAndSample {
			want = 3
		}
		spans := out.GetSpans()
		if len(spans) != want || span.IsRecording() != (want > 0) || attempt.IsRecording() != (want > 0) || span.Context().IsSampled() != (want > 0) {
			t.Fatalf("%d spans of %v, want %d", len(spans), span.Context(), want)
		}
		if !span.Context().IsValid() || !strings.HasPrefix(h.Get("Traceparent"), "00-"+span.TraceID()+"-") || strings.Contains(h.Get("Traceparent"), span.SpanID()) {
			t.Fatalf("the backend gets %v in %v", h, span.Context())
		}
		for _, s := range spans {
			if s.SpanContext.TraceID() != span.Context().TraceID() || s.Parent.IsValid() != (s.SpanContext.SpanID() != span.Context().SpanID()) {
				t.Fatalf("%v in %v, below %v", s.SpanContext, span.Context(), s.Parent)
			}
		}
	}
}

// TestTheSamplersOfTheLibrary decide as ours do.
func TestTheSamplersOfTheLibrary(t *testing.T) {
	t.Parallel()
	for _, ratio := range []float64{-1, 0, 1e-9, 0.01, 0.3, 0.5, 1, 2, math.NaN()} {
		for _, isParentBased := range []bool{false, true} {
			sampler := sdktrace.TraceIDRatioBased(ratio)
			if isParentBased {
				sampler = sdktrace.ParentBased(sampler)
			}
			for i := range 300 {
				id := trace.TraceID{1: 1, 8: byte(i), 9: byte(i * 7)}
				sent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID{1}, TraceFlags: trace.TraceFlags(i % 4), Remote: true})
				h := http.Header{}
				propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), sent), propagation.HeaderCarrier(h))
				ours, _ := own(telemetry.TracerOptions{}, telemetry.Sampling{Ratio: ratio, ParentBased: isParentBased})
				theirs := provided(telemetry.TracerOptions{}, sampler)
				got, want := ours.Start(telemetry.Arrival{Header: h}), theirs.Start(telemetry.Arrival{Header: h})
				if got.IsRecording() != want.IsRecording() || got.Context().TraceFlags() != want.Context().TraceFlags() || got.TraceID() != want.TraceID() {
					t.Fatalf("%v of %v, flags %v: %v, want %v", ratio, id, i%4, got.Context(), want.Context())
				}
			}
		}
	}
}

// TestEveryPropagatorIsAsked: formats other than W3C's keep facts of their own in contexts.
func TestEveryPropagatorIsAsked(t *testing.T) {
	t.Parallel()
	for name, p := range map[string]propagation.TextMapPropagator{
		"w3c":           nil,
		"w3c and other": propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, keeper{}),
		"none":          propagation.NewCompositeTextMapPropagator(),
	} {
		arrived := http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}, "X-Kept": {"debug"}}
		var heads [2]http.Header
		ours, _ := own(telemetry.TracerOptions{Propagator: p}, telemetry.Sampling{Ratio: 1})
		theirs := provided(telemetry.TracerOptions{Propagator: p}, always())
		for i, tracer := range []*telemetry.Tracer{ours, theirs} {
			heads[i] = http.Header{"Traceparent": {"old"}, "Tracestate": {"old=1"}, "Baggage": {"b=1"}}
			a := attemptOf(tracer.Start(telemetry.Arrival{Header: arrived}), "p.S/M")
			a.Inject(heads[i])
			if got := heads[i].Get("Traceparent"); got != "old" && (len(got) != len(parent) || got[:36] != parent[:36] || !strings.HasSuffix(got, "-01")) {
				t.Errorf("%s: %q", name, got)
			}
			delete(heads[i], "Traceparent")
		}
		if diff := cmp.Diff(heads[1], heads[0]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestTheContextThatNeedsNoHeaders: where there is nothing but a traceparent to send, it is that which Inject would write.
func TestTheContextThatNeedsNoHeaders(t *testing.T) {
	t.Parallel()
	w3c := telemetry.TracerOptions{}
	for _, row := range []struct {
		name    string
		options telemetry.TracerOptions
		arrived http.Header
		sent    http.Header
		has     bool
	}{
		{"a new trace", w3c, nil, nil, true},
		{"a trace of the caller", w3c, http.Header{"Traceparent": {parent}}, http.Header{"X-Request-Id": {"1"}}, true},
		{"with a state", w3c, http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}}, nil, false},
		{"the caller's context is to be replaced", w3c, nil, http.Header{"Traceparent": {parent}}, false},
		{"the caller's state is to be replaced", w3c, nil, http.Header{"Tracestate": {"a=1"}}, false},
		{"another propagator", telemetry.TracerOptions{Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, keeper{})}, nil, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, ratio := range []float64{0, 1} {
				tracer, _ := own(row.options, telemetry.Sampling{Ratio: ratio})
				a := attemptOf(tracer.Start(telemetry.Arrival{Header: row.arrived}), "p.S/M")
				got, h := a.Parent(row.sent), http.Header{}
				a.Inject(h)
				if want := h.Get("Traceparent"); (got != "") != row.has || got != "" && got != want {
					t.Errorf("ratio %v: %q, Inject writes %q", ratio, got, want)
				}
			}
			if attemptOf(provided(row.options, always()).Start(telemetry.Arrival{}), "p.S/M").Parent(nil) != "" {
				t.Error("a provider's propagator was passed over")
			}
		})
	}
	if got := (*telemetry.Attempt)(nil).Parent(nil); got != "" {
		t.Errorf("without tracing: %q", got)
	}
}

// keeper is a propagator that keeps a header in contexts.
type keeper struct{}

type keeperKey struct{}

func (keeper) Fields() []string { return []string{"x-kept"} }

func (keeper) Extract(ctx context.Context, from propagation.TextMapCarrier) context.Context {
	return context.WithValue(ctx, keeperKey{}, from.Get("X-Kept"))
}

func (keeper) Inject(ctx context.Context, to propagation.TextMapCarrier) {
	text, _ := ctx.Value(keeperKey{}).(string)
	to.Set("X-Kept", text)
}

// TestInvalidTextsAreReplaced: one of them would make a collector refuse all spans of an export.
func TestInvalidTextsAreReplaced(t *testing.T) {
	t.Parallel()
	tracer, out := own(telemetry.TracerOptions{}, telemetry.Sampling{Ratio: 1})
	span := tracer.Start(telemetry.Arrival{Method: "m\xff"}, telemetry.Text("k\xff", "v\xff"))
	span.Event("e\xff", telemetry.Text("k\xff", "v\xff"))
	span.End(telemetry.Outcome{ErrorType: "t\xff", Message: "d\xff"})
	s := out.GetSpans()[0]
	const text = "\uFFFD"
	if s.Name != "m"+text || !slices.Contains(s.Attributes, telemetry.Text("k"+text, "v"+text)) || !slices.Contains(s.Attributes, telemetry.Text(telemetry.ErrorType, "t"+text)) ||
		s.Events[0].Name != "e"+text || !slices.Contains(s.Events[0].Attributes, telemetry.Text("k"+text, "v"+text)) || s.Status.Description != "d"+text {
		t.Errorf("got %+v", s)
	}
}

// usual does with spans what a small tool call does.
func usual(t *telemetry.Tracer, arrived http.Header) {
	span := t.Start(telemetry.Arrival{Method: toolsCall, Header: arrived}, telemetry.Text(telemetry.MethodName, toolsCall))
	if span.IsRecording() {
		span.Set(telemetry.Text("network.protocol.name", "http"), telemetry.Text("network.protocol.version", "1.1"), telemetry.Text(telemetry.Transport, "tcp"),
			telemetry.Text(telemetry.ClientAddress, "127.0.0.1"), telemetry.Int(telemetry.ClientPort, 41000))
		span.Set(telemetry.Text(telemetry.EdgeName, "mcp"), telemetry.Text(telemetry.RequestID, "1"), telemetry.Text(telemetry.ProtocolVersion, "2026-07-28"))
		span.Found("desk_tidy")
		span.Set(telemetry.Text(telemetry.ToolName, "desk_tidy"), telemetry.Text(telemetry.CanonicalTool, "desk.tidy"),
			telemetry.Text(telemetry.OperationName, telemetry.ExecuteTool))
	}
	ctx, calls := span.Calls(context.Background())
	calls.Begin(1)
	attempt := telemetry.CallsOf(ctx).Attempt("bench.v1.DeskService/Tidy", telemetry.Text(telemetry.RPCMethod, "bench.v1.DeskService/Tidy"),
		telemetry.Text(telemetry.RPCSystemName, telemetry.SystemGRPC), telemetry.Text(telemetry.ServerAddress, "127.0.0.1"), telemetry.Int(telemetry.ServerPort, 50051))
	attempt.Inject(http.Header{})
	attempt.Set(telemetry.Text(telemetry.RPCSystemName, telemetry.SystemGRPC))
	attempt.End(telemetry.Outcome{Attributes: []telemetry.Attribute{telemetry.Text(telemetry.StatusCode, "OK")}})
	span.End(telemetry.Outcome{})
}

// BenchmarkMessage is the spans of a small tool call, which are converted for the exporter, in batches, but not encoded.
func BenchmarkMessage(b *testing.B) {
	ours := func(ratio float64) *telemetry.Tracer {
		exporter, err := otlptrace.New(context.Background(), dropping{})
		if err != nil {
			b.Fatal(err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithSampler(always()), sdktrace.WithIDGenerator(telemetry.IDs{}))
		b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
		return telemetry.NewTracer(telemetry.TracerOptions{Provider: provider, Sampling: &telemetry.Sampling{Ratio: ratio, ParentBased: true}})
	}
	for name, tracer := range map[string]*telemetry.Tracer{"off": nil, "unsampled": ours(0), "sampled": ours(1)} {
		b.Run(name, func(b *testing.B) {
			arrived := http.Header{"Content-Type": {"application/json"}}
			b.ReportAllocs()
			for b.Loop() {
				usual(tracer, arrived)
			}
		})
	}
}

// dropping is a client that drops what it gets.
type dropping struct{}

func (dropping) Start(context.Context) error                                  { return nil }
func (dropping) Stop(context.Context) error                                   { return nil }
func (dropping) UploadTraces(context.Context, []*tracepb.ResourceSpans) error { return nil }
