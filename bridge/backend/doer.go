// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"errors"
	"io"
	"net/http"
)

// maxReplays is how often a request that the peer turned away unprocessed is
// sent again: once for a connection that is being shut down, once more for bad
// luck with its successor.
const maxReplays = 2

// doer sends the RPC library's requests. It is an http.Client without redirects,
// cookies and proxies, and it notes the facts of the exchange.
type doer struct {
	pool  *pool
	limit int64 // of a unary response body, framing included
	gzip  bool
}

// Do implements connect.HTTPClient.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	if !d.gzip {
		declineCompression(req.Header)
	}
	f := factsFrom(req.Context())
	resp, err := d.send(req, f)
	if f == nil {
		return resp, err // a stream: its messages are bounded one by one
	}
	f.onHTTP2 = d.pool.http2
	f.sendErr = err
	if err != nil {
		return nil, err
	}
	f.httpStatus = resp.StatusCode
	resp.Body = &watchedBody{body: resp.Body, left: d.limit, facts: f}
	return resp, nil
}

// send keeps the repetition of requests in our hands on HTTP/2. Left alone,
// net/http repeats a request also when the peer reset its stream with
// PROTOCOL_ERROR, which does not say that the request was not processed. Without
// GetBody it does not. On HTTP/1.1 its rule is ours: nothing was written yet.
func (d *doer) send(req *http.Request, f *facts) (*http.Response, error) {
	again := req.GetBody
	if !d.pool.http2 || again == nil {
		return d.pool.transport.RoundTrip(req)
	}
	for replays := 0; ; replays++ {
		once := *req
		once.GetBody = nil
		resp, err := d.pool.transport.RoundTrip(&once)
		if err == nil || replays == maxReplays || !unprocessed(err) {
			return resp, err
		}
		body, bodyErr := again()
		if bodyErr != nil {
			return nil, err
		}
		if f != nil {
			f.again()
		}
		req.Body = body
	}
}

// declineCompression keeps the library from asking for compressed answers; it
// reads them all the same when they come.
func declineCompression(h http.Header) {
	delete(h, "Grpc-Accept-Encoding")
	delete(h, "Connect-Accept-Encoding")
	h["Accept-Encoding"] = []string{"identity"}
}

// watchedBody notes why a response body ended early and ends it at its limit.
type watchedBody struct {
	body   io.ReadCloser
	left   int64
	closed bool
	facts  *facts
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
	return n, b.note(err)
}

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
