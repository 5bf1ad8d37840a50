// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/outrigger-mcp/outrigger/internal/h2"
)

// attempt is one attempt of a probe.
type attempt struct {
	// What describes the attempt, such as "gRPC over HTTP/2".
	What string
	// Cause is why the attempt proved nothing.
	Cause error
}

// probeError lists the attempts of a failed probe. It is the cause of the *Error that
// Probe and calls return.
type probeError struct {
	Target   Target
	Attempts []attempt
}

// Error implements error.
func (e *probeError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "no protocol found at %s", e.Target)
	for _, a := range e.Attempts {
		fmt.Fprintf(&b, "; %s: %v", a.What, a.Cause)
	}
	return b.String()
}

// Unwrap returns the causes of the attempts.
func (e *probeError) Unwrap() []error {
	causes := make([]error, 0, len(e.Attempts))
	for _, a := range e.Attempts {
		causes = append(causes, a.Cause)
	}
	return causes
}

// reflectionProcedures exist on most backends that serve no health check.
func reflectionProcedures() []string {
	return []string{
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
	}
}

// Probe detects the protocol and remembers it. Once the protocol is known, Probe returns
// at once. It runs no method except the standard health check. If the backend serves
// neither health nor reflection, a probe may fail although a call can still detect the
// protocol, because a call knows a procedure that exists. procedures names some for that
// purpose: the probe asks which content types they accept and does not run them. The
// error is an *Error whose cause is a *probeError.
func (c *Client) Probe(ctx context.Context, procedures ...string) error {
	for _, p := range procedures {
		if err := checkProcedure(p); err != nil {
			return err
		}
	}
	if c.many != nil {
		return c.many.do(ctx, func(e *endpoint) error { return e.client.Probe(ctx, procedures...) })
	}
	_, err := c.find(ctx, append(slices.Clone(procedures), c.hints()...))
	return err
}

// search is one probe, shared by all calls that need its result.
type search struct {
	hints []string
	done  chan struct{}
	link  *link  // valid once done is closed
	err   *Error // likewise
}

// find returns the link, looking for it where it is not known. Concurrent
// callers share one search; it does not end with the caller that began it. A
// caller whose hints the shared search did not have gets its own search
// when that one failed.
func (c *Client) find(ctx context.Context, hints []string) (*link, error) {
	for {
		if l := c.link.Load(); l != nil {
			return l, nil
		}
		if k := ended(ctx); k != 0 {
			return nil, ourEnd(k, false)
		}
		s, err := c.join(hints)
		if err != nil {
			return nil, err
		}
		select {
		case <-s.done:
		case <-ctx.Done():
			return nil, ourEnd(ended(ctx), false)
		}
		switch {
		case s.link != nil:
			return s.link, nil
		case s.err.Kind != KindGarbage, covers(s.hints, hints):
			return nil, s.err
		}
	}
}

// findBest is find, and looks again where the link is second best because the backend was slow,
// as one that starts is. Calls use that link meanwhile.
func (c *Client) findBest(ctx context.Context) (*link, error) {
	hints := c.hints()
	l, err := c.find(ctx, hints)
	if err != nil || !l.late || time.Now().Before(l.again) {
		return l, err
	}
	s, err := c.join(hints)
	if err != nil {
		return nil, err
	}
	select {
	case <-s.done:
	case <-ctx.Done():
	}
	return c.find(ctx, hints)
}

