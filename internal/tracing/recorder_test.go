// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"encoding/hex"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// kept has the spans of a tracer, as a collector would get them.
type kept struct {
	mu    sync.Mutex
	spans []*tracepb.Span
}

func (k *kept) take(spans ...*tracepb.Span) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, spans...)
}

func (k *kept) Start(context.Context) error { return nil }
func (k *kept) Stop(context.Context) error  { return nil }

// UploadTraces implements [otlptrace.Client].
func (k *kept) UploadTraces(_ context.Context, all []*tracepb.ResourceSpans) error {
	for _, r := range all {
		for _, s := range r.GetScopeSpans() {
			k.take(s.GetSpans()...)
		}
	}
	return nil
}

func wide() tracing.Limits {
	return tracing.Limits{Attributes: 128, Events: 128, Links: 128, EventAttributes: 128, Value: 4096}
}

// own returns a tracer with a Recorder, and its spans. None of their bytes may change afterwards.
func own(tb testing.TB, o tracing.Options, s tracing.Sampling, l tracing.Limits) (*tracing.Tracer, *kept) {
	tb.Helper()
	out := &kept{}
	o.Recorder = &tracing.Recorder{Sampling: s, Limits: l, Export: func(span []byte) {
		decoded := &tracepb.Span{}
		if err := proto.Unmarshal(span, decoded); err != nil {
			tb.Errorf("not a Span: %v: %x", err, span)
		}
		if len(decoded.ProtoReflect().GetUnknown()) > 0 {
			tb.Errorf("unknown fields in %v", decoded)
		}
		out.take(decoded)
	}}
	return tracing.New(o), out
}

// library returns the same with the SDK of the library and its conversion to OTLP.
func library(tb testing.TB, o tracing.Options, s sdktrace.Sampler, l tracing.Limits) (*tracing.Tracer, *kept) {
	tb.Helper()
	out := &kept{}
	exporter, err := otlptrace.New(context.Background(), out)
	if err != nil {
		tb.Fatal(err)
	}
	o.Provider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter), sdktrace.WithSampler(s), sdktrace.WithRawSpanLimits(sdktrace.SpanLimits{
		AttributeValueLengthLimit: l.Value, AttributeCountLimit: l.Attributes, EventCountLimit: l.Events, LinkCountLimit: l.Links,
		AttributePerEventCountLimit: l.EventAttributes, AttributePerLinkCountLimit: l.EventAttributes, AttributeValueDepthLimit: -1,
	}))
	return tracing.New(o), out
}

// alike replaces ids that were made by their order, and times that were read by whether they are possible.
func alike(tb testing.TB, spans []*tracepb.Span) []*tracepb.Span {
	tb.Helper()
	names := map[string]string{}
	made := func(id []byte) []byte {
		if len(id) == 0 || isGiven(id) {
			return id
		}
		if _, ok := names[string(id)]; !ok {
			names[string(id)] = string(rune('a' + len(names)))
		}
		return []byte(names[string(id)])
	}
	now := uint64(time.Now().UnixNano())
	read := func(at uint64) uint64 {
		if at > now {
			tb.Errorf("a time to come: %d", at)
		}
		if now-at > uint64(time.Hour) {
			return at
		}
		return 1
	}
	for _, s := range spans {
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			tb.Errorf("ends before it begins: %v", s)
		}
		s.TraceId, s.SpanId, s.ParentSpanId = made(s.GetTraceId()), made(s.GetSpanId()), made(s.GetParentSpanId())
		s.StartTimeUnixNano, s.EndTimeUnixNano = read(s.GetStartTimeUnixNano()), read(s.GetEndTimeUnixNano())
		for _, l := range s.GetLinks() {
			l.TraceId, l.SpanId = made(l.GetTraceId()), made(l.GetSpanId())
		}
		for _, e := range s.GetEvents() {
			e.TimeUnixNano = read(e.GetTimeUnixNano())
		}
	}
	return spans
}

// long is a time long ago, by which a test tells what was given from what was read.
func long(seconds int) time.Time { return time.Unix(1_000_000_000+int64(seconds), 123) }

