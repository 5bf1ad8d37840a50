// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// BufferPool lends buffers to ToWireWith and ToJSONWith, so that a caller can reuse memory between calls. Get runs on the
// goroutine of the caller. Its buffer comes back as the result, or is dropped if the call fails.
type BufferPool interface {
	// Get returns a buffer of length zero and a capacity of at least n bytes.
	Get(n int) []byte
}

// extended is dst with pool for n bytes more: of pool's where it has less, and there is one.
func extended(dst []byte, n int, pool BufferPool) []byte {
	if pool == nil || cap(dst)-len(dst) >= n {
		return dst
	}
	return append(pool.Get(len(dst)+n), dst...)
}

// jsonGrowth is how much longer JSON rarely is than its wire bytes.
const jsonGrowth = 4

// scratches are buffers of more than maxKept bytes, for large messages alone. They are not part of a reader or writer: small
// messages would keep them in use, and so in memory, long after the large ones have ceased. A garbage collection takes
// those that no large message has used since the one before.
//
//nolint:gochecknoglobals // a pool is only useful if it is shared
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// turns bounds how many large messages are read or written at a time: as many as there are processors. More of them would only
// take turns on those, half done, each with a buffer. Nothing waits within a turn, so that the wait for one ends.
//
//nolint:gochecknoglobals // the processors are shared
var turns = make(chan struct{}, runtime.GOMAXPROCS(0))

// turn waits until the general engine may work on a message of n bytes, and returns what ends that. It holds many times the
// memory of the message, which is why even the large ones that are wrong take turns.
// The error is that of the context, which may end first.
func turn(ctx context.Context, n int) (end func(), err error) {
	if n <= maxKept {
		return func() {}, nil
	}
	end = func() { <-turns }
	select {
	case turns <- struct{}{}:
		return end, nil
	default:
	}
	if at, ok := ctx.Deadline(); ok { // a context may have one without a timer
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	select {
	case turns <- struct{}{}:
		return end, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("transcode: wait for a turn: %w", ctx.Err())
	}
}

// acquireBuffer returns an empty buffer, with room for n bytes, that releaseBuffer takes back. It waits for its turn.
func acquireBuffer(n int) *[]byte {
	turns <- struct{}{}
	b := scratches.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, 0, n)
	}
	*b = (*b)[:0]
	return b
}

// releaseBuffer takes a buffer back, and ends the turn. Callers defer it: a panic must not keep the turn.
func releaseBuffer(b *[]byte) {
	scratches.Put(b)
	<-turns
}
