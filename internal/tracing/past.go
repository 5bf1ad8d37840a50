// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// StepReadBody is the step of reading the body of a request.
const StepReadBody = "outrigger.read_body"

// Names of further attributes: the conventions for HTTP, for requests that are refused before they have a message.
const (
	HTTPMethod = "http.request.method"
	HTTPRoute  = "http.route"
	HTTPStatus = "http.response.status_code"
)

// EventStreamOpened is the name of the event of [Span.Opened].
const EventStreamOpened = "outrigger.stream.opened"

// Past is [Span.Step] for what ended some time ago, perhaps before the span could be started.
func (s *Span) Past(name string, start, end time.Time, attributes ...Attribute) {
	if !s.IsRecording() || end.Sub(start) < s.tracer.opts.Threshold {
		return
	}
	s.child(name, start, end, attributes)
}

// Opened adds the event that the caller of a stream has been told that it is open. The span itself ends with the stream.
func (s *Span) Opened() {
	if s.IsRecording() {
		s.event(EventStreamOpened, time.Time{}, nil)
	}
}

// StartIn is [Tracer.Start] for a message that comes within this process: its parent is the span of ctx, if there is one.
func (t *Tracer) StartIn(ctx context.Context, method string, attributes ...Attribute) *Span {
	if t == nil {
		return nil
	}
	parent := trace.SpanContextFromContext(ctx)
	out := &Span{tracer: t, method: method}
	t.begin(&out.node, origin{parent, trace.ContextWithSpanContext(context.Background(), parent)},
		start{name: method, kind: trace.SpanKindServer}, attributes)
	return out
}