// drive makes spans as the bytes of a script say.
func drive(t *tracing.Tracer, script []byte) {
	next := func() int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b)
	}
	texts := []string{"", "x", "öäü☃", strings.Repeat("abc☃", 9), strings.Repeat("long ", 1200), "k1", "k2", "k3", tracing.ErrorType}
	text := func() string { return texts[next()%len(texts)] }
	attributes := func() []tracing.Attribute {
		out := make([]tracing.Attribute, 0, 8)
		for range next() % 6 {
			if n := next(); n%3 == 0 {
				out = append(out, tracing.Int(text(), int64(n-100)*math.MaxInt32))
			} else {
				out = append(out, tracing.Text(text(), text()))
			}
		}
		return out
	}
	outcome := func() tracing.Outcome {
		o := tracing.Outcome{Attributes: attributes()}
		if next()%2 == 0 {
			o.ErrorType, o.Message = text(), text()
		}
		return o
	}
	a := tracing.Arrival{Method: "tools/call", Start: long(0)}
	facts := attributes()
	if n := next(); n%4 == 0 {
		a.Message = propagation.MapCarrier{"traceparent": parent[:len(parent)-2] + [...]string{"00", "01", "02", "03"}[n/4%4], "tracestate": "a=1,b=2"}
	} else if n%4 == 1 {
		a.Start = time.Time{}
	}
	if next()%3 == 0 {
		a.Header = http.Header{"Traceparent": {other}}
	}
	span := t.Start(a, facts...)
	_, calls := span.Calls(context.Background())
	var attempts []*tracing.Attempt
	for range 64 {
		if len(script) == 0 {
			break
		}
		switch next() % 13 {
		case 0:
			span.Set(attributes()...)
		case 1:
			span.Found(text())
		case 2:
			span.Event(text(), attributes()...)
		case 3:
			span.Past("outrigger.step", long(1), long(1+next()), attributes()...)
		case 4:
			span.Step("outrigger.step", long(next()), attributes()...)
		case 5:
			calls.Begin(next())
			a := calls.Attempt("p.S/M", attributes()...)
			a.Inject(http.Header{})
			attempts = append(attempts, a)
		case 6:
			calls.Held(next())
		case 7:
			for _, a := range attempts {
				a.Message()
			}
		case 8:
			for _, a := range attempts {
				a.Messages()
				a.Set(attributes()...)
			}
		case 9:
			for _, a := range attempts {
				a.End(outcome())
			}
		case 10:
			of := make([]byte, tracing.ContextSize)
			for i := range of {
				of[i] = parent[3+i]
			}
			span.Link(tracing.ReadContext(of))
			span.Link(span.Context())
		case 11:
			span.RunOn(tracing.TaskSpan, attributes()...).End(outcome())
		case 12:
			span.End(outcome())
			span.Opened()
		}
	}
	span.End(outcome())
}

