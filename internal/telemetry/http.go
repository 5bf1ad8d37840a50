// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// HTTPOptions configure a [HTTPHandler].
type HTTPOptions struct {
	// Tracer makes the spans. It must not be nil.
	Tracer *Tracer
	// Route returns where a request goes, and Edge its edge.
	Route func(*http.Request) Route
	Edge  func(*http.Request) Edge
}

// Route is where a request goes, as far as the sidecar knows the place: the name of a span must not be a text of the caller.
type Route struct {
	// Path is the path, "" for one that is not known.
	Path string
	// IsRPC marks the path of an RPC, "/package.Service/Method".
	IsRPC bool
}

// name is the name of a span. RPCs are called by their method alone.
func (r Route) name(method string) string {
	switch {
	case r.IsRPC:
		return strings.TrimPrefix(r.Path, "/")
	case r.Path == "":
		return known(method, "HTTP")
	}
	return known(method, "HTTP") + " " + r.Path
}

// attributes are what the conventions ask of a request by HTTP, and by RPC.
func (r Route) attributes(of *http.Request) []Attribute {
	out := []Attribute{Text(httpMethod, known(of.Method, "_OTHER"))}
	if r.Path != "" {
		out = append(out, Text(HTTPRoute, r.Path))
	}
	if r.IsRPC {
		method := strings.TrimPrefix(r.Path, "/")
		out = append(out, Text(RPCMethod, method), Text(RPCSystemName, RPCSystem(of.Header.Get("Content-Type"))))
	}
	return out
}

// RPCSystem returns the value of rpc.system.name for the protocol of an RPC, or for its type of content.
func RPCSystem(protocol string) string {
	if strings.HasPrefix(strings.TrimPrefix(protocol, "application/"), "grpc") {
		return SystemGRPC
	}
	return SystemConnect
}

// known is a method of HTTP, or other for one that callers made up.
func known(method, other string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	}
	return other
}

// HTTPHandler returns the outermost handler of a listener. Requests for which no message has a span get one of their own.
func HTTPHandler(next http.Handler, o HTTPOptions) http.Handler { return &handler{next: next, opts: o} }

// handler has a small frame, because a stream waits on top of it for hours.
type handler struct {
	next http.Handler
	opts HTTPOptions
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own := &writer{ResponseWriter: w, request: HTTPRequest{Context: r.Context(), opts: &h.opts, start: time.Now(), http: r}}
	defer own.endSpan()
	r = r.WithContext(&own.request)
	if r.Body != nil && r.Body != http.NoBody {
		own.body = timedBody{ReadCloser: r.Body, request: &own.request}
		r.Body = &own.body
	}
	h.next.ServeHTTP(own, r)
	own.returned = true
}

// timedBody is a body that notes how long it takes to read it. That of a stream ends too late to be a step of anything.
type timedBody struct {
	io.ReadCloser

	request *HTTPRequest
	start   time.Time
	hasRead bool
}

