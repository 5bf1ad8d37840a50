// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
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
		s.of.AddLink(trace.Link{SpanContext: of})
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

// Payload adds arguments or a result as JSON text, redacted. Where it is too large, a note with its size represents it. size is
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
		s.of.SetName(valid(s.method + " " + name))
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
//	defer span.Step(telemetry.StepQueue, span.Now())
func (s *Span) Step(name string, start time.Time, attributes ...Attribute) {
	if s.IsRecording() && !start.IsZero() {
		s.past(name, start, start.Add(time.Since(start)), attributes) // a clock that is set meanwhile makes no step longer
	}
}

// RunOn starts a span for work that goes on after the message has its reply, such as a task. It is in the trace of the
// message, and links to its span, because it ends in its own time. End it.
func (s *Span) RunOn(name string, attributes ...Attribute) *Span {
	if s == nil {
		return nil
	}
	out := &Span{tracer: s.tracer, method: name}
	s.tracer.startNode(&out.node, s.origin, start{name: name, kind: trace.SpanKindInternal, links: []Context{s.ids}}, attributes)
	return out
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

// Part starts the span of a call that the message makes within the sidecar. End it.
func (s *Span) Part(method string, attributes ...Attribute) *Span {
	if s == nil {
		return nil
	}
	out := &Span{tracer: s.tracer, method: method}
	s.tracer.startNode(&out.node, origin{s.ids, trace.ContextWithSpanContext(context.Background(), s.ids)},
		start{name: method, kind: trace.SpanKindInternal}, attributes)
	return out
}

// End ends the span.
func (s *Span) End(o Outcome) {
	if s == nil {
		return
	}
	s.endSpan(&o, time.Time{})
}

// StepReadBody is the step of reading the body of a request.
const StepReadBody = "outrigger.read_body"

// Names of further attributes: the conventions for HTTP, for requests that are refused before they have a message.
const (
	httpMethod = "http.request.method"
	HTTPRoute  = "http.route"
	httpStatus = "http.response.status_code"
)

// eventStreamOpened is the name of the event of [Span.Opened].
const eventStreamOpened = "outrigger.stream.opened"

// past is [Span.Step] for what ended some time ago, perhaps before the span could be started.
func (s *Span) past(name string, at, end time.Time, attributes []Attribute) {
	if !s.IsRecording() || end.Sub(at) < s.tracer.opts.Threshold {
		return
	}
	var child node
	s.tracer.startNode(&child, s.origin, start{name: name, kind: trace.SpanKindInternal, at: at}, attributes)
	child.endSpan(&Outcome{}, end)
}

// Opened adds the event that the caller of a stream has been told that it is open. The span itself ends with the stream.
func (s *Span) Opened() {
	if s.IsRecording() {
		s.event(eventStreamOpened, time.Time{}, nil)
	}
}

// StartIn is [Tracer.Start] for a message that comes within this process: its parent is the span of ctx, if there is one.
func (t *Tracer) StartIn(ctx context.Context, method string, attributes ...Attribute) *Span {
	if t == nil {
		return nil
	}
	parent := trace.SpanContextFromContext(ctx)
	out := &Span{tracer: t, method: method}
	t.startNode(&out.node, origin{parent, trace.ContextWithSpanContext(context.Background(), parent)},
		start{name: method, kind: trace.SpanKindServer}, attributes)
	return out
}

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

// node is one span. It copies attributes, so that those of callers can be on the stack. It is safe for concurrent use.
type node struct {
	origin // of its children

	// recorded: the span is sampled. It stays so after the end.
	recorded bool
	// of is the span of the provider; nil where [Sampling] left the span out.
	of trace.Span
}

// startNode starts a span.
func (t *Tracer) startNode(n *node, below origin, s start, attributes []Attribute) {
	if t.opts.Sampling != nil && !t.opts.Sampling.decide(n, &below) {
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
		opts = append(opts, trace.WithAttributes(copied(attributes)...))
	}
	if len(s.links) > 0 {
		links := make([]trace.Link, len(s.links))
		for i := range links {
			links[i].SpanContext = s.links[i]
		}
		opts = append(opts, trace.WithLinks(links...))
	}
	n.within, n.of = t.tracer.Start(below.within, valid(s.name), opts...) //nolint:spancheck // end does it
	n.ids, n.recorded = n.of.SpanContext(), n.of.IsRecording()
}

// copied returns a copy of attributes with texts that Protobuf takes: the SDK loses a whole export for one that it does not.
func copied(attributes []Attribute) []Attribute {
	out := slices.Clone(attributes)
	for i := range out {
		out[i].Key = attribute.Key(valid(string(out[i].Key)))
		if value := &out[i].Value; value.Type() == attribute.STRING {
			*value = attribute.StringValue(valid(value.AsString()))
		}
	}
	return out
}

// valid is a text as Protobuf takes it.
func valid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func (n *node) set(attributes []Attribute) {
	if n.recorded {
		n.of.SetAttributes(copied(attributes)...)
	}
}

// event adds an event; a zero time is now.
func (n *node) event(name string, at time.Time, attributes []Attribute) {
	if !n.recorded {
		return
	}
	opts := make([]trace.EventOption, 0, 2)
	if !at.IsZero() {
		opts = append(opts, trace.WithTimestamp(at))
	}
	if len(attributes) > 0 {
		opts = append(opts, trace.WithAttributes(copied(attributes)...))
	}
	n.of.AddEvent(valid(name), opts...)
}

// endSpan ends a span; a zero time is now. A second end has no effect.
func (n *node) endSpan(o *Outcome, at time.Time) {
	if n.of == nil {
		return
	}
	if n.recorded {
		n.set(o.Attributes)
		if o.ErrorType != "" {
			n.set([]Attribute{Text(ErrorType, o.ErrorType)})
			n.of.SetStatus(codes.Error, valid(o.Message))
		}
	}
	if at.IsZero() {
		n.of.End()
		return
	}
	n.of.End(trace.WithTimestamp(at))
}

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
	a.tracer.startNode(&a.node, c.of.origin, start{name: rpc, kind: trace.SpanKindClient}, attributes)
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
	a.endSpan(&o, time.Time{})
}
