// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"
)

// errOverLimit ends a read that exceeds a size limit.
var errOverLimit = errors.New("answer exceeds its size limit")

// withGzip replaces the RPC library's gzip. The library stops keeping output at
// its read limit, but goes on inflating to tell the full size; a small body that
// inflates to gigabytes would cost minutes of CPU. This one stops.
func withGzip(limit int) connect.ClientOption {
	return connect.WithAcceptCompression("gzip",
		func() connect.Decompressor { return &boundedGzip{limit: int64(limit)} },
		func() connect.Compressor { return gzip.NewWriter(io.Discard) },
	)
}

// boundedGzip fails once limit+1 bytes have been read and more are asked for:
// the one byte more lets the library see that the limit was passed.
type boundedGzip struct {
	gzip.Reader
	limit int64
	read  int64
}

func (g *boundedGzip) Read(p []byte) (int, error) {
	if g.read > g.limit {
		return 0, errOverLimit
	}
	if room := g.limit + 1 - g.read; int64(len(p)) > room {
		p = p[:room]
	}
	n, err := g.Reader.Read(p)
	g.read += int64(n)
	return n, err
}

func (g *boundedGzip) Reset(r io.Reader) error {
	g.read = 0
	return g.Reader.Reset(r)
}
