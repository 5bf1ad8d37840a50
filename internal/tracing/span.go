// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Span is the span of one message. Nil does nothing. Its methods may be called concurrently, but End ends it once.
type Span struct {
	tracer      *Tracer
	ctx         context.Context //nolint:containedctx // the library keeps spans in contexts
	span        trace.Span
	method      string
	isRecording bool
}

// Context returns the ids of the span; the zero value for a nil Span.
func (s *Span) Context() Context {
	if s == nil {
		return Context{}
	}
	return s.span.SpanContext()
}

// IsRecording reports whether the span is sampled. Attributes of a span that is not need not be made.
func (s *Span) IsRecording() bool { return s != nil && s.isRecording }

// Set adds attributes.
func (s *Span) Set(attributes ...Attribute) {
	if s.IsRecording() {
		s.span.SetAttributes(attributes...)
	}
}

// Link links the span to another trace.
func (s *Span) Link(of Context) {
	if s.IsRecording() && of.IsValid() {
		s.span.AddLink(trace.Link{SpanContext: of})
	}
}

// Found names what the message is about: a tool, by the name that its caller knows, or a prompt. The name becomes a part
// of the span's, so it must be one that exists.
func (s *Span) Found(name string) {
	if s.IsRecording() && name != "" {
		s.span.SetName(s.method + " " + name)
	}
}

// Step adds a child span for what has just ended and began at start, unless it was shorter than the threshold.
func (s *Span) Step(name string, start time.Time, attributes ...Attribute) {
	if !s.IsRecording() || time.Since(start) < s.tracer.opts.Threshold {
		return
	}
	_, child := s.tracer.tracer.Start(s.ctx, name, trace.WithTimestamp(start), trace.WithAttributes(attributes...))
	child.End()
}

// Outcome is how a message ended.
type Outcome struct {
	// ErrorType is the value of error.type; empty for success, and for errors that are the caller's own.
	ErrorType string
	// Message describes the error for people. It must not have secrets.
	Message string
	// Attributes are further facts.
	Attributes []Attribute
}

// End ends the span.
func (s *Span) End(o Outcome) {
	if s == nil {
		return
	}
	if s.isRecording {
		s.span.SetAttributes(o.Attributes...)
		fail(s.span, o.ErrorType, o.Message)
	}
	s.span.End()
}

// fail marks a span as failed; an empty type does not.
func fail(span trace.Span, errorType, message string) {
	if errorType != "" {
		span.SetAttributes(attribute.String(ErrorType, errorType))
		span.SetStatus(codes.Error, message)
	}
}

// Attempt is one attempt to call the backend.
type Attempt struct {
	span trace.Span
	ctx  context.Context //nolint:containedctx // as in Span
	of   *Span
}

// Attempt starts the span of an attempt. Its name is the RPC without the leading slash. End it.
func (s *Span) Attempt(rpc string, attributes ...Attribute) *Attempt {
	if s == nil {
		return nil
	}
	opts := make([]trace.SpanStartOption, 0, 2)
	opts = append(opts, trace.WithSpanKind(trace.SpanKindClient))
	if s.isRecording {
		opts = append(opts, trace.WithAttributes(attributes...))
	}
	ctx, span := s.tracer.tracer.Start(s.ctx, rpc, opts...)
	return &Attempt{span: span, ctx: ctx, of: s}
}

// Inject writes the context of the attempt into the headers of its request, which it replaces there.
func (a *Attempt) Inject(h http.Header) {
	if a != nil {
		a.of.tracer.opts.Propagator.Inject(a.ctx, propagation.HeaderCarrier(h))
	}
}

// End ends the attempt's span.
func (a *Attempt) End(o Outcome) {
	if a == nil {
		return
	}
	if a.span.IsRecording() {
		a.span.SetAttributes(o.Attributes...)
		fail(a.span, o.ErrorType, o.Message)
	}
	a.span.End()
}
