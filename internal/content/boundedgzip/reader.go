// SPDX-License-Identifier: Apache-2.0

// Package boundedgzip is a gzip decompressor with a size limit. The RPC library
// drops output beyond its own read limit, but continues to decompress in order
// to report the full size. A small message that decompresses to gigabytes would
// cost minutes of CPU. Both sides of the sidecar use the package: for callers
// and for the backend. A Reader is not safe for concurrent use.
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
