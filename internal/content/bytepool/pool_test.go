// SPDX-License-Identifier: Apache-2.0

package bytepool

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

func TestRoom(t *testing.T) {
	t.Parallel()
	var p Pool
	for _, n := range []int{0, 1, 4095, 4096, 4097, 1 << 16, 1<<16 + 1, 1 << 21, 1<<21 + 1, 5 << 20} {
		for range 3 {
			b := p.Get(n)
			if len(b) != 0 || cap(b) < n {
				t.Errorf("%d: got %d of %d", n, len(b), cap(b))
			}
			if cap(b)*2 > 3*max(n, 1<<smallest) {
				t.Errorf("%d: a buffer of %d", n, cap(b))
			}
			p.Put(b)
			p.Put(append(b, make([]byte, 3*n)...)) // grown, of some odd capacity
		}
	}
	var none *Pool
	if b := none.Get(5000); cap(b) < 5000 {
		t.Errorf("no pool gave %d", cap(b))
	}
	none.Put(make([]byte, 5000))
	p.Put(nil)
}

// No buffer has two owners.
func TestBuffersAreNotShared(t *testing.T) {
	t.Parallel()
	var p Pool
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			want := []byte(fmt.Sprintf("%08d", i))
			for range 300 {
				b := p.Get(4000 + rand.IntN(100_000))
				for len(b)+len(want) <= cap(b) {
					b = append(b, want...)
				}
				runtime.Gosched()
				if n := bytes.Count(b, want); n != len(b)/len(want) {
					t.Errorf("%d of %d are mine", n, len(b)/len(want))
				}
				p.Put(b)
			}
		})
	}
	wg.Wait()
}
