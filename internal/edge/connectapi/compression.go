// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/internal/content/boundedgzip"
	"github.com/outrigger-mcp/outrigger/internal/content/boundedzstd"
)

// The compressions that callers may use.
const (
	gzipName = "gzip"
	zstdName = "zstd"
)

// compressFrom is from which size on a message is compressed, for callers that accept it.
// A gzip compressor has 800 KB of state, one of zstd 350 KB, which cost more than a small message.
const compressFrom = 1 << 10

// bounds limits what a handler reads, before and after decompression, and what it
// compresses.
func bounds(limit int) connect.HandlerOption {
	return connect.WithHandlerOptions(
		connect.WithReadMaxBytes(limit),
		connect.WithCompressMinBytes(compressFrom),
		connect.WithCompression(gzipName,
			func() connect.Decompressor { return boundedgzip.New(limit) },
			func() connect.Compressor { return gzip.NewWriter(io.Discard) }),
		connect.WithCompression(zstdName,
			func() connect.Decompressor { return newZstdReader(limit) },
			newZstdWriter),
	)
}

// newZstdWriter returns nil, which the library reports, where there is no encoder.
func newZstdWriter() connect.Compressor {
	encoder, err := boundedzstd.NewEncoder(io.Discard)
	if err != nil {
		return nil
	}
	return encoder
}

// zstdReader decodes a message as a whole with its first Read, so that an error is not taken for one of the stream, and so that
// the library sees in a message that is too large what it sees in others.
type zstdReader struct {
	decoder *boundedzstd.Decoder
	err     error // why there is no decoder
	from    io.Reader
	content bytes.Reader
}

func newZstdReader(limit int) *zstdReader {
	decoder, err := boundedzstd.NewDecoder(limit)
	return &zstdReader{decoder: decoder, err: err}
}

// Reset implements [connect.Decompressor].
func (r *zstdReader) Reset(from io.Reader) error {
	r.from = from
	r.content.Reset(nil)
	return r.err
}

// Read implements [io.Reader].
func (r *zstdReader) Read(p []byte) (int, error) {
	if r.from != nil {
		if err := r.decode(); err != nil {
			return 0, err
		}
	}
	return r.content.Read(p)
}

func (r *zstdReader) decode() error {
	from := r.from
	r.from = nil
	message, err := all(from)
	if err != nil {
		return err
	}
	content, err := r.decoder.Decode(message)
	if errors.Is(err, boundedzstd.ErrOverLimit) {
		return connect.NewError(connect.CodeResourceExhausted, err)
	}
	r.content.Reset(content)
	return err
}

// all reads a message. The library has it in a buffer, whose size it has bounded.
func all(from io.Reader) ([]byte, error) {
	if buffer, ok := from.(*bytes.Buffer); ok {
		return buffer.Bytes(), nil
	}
	return io.ReadAll(from)
}

// Close implements [connect.Decompressor]. The library calls it before it keeps the reader for another message.
func (r *zstdReader) Close() error {
	return r.Reset(nil)
}
