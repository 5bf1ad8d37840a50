// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Answer is the service's response.
type Answer struct {
	// Body is the encoded message. The caller owns it. It is nil for a stream, whose
	// messages went to the receiver.
	Body []byte
	// Header and Trailer are the metadata of the response, without the protocol's own
	// entries. They are nil if there is none.
	Header, Trailer http.Header
}

// MethodOptions describe the properties of a method other than its name.
type MethodOptions struct {
	// Idempotency is the method's idempotency level, for interceptors. It does not make
	// the client retry a call.
	Idempotency connect.IdempotencyLevel
}

// Method calls one procedure. It is safe for concurrent use
// and valid as long as its client.
type Method struct {
	client    *Client
	procedure string
	opts      MethodOptions
	bound     atomic.Pointer[binding]
	duplex    atomic.Pointer[binding] // for bidirectional streams
}

// binding is a method on a link.
type binding struct {
	link *link
	rpc  *connect.Client[rawMessage, rawMessage]
}

// Method prepares calls of procedure ("/package.Service/Method"). The error is an *Error
// of KindRejected.
func (c *Client) Method(procedure string, o MethodOptions) (*Method, error) {
	if !validProcedure(procedure) {
		return nil, newError(KindRejected, fmt.Sprintf("procedure %q is not of the form /package.Service/Method", clip(procedure)), nil)
	}
	return &Method{client: c, procedure: procedure, opts: o}, nil
}

// Call calls procedure with an encoded message. It caches a Method for each procedure,
// up to MaxMethods.
func (c *Client) Call(ctx context.Context, procedure string, in []byte, md http.Header) (*Answer, error) {
	m, err := c.method(procedure)
	if err != nil {
		return nil, err
	}
	return m.Call(ctx, in, md)
}

// method returns the Method that is kept for procedure, or a new one.
func (c *Client) method(procedure string) (*Method, error) {
	if m, ok := c.methods.Load(procedure); ok {
		return m.(*Method), nil //nolint:forcetypeassert // only this function stores
	}
	m, err := c.Method(procedure, MethodOptions{})
	if err != nil {
		return nil, err
	}
	if c.kept.Add(1) <= int64(c.opts.MaxMethods) {
		if _, loaded := c.methods.LoadOrStore(procedure, m); loaded {
			c.kept.Add(-1)
		}
	} else {
		c.kept.Add(-1)
	}
	return m, nil
}

// Procedure returns the path of the method.
func (m *Method) Procedure() string { return m.procedure }

// Call sends the encoded message in and returns the encoded response. The request
// carries the context's deadline to the service, unless it is a [PrivateDeadline], and
// cancellation of the context cancels the call at the service. md is sent as metadata, without entries that belong to HTTP
// or the protocol. The error is an *Error.
//
// Where the context has [tracing.Calls], the call is a span, and its trace context goes to the service.
func (m *Method) Call(ctx context.Context, in []byte, md http.Header) (*Answer, error) {
	a := m.attempt(ctx)
	if a == nil {
		return m.call(ctx, nil, in, md)
	}
	answer, err := m.call(ctx, a, in, md)
	m.ended(a, err)
	return answer, err
}

func (m *Method) call(ctx context.Context, a *tracing.Attempt, in []byte, md http.Header) (*Answer, error) {
	c := m.client
	header, err := m.check(in, md)
	if err != nil {
		return nil, err
	}
	l, err := m.find(ctx)
	if err != nil {
		return nil, err
	}
	if l.protocol == ProtocolGRPC {
		parent := a.Parent(header)
		if parent == "" {
			header = injected(a, header)
		}
		return m.callGRPC(ctx, l, in, header, parent)
	}
	header = injected(a, header)
	f := new(facts)
	resp, err := m.on(l).CallUnary(shown(f.attach(ctx)), request(in, header))
	if err != nil {
		return nil, c.fail(ctx, l, err, f)
	}
	return &Answer{Body: *resp.Msg, Header: incoming(resp.Header()), Trailer: incoming(resp.Trailer())}, nil
}

// find returns the link, and looks for it where it is not known.
func (m *Method) find(ctx context.Context) (*link, error) {
	if l := m.client.link.Load(); l != nil {
		return l, nil
	}
	return m.client.find(ctx, []string{m.procedure})
}

// fail classifies the failure of a call over l.
func (c *Client) fail(ctx context.Context, l *link, err error, f *facts) *Error {
	e := classify(ctx, err, f)
	c.maskError(ctx, e)
	if e.Kind == KindTooLarge {
		e.Message = c.tooLarge()
	}
	c.reconsider(l, e)
	return e
}

