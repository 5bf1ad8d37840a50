// SPDX-License-Identifier: Apache-2.0

package pressure

import (
	"errors"
	"io"
	"net/http"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/httpspan"
	"github.com/outrigger-mcp/outrigger/internal/server/route"
)

// smallBody is up to how many bytes a message is read although its call will be rejected: then the answer has its id, and the
// connection goes on. It is more than most calls have.
const smallBody = 64 << 10

// Sparing does not read a large message while shed reports that its call would be rejected, because a partly read
// message takes memory and a whole one takes CPU. Its caller gets the response after the head, and over HTTP/1.1 the
// connection closes, because the rest of the message is still to come. Calls on streams are rejected one by one.
func Sparing(next http.Handler, shed func() *errmap.Error) http.Handler {
	return &thrifty{shed: shed, next: next}
}

// thrifty is a handler of small frame, because a stream waits on top of it for hours.
type thrifty struct {
	shed func() *errmap.Error
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *thrifty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength < 0 || r.ContentLength > smallBody {
		h.spare(w, r)
	}
	h.next.ServeHTTP(w, r)
}

func (h *thrifty) spare(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Body == http.NoBody || route.IsStream(r) {
		return
	}
	body := &sparingBody{ReadCloser: r.Body, shed: h.shed, told: httpspan.Of(r.Context())}
	if r.ProtoMajor == 1 {
		body.reply = w.Header()
	}
	if r.ContentLength < 0 {
		body.free = smallBody
	}
	r.Body = body
}

// sparingBody is a body that ends with an error while calls are shed.
type sparingBody struct {
	io.ReadCloser

	shed func() *errmap.Error
	// free bytes are read in any case. reply is the head of the answer where it can close the connection.
	free  int
	reply http.Header
	// told is the request of the body, for its span.
	told *httpspan.Request
}

// Read implements io.Reader. Each edge finds the error in its own vocabulary.
func (b *sparingBody) Read(p []byte) (int, error) {
	if b.free > 0 {
		n, err := b.ReadCloser.Read(p[:min(len(p), b.free)])
		b.free -= n
		return n, err
	}
	if err := b.shed(); err != nil {
		if b.reply != nil {
			b.reply.Set("Connection", "close")
		}
		return 0, unread(b.told, err)
	}
	return b.ReadCloser.Read(p)
}

// unread is the error of a body that is not read on, in the vocabulary of each edge. told is told why: the RPC library asks
// nobody about a body that it cannot read.
func unread(told *httpspan.Request, err *errmap.Error) error {
	if told != nil {
		told.Refused(httpspan.Outcome(err, errmap.ConnectRPC)) // which edges with another vocabulary replace
	}
	return errors.Join(err, errmap.ToConnect(err, errmap.About{}))
}