func covers(have, want []string) bool {
	for _, w := range want {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

// join returns the search under way, or begins one. One that ended since the
// caller looked is over, so that its result is looked for again.
func (c *Client) join(hints []string) (*search, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, newError(KindUnreachable, "the sidecar is shutting down", errClosed)
	case c.search != nil:
		return c.search, nil
	}
	if l := c.link.Load(); l != nil && !l.late {
		found := &search{done: make(chan struct{}), link: l}
		close(found.done)
		return found, nil
	}
	s := &search{hints: hints, done: make(chan struct{})}
	c.search = s
	c.probes.Go(func() {
		ctx, cancel := context.WithTimeout(c.base, c.opts.probeTimeout)
		defer cancel()
		l, err := c.look(ctx, hints)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.search = nil
		s.link, s.err = l, err
		if l != nil {
			l.putOff(c.link.Load(), time.Now())
			c.link.Store(l)
		}
		close(s.done)
	})
	return s, nil
}

// reconsider forgets a link that was found by probing when the peer turns out
// not to speak that protocol, or that version of HTTP (any more): the next call looks
// again. Servers without HTTP/1.1 may close the connection without a word.
func (c *Client) reconsider(l *link, e *Error) {
	isSilent := !l.pool.http2() && e.HTTPStatus == 0 && (e.Kind == KindTransport || e.Kind == KindUnreachable)
	if l.probed && (isSilent || e.Kind == KindGarbage || e.Kind == KindForeign || errors.Is(e.cause, errNoHTTP2)) {
		c.link.CompareAndSwap(l, nil)
	}
}

// lacksHTTP2 forgets a link over HTTP/2 to a peer that no longer offers it.
func (c *Client) lacksHTTP2(l *link) {
	if l.pool.http2() {
		c.link.CompareAndSwap(l, nil)
	}
}

// look tries one protocol after the other.
func (c *Client) look(ctx context.Context, hints []string) (*link, *Error) {
	p := &prober{client: c, hints: hints}
	l := p.run(ctx)
	if l != nil {
		l.probed = true
		l.late = slices.ContainsFunc(p.attempts, func(a attempt) bool { return errors.Is(a.Cause, context.DeadlineExceeded) })
		if l.protocol != ProtocolGRPC {
			c.wires.closeIdle() // what the probe opened there is of no use any more
		}
		return l, nil
	}
	cause := &probeError{Target: c.target, Attempts: p.attempts}
	switch {
	case c.base.Err() != nil:
		return nil, newError(KindUnreachable, "the sidecar is shutting down", errClosed)
	case p.answered:
		return nil, newError(KindGarbage, "the backend answers, but in no known protocol", cause)
	default:
		return nil, newError(KindUnreachable, "cannot reach the backend", cause)
	}
}

// healthProcedure is the one method that a probe runs: standard, harmless, and
// an "unimplemented" answer proves the protocol as well as a real one.
const healthProcedure = "/grpc.health.v1.Health/Check"

// unknownType is a content type that no server takes. Connect servers answer it
// with the list of those that they do take (415 and Accept-Post) and run nothing.
const unknownType = "application/x-outrigger-probe"

// prober is the state of one search.
type prober struct {
	client   *Client
	hints    []string
	attempts []attempt
	answered bool // some attempt reached a peer that said something
	http2    bool // the peer speaks HTTP/2
}

func (p *prober) run(ctx context.Context) *link {
	c := p.client
	if c.target.protocol != ProtocolUnknown {
		return p.version(ctx)
	}
	if p.tryGRPC(ctx) {
		return &link{protocol: ProtocolGRPC, pool: c.h2}
	}
	if p.unreachable() {
		return nil
	}
	for _, protocol := range []Protocol{ProtocolConnect, ProtocolGRPCWeb} {
		if p.try(ctx, protocol, p.pool()) {
			return &link{protocol: protocol, pool: p.pool()}
		}
	}
	if !p.answered {
		return nil
	}
	if protocol := p.askAll(ctx, p.hints); protocol != ProtocolUnknown {
		return &link{protocol: protocol, pool: p.pool()}
	}
	return nil
}

// askAll has procedures tell the protocol, until one does.
func (p *prober) askAll(ctx context.Context, procedures []string) Protocol {
	for _, procedure := range procedures {
		if protocol := p.ask(ctx, procedure); protocol != ProtocolUnknown {
			return protocol
		}
	}
	return ProtocolUnknown
}

// servesDescribed reports whether a procedure of those that the backend should have shows
// the protocol that is spoken with it.
func (c *Client) servesDescribed(ctx context.Context) bool {
	l := c.link.Load()
	if l == nil {
		return false
	}
	p := &prober{client: c, http2: l.pool.http2()}
	return p.askAll(ctx, c.hints()) == l.protocol
}

// version finds out whether a peer of a known protocol offers HTTP/2. A server in the
// clear that has both gets HTTP/2, which carries every kind of method.
func (p *prober) version(ctx context.Context) *link {
	found := func() *link { return &link{protocol: p.client.target.protocol, pool: p.pool()} }
	err := p.greetHTTP2(ctx)
	switch {
	case err == nil:
		p.http2 = true
		return found()
	case errors.Is(err, errNoHTTP2), errors.Is(err, errHTTP1):
		return found()
	}
	p.answered = errors.Is(err, errNotHTTP)
	p.note("HTTP/2", err)
	if p.client.target.tls || !errors.Is(err, errHungUp) && !errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	// Some servers of HTTP/1.1 hang up on the greeting of HTTP/2, or wait for the rest of a request.
	if _, err := p.post(ctx, p.client.h1, healthProcedure, http.Header{"Content-Type": {unknownType}}, nil); err != nil {
		p.note("HTTP/1.1", err)
		return nil
	}
	return found()
}

// greetHTTP2 opens a connection of HTTP/2, which stays for calls.
func (p *prober) greetHTTP2(ctx context.Context) error {
	if !p.client.target.tls { // with TLS, the handshake says which versions there are
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.client.opts.AttemptTimeout)
		defer cancel()
	}
	conn, err := p.client.h2.h2.acquire(ctx)
	if err == nil {
		p.client.h2.h2.release(conn)
	}
	return err
}

