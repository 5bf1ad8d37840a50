// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/outrigger-mcp/outrigger/internal/boundedzstd"
)

// MaxEncoders is the maximum number of responses that a Compressor compresses at the same time.
const MaxEncoders = 16

// Compressor compresses responses. Make one with New.
type Compressor struct {
	above int
	slots chan struct{}
	gzips sync.Pool
	zstds sync.Pool
}

// New returns a Compressor for responses of at least the given number of bytes; 0 compresses nothing.
func New(above int) *Compressor {
	return &Compressor{above: above, slots: make(chan struct{}, MaxEncoders)}
}

// Wrap returns a handler that compresses the responses of another.
func (c *Compressor) Wrap(next http.Handler) http.Handler {
	if c.above <= 0 {
		return next
	}
	return &handler{compressor: c, next: next}
}

// handler has a small frame, because a stream waits on top of it for hours.
type handler struct {
	compressor *Compressor
	next       http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	out := h.compressor.writer(w, r)
	defer out.release()
	h.next.ServeHTTP(out, r)
	out.close()
}

// writer is apart so that its temporaries are not in the frame of ServeHTTP.
//
//go:noinline
func (c *Compressor) writer(w http.ResponseWriter, r *http.Request) *writer {
	return &writer{ResponseWriter: w, compressor: c, encoding: negotiate(r.Header["Accept-Encoding"]), isHead: r.Method == http.MethodHead}
}

// encoder is what the two libraries have in common.
type encoder interface {
	io.WriteCloser
	Reset(to io.Writer)
	Flush() error
}

// take returns an encoder, or nil if too many are in use.
func (c *Compressor) take(e Encoding, to io.Writer) encoder {
	select {
	case c.slots <- struct{}{}:
	default:
		return nil
	}
	out, ok := c.pool(e).Get().(encoder)
	if !ok {
		var err error
		if out, err = newEncoder(e); err != nil {
			<-c.slots
			return nil
		}
	}
	out.Reset(to)
	return out
}

// give takes an encoder back.
func (c *Compressor) give(e Encoding, used encoder) {
	used.Reset(io.Discard) // so that nothing of the response is held
	c.pool(e).Put(used)
	<-c.slots
}

func (c *Compressor) pool(e Encoding) *sync.Pool {
	if e == Zstd {
		return &c.zstds
	}
	return &c.gzips
}

// newEncoder chooses speed: most of what can be saved of JSON is saved by the fastest level.
func newEncoder(e Encoding) (encoder, error) {
	if e == Zstd {
		return boundedzstd.NewEncoder(io.Discard)
	}
	return gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
}
