// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// greeting is what the first bytes from a peer look like.
type greeting uint32

const (
	greetNothing  greeting = iota // too few bytes came to tell
	greetHTTP1                    // "HTTP/"
	greetSettings                 // the SETTINGS frame that opens HTTP/2
	greetTLS                      // a TLS alert or handshake record
	greetOther
)

// conn is a connection that remembers how its peer began and how it broke.
type conn struct {
	net.Conn
	release func(*conn)
	once    sync.Once

	begin    [5]byte // the first bytes, filled by Read alone
	have     int
	greeting atomic.Uint32
	heard    chan struct{} // closed when the peer's beginning is known, or reading failed
	hear     sync.Once
	readErr  error         // set before heard is closed, if reading failed by then
	broken   atomic.Uint32 // brokeReading or brokeWriting, whichever came first
	spare    atomic.Bool   // we close it because it is not needed
	forHTTP2 atomic.Bool   // it is of use only if the peer speaks HTTP/2
}

const (
	brokeReading uint32 = iota + 1
	brokeWriting
)

// Read announces the peer's first bytes when the reader calls it again. By then the reader
// has processed what it read first, such as the SETTINGS.
func (c *conn) Read(p []byte) (int, error) {
	if c.have == len(c.begin) {
		c.hear.Do(func() { close(c.heard) })
	}
	n, err := c.Conn.Read(p)
	if n > 0 && c.have < len(c.begin) {
		c.have += copy(c.begin[c.have:], p[:n])
		g := greetingOf(c.begin[:c.have])
		c.greeting.Store(uint32(g))
		if g != greetNothing && g != greetSettings {
			c.hear.Do(func() { close(c.heard) }) // there may be no next time
		}
	}
	if err != nil {
		if !errors.Is(err, net.ErrClosed) {
			c.broken.CompareAndSwap(0, brokeReading)
		}
		c.hear.Do(func() {
			c.readErr = err
			close(c.heard)
		})
	}
	return n, err
}

// readError is why the peer's beginning never came, as far as that is known.
func (c *conn) readError() error {
	select {
	case <-c.heard:
		return c.readErr
	default:
		return nil
	}
}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.broken.CompareAndSwap(0, brokeWriting)
	}
	return n, err
}

func (c *conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.release(c) })
	return err
}

func (c *conn) greeted() greeting {
	if c == nil {
		return greetNothing
	}
	return greeting(c.greeting.Load())
}

// NetConn returns the underlying connection.
func (c *conn) NetConn() net.Conn { return c.Conn }

// failedToWrite reports whether the first thing to fail was a write: the last
// part of what was to be sent never left.
func (c *conn) failedToWrite() bool {
	return c != nil && c.broken.Load() == brokeWriting
}

func greetingOf(b []byte) greeting {
	const (
		recordAlert     = 0x15 // RFC 8446, section 5.1
		recordHandshake = 0x16
		frameSettings   = 0x04 // RFC 9113, section 6.5; the type follows three bytes of length
	)
	switch {
	case len(b) < 5:
		return greetNothing // every one of them is longer
	case string(b) == "HTTP/":
		return greetHTTP1
	case (b[0] == recordAlert || b[0] == recordHandshake) && b[1] == 3:
		return greetTLS
	case b[3] == frameSettings:
		return greetSettings
	default:
		return greetOther
	}
}

// isLoss reports whether the end of a connection may be that of the backend: the
// peer ended it, or we did for another reason than that it is not needed.
func (c *conn) isLoss() bool {
	greeted := c.greeted()
	switch {
	case greeted == greetNothing, greeted == greetOther, c.spare.Load(), c.forHTTP2.Load() && greeted != greetSettings:
		return false // never was one, or not needed
	default:
		// HTTP/1.1 closes connections after an answer where the server asks for that.
		return greeted == greetSettings || c.broken.Load() != 0
	}
}

// connSet knows the open connections, so that Close leaves none behind, and tells
// of those that are lost.
type connSet struct {
	lost chan struct{} // holds a token when a connection was lost

	mu     sync.Mutex
	open   map[*conn]struct{}
	closed bool
}

// adopt wraps nc. It returns nil, with nc closed, once the set is closed.
func (s *connSet) adopt(nc net.Conn) *conn {
	c := &conn{Conn: nc, release: s.forget, heard: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return nil
	}
	if s.open == nil {
		s.open = make(map[*conn]struct{})
	}
	s.open[c] = struct{}{}
	return c
}

func (s *connSet) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if s.closed || s.lost == nil || !c.isLoss() {
		return
	}
	select {
	case s.lost <- struct{}{}:
	default:
	}
}