func (p *prober) pool() *pool {
	if p.http2 {
		return p.client.h2
	}
	return p.client.h1
}

func (p *prober) note(what string, err error) {
	p.attempts = append(p.attempts, attempt{What: what, Cause: err})
}

// unreachable reports whether the last attempt did not even get a connection, so
// that the next would not either.
func (p *prober) unreachable() bool {
	return errors.Is(p.attempts[len(p.attempts)-1].Cause, errNotConnected)
}

var errNotConnected = errors.New("no connection")

// try makes the health check in one protocol and reports whether the answer is
// one of that protocol.
func (p *prober) try(ctx context.Context, protocol Protocol, pool *pool) bool {
	what := protocol.String() + " over " + pool.version()
	header, body := http.Header{}, make([]byte, 5) // an empty message in a frame of gRPC
	switch protocol {
	case ProtocolGRPCWeb:
		header.Set("Content-Type", "application/grpc-web+proto")
		header.Set("X-Grpc-Web", "1")
	default:
		header.Set("Content-Type", "application/proto")
		header.Set("Connect-Protocol-Version", "1")
		body = nil
	}
	got, err := p.post(ctx, pool, healthProcedure, header, body)
	if err == nil {
		err = got.judge(protocol)
	}
	if err != nil {
		p.note(what, err)
	}
	return err == nil
}

// tryGRPC makes the health check as unary gRPC calls are made.
func (p *prober) tryGRPC(ctx context.Context) bool {
	c := p.client
	ctx, cancel := context.WithTimeout(ctx, c.opts.AttemptTimeout)
	defer cancel()
	f, answer := new(facts), new(h2.Answer)
	req := c.wireRequest(ctx, healthProcedure, nil, nil)
	err := c.exchange(ctx, &req, answer, f)
	switch {
	case answer.HTTPStatus != 0:
		p.answered, p.http2 = true, true
		err = reply{status: answer.HTTPStatus, header: http.Header{"Content-Type": {answer.ContentType}}}.judge(ProtocolGRPC)
	case err != nil:
		err = p.sendFault(err, f)
	}
	if err != nil {
		p.note(ProtocolGRPC.String()+" over "+c.h2.version(), err)
	}
	return err == nil
}

