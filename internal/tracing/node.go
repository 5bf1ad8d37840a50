// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// origin is what a span is started below.
type origin struct {
	ids Context
	// within is the context of the library. It has the span of a provider, and what propagators keep there.
	within context.Context //nolint:containedctx // the library keeps spans in contexts
}

// noOrigin is the origin of a trace.
func noOrigin() origin { return origin{within: context.Background()} }

// start is how a span begins. Its attributes go beside it: what has a name that is kept would move them to the heap.
type start struct {
	name string
	kind trace.SpanKind
	// at is when; zero is now.
	at    time.Time
	links []Context
}

// node is one span, of a provider or of our own [Recorder]. Its slices of attributes are copied, so that those of callers can
// be on the stack. It is safe for concurrent use.
type node struct {
	origin // of its children

	// recorded: the span is sampled. It stays so after the end.
	recorded bool
	// of is the span of a provider; nil with a Recorder.
	of trace.Span

	mu sync.Mutex
	// record is what our own recorder keeps; nil where nothing is recorded, and after the end.
	record *record
}

// begin starts a span.
func (t *Tracer) begin(n *node, below origin, s start, attributes []Attribute) {
	if t.recorder != nil {
		t.recorder.begin(n, below, s, attributes)
		return
	}
	opts := make([]trace.SpanStartOption, 0, 4)
	switch s.kind {
	case trace.SpanKindServer:
		opts = append(opts, t.server)
	case trace.SpanKindClient:
		opts = append(opts, t.client)
	}
	if !s.at.IsZero() {
		opts = append(opts, trace.WithTimestamp(s.at))
	}
	if len(attributes) > 0 {
		opts = append(opts, trace.WithAttributes(slices.Clone(attributes)...))
	}
	if len(s.links) > 0 {
		links := make([]trace.Link, len(s.links))
		for i := range links {
			links[i].SpanContext = s.links[i]
		}
		opts = append(opts, trace.WithLinks(links...))
	}
	n.within, n.of = t.tracer.Start(below.within, s.name, opts...) //nolint:spancheck // end does it
	n.ids, n.recorded = n.of.SpanContext(), n.of.IsRecording()
}

// lock returns the record with the lock of the node, or nil without.
func (n *node) lock() *record {
	n.mu.Lock()
	if n.record == nil {
		n.mu.Unlock()
		return nil
	}
	return n.record
}

func (n *node) set(attributes []Attribute) {
	if !n.recorded {
		return
	}
	if n.of != nil {
		n.of.SetAttributes(slices.Clone(attributes)...)
		return
	}
	if r := n.lock(); r != nil {
		r.set(attributes)
		n.mu.Unlock()
	}
}

func (n *node) rename(name string) {
	if !n.recorded {
		return
	}
	if n.of != nil {
		n.of.SetName(name)
		return
	}
	if r := n.lock(); r != nil {
		r.name = name
		n.mu.Unlock()
	}
}

func (n *node) link(of Context) {
	if !n.recorded {
		return
	}
	if n.of != nil {
		n.of.AddLink(trace.Link{SpanContext: of})
		return
	}
	if r := n.lock(); r != nil {
		r.link(of)
		n.mu.Unlock()
	}
}

// event adds an event; a zero time is now.
func (n *node) event(name string, at time.Time, attributes []Attribute) {
	if !n.recorded {
		return
	}
	if n.of != nil {
		opts := make([]trace.EventOption, 0, 2)
		if !at.IsZero() {
			opts = append(opts, trace.WithTimestamp(at))
		}
		if len(attributes) > 0 {
			opts = append(opts, trace.WithAttributes(slices.Clone(attributes)...))
		}
		n.of.AddEvent(name, opts...)
		return
	}
	if r := n.lock(); r != nil {
		r.event(name, at, attributes)
		n.mu.Unlock()
	}
}

// end ends a span; a zero time is now. A second end has no effect.
func (n *node) end(o *Outcome, at time.Time) {
	if n.of != nil {
		n.endProvided(o, at)
		return
	}
	if !n.recorded {
		return
	}
	n.mu.Lock()
	r := n.record
	n.record = nil
	n.mu.Unlock()
	if r == nil {
		return
	}
	if at.IsZero() {
		at = r.start.Add(time.Since(r.start)) // by the clock that never goes back
	}
	r.set(o.Attributes)
	if o.ErrorType != "" {
		r.set([]Attribute{Text(ErrorType, o.ErrorType)})
		r.failed, r.message = true, o.Message
	}
	r.export(n.ids, at)
}

// endProvided is end for a span of a provider.
func (n *node) endProvided(o *Outcome, at time.Time) {
	if n.recorded {
		n.of.SetAttributes(slices.Clone(o.Attributes)...)
		if o.ErrorType != "" {
			n.of.SetAttributes(attribute.String(ErrorType, o.ErrorType))
			n.of.SetStatus(codes.Error, o.Message)
		}
	}
	if at.IsZero() {
		n.of.End()
		return
	}
	n.of.End(trace.WithTimestamp(at))
}
