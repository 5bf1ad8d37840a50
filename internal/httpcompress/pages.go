// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"net/http"
	"strconv"
)

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
		out.end()
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

// end ends a response that its handler has written to the end. A caller that has gone away is not an error.
func (p *page) end() {
	if p.status != 0 {
		p.Header().Set("Content-Length", strconv.Itoa(len(p.held)))
		_ = p.send()
	}
	p.close()
}