// ask has a procedure tell the content types that it takes.
func (p *prober) ask(ctx context.Context, procedure string) Protocol {
	what := "content types of " + procedure
	got, err := p.post(ctx, p.pool(), procedure, http.Header{"Content-Type": {unknownType}}, nil)
	if err != nil {
		p.note(what, err)
		return ProtocolUnknown
	}
	types := got.accepted()
	takes := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(types, n) })
	}
	switch {
	case p.http2 && takes("application/grpc", "application/grpc+proto"):
		return ProtocolGRPC
	case takes("application/proto", "application/connect+proto"):
		return ProtocolConnect
	case takes("application/grpc-web", "application/grpc-web+proto"):
		return ProtocolGRPCWeb
	}
	p.note(what, fmt.Errorf("HTTP %d, Accept-Post %q", got.status, strings.Join(types, ", ")))
	if got.status == http.StatusUnsupportedMediaType && len(types) == 0 {
		return p.provoke(ctx, procedure)
	}
	return ProtocolUnknown
}

// provoke has a procedure that does not tell the content types that it takes refuse a
// request in its protocol. The request cannot be read, twice over: its compression has a
// name that no server knows, and its bytes are no message. So the method does not run.
func (p *prober) provoke(ctx context.Context, procedure string) Protocol {
	const unknownEncoding = "x-outrigger-probe"
	frame := []byte{1, 0, 0, 0, 2, 0xff, 0xff} // compressed
	for _, attempt := range [...]struct {
		protocol       Protocol
		kind, encoding string
		body           []byte
	}{
		{ProtocolGRPC, "application/grpc+proto", "Grpc-Encoding", frame},
		{ProtocolConnect, "application/proto", "Content-Encoding", frame[5:]},
		{ProtocolConnect, "application/connect+proto", "Connect-Content-Encoding", frame},
		{ProtocolGRPCWeb, "application/grpc-web+proto", "Grpc-Encoding", frame},
	} {
		if attempt.protocol == ProtocolGRPC && !p.http2 {
			continue
		}
		header := http.Header{"Content-Type": {attempt.kind}, attempt.encoding: {unknownEncoding}, "Te": {"trailers"}}
		if attempt.protocol == ProtocolConnect {
			header.Set("Connect-Protocol-Version", "1")
		}
		got, err := p.post(ctx, p.pool(), procedure, header, attempt.body)
		if err == nil {
			err = got.judge(attempt.protocol)
		}
		if err == nil {
			return attempt.protocol
		}
		p.note(attempt.kind+" at "+procedure, err)
	}
	return ProtocolUnknown
}

