// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"encoding/hex"
	"net/http"
	"strings"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// Scope is the instrumentation scope of spans, log records and metrics.
const Scope = "github.com/outrigger-mcp/outrigger"

// defaultThreshold is the shortest duration of a step that gets its own span.
const defaultThreshold = defaults.TelemetryStepThreshold

// TracerOptions configure a Tracer.
type TracerOptions struct {
	// Provider makes the spans, and exports them.
	Provider trace.TracerProvider
	// Sampling decides in place of the provider's sampler, which must record everything, with [IDs] as its ids. Nil leaves it to
	// the provider.
	Sampling *Sampling
	// Propagator reads and writes trace context. Nil is W3C Trace Context. Baggage it neither reads nor writes: that crosses as
	// a header, see package metadata.
	Propagator propagation.TextMapPropagator
	// Threshold is the shortest duration of a step with its own span; zero is defaultThreshold.
	Threshold time.Duration
	// Payloads adds the arguments and results of tools to spans, up to MaxPayload bytes each.
	Payloads bool
	// MaxPayload limits one such attribute in bytes; zero is the default.
	MaxPayload int
	// Redact are the names of members whose values are left out of payloads; nil is [redact.DefaultNames].
	Redact []string
}

// Tracer starts spans. Make one with [NewTracer]. It is safe for concurrent use; nil starts none.
type Tracer struct {
	opts   TracerOptions
	tracer trace.Tracer
	// fields are the headers that the propagator writes, in canonical form. isW3C: it knows only those of W3C Trace Context,
	// which reads nothing without a traceparent.
	fields   []string
	isW3C    bool
	redactor redact.Redactor
	// server and client are options that most spans have one of.
	server, client trace.SpanStartOption
}

// NewTracer returns a Tracer.
func NewTracer(o TracerOptions) *Tracer {
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	defaults.Fill(&o.Threshold, defaultThreshold)
	defaults.Fill(&o.MaxPayload, defaults.TelemetryMaxPayloadBytes)
	if o.Redact == nil {
		o.Redact = redact.DefaultNames()
	}
	fields := headersOf(o.Propagator)
	return &Tracer{
		opts: o, fields: fields, isW3C: isW3C(fields),
		redactor: redact.Redactor{Base: redact.NewNames(o.Redact)},
		server:   trace.WithSpanKind(trace.SpanKindServer), client: trace.WithSpanKind(trace.SpanKindClient),
		tracer: o.Provider.Tracer(Scope),
	}
}

// Redacting returns a Tracer that leaves the values of members with these names out of payloads, in place of those of the
// options. Nil returns nil.
func (t *Tracer) Redacting(names []string) *Tracer {
	if t == nil {
		return nil
	}
	out := *t
	out.redactor = redact.Redactor{Base: redact.NewNames(names)}
	return &out
}

// Arrival is what an edge knows of a message when it has read it.
type Arrival struct {
	// Start is when the message began to arrive; zero is now.
	Start time.Time
	// Method is the operation in the words of the caller's protocol, such as "tools/call". It must be one that exists:
	// what callers make up must not become the name of a span.
	Method string
	// Message has the trace context within the message, such as MCP's _meta; nil if messages of the protocol have none.
	Message Carrier
	// Header has the trace context of the connection's request. Where Message has a context, this one is only linked.
	Header http.Header
	// Links are contexts of other traces that led to this one.
	Links []Context
}

// IsOn reports whether spans are made. Edges need not collect what is only for spans where it is false.
func (t *Tracer) IsOn() bool { return t != nil }

// Start starts the span of a message, with facts that a sampler may know, see attributes.go. They are no field of Arrival, because
// its carriers would move them to the heap. The result is nil for a nil Tracer.
func (t *Tracer) Start(a Arrival, attributes ...Attribute) *Span {
	if t == nil {
		return nil
	}
	parent, links := t.origin(&a)
	out := &Span{tracer: t, method: a.Method}
	t.startNode(&out.node, parent, start{name: a.Method, kind: trace.SpanKindServer, at: a.Start, links: links}, attributes)
	return out
}