func (s *connSet) closeAll() {
	s.mu.Lock()
	s.closed = true
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for c := range open {
		_ = c.Close()
	}
}

// maxReplays is how often a request that the peer turned away unprocessed is
// sent again: at once on another connection, as when one is being shut down, then
// after replayPause and twice as long each time, as when the peer is busy.
const (
	maxReplays  = 5
	replayPause = 5 * time.Millisecond
)

// doer sends the RPC library's requests. It is an http.Client without redirects,
// cookies and proxies, and it notes the facts of the exchange.
type doer struct {
	pool      *pool
	limit     int64       // of a unary response body, framing included
	frames    frameLimits // of a stream's response body
	gzip      bool
	userAgent string // "" leaves the RPC library's
	// credentials are added to every request.
	credentials *credentials
	// calls is set where the requests are calls, which may have an Authorization of their
	// own.
	calls bool
}

// Do implements connect.HTTPClient.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	if !d.gzip {
		declineCompression(req.Header)
	}
	if d.userAgent != "" {
		req.Header["User-Agent"] = []string{d.userAgent} // the library adds to its own on streams
	}
	d.credentials.set().apply(req.Header)
	if value := authorizationOf(req.Context()); d.calls && value != "" {
		req.Header["Authorization"] = []string{value}
	}
	f := factsFrom(req.Context())
	if f != nil && f.send != nil {
		_ = req.Body.Close()
		req.Body = f.send
	}
	resp, err := d.send(req, f)
	if f == nil {
		return resp, err // an Endpoint's: its messages are bounded one by one
	}
	f.onHTTP2 = d.pool.http2()
	f.sendErr = err
	if err != nil {
		return nil, err
	}
	f.httpStatus, f.hangsUp = resp.StatusCode, resp.Close
	f.said.header = resp.Header
	readable(resp)
	f.foreign = !isRPCType(resp.Header.Get("Content-Type"))
	if f.send != nil {
		// net/http does not look at the context while it waits for the request body or for
		// the peer's window. To close the response ends both.
		body := resp.Body
		context.AfterFunc(req.Context(), func() { _ = body.Close() })
	}
	watched := &watchedBody{body: resp.Body, left: d.limit, facts: f, response: resp}
	switch kind := resp.Header.Get("Content-Type"); {
	case f.stream:
		watched.left = math.MaxInt64
		resp.Body = newFramedBody(&aheadBody{ReadCloser: watched}, d.frames, f)
	case isGRPCType(kind):
		resp.Body = newFramedBody(watched, d.frames, f)
	default:
		watched.keep = f.httpStatus != http.StatusOK && kind == "application/json"
		resp.Body = watched
	}
	return resp, nil
}

// send sends the request on the pool's HTTP version.
func (d *doer) send(req *http.Request, f *facts) (*http.Response, error) {
	if !d.pool.http2() {
		return d.pool.h1.RoundTrip(req)
	}
	for replays := 0; ; replays++ {
		resp, err := d.exchange(req, f)
		if err == nil || replays == maxReplays || req.GetBody == nil || !repeatable(err, f) {
			return resp, err
		}
		if !pause(req.Context(), replays) {
			return nil, err
		}
		body, bodyErr := req.GetBody()
		if bodyErr != nil {
			return nil, err
		}
		req.Body = body
		f.again()
	}
}

// repeatable reports whether a request certainly was not processed although a
// connection was there for it.
func repeatable(err error, f *facts) bool {
	return f != nil && f.conn.Load() != nil && (unprocessed(err) || !f.began())
}

// pause waits before a replay and reports whether the context is still alive.
func pause(ctx context.Context, replays int) bool {
	if replays == 0 {
		return ctx.Err() == nil
	}
	return sleep(ctx, replayPause<<(replays-1))
}

// exchange makes one attempt on HTTP/2.
func (d *doer) exchange(req *http.Request, f *facts) (*http.Response, error) {
	p := d.pool.h2
	c, err := p.acquire(req.Context())
	if err == nil && req.Context().Err() != nil {
		p.release(c)
		err = req.Context().Err()
	}
	if err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	if f != nil {
		f.connected.Store(true)
		f.conn.Store(c.conn)
	}
	resp, err := c.http.RoundTrip(req)
	if err != nil {
		p.release(c)
		return nil, err
	}
	resp.Body = newHeldBody(resp.Body, func() { p.release(c) })
	return resp, nil
}

// heldBody gives back the stream when the response is done with. It closes the
// transport's body once: net/http returns the unread bytes to the connection's window
// each time.
type heldBody struct {
	io.ReadCloser
	close func() error
}

