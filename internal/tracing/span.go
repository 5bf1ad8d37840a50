// SPDX-License-Identifier: Apache-2.0

package tracing

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/internal/redact"
)

// Span is the span of one message. Nil does nothing. Its methods may be called concurrently, but End ends it once.
type Span struct {
	node

	tracer *Tracer
	method string
	// calls are the attempts of the call that a message usually makes; further ones have their own.
	calls    Calls
	hasCalls atomic.Bool
}

// Context returns the ids of the span; the zero value for a nil Span.
func (s *Span) Context() Context {
	if s == nil {
		return Context{}
	}
	return s.ids
}

// TraceID returns the id of the trace in lower case hexadecimal digits, "" for a nil Span.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.ids.TraceID().String()
}

// SpanID returns the id of the span in the same form.
func (s *Span) SpanID() string {
	if s == nil {
		return ""
	}
	return s.ids.SpanID().String()
}

// IsRecording reports whether the span is sampled. Attributes of a span that is not need not be made.
func (s *Span) IsRecording() bool { return s != nil && s.recorded }

// Set adds attributes.
func (s *Span) Set(attributes ...Attribute) {
	if s.IsRecording() {
		s.set(attributes)
	}
}

// Link links the span to another one; not to itself.
func (s *Span) Link(of Context) {
	if s.IsRecording() && of.IsValid() && of.SpanID() != s.ids.SpanID() {
		s.link(of)
	}
}

// Event adds something that happened now.
func (s *Span) Event(name string, attributes ...Attribute) {
	if s.IsRecording() {
		s.event(name, time.Time{}, attributes)
	}
}

// Payloads reports whether the span takes arguments and results, and the maximum size of each in bytes.
func (s *Span) Payloads() (maxBytes int, ok bool) {
	if !s.IsRecording() || !s.tracer.opts.Payloads {
		return 0, false
	}
	return s.tracer.opts.MaxPayload, true
}

// Payload adds arguments or a result as JSON text, redacted. Where it is too large, a note with its size stands for it. size is
// that of the payload, of which text may lack what is above the bound. secret may be nil.
func (s *Span) Payload(name string, text []byte, size int, secret *redact.Message) {
	if most, ok := s.Payloads(); ok && size > 0 {
		s.Set(Text(name, string(s.tracer.redactor.AppendMessage(nil, text, size, most, secret))))
	}
}

// Found names what the message is about: a tool, by the name that its caller knows, or a prompt. The name becomes a part
// of the span's, so it must be one that exists.
func (s *Span) Found(name string) {
	if s.IsRecording() && name != "" {
		s.rename(s.method + " " + name)
	}
}

// Now returns the start of a step, for [Span.Step]. It is zero, and costs nothing, where steps are not recorded.
func (s *Span) Now() time.Time {
	if !s.IsRecording() {
		return time.Time{}
	}
	return time.Now()
}

// Step adds a child span for what has just ended and began at start, unless it was shorter than the threshold. A zero start
// adds none.
//
//	defer span.Step(tracing.StepQueue, span.Now())
func (s *Span) Step(name string, start time.Time, attributes ...Attribute) {
	if !s.IsRecording() || start.IsZero() || time.Since(start) < s.tracer.opts.Threshold {
		return
	}
	s.child(name, start, time.Time{}, attributes)
}

// RunOn starts a span for work that goes on after the message has its reply, such as a task. It is in the trace of the
// message, and links to its span, because it ends in its own time. End it.
func (s *Span) RunOn(name string, attributes ...Attribute) *Span {
	if s == nil {
		return nil
	}
	out := &Span{tracer: s.tracer, method: name}
	s.tracer.begin(&out.node, s.origin, start{name: name, kind: trace.SpanKindInternal, links: []Context{s.ids}}, attributes)
	return out
}

// child adds a child span that has ended; a zero end is now.
func (s *Span) child(name string, at, end time.Time, attributes []Attribute) {
	var child node
	s.tracer.begin(&child, s.origin, start{name: name, kind: trace.SpanKindInternal, at: at}, attributes)
	child.end(&Outcome{}, end)
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
	s.end(&o, time.Time{})
}
