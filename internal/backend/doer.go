// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"sync"
	"time"
)

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
	t := time.NewTimer(replayPause << (replays - 1))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// exchange makes one attempt on HTTP/2.
func (d *doer) exchange(req *http.Request, f *facts) (*http.Response, error) {
	p := d.pool.h2
	c, err := p.acquire(req.Context())
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
