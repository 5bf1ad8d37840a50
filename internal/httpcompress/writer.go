// SPDX-License-Identifier: Apache-2.0

package httpcompress

import (
	"net/http"
	"strconv"
	"strings"
)

// writer decides with the header whether the response is compressed.
type writer struct {
	http.ResponseWriter

	compressor *Compressor
	encoder    encoder // nil: the response passes through
	encoding   Encoding
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
	if w.encoding == Identity || w.isHead {
		return
	}
	if w.encoder = w.compressor.take(w.encoding, w.ResponseWriter); w.encoder != nil {
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
