// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
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

// method calls one procedure. It is safe for concurrent use and valid as long as its client.
type method struct {
	client    *Client
	procedure string
	bound     atomic.Pointer[binding]
	duplex    atomic.Pointer[binding] // for bidirectional streams
}

// binding is the client of a method on one link.
type binding struct {
	link *link
	rpc  *connect.Client[rawMessage, rawMessage]
}

// method returns the method that is kept for procedure ("/package.Service/Method"), or a new one. The error is an *Error of
// KindRejected.
func (c *Client) method(procedure string) (*method, error) {
	if m, ok := c.methods.Load(procedure); ok {
		return m.(*method), nil //nolint:forcetypeassert // only this function stores
	}
	if err := checkProcedure(procedure); err != nil {
		return nil, err
	}
	m := &method{client: c, procedure: procedure}
	if c.kept.Load() < int64(c.opts.MaxMethods) {
		if _, loaded := c.methods.LoadOrStore(procedure, m); !loaded {
			c.kept.Add(1)
		}
	}
	return m, nil
}

// Call calls procedure with the encoded message in and returns the encoded response. The request
// carries the context's deadline to the service, unless it is a [PrivateDeadline], and
// cancellation of the context cancels the call at the service. md is sent as metadata, without entries that belong to HTTP
// or the protocol. The error is an *Error. Call caches what it needs for each procedure, up to MaxMethods.
//
// Where the context has [telemetry.Calls], the call is a span, and its trace context goes to the service.
func (c *Client) Call(ctx context.Context, procedure string, in []byte, md http.Header) (*Answer, error) {
	m, err := c.method(procedure)
	if err != nil {
		return nil, err
	}
	a := m.attempt(ctx)
	if a == nil {
		return m.call(ctx, nil, in, md)
	}
	answer, err := m.call(ctx, a, in, md)
	m.ended(a, err)
	return answer, err
}

