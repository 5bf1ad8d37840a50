// SPDX-License-Identifier: Apache-2.0

// Package httpbody reads the JSON body of an HTTP request with a size limit and
// writes JSON-RPC replies. Both JSON-RPC edges use it, so that the same bad
// request gets the same response on both. Its functions are safe for concurrent
// use.
package httpbody

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/slowpeer"
)

// Check refuses a request whose head shows that it is not a message: methods other
// than POST, content types other than application/json, and more than limit bytes.
// A handler that has to check more of the head does so between Check and [Read],
// because an unwanted body may never arrive.
func Check(w http.ResponseWriter, r *http.Request, limit int) *errmap.Error {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return refuse(errmap.MethodNotAllowed, "method", "use POST, not "+r.Method)
	}
	if err := checkType(r.Header); err != nil {
		return err
	}
	if r.ContentLength > int64(limit) {
		return tooLarge(limit)
	}
	return nil
}

// Read returns the body of a request. It refuses what [Check] refuses, unknown
// encodings, and more than limit bytes after decompression. Its memory is bounded.
func Read(w http.ResponseWriter, r *http.Request, limit int) ([]byte, *errmap.Error) {
	if err := Check(w, r, limit); err != nil {
		return nil, err
	}
	body := io.Reader(r.Body)
	size := r.ContentLength
	switch strings.ToLower(strings.Join(r.Header.Values("Content-Encoding"), ",")) {
	case "", "identity":
	case "gzip":
		// The compressed bytes are bounded too: there is a form of gzip that
		// unpacks to nothing, and goes on for ever.
		unzip, err := gzip.NewReader(&boundedReader{from: r.Body, left: int64(limit)})
		if err != nil {
			return nil, readError(err, limit)
		}
		body, size = unzip, 0
	default:
		return nil, refuse(errmap.UnsupportedMediaType, "encoding", "Content-Encoding is not supported; send plain JSON or gzip")
	}
	return readAll(body, size, limit)
}

// readAll reads at most limit bytes.
func readAll(body io.Reader, size int64, limit int) ([]byte, *errmap.Error) {
	// The announced size is a hint only: a caller that announces much and
	// sends little must not cost memory.
	const mostAhead = 64 << 10
	buf := make([]byte, 0, min(max(size+1, 512), mostAhead))
	for {
		if len(buf) == cap(buf) {
			// BufferPool for all that was announced, but no more than a few times what has
			// come.
			ahead := min(max(size+1, int64(len(buf))*2), int64(len(buf))*8)
			buf = append(make([]byte, 0, ahead), buf...)
		}
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return nil, tooLarge(limit)
		}
		if errors.Is(err, io.EOF) {
			return buf, nil
		}
		if err != nil {
			return nil, readError(err, limit)
		}
	}
}

// errTooMany is what a boundedReader ends with where there is more.
var errTooMany = errors.New("the compressed body is over the limit")

// boundedReader reads at most left bytes and then fails, where io.LimitReader
// would let a body that is too long look like one that was cut short.
type boundedReader struct {
	from io.Reader
	left int64
}

// Read implements io.Reader. It requests one byte more than the bound, because
// only that distinguishes a body of exactly that size from a longer one.
func (b *boundedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.from.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, errTooMany
	}
	return n, err
}

// readError says why a body could not be read to its end.
func readError(err error, limit int) *errmap.Error {
	var reason string
	var refused *errmap.Error
	switch {
	case errors.As(err, &refused): // the middleware before the handler reads no further
		return refused
	case errors.Is(err, errTooMany):
		return tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		reason = "the body did not arrive in time"
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		reason = "the body is not gzip, as Content-Encoding says"
	default:
		reason = "the body could not be read completely"
	}
	return errmap.Wrap(errmap.ParseError, err, errmap.WithViolations(errmap.Violation{Keyword: "body", Message: reason}))
}

func checkType(h http.Header) *errmap.Error {
	value := h.Get("Content-Type")
	if value == "application/json" {
		return nil
	}
	if value == "" {
		return refuse(errmap.UnsupportedMediaType, "content-type", "Content-Type is missing; send application/json")
	}
	kind, params, err := mime.ParseMediaType(value)
	if err != nil || kind != "application/json" {
		return refuse(errmap.UnsupportedMediaType, "content-type", "Content-Type is not application/json")
	}
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return refuse(errmap.UnsupportedMediaType, "content-type", "JSON is UTF-8 (RFC 8259, section 8.1); another charset is not supported")
	}
	return nil
}

func tooLarge(limit int) *errmap.Error {
	err := refuse(errmap.PayloadTooLarge, "size", "the body is larger than "+strconv.Itoa(limit)+" bytes; --max-message-bytes sets the limit")
	err.Limit = errmap.LimitMessageBytes
	return err
}

func refuse(code errmap.Code, keyword, message string) *errmap.Error {
	return errmap.New(code, errmap.WithViolations(errmap.Violation{Keyword: keyword, Message: message}))
}

// Attribute counts a reply that has to wait for its reader for the tool whose result it is.
// Small replies do not wait.
func Attribute(w http.ResponseWriter, reply *dialect.Reply) {
	if reply.Len() > slowpeer.LeastCounted {
		slowpeer.Of(w).SetTool(reply.ToolName())
	}
}

// Write sends a reply. A reply without a body is sent as its bare status.
func Write(w http.ResponseWriter, reply dialect.Reply) {
	h := w.Header()
	for name, values := range reply.Header {
		h[name] = append(h[name], values...)
	}
	if reply.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(reply.RetryAfter))
	}
	if reply.Challenge != "" {
		h.Set("WWW-Authenticate", reply.Challenge)
	}
	if reply.IsEmpty() {
		w.WriteHeader(reply.Status)
		return
	}
	values := [...]string{"application/json", strconv.Itoa(reply.Len()), "nosniff"}
	h["Content-Type"] = values[0:1:1]
	h["Content-Length"] = values[1:2:2]
	h["X-Content-Type-Options"] = values[2:3:3]
	w.WriteHeader(reply.Status)
	Attribute(w, &reply)
	// A caller that has gone away is not an error here: its request has ended.
	_, _ = reply.WriteTo(w)
}