func newHeldBody(body io.ReadCloser, release func()) *heldBody {
	return &heldBody{ReadCloser: body, close: sync.OnceValue(func() error {
		defer release()
		return body.Close()
	})}
}

func (b *heldBody) Close() error { return b.close() }

// declineCompression keeps the library from asking for compressed answers; it
// reads them all the same when they come.
func declineCompression(h http.Header) {
	delete(h, "Grpc-Accept-Encoding")
	delete(h, "Connect-Accept-Encoding")
	h["Accept-Encoding"] = []string{"identity"}
}

// watchedBody notes why a response body ended early and ends it at its limit.
type watchedBody struct {
	body     io.ReadCloser
	left     int64
	closed   bool
	facts    *facts
	response *http.Response
	keep     bool // the body is kept as what the peer said, as far as it is within its limit
}

func (b *watchedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// At the limit exactly, only the end of the body may follow.
		var probe [1]byte
		n, err := b.body.Read(probe[:])
		if n > 0 {
			b.facts.overLimit = true
			return 0, errOverLimit
		}
		return 0, b.note(err)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.body.Read(p)
	b.left -= int64(n)
	said := &b.facts.said
	said.began = said.began || n > 0
	if b.keep && len(said.tail)+n <= maxErrorBody {
		said.tail = append(said.tail, p[:n]...)
	}
	if errors.Is(err, io.EOF) && !b.closed {
		said.trailer = b.response.Trailer
	}
	return n, b.note(err)
}

// maxErrorBody bounds an error of unary Connect that is kept while the library reads it.
const maxErrorBody = 64 << 10

// note keeps the first failure. The library looks for trailers also after it
// closed the body; what that yields is no fact about the peer.
func (b *watchedBody) note(err error) error {
	if err != nil && !b.closed && b.facts.bodyErr == nil && !errors.Is(err, io.EOF) {
		b.facts.bodyErr = err
	}
	return err
}

func (b *watchedBody) Close() error {
	b.closed = true
	return b.body.Close()
}

// ErrTLSUnused is returned by New for TLS options with a target without TLS.
var ErrTLSUnused = errors.New("TLS options given, but the target is not one with TLS (https, grpcs, connect+https, grpcweb+https)")

// watchRequests notes whether the server requests a client certificate. With TLS 1.3 our
// part of the handshake ends before the server has checked it, and some servers then close
// the connection without an alert.
func (c *Client) watchRequests() {
	verify, answer := c.tls.VerifyConnection, c.tls.GetClientCertificate
	c.tls.VerifyConnection = func(state tls.ConnectionState) error { // runs before the other, in each handshake
		c.asked.Store(false)
		return verify(state)
	}
	c.tls.GetClientCertificate = func(r *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.asked.Store(true)
		return answer(r)
	}
}

// TLSFiles returns the files in the TLS options, or none.
func (c *Client) TLSFiles() []string {
	if c.files == nil {
		return nil
	}
	return c.files.Files()
}

// ReloadTLS reloads the files of the TLS options for new connections. After an error the
// previous options stay in use.
func (c *Client) ReloadTLS() error {
	if c.files == nil {
		return nil
	}
	return c.files.Reload()
}

// CertificateExpires returns when the certificate that is shown to the backend ends, and false without one.
func (c *Client) CertificateExpires() (time.Time, bool) {
	if c.files == nil {
		return time.Time{}, false
	}
	return c.files.Expires()
}

// What a peer turns out to be when it does not answer HTTP/2 with HTTP/2.
var (
	errNoHTTP2  = errors.New("the server does not offer HTTP/2 (ALPN)")
	errHTTP1    = errors.New("the server answers in HTTP/1")
	errWantsTLS = errors.New("the server speaks TLS on this port (use https:// or grpcs://)")
	errNotHTTP  = errors.New("the server's response is not HTTP")
	errHungUp   = errors.New("the server closed the connection without a response")
)

// greetingError is what an HTTP/2 client makes of the peer's first bytes.
func greetingError(g greeting) error {
	switch g {
	case greetSettings:
		return nil
	case greetHTTP1:
		return errHTTP1
	case greetTLS:
		return errWantsTLS
	case greetOther:
		return errNotHTTP
	default:
		return errHungUp
	}
}

// spokeOtherwise reports whether an error says that the peer is there and
// speaks, but not what was expected.
func spokeOtherwise(err error) bool {
	return errors.Is(err, errNoHTTP2) || errors.Is(err, errHTTP1) || errors.Is(err, errWantsTLS) || errors.Is(err, errNotHTTP)
}