func (m *method) call(ctx context.Context, a *telemetry.Attempt, in []byte, md http.Header) (*Answer, error) {
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
	if l.many != nil {
		return l.many.call(ctx, m.procedure, a, in, header)
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
func (m *method) find(ctx context.Context) (*link, error) {
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
	return fmt.Sprintf("the backend's response exceeds %d bytes (backend.max_receive_bytes)", c.opts.maxReceive)
}

// check refuses what must not be sent, and returns the metadata that is to go
// with it, nil for none.
func (m *method) check(in []byte, md http.Header) (http.Header, error) {
	o := &m.client.opts
	if len(in) > o.maxSend {
		return nil, newError(KindRequestTooLarge, fmt.Sprintf("the request has %d bytes; the limit is %d (backend.max_send_bytes)", len(in), o.maxSend), nil)
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
	if c.many != nil {
		return c.many.do(ctx, func(e *endpoint) error { return e.client.Check(ctx) })
	}
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
func (m *method) on(l *link) *connect.Client[rawMessage, rawMessage] {
	return m.boundTo(&m.bound, l, l.pool)
}

// duplexOn is the same for bidirectional streams, which need HTTP/2.
func (m *method) duplexOn(l *link) *connect.Client[rawMessage, rawMessage] {
	return m.boundTo(&m.duplex, l, m.client.h2)
}

func (m *method) boundTo(bound *atomic.Pointer[binding], l *link, p *pool) *connect.Client[rawMessage, rawMessage] {
	if b := bound.Load(); b != nil && b.link == l {
		return b.rpc
	}
	c := m.client
	opts := append(c.clientOptions(l.protocol), connect.WithCodec(rawCodec{}))
	rpc := connect.NewClient[rawMessage, rawMessage](
		&doer{pool: p, limit: c.bodyLimit(), frames: c.frameLimits(), gzip: c.opts.Gzip, userAgent: c.opts.UserAgent, credentials: c.credentials, calls: true}, c.target.BaseURL()+m.procedure, opts...)
	bound.Store(&binding{link: l, rpc: rpc})
	return rpc
}

// bodyLimit is the most that the body of a valid answer can have: two frames of
// five bytes of prefix, the message and (gRPC-Web) the trailers. An answer that
// is compressed and yet larger than its content is over the limit.
func (c *Client) bodyLimit() int64 {
	const prefix = 5
	return int64(c.opts.maxReceive) + int64(c.opts.MaxHeaderBytes) + 2*prefix
}

// checkProcedure refuses what is no procedure.
func checkProcedure(p string) error {
	if validProcedure(p) {
		return nil
	}
	return newError(KindRejected, fmt.Sprintf("procedure %q is not of the form /package.Service/Method", clip(p)), nil)
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

// privateKey is the context key of a deadline that the service is not told.
type privateKey struct{}

// PrivateDeadline marks the context's deadline as the sidecar's own: unary calls made with
// it end at the deadline, and the request does not carry it. The service sees what it
// would see of a caller who set none.
func PrivateDeadline(ctx context.Context) context.Context {
	return context.WithValue(ctx, privateKey{}, true)
}

// hasPrivateDeadline reports whether ctx is marked.
func hasPrivateDeadline(ctx context.Context) bool {
	private, _ := ctx.Value(privateKey{}).(bool)
	return private
}

// silent is a context that ends at its deadline and does not show it. Connect's library
// sends what it is shown.
type silent struct{ context.Context }

// Deadline implements [context.Context].
func (silent) Deadline() (time.Time, bool) { return time.Time{}, false }

// shown is the context that a library may send the deadline of.
func shown(ctx context.Context) context.Context {
	if hasPrivateDeadline(ctx) {
		return silent{ctx}
	}
	return ctx
}

// Again decides whether a call that can be retried is retried. Claim reserves the retry
// and returns false if there will be none: the retry budget is exhausted, or this was
// the last attempt. Claim must not block, and any goroutine may call it while the call
// runs.
type Again interface{ Claim() bool }

// againKey is the context key of an Again.
type againKey struct{}

// Repeatable marks the unary calls made with the context as safe to run twice. again
// decides whether a call that fails with KindTransport is retried. A call with a claim
// stops waiting for its response on a silent connection once another connection has
// reached the backend. Any other call waits until the connection is given up. The client
// itself does not retry these calls.
func Repeatable(ctx context.Context, again Again) context.Context {
	return context.WithValue(ctx, againKey{}, again)
}

// againOf is nil where a call is not to be made again.
func againOf(ctx context.Context) Again {
	again, _ := ctx.Value(againKey{}).(Again)
	return again
}

// attempt starts the span of a call whose context has [telemetry.Calls]; nil for others, as the client's own are. Transparent
// repetitions, of what the peer turned away unprocessed, are a part of one attempt.
func (m *method) attempt(ctx context.Context) *telemetry.Attempt {
	calls := telemetry.CallsOf(ctx)
	if calls == nil {
		return nil
	}
	rpc := strings.TrimPrefix(m.procedure, "/")
	if !calls.IsRecording() {
		return calls.Attempt(rpc)
	}
	attributes := make([]telemetry.Attribute, 0, 6)
	attributes = append(attributes, telemetry.Text(telemetry.RPCMethod, rpc))
	if system := m.client.Protocol().system(); system != "" {
		attributes = append(attributes, telemetry.Text(telemetry.RPCSystemName, system))
	}
	return calls.Attempt(rpc, m.client.target.appendAddress(attributes)...)
}

// injected returns the headers of a request with the context of its attempt.
func injected(a *telemetry.Attempt, header http.Header) http.Header {
	if a == nil {
		return header
	}
	if header == nil {
		header = make(http.Header, 2)
	}
	a.Inject(header)
	return header
}

// system is the protocol in the words of the conventions, "" while it is not known. Connect has its own; gRPC-Web is gRPC in
// other frames.
func (p Protocol) system() string {
	return [...]string{"", telemetry.SystemGRPC, telemetry.SystemConnect, telemetry.SystemGRPC}[p]
}

// appendAddress appends where the backend is: host and port, or the path of a socket.
func (t Target) appendAddress(to []telemetry.Attribute) []telemetry.Attribute {
	if t.socket != "" {
		return append(to, telemetry.Text(telemetry.ServerAddress, t.socket))
	}
	host, port, err := net.SplitHostPort(t.host)
	if err != nil {
		return append(to, telemetry.Text(telemetry.ServerAddress, t.host))
	}
	to = append(to, telemetry.Text(telemetry.ServerAddress, host))
	if n, err := strconv.ParseUint(port, 10, 16); err == nil {
		to = append(to, telemetry.Int(telemetry.ServerPort, int64(n)))
	}
	return to
}

// ended ends the span of an attempt. err is nil, an *Error, or that of a receiver who wanted no more of a stream.
func (m *method) ended(a *telemetry.Attempt, err error) {
	if !a.IsRecording() {
		a.End(telemetry.Outcome{})
		return
	}
	if system := m.client.Protocol().system(); system != "" {
		a.Set(telemetry.Text(telemetry.RPCSystemName, system)) // it may have been found out meanwhile
	}
	a.End(outcomeOf(err))
}

func outcomeOf(err error) telemetry.Outcome {
	status := func(code string) []telemetry.Attribute {
		return []telemetry.Attribute{telemetry.Text(telemetry.StatusCode, code)}
	}
	failed := new(Error)
	switch {
	case err == nil:
		return telemetry.Outcome{Attributes: status(statusOK)}
	case !errors.As(err, &failed): // the receiver has what it wants, so this is no failure
		return telemetry.Outcome{Attributes: status(statusName(connect.CodeCanceled))}
	}
	code := statusName(failed.Code)
	out := telemetry.Outcome{ErrorType: code, Attributes: status(code)}
	if failed.Kind != KindStatus { // what a service wrote may be of its users
		out.Message = failed.Kind.String() + ": " + failed.Message
	}
	return out
}

// statusOK is gRPC's name of success.
const statusOK = "OK"

// statusName is gRPC's name of a code, such as NOT_FOUND; that of Connect is the same word in other letters.
func statusName(code connect.Code) string {
	if code == connect.CodeCanceled {
		return "CANCELLED"
	}
	return strings.ToUpper(code.String())
}

// isProtocolHeader reports whether a header, in canonical form, belongs to HTTP
// or to one of the RPC protocols. These are set by the protocol; a caller's copy
// is not sent, and the peer's is not shown as metadata.
func isProtocolHeader(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Post", "Allow", "Connection", "Content-Encoding", "Content-Length",
		"Content-Type", "Date", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
		"X-Grpc-Web", "X-User-Agent":
		return true
	}
	return strings.HasPrefix(name, "Grpc-") || strings.HasPrefix(name, "Connect-") || strings.HasPrefix(name, ":")
}

// outgoing checks a caller's metadata and adds it to header. What belongs to
// the protocol is left out. Anything that HTTP or gRPC could misread is refused:
// names are lower or upper case letters, digits and "-_." (gRPC's rule), values
// printable ASCII without surrounding space. A binary value (name ending in
// -bin) is expected in its base64 form and so falls under the same rule.
func outgoing(header, md http.Header, limit int) *Error {
	total := 0
	for name, values := range md {
		key := textproto.CanonicalMIMEHeaderKey(name)
		if isProtocolHeader(key) {
			continue
		}
		if !validMetadataName(name) {
			return newError(KindRejected, fmt.Sprintf("metadata name %q: use letters, digits, dash, underscore and dot", clip(name)), nil)
		}
		for _, value := range values {
			if !validMetadataValue(value) {
				return newError(KindRejected, fmt.Sprintf("metadata %s: the value is not printable ASCII, or has surrounding whitespace", clip(name)), nil)
			}
			total += len(name) + len(value)
		}
		if total > limit {
			return newError(KindRequestTooLarge, fmt.Sprintf("the forwarded headers have more than %d bytes", limit), nil)
		}
		header[key] = append(header[key], values...)
	}
	return nil
}

// validMetadataName holds for names that every protocol can send: gRPC has fewer characters than HTTP.
func validMetadataName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return name != ""
}

// validMetadataValue holds for values that every protocol can send: printable ASCII with no space at the ends.
func validMetadataValue(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return value == strings.Trim(value, " ")
}

// incoming returns the metadata among a peer's headers or trailers, nil where
// there is none. The result shares its values with h.
func incoming(h http.Header) http.Header {
	var md http.Header
	for name, values := range h {
		if len(values) == 0 || isProtocolHeader(name) && name != grpcPushback { // which is for the caller's retries
			continue
		}
		if md == nil {
			md = make(http.Header, len(h))
		}
		md[name] = values
	}
	return md
}

// clip keeps a foreign text from filling an error message.
func clip(s string) string {
	const most = 64 // enough to recognise a name
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}

// authorizationKey is the context key of the Authorization header of calls.
type authorizationKey struct{}

// authorization is the value of a header. It formats as a mask. A context has a pointer
// to it, because fmt prints unexported fields without their methods.
type authorization struct{ value string }

// String returns a mask, so that formatted output never contains the value.
func (*authorization) String() string { return masked }

// GoString returns a mask for %#v.
func (*authorization) GoString() string { return masked }

// WithAuthorization returns a context in which calls and streams carry this value of the
// Authorization header, in place of the sidecar's own. Requests of the client itself
// (probes, health checks, reflection) do not. Like the client's other credentials, the
// value is masked in what the backend says about a failure.
func WithAuthorization(ctx context.Context, value string) context.Context {
	return context.WithValue(ctx, authorizationKey{}, &authorization{value})
}

// HasAuthorization reports whether [WithAuthorization] set a value, which may be empty.
func HasAuthorization(ctx context.Context) bool {
	_, ok := ctx.Value(authorizationKey{}).(*authorization)
	return ok
}

// authorizationOf returns the value of the header, or "" for none.
func authorizationOf(ctx context.Context) string {
	if a, ok := ctx.Value(authorizationKey{}).(*authorization); ok {
		return a.value
	}
	return ""
}

// withCredentials returns the headers of a call with the credentials of the client and
// those of ctx. It may change header, and what it returns must not be changed.
func (c *Client) withCredentials(ctx context.Context, header http.Header) http.Header {
	header = c.credentials.set().over(header)
	value := authorizationOf(ctx)
	if value == "" {
		return header
	}
	out := make(http.Header, len(header)+1) // header may be shared by all calls
	maps.Copy(out, header)
	out["Authorization"] = []string{value}
	return out
}

// maskError hides the credentials of the client and of ctx in what a backend says about
// a failure.
func (c *Client) maskError(ctx context.Context, e *Error) {
	c.credentials.set().maskError(e)
	if value := authorizationOf(ctx); value != "" {
		(&credentialSet{secrets: []string{secretPart(value)}}).maskError(e)
	}
}
