// SPDX-License-Identifier: Apache-2.0

// Package httpcompress compresses the responses of HTTP handlers with gzip or zstd for clients that accept one of them. It
// sits directly around the handlers of an edge, below everything that counts bytes or watches readers.
//
// Compressed is only what is worth it and whose end comes soon: JSON and text from a least size up. Events
// (text/event-stream), responses that have an encoding, and small ones pass through unchanged. Those that could have been
// compressed say so in Vary, whether they are or not. [Compressor.Wrap] compresses only responses whose size is known, because others
// may go on for hours; [Compressor.WrapPages] is for handlers whose responses all end soon.
//
//	bound            default   unit
//	New's above      4 KiB     smallest response that is compressed
//	maxEncoders      16        responses that are compressed at the same time; others are sent as they are
//
// An encoder takes about 1 MiB, and belongs to its response until the last byte has been taken: a slow reader takes an
// encoder away, and never makes others wait. Encoders that are not needed are left to the garbage collector.
//
// A [Compressor] is safe for concurrent use.
package httpcompress

import (
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/outrigger-mcp/outrigger/internal/content/boundedzstd"
)

// maxEncoders is the maximum number of responses that a Compressor compresses at the same time.
const maxEncoders = 16

// Compressor compresses responses. Make one with New.
type Compressor struct {
	above int
	slots chan struct{}
	gzips sync.Pool
	zstds sync.Pool
}

