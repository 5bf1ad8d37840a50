// SPDX-License-Identifier: Apache-2.0

package httpspan

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Options configure a [Handler].
type Options struct {
	// Tracer makes the spans. It must not be nil.
	Tracer *tracing.Tracer
	// Route returns where a request goes, and Edge its edge.
	Route func(*http.Request) Route
	Edge  func(*http.Request) stats.Edge
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
func (r Route) attributes(of *http.Request) []tracing.Attribute {
	out := []tracing.Attribute{tracing.Text(tracing.HTTPMethod, known(of.Method, "_OTHER"))}
	if r.Path != "" {
		out = append(out, tracing.Text(tracing.HTTPRoute, r.Path))
	}
	if r.IsRPC {
		method := strings.TrimPrefix(r.Path, "/")
		out = append(out, tracing.Text(tracing.RPCMethod, method), tracing.Text(tracing.RPCSystem, RPCSystem(of.Header.Get("Content-Type"))))
	}
	return out
}

// RPCSystem returns the value of rpc.system.name for the protocol of an RPC, or for its type of content.
func RPCSystem(protocol string) string {
	if strings.HasPrefix(strings.TrimPrefix(protocol, "application/"), "grpc") {
		return tracing.SystemGRPC
	}
	return tracing.SystemConnect
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

// Handler returns the outermost handler of a listener. Requests for which no message has a span get one of their own.
func Handler(next http.Handler, o Options) http.Handler { return &handler{next: next, opts: o} }

// handler has a small frame, because a stream waits on top of it for hours.
type handler struct {
	next http.Handler
	opts Options
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own := &writer{ResponseWriter: w, request: Request{Context: r.Context(), opts: &h.opts, start: time.Now(), http: r}}
	defer own.end()
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

	request *Request
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
		b.request.Step(tracing.StepReadBody, b.start)
	}
	return n, err
}

// writer is a response writer that knows the status of the response.
type writer struct {
	http.ResponseWriter

	request Request
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

// end ends the span of the request. What writes without a status has sent 200. After a panic the server sends no status: it
// closes the connection, or resets the stream.
func (w *writer) end() {
	if !w.returned {
		w.request.Refused(panicked())
	} else if w.status == 0 {
		w.status = http.StatusOK
	}
	w.request.end(w.status)
}
