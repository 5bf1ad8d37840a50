// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Scope is the instrumentation scope of all spans.
const Scope = "github.com/outrigger-mcp/outrigger"

// DefaultThreshold is the shortest duration of a step that gets a span of its own.
const DefaultThreshold = defaults.SpanThreshold

// Options configure a Tracer.
type Options struct {
	// Provider makes the spans; it samples and exports them. Without one, Recorder does.
	Provider trace.TracerProvider
	Recorder *Recorder
	// Propagator reads and writes trace context. Nil is W3C Trace Context. Baggage it neither reads nor writes: that crosses as
	// a header, see package metadata.
	Propagator propagation.TextMapPropagator
	// Threshold is the shortest duration of a step with a span of its own; zero is DefaultThreshold.
	Threshold time.Duration
	// Payloads adds the arguments and results of tools to spans, up to MaxPayload bytes each.
	Payloads bool
	// MaxPayload limits one such attribute in bytes; zero is the default.
	MaxPayload int
	// Redact are the names of members whose values are left out of payloads; nil is [redact.DefaultNames].
	Redact []string
}

// Tracer starts spans. Make one with [New]. It is safe for concurrent use; nil starts none.
type Tracer struct {
	opts Options
	// tracer is that of the provider; nil where recorder is not.
	tracer   trace.Tracer
	recorder *Recorder
	// fields are the headers that the propagator writes, in canonical form. isW3C: it knows only those of W3C Trace Context,
	// which reads nothing without a traceparent.
	fields   []string
	isW3C    bool
	redactor redact.Redactor
	// server and client are options that most spans have one of.
	server, client trace.SpanStartOption
}

// New returns a Tracer.
func New(o Options) *Tracer {
	if o.Propagator == nil {
		o.Propagator = propagation.TraceContext{}
	}
	defaults.Fill(&o.Threshold, DefaultThreshold)
	defaults.Fill(&o.MaxPayload, defaults.SpanMaxPayloadBytes)
	if o.Redact == nil {
		o.Redact = redact.DefaultNames()
	}
	fields := headersOf(o.Propagator)
	t := &Tracer{
		opts: o, fields: fields, isW3C: isW3C(fields),
		redactor: redact.Redactor{Base: redact.NewNames(o.Redact)},
		server:   trace.WithSpanKind(trace.SpanKindServer), client: trace.WithSpanKind(trace.SpanKindClient),
	}
	if o.Provider == nil {
		t.recorder = o.Recorder
	} else {
		t.tracer = o.Provider.Tracer(Scope)
	}
	return t
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
	t.begin(&out.node, parent, start{name: a.Method, kind: trace.SpanKindServer, at: a.Start, links: links}, attributes)
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
