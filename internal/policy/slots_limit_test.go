// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"google.golang.org/protobuf/types/known/durationpb"
)

// fakeBackend answers as many calls at a time as it has workers; the others wait within it.
type fakeBackend struct {
	workers chan struct{}
	each    func() time.Duration
	inside  atomic.Int64
	most    atomic.Int64
}

func (b *fakeBackend) call() {
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
				b := &fakeBackend{workers: make(chan struct{}, row.workers), each: func() time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return row.each()
				}}
				s := policy.NewSlots(&configv1.Limits{MaxQueueWait: durationpb.New(time.Minute)}, policy.SlotOptions{})
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
				if got := b.most.Load(); got > max(row.inside, 12*int64(runtime.GOMAXPROCS(0))) { // the least limit is by CPUs
					t.Errorf("%d calls at once in the backend, want at most %d", got, row.inside)
				}
				close(stop)
				all.Wait()
			})
		})
	}
}

// machine is a backend whose calls share its CPUs in turns, after a time in which they wait for something else.
type machine struct {
	since time.Time
	// early are its CPUs until the change, late those after it.
	early, late chan struct{}
	// each is what a call needs: time off the CPU and time on it, by when it comes.
	each func(age time.Duration) (off, on time.Duration)
}

// turn is how long a call has a CPU until others have it.
const turn = 5 * time.Millisecond

// changed is when the backend of a row changes, counted from its start.
const changed = 30 * time.Second

// settling is how long after that the limit may take.
const settling = 10 * time.Second

func (m *machine) call() {
	age := time.Since(m.since)
	off, on := m.each(age)
	cpus := m.early
	if age >= changed {
		cpus = m.late
	}
	time.Sleep(off)
	for ; on > 0; on -= turn {
		cpus <- struct{}{}
		time.Sleep(min(turn, on))
		<-cpus
	}
}

// TestConcurrencyIsTriedUpwards: what was the least latency may never come back. After a quiet time, many callers call in
// closed loops, and the backend changes. Ten seconds later, throughput
// is at least nine tenths of what it can be, and no second is much worse.
func TestConcurrencyIsTriedUpwards(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	before := func(age, a, b time.Duration) time.Duration {
		if age < changed {
			return a
		}
		return b
	}
	var (
		mu     sync.Mutex
		random *rand.Rand
	)
	drawn := func(draw func() time.Duration) time.Duration { // calls run side by side
		mu.Lock()
		defer mu.Unlock()
		return draw()
	}
	for name, row := range map[string]struct {
		early, late int
		each        func(age time.Duration) (off, on time.Duration)
		best        float64 // per second, in the end
	}{
		"eight workers of 10 ms":     {8, 8, func(time.Duration) (off, on time.Duration) { return 0, 10 * ms }, 800},
		"two CPUs, 10 ms of each 15": {2, 2, func(time.Duration) (off, on time.Duration) { return 10 * ms, 5 * ms }, 400},
		"twice as slow for good": {64, 64, func(age time.Duration) (off, on time.Duration) {
			return before(age, 20*ms, 50*ms), ms
		}, 400 / 0.051},
		"ten times as slow for good": {1024, 1024, func(age time.Duration) (off, on time.Duration) {
			return before(age, 10*ms, 100*ms), ms
		}, 400 / 0.101},
		"four workers, then 200 that are five times as slow": {4, 200, func(age time.Duration) (off, on time.Duration) {
			return 0, before(age, 10*ms, 50*ms)
		}, 4000},
		"a queue at two CPUs, then at a backend that gets slower": {2, 64, func(age time.Duration) (off, on time.Duration) {
			return before(age, 10*ms, 200*ms), before(age, 2*ms, 5*ms)
		}, 400 / 0.205},
		"others take three of four turns": {8, 2, func(time.Duration) (off, on time.Duration) { return 2 * ms, 2 * ms }, 1000},
		"noise": {16, 16, func(time.Duration) (off, on time.Duration) {
			return 0, drawn(func() time.Duration {
				return max(time.Duration(random.ExpFloat64()*float64(20*ms)), 100*time.Microsecond)
			})
		}, 800},
		"1 ms or 200 ms": {1024, 1024, func(time.Duration) (off, on time.Duration) {
			return drawn(func() time.Duration { return []time.Duration{0, 200 * ms}[random.IntN(2)] }), ms
		}, 3900},
	} {
		t.Run(name, func(t *testing.T) {
			if isRace && row.best > 900 {
				t.Skip("takes minutes with the race detector; make test runs it without")
			}
			random = rand.New(rand.NewPCG(1, 2))
			synctest.Test(t, func(t *testing.T) {
				m := &machine{since: time.Now(), early: make(chan struct{}, row.early), late: make(chan struct{}, row.late), each: row.each}
				perSecond := saturate(t, 400, changed+60*time.Second, m.call)
				last := perSecond[int((changed+settling)/time.Second):]
				var sum, least float64
				for i, n := range last {
					sum += n
					if i == 0 || n < least {
						least = n
					}
				}
				t.Logf("%.0f calls/s of %.0f, at least %.0f", sum/float64(len(last)), row.best, least)
				if sum/float64(len(last)) < 0.9*row.best || least < 0.75*row.best {
					t.Errorf("%.0f calls/s of %.0f, and %.0f in one second: %.0f", sum/float64(len(last)), row.best, least, perSecond)
				}
			})
		})
	}
}

// saturate lets callers call in closed loops for a time, four at first and all after ten seconds, and returns how many calls
// ended in each second.
func saturate(t *testing.T, callers int, length time.Duration, call func()) []float64 {
	t.Helper()
	s := policy.NewSlots(&configv1.Limits{MaxQueueWait: durationpb.New(time.Minute)}, policy.SlotOptions{})
	var mu sync.Mutex
	start, perSecond := time.Now(), make([]float64, int(length/time.Second)+1)
	var all sync.WaitGroup
	loop := func() {
		for time.Since(start) < length {
			p, err := s.Acquire(t.Context(), "c", "t")
			if err != nil {
				t.Error(err)
				return
			}
			call()
			p.Release(true)
			mu.Lock()
			perSecond[min(int(time.Since(start)/time.Second), len(perSecond)-1)]++
			mu.Unlock()
		}
	}
	for range 4 {
		all.Go(loop)
	}
	time.Sleep(10 * time.Second)
	for range callers - 4 {
		all.Go(loop)
	}
	all.Wait()
	return perSecond[:len(perSecond)-1]
}