// tooLarge says that an answer was over its limit, and which setting that is: callers cannot change it, and pass it on.
func (c *Client) tooLarge() string {
	return fmt.Sprintf("the backend's response exceeds %d bytes (backend.max_receive_bytes)", c.opts.MaxResponseBytes)
}

// check refuses what must not be sent, and returns the metadata that is to go
// with it, nil for none.
func (m *Method) check(in []byte, md http.Header) (http.Header, error) {
	o := &m.client.opts
	if len(in) > o.MaxRequestBytes {
		return nil, newError(KindRequestTooLarge, fmt.Sprintf("the request has %d bytes; the limit is %d (backend.max_send_bytes)", len(in), o.MaxRequestBytes), nil)
	}
	if len(md) == 0 {
		return nil, nil
	}
	header := make(http.Header, len(md))
	if err := outgoing(header, md, o.MaxMetadataBytes); err != nil {
		return nil, err
	}
	return header, nil
}

// request is what was checked in the RPC library's form.
func request(in []byte, header http.Header) *connect.Request[rawMessage] {
	message := rawMessage(in)
	req := connect.NewRequest(&message)
	maps.Copy(req.Header(), header)
	return req
}

// Ping checks that the backend is reachable and speaks its protocol. It sends the
// standard health check and accepts any response, including "unimplemented". It ignores
// the health status in the response. The error is an *Error.
func (c *Client) Ping(ctx context.Context) error {
	err := c.Check(ctx)
	if e := new(Error); errors.As(err, &e) && e.Kind == KindStatus {
		return nil
	}
	return err
}

// Check is like Ping, but also returns an error status from the backend as an *Error of
// KindStatus. CodeUnimplemented means only that the backend has no health check. If the backend
// was too slow to show the best protocol when it was probed, Check and Ping probe again.
func (c *Client) Check(ctx context.Context) error {
	if _, err := c.findBest(ctx); err != nil {
		return err
	}
	_, err := c.Call(ctx, healthProcedure, nil, nil)
	if e := new(Error); errors.As(err, &e) && (e.Kind == KindGarbage || e.Kind == KindForeign) && e.HTTPStatus != 0 && c.servesDescribed(ctx) {
		return nil // another server answers for the health check
	}
	return err
}

// on returns the RPC client for a link, which changes at most when a probe
// finds another protocol.
func (m *Method) on(l *link) *connect.Client[rawMessage, rawMessage] {
	return m.boundTo(&m.bound, l, l.pool)
}

// duplexOn is the same for bidirectional streams, which need HTTP/2.
func (m *Method) duplexOn(l *link) *connect.Client[rawMessage, rawMessage] {
	return m.boundTo(&m.duplex, l, m.client.h2)
}

func (m *Method) boundTo(bound *atomic.Pointer[binding], l *link, p *pool) *connect.Client[rawMessage, rawMessage] {
	if b := bound.Load(); b != nil && b.link == l {
		return b.rpc
	}
	c := m.client
	opts := append(c.clientOptions(l.protocol), connect.WithCodec(rawCodec{}), connect.WithIdempotency(m.opts.Idempotency))
	rpc := connect.NewClient[rawMessage, rawMessage](
		&doer{pool: p, limit: c.bodyLimit(), frames: c.frameLimits(), gzip: c.opts.Gzip, userAgent: c.opts.UserAgent, credentials: c.credentials, calls: true}, c.target.baseURL()+m.procedure, opts...)
	bound.Store(&binding{link: l, rpc: rpc})
	return rpc
}

// bodyLimit is the most that the body of a valid answer can have: two frames of
// five bytes of prefix, the message and (gRPC-Web) the trailers. An answer that
// is compressed and yet larger than its content is over the limit.
func (c *Client) bodyLimit() int64 {
	const prefix = 5
	return int64(c.opts.MaxResponseBytes) + int64(c.opts.MaxHeaderBytes) + 2*prefix
}

// validProcedure accepts what Protobuf can name, so that nothing in a procedure
// can be read as another path.
func validProcedure(p string) bool {
	service, method, ok := strings.Cut(strings.TrimPrefix(p, "/"), "/")
	return ok && strings.HasPrefix(p, "/") && validName(service, true) && validName(method, false)
}

func validName(name string, dots bool) bool {
	start := true
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
			start = false
		case '0' <= c && c <= '9' && !start:
		case c == '.' && dots && !start:
			start = true
		default:
			return false
		}
	}
	return !start
}
