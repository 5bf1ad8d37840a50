// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// caller takes a fixed time for each call.
type caller struct {
	takes time.Duration
	fail  error // after the calls that are left
	left  int
}

func (c *caller) Call(ctx context.Context) error {
	c.left--
	if c.fail != nil && c.left < 0 {
		return c.fail
	}
	select {
	case <-time.After(c.takes):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestOnlyTheWindowCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		sample, err := load.Run(t.Context(), []load.Caller{
			&caller{takes: 7 * time.Millisecond}, &caller{takes: 7 * time.Millisecond}, &caller{takes: 21 * time.Millisecond},
		}, load.Options{
			Warmup: 100 * time.Millisecond, Window: time.Second,
			Clocks: []load.Clock{{Name: "wall", Read: func() (time.Duration, error) { return time.Since(start), nil }}},
		})
		if err != nil {
			t.Fatal(err)
		}
		// The slowest first answer comes after 21 ms, so that the window goes from 121 ms to 1121 ms. In it lie the
		// multiples of 7 from 126 to 1120, twice, and the multiples of 21 from 126 to 1113.
		if want := 2*143 + 48; sample.Calls != want {
			t.Errorf("%d calls, want %d", sample.Calls, want)
		}
		if sample.Elapsed != time.Second || sample.CPU["wall"] != time.Second {
			t.Errorf("elapsed %v, clock %v", sample.Elapsed, sample.CPU["wall"])
		}
		if p50, p99 := sample.Percentile(0.5), sample.Percentile(0.99); p50 != 7000 || p99 != 21000 {
			t.Errorf("p50 %v, p99 %v", p50, p99)
		}
	})
}

// A window grows until there are calls enough, and no further than it may.
func TestAWindowGrows(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		atLeast int
		longest time.Duration
		want    time.Duration
	}{
		{0, 0, time.Second}, {5, 0, time.Second}, {5, 10 * time.Second, time.Second}, {49, 10 * time.Second, 4950 * time.Millisecond}, {5000, 3 * time.Second, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			sample, err := load.Run(t.Context(), []load.Caller{&caller{takes: 101 * time.Millisecond}},
				load.Options{Window: time.Second, Longest: test.longest, AtLeast: test.atLeast})
			if err != nil {
				t.Fatal(err)
			}
			if sample.Elapsed != test.want {
				t.Errorf("at least %d, %v at most: elapsed %v, want %v", test.atLeast, test.longest, sample.Elapsed, test.want)
			}
		})
	}
}

func TestNearestRank(t *testing.T) {
	t.Parallel()
	s := load.Sample{}
	for i := range 10 {
		s.Latencies = append(s.Latencies, time.Duration(i+1)*time.Microsecond)
	}
	for p, want := range map[float64]float64{0: 1, 0.1: 1, 0.11: 2, 0.5: 5, 0.51: 6, 0.99: 10, 1: 10} {
		if got := s.Percentile(p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
}

func TestHowARunFails(t *testing.T) {
	t.Parallel()
	errCrossed := errors.New("another caller's answer")
	stopped := errors.New("stopped from outside")
	for _, test := range []struct {
		name    string
		callers []load.Caller
		stop    time.Duration
		want    error
		within  time.Duration
	}{
		{"one caller's first call", []load.Caller{&caller{takes: time.Millisecond}, &caller{fail: errCrossed}}, 0, errCrossed, 10 * time.Millisecond},
		{"one caller's later call", []load.Caller{&caller{takes: time.Millisecond}, &caller{takes: time.Millisecond, fail: errCrossed, left: 500}}, 0, errCrossed, time.Second},
		{"nothing within the window", []load.Caller{&caller{takes: 10 * time.Second}}, 0, load.ErrNoCalls, time.Minute},
		{"from outside", []load.Caller{&caller{takes: time.Millisecond}}, 300 * time.Millisecond, stopped, 310 * time.Millisecond},
		{"a call that never ends", []load.Caller{&caller{takes: 24 * time.Hour}}, 0, context.Canceled, time.Minute},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if test.stop > 0 {
					time.AfterFunc(test.stop, func() { cancel(stopped) })
				}
				start := time.Now()
				_, err := load.Run(ctx, test.callers, load.Options{Warmup: 100 * time.Millisecond, Window: time.Second})
				if errors.Is(test.want, context.Canceled) { // the watchdog's own words
					if err == nil {
						t.Error("no error")
					}
				} else if !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if took := time.Since(start); took > test.within {
					t.Errorf("took %v", took)
				}
			})
		})
	}
}