// reply is what an attempt got.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// post sends one request of the probe and reads a bounded piece of the answer.
func (p *prober) post(ctx context.Context, pool *pool, procedure string, header http.Header, body []byte) (reply, error) {
	const most = 64 << 10 // an error message fits; a web page need not
	c := p.client
	ctx, cancel := context.WithTimeout(ctx, c.opts.AttemptTimeout)
	defer cancel()
	f := new(facts)
	req, err := http.NewRequestWithContext(f.attach(ctx), http.MethodPost, c.target.BaseURL()+procedure, bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header = header
	if c.opts.UserAgent != "" {
		req.Header.Set("User-Agent", c.opts.UserAgent)
	}
	resp, err := (&doer{pool: pool, limit: most, gzip: true, credentials: c.credentials}).Do(req)
	if err != nil {
		return reply{}, p.sendFault(err, f)
	}
	defer func() { _ = resp.Body.Close() }()
	p.answered = true
	if pool.http2() {
		p.http2 = true
	}
	data, _ := io.ReadAll(resp.Body) // what is missing shows in the judgement
	return reply{status: resp.StatusCode, header: resp.Header, body: data}, nil
}

// sendFault says what an attempt without an answer means.
func (p *prober) sendFault(err error, f *facts) error {
	switch {
	case spokeOtherwise(err):
		p.answered = true
	case f.greeted() == greetTLS:
		p.answered = true
		return errWantsTLS
	case !f.onHTTP2 && f.greeted() == greetOther:
		p.answered = true
		return errNotHTTP
	case f.onHTTP2 && f.connected.Load():
		p.http2 = true
	case !f.connected.Load() && !errors.Is(err, errHungUp) && !errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", errNotConnected, err)
	}
	return err
}

// judge returns nil where the reply can only come from a server of the protocol.
func (r reply) judge(protocol Protocol) error {
	contentType, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	ok := false
	switch protocol {
	case ProtocolGRPC:
		ok = contentType == "application/grpc" || strings.HasPrefix(contentType, "application/grpc+")
	case ProtocolGRPCWeb:
		ok = contentType == "application/grpc-web" || strings.HasPrefix(contentType, "application/grpc-web+")
	case ProtocolConnect:
		ok = r.status == http.StatusOK && (contentType == "application/proto" || contentType == "application/connect+proto") ||
			r.status != http.StatusOK && contentType == "application/json" && isConnectError(r.body)
	}
	if ok {
		return nil
	}
	return &answerError{Status: r.status, ContentType: clip(r.header.Get("Content-Type"))}
}

// answerError is an HTTP response that does not belong to the attempted protocol.
type answerError struct {
	Status      int
	ContentType string
}

// Error implements error.
func (e *answerError) Error() string { return fmt.Sprintf("HTTP %d %s", e.Status, e.ContentType) }

// isConnectError is stricter than the RPC library, which takes any JSON object
// for an error of the protocol: many servers answer 404 in JSON.
func isConnectError(body []byte) bool {
	var wire struct {
		Code connect.Code `json:"code"`
	}
	return json.Unmarshal(body, &wire) == nil && wire.Code >= connect.CodeCanceled && wire.Code <= connect.CodeUnauthenticated
}

// accepted lists the media types of Accept-Post, which servers send with 415.
func (r reply) accepted() []string {
	var types []string
	for _, line := range r.header.Values("Accept-Post") {
		for part := range strings.SplitSeq(line, ",") {
			if t, _, err := mime.ParseMediaType(strings.TrimSpace(part)); err == nil {
				types = append(types, t)
			}
		}
	}
	return types
}

// examineTimeout bounds one look at a port. A server that is there answers a
// greeting in milliseconds.
const examineTimeout = 2 * time.Second

// Examine tells whether a wrong expectation about TLS explains a fault that leaves this
// open. A server that requested a client certificate and then closed the connection
// without a response did not accept ours, or the lack of it. Else Examine tests whether the
// port speaks TLS or plaintext. It sends only a greeting, so an unverified peer never sees a
// credential. It returns other faults unchanged.
func (c *Client) Examine(ctx context.Context, f Fault) Fault {
	if f == FaultHungUp && c.asked.Load() {
		return FaultClientCertificate
	}
	switch f {
	case FaultHungUp, FaultNotRPC, FaultWebServer, FaultNoAnswer, FaultUnknown:
	default:
		return f
	}
	switch {
	case !c.target.tls && c.speaksTLS(ctx):
		return FaultNeedsTLS
	case c.target.tls && !c.speaksTLS(ctx) && c.speaksPlain(ctx):
		return FaultNoTLS
	}
	return f
}

// greet connects and has talk say something.
func (c *Client) greet(ctx context.Context, talk func(ctx context.Context, nc net.Conn) bool) bool {
	ctx, cancel := context.WithTimeout(ctx, examineTimeout)
	defer cancel()
	network, address := c.target.address()
	nc, err := c.opts.Dial(ctx, network, address)
	if err != nil {
		return false
	}
	defer func() { _ = nc.Close() }()
	deadline, _ := ctx.Deadline()
	if nc.SetDeadline(deadline) != nil {
		return false
	}
	return talk(ctx, nc)
}

// speaksTLS reports whether the port answers a TLS greeting as a TLS server does.
// A refusal counts: only a TLS server can refuse.
func (c *Client) speaksTLS(ctx context.Context) bool {
	return c.greet(ctx, func(ctx context.Context, nc net.Conn) bool {
		err := tls.Client(nc, &tls.Config{
			InsecureSkipVerify: true, //nolint:gosec // nothing is sent over it
			NextProtos:         []string{"h2", "http/1.1"},
		}).HandshakeContext(ctx)
		refused := new(net.OpError)
		return err == nil || errors.As(err, &refused) && refused.Op == "remote error"
	})
}

// speaksPlain reports whether the port answers the greeting of HTTP/2 in the clear,
// in HTTP/2 or HTTP/1.
func (c *Client) speaksPlain(ctx context.Context) bool {
	return c.greet(ctx, func(_ context.Context, nc net.Conn) bool {
		const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // with empty settings
		if _, err := io.WriteString(nc, preface); err != nil {
			return false
		}
		var begin [5]byte
		if _, err := io.ReadFull(nc, begin[:]); err != nil {
			return false
		}
		g := greetingOf(begin[:])
		return g == greetSettings || g == greetHTTP1
	})
}

// facts is what one call's HTTP exchange showed, beside the error that the RPC
// library makes of it. The trace hooks run on goroutines of the transport and
// may outlive the call, so what they set is atomic; the rest is set and read by
// the calling goroutine.
type facts struct {
	connected    atomic.Bool
	wroteHeaders atomic.Bool
	wroteRequest atomic.Bool // to the end, without an error
	conn         atomic.Pointer[conn]
	encrypted    atomic.Bool // conn is below TLS: its bytes tell nothing

	stream     bool      // asked for by the call: the body is bounded frame by frame
	send       *sendBody // of a stream that was opened; what Do sends in place of the library's
	onHTTP2    bool      // the pool that was used
	sendErr    error     // what the transport returned instead of a response
	httpStatus int       // 0 while no response came
	hangsUp    bool      // the response says that the connection is closed (HTTP/1.1)
	bodyErr    error     // a failed read of the response body, end of body aside
	said       said      // what the peer said of the call itself
	foreign    bool      // the response is of no RPC protocol
	overLimit  bool      // the response body, or a frame of it, ran past its limit
}

type factsKey struct{}

func (f *facts) attach(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, factsKey{}, f)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:      f.gotConn,
		WroteHeaders: f.sentHeaders,
		WroteRequest: f.sentRequest,
	})
}