// New returns a Compressor for responses of at least the given number of bytes; 0 compresses nothing.
func New(above int) *Compressor {
	return &Compressor{above: above, slots: make(chan struct{}, maxEncoders)}
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

// acquire returns an encoder, or nil if too many are in use.
func (c *Compressor) acquire(e coding, to io.Writer) encoder {
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
func (c *Compressor) give(e coding, used encoder) {
	used.Reset(io.Discard) // so that nothing of the response is held
	c.pool(e).Put(used)
	<-c.slots
}

func (c *Compressor) pool(e coding) *sync.Pool {
	if e == zstdCoding {
		return &c.zstds
	}
	return &c.gzips
}

// newEncoder chooses speed: most of what can be saved of JSON is saved by the fastest level.
func newEncoder(e coding) (encoder, error) {
	if e == zstdCoding {
		return boundedzstd.NewEncoder(io.Discard)
	}
	return gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
}

// writer decides with the header whether the response is compressed.
type writer struct {
	http.ResponseWriter

	compressor *Compressor
	encoder    encoder // nil: the response passes through
	encoding   coding
	isHead     bool
	isDecided  bool
}

// Unwrap lets [http.ResponseController] and others find what is below.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if status >= http.StatusOK && !w.isDecided {
		w.isDecided = true
		if hasBody(status) && isWorthwhile(w.Header(), w.compressor.above) {
			w.compress()
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// hasBody holds for responses that may have a body, and all of it.
func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified && status != http.StatusPartialContent
}

// compress compresses a response that is worth it, if its client accepts that and an encoder is free.
func (w *writer) compress() {
	header := w.Header()
	header.Add("Vary", "Accept-Encoding")
	if w.encoding == noCoding || w.isHead {
		return
	}
	if w.encoder = w.compressor.acquire(w.encoding, w.ResponseWriter); w.encoder != nil {
		header.Del("Content-Length")
		header.Set("Content-Encoding", w.encoding.String())
	}
}

// isWorthwhile holds for JSON and text of a size that is known and not small. A response whose size is not known may be one
// that goes on, whose reader waits for each part.
func isWorthwhile(header http.Header, above int) bool {
	size, err := strconv.Atoi(first(header["Content-Length"]))
	return err == nil && size >= above && isText(header)
}

// isText holds for JSON and text that have no encoding and are no stream.
func isText(header http.Header) bool {
	if len(header["Content-Encoding"]) > 0 {
		return false
	}
	kind, _, _ := strings.Cut(first(header["Content-Type"]), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	switch {
	case kind == "text/event-stream":
		return false
	case strings.HasPrefix(kind, "text/"), kind == "application/json", kind == "application/openmetrics-text",
		strings.HasSuffix(kind, "+json") && !strings.HasPrefix(kind, "application/connect") && !strings.HasPrefix(kind, "application/grpc"):
		return true
	}
	return false
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// Write implements [io.Writer].
func (w *writer) Write(p []byte) (int, error) {
	if !w.isDecided {
		w.WriteHeader(http.StatusOK)
	}
	if w.encoder != nil {
		return w.encoder.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// FlushError is what [http.ResponseController] calls.
func (w *writer) FlushError() error {
	if !w.isDecided {
		w.WriteHeader(http.StatusOK)
	}
	if w.encoder != nil {
		if err := w.encoder.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// close ends a response that its handler has written to the end. A caller that has gone away is not an error.
func (w *writer) close() {
	if w.encoder != nil {
		_ = w.encoder.Close()
	}
}

// release gives the encoder back. What a handler left with a panic stays without an end, so that its reader sees that it is
// not whole.
func (w *writer) release() {
	if w.encoder != nil {
		w.compressor.give(w.encoding, w.encoder)
		w.encoder = nil
	}
}

// coding is a content coding of HTTP.
type coding uint8

const (
	// noCoding is no coding.
	noCoding coding = iota
	// gzipCoding is RFC 1952.
	gzipCoding
	// zstdCoding is RFC 8878.
	zstdCoding
)

// String returns the name that headers have.
func (e coding) String() string {
	switch e {
	case gzipCoding:
		return "gzip"
	case zstdCoding:
		return "zstd"
	}
	return "identity"
}

// negotiate returns the coding that a client likes best, by the values of its header Accept-Encoding (RFC 9110, 12.5.3). Of
// equals it is zstd. What cannot be read is not accepted.
func negotiate(values []string) coding {
	if len(values) == 1 && values[0] == "gzip" {
		return gzipCoding // Go's clients
	}
	const unsaid = -1
	ofGzip, ofZstd, ofOthers := float64(unsaid), float64(unsaid), float64(0)
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, parameters, _ := strings.Cut(part, ";")
			weight := weightOf(parameters)
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "gzip", "x-gzip":
				ofGzip = max(ofGzip, weight)
			case "zstd":
				ofZstd = max(ofZstd, weight)
			case "*":
				ofOthers = weight
			}
		}
	}
	if ofGzip == unsaid {
		ofGzip = ofOthers
	}
	if ofZstd == unsaid {
		ofZstd = ofOthers
	}
	switch {
	case ofZstd > 0 && ofZstd >= ofGzip:
		return zstdCoding
	case ofGzip > 0:
		return gzipCoding
	}
	return noCoding
}

// weightOf reads the parameter q; 1 without one.
func weightOf(parameters string) float64 {
	for parameter := range strings.SplitSeq(parameters, ";") {
		name, value, _ := strings.Cut(parameter, "=")
		if !strings.EqualFold(strings.TrimSpace(name), "q") {
			continue
		}
		weight, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil || math.IsNaN(weight) || weight < 0 || weight > 1 {
			return 0
		}
		return weight
	}
	return 1
}

// WrapPages returns a handler that compresses the responses of another as [Compressor.Wrap] does, and also those whose size is
// not known. It holds back their beginning, less than the least size: what ends before that is sent as it is, with its size. A
// response that is flushed before that goes on, and is not compressed.
func (c *Compressor) WrapPages(next http.Handler) http.Handler {
	if c.above <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &page{writer: c.writer(w, r)}
		defer out.release()
		next.ServeHTTP(out, r)
		out.endResponse()
	})
}

// page is a response whose beginning is held back.
type page struct {
	*writer

	held   []byte
	status int // 0: nothing is held back
}

// WriteHeader implements [http.ResponseWriter].
func (p *page) WriteHeader(status int) {
	switch {
	case p.status != 0: // a second one is nothing
	case p.isDecided, status < http.StatusOK, p.isHead, !hasBody(status), p.Header().Get("Content-Length") != "", !isText(p.Header()):
		p.writer.WriteHeader(status)
	default:
		p.status = status
	}
}

// Write implements [io.Writer].
func (p *page) Write(b []byte) (int, error) {
	if p.status == 0 && !p.isDecided {
		p.WriteHeader(http.StatusOK)
	}
	if p.status == 0 {
		return p.writer.Write(b)
	}
	if len(p.held)+len(b) < p.compressor.above {
		p.held = append(p.held, b...)
		return len(b), nil
	}
	p.isDecided = true
	p.compress()
	if err := p.send(); err != nil {
		return 0, err
	}
	return p.writer.Write(b)
}

// send sends what is held back.
func (p *page) send() error {
	status, held := p.status, p.held
	p.isDecided, p.status, p.held = true, 0, nil
	p.ResponseWriter.WriteHeader(status)
	_, err := p.writer.Write(held)
	return err
}

// FlushError is what [http.ResponseController] calls.
func (p *page) FlushError() error {
	if p.status != 0 {
		if err := p.send(); err != nil {
			return err
		}
	}
	return p.writer.FlushError()
}

// Flush implements [http.Flusher], which handlers of RPCs ask for. What cannot flush writes at once.
func (p *page) Flush() { _ = p.FlushError() }

// endResponse ends a response that its handler has written to the end. A caller that has gone away is not an error.
func (p *page) endResponse() {
	if p.status != 0 {
		p.Header().Set("Content-Length", strconv.Itoa(len(p.held)))
		_ = p.send()
	}
	p.close()
}
