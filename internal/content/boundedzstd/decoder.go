// SPDX-License-Identifier: Apache-2.0

// Package boundedzstd is zstd (RFC 8878) within bounds: a decoder that stops at a size limit, and encoders with a small window.
//
// A frame of a few bytes can announce a window or a content of gigabytes. A [Decoder] takes memory for output that exists,
// and for a content size only if that is within the limit. Windows cost it nothing, because the output is the window.
//
// A Decoder and an encoder are for one goroutine at a time. Neither starts goroutines, so both may be left to the garbage
// collector.
package boundedzstd

import (
	"errors"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
)

// ErrOverLimit means that a message has more bytes than its limit.
var ErrOverLimit = errors.New("message exceeds its size limit")

// leastMemory is the smallest bound that the library gets. It refuses windows above its bound, and every decoder has to support
// windows of 8 MiB (RFC 9659), also for messages that are much smaller.
const leastMemory = 8 << 20

// Decoder decodes whole messages. Make one with NewDecoder.
type Decoder struct {
	library *zstd.Decoder
	limit   int
}

// NewDecoder returns a Decoder for messages of at most limit bytes after decoding. It decodes up to limit bytes or 8 MiB,
// whichever is more, before it sees that a message is too large, and twice that if the message has several frames.
func NewDecoder(limit int) (*Decoder, error) {
	library, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(max(limit, leastMemory))), zstd.WithDecoderMaxWindow(math.MaxUint32))
	if err != nil {
		return nil, err
	}
	return &Decoder{library: library, limit: limit}, nil
}

// Decode returns the content of all frames of a message. The error is [ErrOverLimit] if that is more than the limit. A window
// above the limit and above 8 MiB is another error. Input without a frame is a message without content.
func (d *Decoder) Decode(message []byte) ([]byte, error) {
	content, err := d.library.DecodeAll(message, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), err == nil && len(content) > d.limit:
		return nil, ErrOverLimit
	case err != nil:
		return nil, err
	}
	return content, nil
}

// windowBytes is how far an encoder looks back. It bounds the memory of both sides; browsers refuse windows above 8 MiB.
const windowBytes = 512 << 10

// NewEncoder returns an encoder that writes to w, at the fastest level: most of what can be saved of JSON and Protobuf is saved
// by it. It takes about 1 MiB. Reset lets it be used again.
func NewEncoder(w io.Writer) (*zstd.Encoder, error) {
	// One at a time needs no goroutine.
	return zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true))
}