// origin is the parent of a message's span, and what it links to.
func (t *Tracer) origin(a *Arrival) (origin, []Context) {
	parent := noOrigin()
	if a.Message != nil {
		parent = t.extract(a.Message)
	}
	var links []Context
	if a.Header != nil {
		switch connection := t.extract(propagation.HeaderCarrier(a.Header)); {
		case !connection.ids.IsValid():
		case parent.ids.IsValid():
			links = append(links, connection.ids)
		default:
			parent = connection
		}
	}
	for _, of := range a.Links {
		if of.IsValid() {
			links = append(links, of)
		}
	}
	return parent, links
}

// extract reads the trace context of a carrier. What is malformed is as if it were not there.
func (t *Tracer) extract(from Carrier) origin {
	if t.isW3C && from.Get(traceparent) == "" {
		return noOrigin() // most messages have none, and this way the look for it allocates nothing
	}
	ctx := baggage.ContextWithoutBaggage(t.opts.Propagator.Extract(context.Background(), withoutBaggage{from}))
	return origin{trace.SpanContextFromContext(ctx), ctx}
}

// baggageKey is the name of baggage in every carrier.
const baggageKey = "baggage"

// traceparent is the header without which W3C Trace Context has no context.
const traceparent = "traceparent"

// withoutBaggage is a carrier that hides baggage, so that none of it is parsed: callers choose it.
type withoutBaggage struct{ of Carrier }

// Get implements [Carrier].
func (c withoutBaggage) Get(key string) string {
	if strings.EqualFold(key, baggageKey) {
		return ""
	}
	return c.of.Get(key)
}

// Set implements [Carrier].
func (c withoutBaggage) Set(key, value string) { c.of.Set(key, value) }

// Keys implements [Carrier].
func (c withoutBaggage) Keys() []string { return c.of.Keys() }

// headersOf returns the headers of trace context that a propagator writes, in canonical form.
func headersOf(p propagation.TextMapPropagator) []string {
	var out []string
	for _, name := range p.Fields() {
		if !strings.EqualFold(name, baggageKey) {
			out = append(out, http.CanonicalHeaderKey(name))
		}
	}
	return out
}

// isW3C holds for the headers of W3C Trace Context. Propagators of other formats write, and perhaps read, others too.
func isW3C(fields []string) bool {
	for _, name := range fields {
		if name != "Traceparent" && name != "Tracestate" {
			return false
		}
	}
	return len(fields) > 0
}

// isDirect holds where the context of a span is written without the propagator: only a program that embeds the sidecar may have one
// that writes the headers of W3C Trace Context in its own way.
func (t *Tracer) isDirect() bool { return t.isW3C && t.opts.Sampling != nil }

// inject writes the context of a span into headers that have none.
func (t *Tracer) inject(n *node, h http.Header) {
	if !t.isDirect() {
		ctx := n.within
		if n.of == nil {
			ctx = trace.ContextWithSpanContext(ctx, n.ids)
		}
		t.opts.Propagator.Inject(ctx, propagation.HeaderCarrier(h))
		return
	}
	h["Traceparent"] = []string{parentHeader(n.ids)}
	if state := n.ids.TraceState(); state.Len() > 0 {
		h["Tracestate"] = []string{state.String()}
	}
}

// parentHeader is a context as the value of traceparent, version 00.
func parentHeader(of Context) string {
	traceID, spanID := of.TraceID(), of.SpanID()
	flags := [1]byte{byte(of.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))}
	var out [len("00-") + 32 + len("-") + 16 + len("-") + 2]byte
	dst := append(out[:0], "00-"...)
	dst = append(hex.AppendEncode(dst, traceID[:]), '-')
	dst = append(hex.AppendEncode(dst, spanID[:]), '-')
	return string(hex.AppendEncode(dst, flags[:]))
}

// ContextSize is the size of a Context in bytes, see [AppendContext].
const ContextSize = 16 + 8 + 1

// AppendContext appends the ids and flags of a Context, as [ReadContext] reads them. The trace state is left out: it is for
// the next service, and this is for a link.
func AppendContext(dst []byte, c Context) []byte {
	traceID, spanID := c.TraceID(), c.SpanID()
	dst = append(append(dst, traceID[:]...), spanID[:]...)
	return append(dst, byte(c.TraceFlags()))
}

// ReadContext reads what [AppendContext] appended. The result is not valid, in the words of [Context.IsValid], where src is
// no Context.
func ReadContext(src []byte) Context {
	if len(src) != ContextSize {
		return Context{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(src[:16]), SpanID: trace.SpanID(src[16:24]), TraceFlags: trace.TraceFlags(src[24]), Remote: true,
	})
}