// Read implements [io.Reader].
func (b *timedBody) Read(p []byte) (int, error) {
	if b.start.IsZero() {
		b.start = time.Now()
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && !b.hasRead {
		b.hasRead = true
		b.request.Step(StepReadBody, b.start)
	}
	return n, err
}

// writer is a response writer that knows the status of the response.
type writer struct {
	http.ResponseWriter

	request HTTPRequest
	body    timedBody
	status  int
	// returned: the handler has not panicked.
	returned bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // others are followed by another one
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Flush implements [http.Flusher].
func (w *writer) Flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() }

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// endSpan ends the span of the request. What writes without a status has sent 200. After a panic the server sends no status: it
// closes the connection, or resets the stream.
func (w *writer) endSpan() {
	if !w.returned {
		w.request.Refused(panicked())
	} else if w.status == 0 {
		w.status = http.StatusOK
	}
	w.request.endSpan(w.status)
}

// HTTPRequest is one HTTP request, for the spans of what comes in it. It is its context, too. Nil does nothing. Its methods may be
// called concurrently.
type HTTPRequest struct {
	context.Context //nolint:containedctx // the context of the request is this one with a value

	opts  *HTTPOptions
	start time.Time
	http  *http.Request

	mu sync.Mutex
	// hasMessage: a message has a span, so that the request as such needs none.
	hasMessage bool
	// span is that of the request as such; nil until it is needed.
	span *Span
	// outcome is why the request is refused; nil where only its status says so.
	outcome *Outcome
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
func (r *HTTPRequest) Value(key any) any {
	if key == (requestKey{}) {
		return r
	}
	return r.Context.Value(key)
}

// HTTPRequestOf returns the request that a context belongs to, or nil without tracing.
func HTTPRequestOf(ctx context.Context) *HTTPRequest {
	r, _ := ctx.Value(requestKey{}).(*HTTPRequest)
	return r
}

// Now returns the time at which a step begins, for [HTTPRequest.Step]; the zero time for nil.
func (r *HTTPRequest) Now() time.Time {
	if r == nil {
		return time.Time{}
	}
	return time.Now()
}

// Step notes a step that has just ended. It becomes a child of the first span that starts, or of the one that has.
func (r *HTTPRequest) Step(name string, start time.Time) {
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
func (r *HTTPRequest) tell(span *Span) {
	for _, s := range r.steps {
		span.past(s.name, s.start, s.end, nil)
	}
	r.steps = r.steps[:0]
}

// Start starts the span of a message that came in the request. A message without its own start began with the request, and
// has the steps of it.
func (r *HTTPRequest) Start(a Arrival, attributes ...Attribute) *Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hasMessage = true
	own := !a.Start.IsZero()
	if !own {
		a.Start = r.start
	}
	span := r.opts.Tracer.Start(a, attributes...)
	if span.IsRecording() {
		span.Set(r.appendNetwork(make([]Attribute, 0, 5))...)
		if !own {
			r.tell(span)
		}
	}
	return span
}

// Span returns the span of the request as such, which ends with the request. It is for requests without a message, such as those
// that are refused and streams. It is nil where a message has a span.
func (r *HTTPRequest) Span() *Span {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own()
}

// own is Span; r.mu is held.
func (r *HTTPRequest) own() *Span {
	if r.span != nil || r.hasMessage {
		return r.span
	}
	route := r.opts.Route(r.http)
	r.span = r.opts.Tracer.Start(Arrival{Start: r.start, Method: route.name(r.http.Method), Header: r.http.Header})
	if r.span.IsRecording() {
		r.span.Set(r.appendNetwork(make([]Attribute, 0, 5))...)
		r.span.Set(route.attributes(r.http)...)
		r.span.Set(Text(EdgeName, r.opts.Edge(r.http).String()))
		r.tell(r.span)
	}
	return r.span
}

// Refused says why the request is refused. It has no effect where a message has a span.
func (r *HTTPRequest) Refused(o Outcome) {
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
func (r *HTTPRequest) LogFields() []zap.Field {
	of := r.Span().Context()
	if !of.IsValid() {
		return nil
	}
	return []zap.Field{zap.Stringer(logkey.TraceID, of.TraceID()), zap.Stringer(logkey.SpanID, of.SpanID())}
}

// endSpan ends the span of the request as such, which starts now at the latest. status is 0 where none was sent.
func (r *HTTPRequest) endSpan(status int) {
	r.mu.Lock()
	span, outcome := r.own(), r.outcome
	r.mu.Unlock()
	if span == nil {
		return
	}
	if status != 0 {
		span.Set(Int(httpStatus, int64(status)))
	}
	switch {
	case outcome != nil:
		span.End(*outcome)
	case status >= http.StatusBadRequest:
		span.End(outcomeOf(status))
	default:
		span.End(Outcome{})
	}
}

// appendNetwork appends what is known of the connection.
func (r *HTTPRequest) appendNetwork(out []Attribute) []Attribute {
	out = append(out, Text(networkProtocol, "http"), Text(networkVersion, version(r.http)))
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
func AppendPeer(out []Attribute, remote string) []Attribute {
	host, port, err := net.SplitHostPort(remote)
	if err != nil { // the peer of a Unix socket has no address
		return append(out, Text(Transport, "unix"))
	}
	out = append(out, Text(Transport, "tcp"), Text(ClientAddress, host))
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		out = append(out, Int(ClientPort, int64(n)))
	}
	return out
}

// OutcomeOf returns how a request without a message ended: with an error, which its edge shows as on says.
func OutcomeOf(err *errmap.Error, on errmap.Protocol) Outcome {
	status := err.Status(on, errmap.About{})
	return Outcome{ErrorType: status.Type, Message: err.Described(), Attributes: []Attribute{
		Text(StatusCode, status.Code), Text(ErrorCode, string(err.Code)),
	}}
}

// outcomeOf returns how a request ended of which only the status of the answer is known, such as that of an unknown path. By
// the conventions for HTTP servers, only a status of 500 and more is an error of the server.
func outcomeOf(status int) Outcome {
	o := Outcome{Attributes: []Attribute{Text(ErrorCode, string(codeOf(status)))}}
	if status >= http.StatusInternalServerError {
		o.ErrorType = strconv.Itoa(status)
	}
	return o
}

// panicked returns how a request ended whose handler panicked.
func panicked() Outcome {
	row, _ := errmap.Lookup(errmap.InternalError)
	return Outcome{ErrorType: "panic", Message: row.Message, Attributes: []Attribute{
		Text(ErrorCode, string(errmap.InternalError)),
	}}
}

// statusClientClosed is the status of CANCELLED, which net/http has no name for.
const statusClientClosed = 499

// codeOf is the canonical code for the status of an answer that has none.
func codeOf(status int) errmap.Code {
	switch status {
	case http.StatusUnauthorized:
		return errmap.Unauthenticated
	case http.StatusForbidden:
		return errmap.PermissionDenied
	case http.StatusNotFound, http.StatusGone:
		return errmap.MethodNotFound
	case http.StatusMethodNotAllowed:
		return errmap.MethodNotAllowed
	case http.StatusNotAcceptable:
		return errmap.NotAcceptable
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return errmap.Timeout
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return errmap.PayloadTooLarge
	case http.StatusUnsupportedMediaType:
		return errmap.UnsupportedMediaType
	case http.StatusTooManyRequests:
		return errmap.RateLimited
	case http.StatusServiceUnavailable:
		return errmap.Unavailable
	case statusClientClosed:
		return errmap.Cancelled
	}
	if status >= http.StatusInternalServerError {
		return errmap.InternalError
	}
	return errmap.InvalidEnvelope
}
