// SPDX-License-Identifier: Apache-2.0

package httpspan

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Request is one HTTP request, for the spans of what comes in it. It is its context, too. Nil does nothing. Its methods may be
// called concurrently.
type Request struct {
	context.Context //nolint:containedctx // the context of the request is this one with a value

	opts  *Options
	start time.Time
	http  *http.Request

	mu sync.Mutex
	// hasMessage: a message has a span, so that the request as such needs none.
	hasMessage bool
	// span is that of the request as such; nil until it is needed.
	span *tracing.Span
	// outcome is why the request is refused; nil where only its status says so.
	outcome *tracing.Outcome
	// steps are what was done before there was a span, in the array kept.
	steps []step
	kept  [2]step
}

// step is something that took time.
type step struct {
	name       string
	start, end time.Time
}

type requestKey struct{}

// Value implements [context.Context].
func (r *Request) Value(key any) any {
	if key == (requestKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// Of returns the request that a context belongs to, or nil without tracing.
func Of(ctx context.Context) *Request {
	r, _ := ctx.Value(requestKey{}).(*Request)
	return r
}

// Now returns the time at which a step begins, for [Request.Step]; the zero time for nil.
func (r *Request) Now() time.Time {
	if r == nil {
		return time.Time{}
	}
	return time.Now()
}

// Step notes a step that has just ended. It becomes a child of the first span that starts, or of the one that has.
func (r *Request) Step(name string, start time.Time) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.steps == nil {
		r.steps = r.kept[:0]
	}
	r.steps = append(r.steps, step{name: name, start: start, end: time.Now()})
	if r.span != nil {
		r.tell(r.span)
	}
}

// tell makes children of the steps, once; r.mu is held.
func (r *Request) tell(span *tracing.Span) {
	for _, s := range r.steps {
		span.Past(s.name, s.start, s.end)
	}
	r.steps = r.steps[:0]
}

// Start starts the span of a message that came in the request. A message without a start of its own began with the request, and
// has the steps of it.
func (r *Request) Start(a tracing.Arrival, attributes ...tracing.Attribute) *tracing.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hasMessage = true
	own := !a.Start.IsZero()
	if !own {
		a.Start = r.start
	}
	span := r.opts.Tracer.Start(a, attributes...)
	if span.IsRecording() {
		span.Set(r.appendNetwork(make([]tracing.Attribute, 0, 5))...)
		if !own {
			r.tell(span)
		}
	}
	return span
}

// Span returns the span of the request as such, which ends with the request. It is for requests without a message, such as those
// that are refused and streams. It is nil where a message has a span.
func (r *Request) Span() *tracing.Span {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own()
}

// own is Span; r.mu is held.
func (r *Request) own() *tracing.Span {
	if r.span != nil || r.hasMessage {
		return r.span
	}
	route := r.opts.Route(r.http)
	r.span = r.opts.Tracer.Start(tracing.Arrival{Start: r.start, Method: route.name(r.http.Method), Header: r.http.Header})
	if r.span.IsRecording() {
		r.span.Set(r.appendNetwork(make([]tracing.Attribute, 0, 5))...)
		r.span.Set(route.attributes(r.http)...)
		r.span.Set(tracing.Text(tracing.Edge, r.opts.Edge(r.http).String()))
		r.tell(r.span)
	}
	return r.span
}

// Refused says why the request is refused. It has no effect where a message has a span.
func (r *Request) Refused(o tracing.Outcome) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own() != nil {
		r.outcome = &o
	}
}

// LogFields returns the ids of the request's span, for the line of a log that says why the request is refused.
func (r *Request) LogFields() []zap.Field {
	of := r.Span().Context()
	if !of.IsValid() {
		return nil
	}
	return []zap.Field{zap.Stringer(logkey.TraceID, of.TraceID()), zap.Stringer(logkey.SpanID, of.SpanID())}
}

// end ends the span of the request as such, which starts now at the latest. status is 0 where none was sent.
func (r *Request) end(status int) {
	r.mu.Lock()
	span, outcome := r.own(), r.outcome
	r.mu.Unlock()
	if span == nil {
		return
	}
	if status != 0 {
		span.Set(tracing.Int(tracing.HTTPStatus, int64(status)))
	}
	switch {
	case outcome != nil:
		span.End(*outcome)
	case status >= http.StatusBadRequest:
		span.End(outcomeOf(status))
	default:
		span.End(tracing.Outcome{})
	}
}

// appendNetwork appends what is known of the connection.
func (r *Request) appendNetwork(out []tracing.Attribute) []tracing.Attribute {
	out = append(out, tracing.Text(tracing.NetworkProtocol, "http"), tracing.Text(tracing.NetworkVersion, version(r.http)))
	return AppendPeer(out, r.http.RemoteAddr)
}

// version is the version of HTTP, as the conventions write it.
func version(r *http.Request) string {
	switch {
	case r.ProtoMajor >= 2:
		return strconv.Itoa(r.ProtoMajor)
	case r.ProtoMinor == 1:
		return "1.1"
	}
	return strconv.Itoa(r.ProtoMajor) + "." + strconv.Itoa(r.ProtoMinor)
}

// AppendPeer appends what the address of a connection says: its transport, and the client's address.
func AppendPeer(out []tracing.Attribute, remote string) []tracing.Attribute {
	host, port, err := net.SplitHostPort(remote)
	if err != nil { // the peer of a Unix socket has no address
		return append(out, tracing.Text(tracing.Transport, "unix"))
	}
	out = append(out, tracing.Text(tracing.Transport, "tcp"), tracing.Text(tracing.ClientAddress, host))
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		out = append(out, tracing.Int(tracing.ClientPort, int64(n)))
	}
	return out
}
