// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// backend answers as many calls at a time as it has workers; the others wait within it.
type backend struct {
	workers chan struct{}
	each    func() time.Duration
	inside  atomic.Int64
	most    atomic.Int64
}

func (b *backend) call() {
	b.most.Store(max(b.most.Load(), b.inside.Add(1)))
	defer b.inside.Add(-1)
	b.workers <- struct{}{}
	time.Sleep(b.each())
	<-b.workers
}

// TestConcurrencyFollowsTheTool: callers in closed loops, a few first, then many. Throughput is what the backend can do, and
// its own queue stays short where one call makes another wait. Where each call takes its time and none waits for another, all
// run at once.
func TestConcurrencyFollowsTheTool(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	always := func(d time.Duration) func() time.Duration { return func() time.Duration { return d } }
	for name, row := range map[string]struct {
		workers, callers int
		each             func() time.Duration
		inside           int64   // at most, in the end
		rate             float64 // at least, per second
	}{
		"eight workers of 10 ms": {8, 400, always(10 * time.Millisecond), 40, 760},
		"one worker of 1 ms":     {1, 400, always(time.Millisecond), 40, 950},
		"no bound, 100 ms":       {1024, 400, always(100 * time.Millisecond), 400, 3800},
		"no bound, 2 s":          {1024, 400, always(2 * time.Second), 400, 190},
		"no bound, 1 ms or 200 ms": {1024, 400, func() time.Duration {
			if random.IntN(2) == 0 {
				return time.Millisecond
			}
			return 200 * time.Millisecond
		}, 400, 3000},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				b := &backend{workers: make(chan struct{}, row.workers), each: func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return row.each()
				}}
				s := policy.NewSlots(policy.SlotOptions{Wait: time.Minute})
				var ended atomic.Int64
				stop := make(chan struct{})
				var all sync.WaitGroup
				loop := func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						p, err := s.Acquire(t.Context(), "c", "t")
						if err != nil {
							continue
						}
						b.call()
						p.Release(true)
						ended.Add(1)
					}
				}
				for range 4 {
					all.Go(loop)
				}
				time.Sleep(10 * time.Second)
				for range row.callers - 4 {
					all.Go(loop)
				}
				time.Sleep(30*time.Second + 333*time.Millisecond) // between the ends of calls, which come together
				b.most.Store(0)
				before := ended.Load()
				time.Sleep(20 * time.Second)
				if rate := float64(ended.Load()-before) / 20; rate < row.rate {
					t.Errorf("%.0f calls/s, want at least %.0f", rate, row.rate)
				}
				if got := b.most.Load(); got > row.inside {
					t.Errorf("%d calls at once in the backend, want at most %d", got, row.inside)
				}
				close(stop)
				all.Wait()
			})
		})
	}
}
