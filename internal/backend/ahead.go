// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"io"
	"sync"
)

// readAhead is how much of a stream's response is read at a time.
const readAhead = 64 << 10

// aheads has memory for what was read ahead.
var aheads = sync.Pool{New: func() any { return new([readAhead]byte) }} //nolint:gochecknoglobals // a pool

// aheadBody reads what has come of a stream's response at once, so that the transport's
// locks and WINDOW_UPDATE frames are those of many messages. It holds memory only within
// a message, or while it has something: a short read, as of a message's prefix, waits
// with the caller's memory. One goroutine may read; Close leaves the memory to it.
type aheadBody struct {
	io.ReadCloser

	memory *[readAhead]byte
	ready  []byte // part of memory
	err    error  // what came with it
}

// Read implements io.Reader.
func (b *aheadBody) Read(p []byte) (int, error) {
	if len(b.ready) == 0 {
		if err := b.err; err != nil {
			b.err = nil
			return 0, err
		}
		if len(p) < leastAhead || len(p) >= readAhead {
			return b.ReadCloser.Read(p)
		}
		b.memory = aheads.Get().(*[readAhead]byte) //nolint:forcetypeassert // of one type
		n, err := b.ReadCloser.Read(b.memory[:])
		b.ready, b.err = b.memory[:n], err
	}
	n := copy(p, b.ready)
	if b.ready = b.ready[n:]; len(b.ready) == 0 {
		aheads.Put(b.memory)
		b.memory, b.ready = nil, nil
	}
	if n == 0 && len(p) > 0 {
		err := b.err
		b.err = nil
		return 0, err
	}
	return n, nil
}

// leastAhead is below what the library reads of a message at a time, and above the
// prefix of one.
const leastAhead = 16
