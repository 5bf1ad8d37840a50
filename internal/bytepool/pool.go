// SPDX-License-Identifier: Apache-2.0

// Package bytepool lends large buffers. Small ones are cheaper to make than to
// keep. What is not in use is given up at the second garbage collection, so that
// a pool holds no more than what was in use at the same time a moment ago, and
// nothing when it is quiet. A Pool is safe for concurrent use; its zero value is
// ready.
package bytepool

import (
	"math/bits"
	"sync"
)

const (
	// smallest and largest are the sizes between which buffers are lent, in powers
	// of two: below it an allocation costs less than a microsecond, above it one
	// buffer would be worth thousands of calls.
	smallest = 12
	largest  = 21
)

// Pool holds buffers by their size.
type Pool struct {
	classes [largest - smallest + 1]sync.Pool // of *[]byte
}

// Get returns an empty buffer with room for at least n bytes. It need not be
// returned, and may be of no pool at all.
func (p *Pool) Get(n int) []byte {
	class := bits.Len(uint(max(n-1, 0))) // the power of two that n fits into
	if p == nil || class < smallest || class > largest {
		return make([]byte, 0, n)
	}
	if b, ok := p.classes[class-smallest].Get().(*[]byte); ok {
		return (*b)[:0]
	}
	return make([]byte, 0, 1<<class)
}

// Put takes back a buffer that nobody will look at any more, whoever made it and
// however much it has grown. One that is no use is left to the garbage collector.
func (p *Pool) Put(b []byte) {
	class := bits.Len(uint(cap(b))) - 1 // the power of two that it has room for
	if p == nil || class < smallest || class > largest {
		return
	}
	b = b[:0]
	p.classes[class-smallest].Put(&b)
}