func factsFrom(ctx context.Context) *facts {
	f, _ := ctx.Value(factsKey{}).(*facts)
	return f
}

func (f *facts) sentHeaders() { f.wroteHeaders.Store(true) }

func (f *facts) sentRequest(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		f.wroteRequest.Store(true)
	}
}

// gotConn is a hook of HTTP/1.1 alone; on HTTP/2 the pool is ours.
func (f *facts) gotConn(info httptrace.GotConnInfo) {
	f.connected.Store(true)
	switch c := info.Conn.(type) {
	case *conn:
		f.conn.Store(c)
	case *tls.Conn:
		f.encrypted.Store(true)
		if inner, ok := c.NetConn().(*conn); ok {
			f.conn.Store(inner)
		}
	}
}

// again forgets what an attempt showed that is about to be repeated.
func (f *facts) again() {
	f.wroteHeaders.Store(false)
	f.wroteRequest.Store(false)
}

// greeted is how the peer began, as far as that could be seen.
func (f *facts) greeted() greeting {
	if f.encrypted.Load() {
		return greetNothing
	}
	return f.conn.Load().greeted()
}

// began reports whether any part of the request may have left.
func (f *facts) began() bool { return f.wroteHeaders.Load() }

// mayHaveBegun is began for calls that we ended: net/http then returns at once, and the header may have left although its
// hook has yet to run.
func (f *facts) mayHaveBegun() bool { return f.began() || f.connected.Load() }

// complete reports whether the whole request may have left. It has a meaning
// only after the transport returned an error that is not the context's: a unary
// method does not run on part of a request, so an incomplete one had no effect.
//
// On HTTP/2 the transport returns once the writing of the request has ended, and
// the hook ran where it ended well. On HTTP/1.1 the hook runs before the last
// flush, but the connection carries one request at a time, so a failed write is
// this request's.
func (f *facts) complete() bool {
	switch {
	case !f.began():
		return false
	case f.send != nil:
		return true // each message of it may have had its effect
	case f.onHTTP2:
		return f.wroteRequest.Load()
	default:
		return !f.conn.Load().failedToWrite()
	}
}
