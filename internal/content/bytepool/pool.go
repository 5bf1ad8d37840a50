// SPDX-License-Identifier: Apache-2.0

// Package bytepool is a pool of large buffers. Small buffers are cheaper to
// allocate than to keep. Unused buffers are released at the second garbage
// collection, so a pool holds no more than what was recently in use at the same
// time, and nothing when idle. A Pool is safe for concurrent use; its zero value
// is ready.
package bytepool

import (
	"math/bits"
	"sync"
)

const (
	// smallest and largest are the sizes between which buffers are lent, in powers
	// of two: below it an allocation costs less than a microsecond. Above it are
	// only messages far beyond the default limits. A large buffer that is made anew
	// costs more than what is written to it: its pages have to be cleared, and the
	// garbage brings collections forward.
	smallest = 12
	largest  = 25
	// steps are the sizes from one power of two to the next, so that a quarter of a
	// buffer at most is there for nothing.
	steps = 4
)

// Pool holds buffers by size.
type Pool struct {
	classes [(largest-smallest)*steps + 1]sync.Pool // of *[]byte
}

// below is the greatest size of a class that is not greater than n, and its class.
func below(n int) (size, class int) {
	power := bits.Len(uint(n)) - 1
	step := 1 << power / steps
	at := (n - 1<<power) / step
	return 1<<power + at*step, (power-smallest)*steps + at
}

// Get returns an empty buffer with room for at least n bytes. The caller need not
// return it. It may have been allocated outside the pool.
func (p *Pool) Get(n int) []byte {
	if p == nil || n <= 1<<smallest || n > 1<<largest {
		return make([]byte, 0, n)
	}
	size, class := below(n)
	if size < n {
		class++
		size += 1 << (bits.Len(uint(n)) - 1) / steps
	}
	if b, ok := p.classes[class].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, size)
}

// Put takes back a buffer that is no longer in use, wherever it was allocated and
// however much it has grown. A buffer that the pool cannot use is left to the garbage
// collector.
func (p *Pool) Put(b []byte) {
	if p == nil || cap(b) < 1<<smallest || cap(b) > 1<<largest {
		return
	}
	_, class := below(cap(b))
	kept := b[:0] // not b itself: it would be moved to the heap for those that are no use, too
	p.classes[class].Put(&kept)
}
