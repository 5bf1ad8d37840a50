// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"
)

// Calls are the attempts of one call of the backend. They are the context of the call, so that the client of the backend
// starts their spans. Nil does nothing. It is safe for concurrent use.
type Calls struct {
	context.Context //nolint:containedctx // the context of the call is this one with a value

	of      *Span
	attempt atomic.Int32
	// first is the span of the first attempt, which is usually the only one.
	first    Attempt
	hasFirst atomic.Bool
}

// Value implements [context.Context].
func (c *Calls) Value(key any) any {
	if key == (callsKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// callsKey is the context key of Calls.
type callsKey struct{}

// Calls returns a context for a call of the backend. For a nil Span it returns ctx and nil.
func (s *Span) Calls(ctx context.Context) (context.Context, *Calls) {
	if s == nil {
		return ctx, nil
	}
	c := &s.calls
	if !s.hasCalls.CompareAndSwap(false, true) {
		c = new(Calls)
	}
	c.Context, c.of = ctx, s
	return c, c
}

// CallsOf returns what [Span.Calls] put into a context; nil for none.
func CallsOf(ctx context.Context) *Calls {
	c, _ := ctx.Value(callsKey{}).(*Calls)
	return c
}

// Begin notes that an attempt begins; the first one is 1.
func (c *Calls) Begin(attempt int) {
	if c != nil {
		c.attempt.Store(int32(min(attempt, 1<<20)))
	}
}

// Held notes that an open circuit breaker kept an attempt from the backend.
func (c *Calls) Held(attempt int) {
	if c != nil {
		c.of.Event(eventHeld, Int(retryAttempt, int64(attempt-1)))
	}
}

// IsRecording reports whether the spans of attempts are sampled.
func (c *Calls) IsRecording() bool { return c != nil && c.of.recorded }

// Attempt starts the span of an attempt, with the number of the retry. Its name is the RPC without the leading slash. End it. Nil
// returns nil.
func (c *Calls) Attempt(rpc string, attributes ...Attribute) *Attempt {
	if c == nil {
		return nil
	}
	if n := c.attempt.Load(); n > 1 {
		attributes = append(attributes, Int(retryAttempt, int64(n)-1))
	}
	a := &c.first
	if !c.hasFirst.CompareAndSwap(false, true) {
		a = new(Attempt)
	}
	a.tracer = c.of.tracer
	if !c.of.recorded {
		attributes = nil
	}
	a.tracer.begin(&a.node, c.of.origin, start{name: rpc, kind: trace.SpanKindClient}, attributes)
	return a
}

// Attempt is one attempt to call the backend.
type Attempt struct {
	node

	tracer *Tracer

	messages    int
	first, last time.Time
}

// Parent returns the context of the attempt as the value of traceparent (W3C Trace Context), where nothing else needs to go into
// a request whose headers are h: there is no trace state, and no context of the caller to replace. Such a request needs no headers
// of its own. Otherwise it returns "", and [Attempt.Inject] has to write the context.
func (a *Attempt) Parent(h http.Header) string {
	if a == nil || !a.tracer.isDirect() || a.ids.TraceState().Len() > 0 {
		return ""
	}
	for _, name := range a.tracer.fields {
		if h[name] != nil {
			return ""
		}
	}
	return parentHeader(a.ids)
}

// Inject writes the context of the attempt into the headers of its request, where it replaces that of the caller.
func (a *Attempt) Inject(h http.Header) {
	if a == nil {
		return
	}
	for _, name := range a.tracer.fields {
		delete(h, name)
	}
	a.tracer.inject(&a.node, h)
}

// Set adds attributes.
func (a *Attempt) Set(attributes ...Attribute) {
	if a.IsRecording() {
		a.set(attributes)
	}
}

// IsRecording reports whether the span is sampled.
func (a *Attempt) IsRecording() bool { return a != nil && a.recorded }

// Message notes that a message of a server stream has come. It is not safe for concurrent use.
func (a *Attempt) Message() {
	if a == nil {
		return
	}
	a.messages++
	if !a.IsRecording() {
		return
	}
	a.last = time.Now()
	if a.messages == 1 {
		a.first = a.last
	}
}

// Messages adds the number of the messages of a server stream, and when the first and the last of them came. Call it before
// [Attempt.End].
func (a *Attempt) Messages() {
	if !a.IsRecording() {
		return
	}
	a.set([]Attribute{Int(messages, int64(a.messages))})
	if a.messages > 0 {
		a.event(eventFirstMessage, a.first, nil)
	}
	if a.messages > 1 {
		a.event(eventLastMessage, a.last, nil)
	}
}

// End ends the attempt's span.
func (a *Attempt) End(o Outcome) {
	if a == nil {
		return
	}
	a.end(&o, time.Time{})
}
