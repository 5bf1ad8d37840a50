// SPDX-License-Identifier: Apache-2.0

// Package boundedgzip is a gzip decompressor that stops at a limit. The RPC
// library stops keeping output at its own read limit, but goes on inflating to
// tell the full size; a small message that inflates to gigabytes would cost
// minutes of CPU. Both sides of the sidecar use it: towards callers and towards
// the backend. A Reader is for one goroutine at a time.
package boundedgzip

import (
	"compress/gzip"
	"errors"
	"io"
)

// ErrOverLimit ends a read that goes on beyond the limit.
var ErrOverLimit = errors.New("message exceeds its size limit")

// Reader inflates at most one byte more than its limit, which lets the library
// see that the limit was passed, and then fails with [ErrOverLimit]. Make one
// with [New] and give it its input with Reset.
type Reader struct {
	gzip.Reader
	limit int64
	read  int64
}

// New returns a Reader for messages of at most limit bytes.
func New(limit int) *Reader { return &Reader{limit: int64(limit)} }

// Read implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	if r.read > r.limit {
		return 0, ErrOverLimit
	}
	if room := r.limit + 1 - r.read; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := r.Reader.Read(p)
	r.read += int64(n)
	return n, err
}

// Reset starts over with another input.
func (r *Reader) Reset(in io.Reader) error {
	r.read = 0
	return r.Reader.Reset(in)
}
