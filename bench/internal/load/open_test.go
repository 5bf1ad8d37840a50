// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
)

// stalling answers at once, but takes long for its nth call.
type stalling struct {
	nth   int
	takes time.Duration
	fail  error
}

func (s *stalling) Call(context.Context) error {
	s.nth--
	if s.nth == 0 {
		time.Sleep(s.takes)
		return s.fail
	}
	time.Sleep(time.Millisecond)
	return nil
}

func TestAnOpenLoopKeepsTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var answered atomic.Int64
		sample, err := load.Open(t.Context(), []load.Caller{&stalling{}, &stalling{}}, load.Schedule{
			Rate: 1000, Warmup: 100 * time.Millisecond, Window: time.Second, Answered: &answered,
			Clocks: []load.Clock{{Name: "wall", Read: func() (time.Duration, error) { return time.Since(began), nil }}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if sample.Calls != 1000 || sample.Elapsed != time.Second {
			t.Errorf("%d calls in %v", sample.Calls, sample.Elapsed)
		}
		if got := answered.Load(); got != 1100 {
			t.Errorf("%d answers, want those of the warm-up too", got)
		}
		if got := sample.Percentile(1); got != 1000 {
			t.Errorf("the slowest took %v us, want 1000", got)
		}
		if got := sample.CPU["wall"]; got != 999*time.Millisecond { // from the first call that counts to the last
			t.Errorf("the clock says %v", got)
		}
	})
}

// A server that stalls is charged for every call that was due meanwhile.
func TestWhoWaitsIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sample, err := load.Open(t.Context(), []load.Caller{&stalling{nth: 100, takes: 200 * time.Millisecond}},
			load.Schedule{Rate: 500, Window: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if sample.Calls != 500 {
			t.Fatalf("%d calls", sample.Calls)
		}
		// 99 calls take 1 ms. The 100th, due at 198 ms, ends at 398 ms; the 101st, due at 200 ms, at 399 ms, and so on: each
		// waits 1 ms less than the one before it, until nothing waits any more.
		for p, want := range map[float64]float64{1: 200_000, 0.998: 199_000, 0.996: 198_000, 0.5: 1000} {
			if got := sample.Percentile(p); got != want {
				t.Errorf("percentile %v is %v us, want %v", p, got, want)
			}
		}
	})
}

func TestHowAnOpenLoopFails(t *testing.T) {
	t.Parallel()
	errWrong := errors.New("another caller's answer")
	for _, test := range []struct {
		name   string
		caller stalling
		rate   float64
		stop   time.Duration
		want   error
	}{
		{"a wrong answer", stalling{nth: 10, fail: errWrong}, 100, 0, errWrong},
		{"too fast", stalling{nth: 1, takes: time.Minute}, 5000, 0, load.ErrBehind},
		{"from outside", stalling{}, 100, 100 * time.Millisecond, context.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.stop > 0 {
					time.AfterFunc(test.stop, cancel)
				}
				_, err := load.Open(ctx, []load.Caller{&test.caller}, load.Schedule{Rate: test.rate, Window: 20 * time.Second})
				if !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			})
		})
	}
}