// FuzzTheLibraryRecordsTheSame: whatever is done with spans, a collector gets from a Recorder what the library's SDK would send.
func FuzzTheLibraryRecordsTheSame(f *testing.F) {
	f.Add([]byte{}, byte(200), byte(200), byte(200), byte(200), uint16(4096), true, 1.0)
	f.Add([]byte("every edge has its own spans, and each of them some attributes and events"), byte(3), byte(1), byte(1), byte(1), uint16(5), true, 1.0)
	f.Add([]byte{4, 1, 5, 1, 6, 3, 7, 3, 2, 0, 0, 5, 2, 1, 7, 8, 9, 2, 2, 2, 10, 10, 10, 11, 12, 0, 1}, byte(2), byte(0), byte(0), byte(0), uint16(0), false, 1.0)
	f.Add([]byte{3, 5, 5, 5, 8, 8, 1, 1, 0, 5, 1, 3, 0, 4, 5, 5, 6, 1, 8, 4, 1, 5, 3, 3, 9, 4, 9, 0, 3, 9, 9}, byte(0), byte(4), byte(4), byte(4), uint16(9), true, 0.5)
	f.Fuzz(func(t *testing.T, script []byte, attributes, events, links, ofEvents byte, value uint16, isParentBased bool, ratio float64) {
		limits := tracing.Limits{Attributes: int(attributes), Events: int(events), Links: int(links), EventAttributes: int(ofEvents), Value: int(value)}
		if ratio > 0 && ratio < 1 {
			ratio = 1 // the ids of roots are random: see TestTheSamplersOfTheLibrary
		}
		sampler := sdktrace.TraceIDRatioBased(ratio)
		if isParentBased {
			sampler = sdktrace.ParentBased(sampler)
		}
		o := tracing.Options{Threshold: 10 * time.Millisecond}
		ours, got := own(t, o, tracing.Sampling{Ratio: ratio, ParentBased: isParentBased}, limits)
		theirs, want := library(t, o, sampler, limits)
		drive(ours, script)
		drive(theirs, script)
		for _, s := range got.spans { // where none are allowed, the library does not say that it dropped some
			if limits.Events == 0 {
				s.DroppedEventsCount = 0
			}
			if limits.Links == 0 {
				s.DroppedLinksCount = 0
			}
		}
		if diff := cmp.Diff(alike(t, want.spans), alike(t, got.spans), protocmp.Transform()); diff != "" {
			t.Errorf("the library's (-) and ours (+):\n%s", diff)
		}
	})
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
				ours, _ := own(t, tracing.Options{}, tracing.Sampling{Ratio: ratio, ParentBased: isParentBased}, wide())
				theirs, _ := library(t, tracing.Options{}, sampler, wide())
				got, want := ours.Start(tracing.Arrival{Header: h}), theirs.Start(tracing.Arrival{Header: h})
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
		ours, _ := own(t, tracing.Options{Propagator: p}, tracing.Sampling{Ratio: 1}, wide())
		theirs, _ := library(t, tracing.Options{Propagator: p}, sdktrace.AlwaysSample(), wide())
		for i, tracer := range []*tracing.Tracer{ours, theirs} {
			heads[i] = http.Header{"Traceparent": {"old"}, "Tracestate": {"old=1"}, "Baggage": {"b=1"}}
			a := tracer.Start(tracing.Arrival{Header: arrived}).Attempt("p.S/M")
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
	w3c := tracing.Options{}
	for _, row := range []struct {
		name    string
		options tracing.Options
		arrived http.Header
		sent    http.Header
		has     bool
	}{
		{"a new trace", w3c, nil, nil, true},
		{"a trace of the caller", w3c, http.Header{"Traceparent": {parent}}, http.Header{"X-Request-Id": {"1"}}, true},
		{"with a state", w3c, http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}}, nil, false},
		{"the caller's context is to be replaced", w3c, nil, http.Header{"Traceparent": {parent}}, false},
		{"the caller's state is to be replaced", w3c, nil, http.Header{"Tracestate": {"a=1"}}, false},
		{"another propagator", tracing.Options{Propagator: propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, keeper{})}, nil, nil, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, ratio := range []float64{0, 1} {
				tracer, _ := own(t, row.options, tracing.Sampling{Ratio: ratio}, wide())
				a := tracer.Start(tracing.Arrival{Header: row.arrived}).Attempt("p.S/M")
				got, h := a.Parent(row.sent), http.Header{}
				a.Inject(h)
				if want := h.Get("Traceparent"); (got != "") != row.has || got != "" && got != want {
					t.Errorf("ratio %v: %q, Inject writes %q", ratio, got, want)
				}
			}
			if theirs, _ := library(t, row.options, sdktrace.AlwaysSample(), wide()); theirs.Start(tracing.Arrival{}).Attempt("p.S/M").Parent(nil) != "" {
				t.Error("a provider's propagator was passed over")
			}
		})
	}
	if got := (*tracing.Attempt)(nil).Parent(nil); got != "" {
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

// TestWhatIsLateIsDropped: a record is used again after the end of its span. Nothing that still knows the span may reach it.
func TestWhatIsLateIsDropped(t *testing.T) {
	t.Parallel()
	tracer, out := own(t, tracing.Options{Threshold: noTime}, tracing.Sampling{Ratio: 1}, wide())
	late := tracer.Start(tracing.Arrival{Method: "late"})
	attempt := late.Attempt("p.S/Late")
	attempt.End(tracing.Outcome{})
	late.End(tracing.Outcome{})
	next := tracer.Start(tracing.Arrival{Method: "next"})
	var working sync.WaitGroup
	for range 4 {
		working.Go(func() {
			late.Set(tracing.Text("late", "late"))
			late.Found("late")
			late.Event("late")
			late.Link(next.Context())
			late.End(tracing.Outcome{ErrorType: "late"})
			attempt.Set(tracing.Text("late", "late"))
			attempt.End(tracing.Outcome{ErrorType: "late"})
			next.Set(tracing.Text("n", "1"))
		})
	}
	working.Wait()
	next.End(tracing.Outcome{})
	if len(out.spans) != 3 {
		t.Fatalf("%d spans: %v", len(out.spans), out.spans)
	}
	got := out.spans[2]
	if got.GetName() != "next" || len(got.GetAttributes()) != 1 || len(got.GetEvents())+len(got.GetLinks()) > 0 || got.GetStatus().GetCode() != 0 {
		t.Errorf("got %v", got)
	}
}

// TestInvalidTextsAreReplaced: one of them would make a collector refuse all spans of an export.
func TestInvalidTextsAreReplaced(t *testing.T) {
	t.Parallel()
	tracer, out := own(t, tracing.Options{}, tracing.Sampling{Ratio: 1}, wide())
	span := tracer.Start(tracing.Arrival{Method: "m\xff"}, tracing.Text("k\xff", "v\xff"))
	span.Event("e\xff", tracing.Text("k\xff", "v\xff"))
	span.End(tracing.Outcome{ErrorType: "t\xff", Message: "d\xff"})
	s := out.spans[0]
	if s.GetName() != "m\uFFFD" || s.GetAttributes()[0].GetKey() != "k\uFFFD" || s.GetAttributes()[0].GetValue().GetStringValue() != "v\uFFFD" ||
		s.GetEvents()[0].GetName() != "e\uFFFD" || s.GetStatus().GetMessage() != "d\uFFFD" {
		t.Errorf("got %v", s)
	}
}

// isGiven holds for ids that a test sends.
func isGiven(id []byte) bool {
	const given = parent + other
	return strings.Contains(given, hex.EncodeToString(id))
}
