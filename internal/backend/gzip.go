// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/boundedgzip"
)

// errOverLimit ends a read that exceeds a size limit.
var errOverLimit = errors.New("response exceeds its size limit")

// withGzip replaces the RPC library's gzip by one that stops at the limit.
func withGzip(limit int) connect.ClientOption {
	return connect.WithAcceptCompression("gzip",
		func() connect.Decompressor { return boundedgzip.New(limit) },
		func() connect.Compressor { return gzip.NewWriter(io.Discard) },
	)
}
