// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bench/internal/load"
)

// working is a caller whose calls cost a server as much CPU as they take.
type working struct {
	takes time.Duration
	spent *time.Duration // callers of one test take turns in a bubble only at their sleeps
}

func (w *working) Call(context.Context) error {
	half := w.takes / 2
	time.Sleep(half)
	*w.spent += half
	time.Sleep(w.takes - half)
	*w.spent += w.takes - half
	return nil
}

// The CPU of a call is exact, whether calls are short beside the window or longer than it.
func TestWholeCallsCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		takes   time.Duration
		atLeast int
		longest time.Duration
		calls   int
		elapsed time.Duration
	}{
		{takes: 10 * time.Millisecond, calls: 100, elapsed: time.Second},
		{takes: 700 * time.Millisecond, calls: 2, elapsed: 1400 * time.Millisecond},
		{takes: 7 * time.Second, calls: 1, elapsed: 7 * time.Second},
		{takes: 700 * time.Millisecond, atLeast: 4, longest: 10 * time.Second, calls: 4, elapsed: 2800 * time.Millisecond},
		{takes: 700 * time.Millisecond, atLeast: 400, longest: 2 * time.Second, calls: 3, elapsed: 2100 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			var spent time.Duration
			sample, err := load.Whole(t.Context(), []load.Caller{&working{takes: test.takes, spent: &spent}}, load.Options{
				Warmup: 100 * time.Millisecond, Window: time.Second, AtLeast: test.atLeast, Longest: test.longest,
				Clocks: []load.Clock{{Name: "server", Read: func() (time.Duration, error) { return spent, nil }}},
			})
			if err != nil {
				t.Fatal(err)
			}
			if sample.Calls != test.calls || sample.Elapsed != test.elapsed {
				t.Errorf("%+v: %d calls in %v", test, sample.Calls, sample.Elapsed)
			}
			if got, want := sample.CPUPerCall("server"), float64(test.takes.Microseconds()); got != want {
				t.Errorf("%+v: %v us of CPU for a call, want %v", test, got, want)
			}
		})
	}
}

func TestHowWholeCallsFail(t *testing.T) {
	t.Parallel()
	errCrossed := errors.New("another caller's answer")
	for _, test := range []struct {
		name    string
		callers []load.Caller
		want    error
	}{
		{"at once", []load.Caller{&caller{takes: time.Millisecond}, &caller{fail: errCrossed}}, errCrossed},
		{"later", []load.Caller{&caller{takes: time.Millisecond}, &caller{takes: time.Millisecond, fail: errCrossed, left: 500}}, errCrossed},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if _, err := load.Whole(t.Context(), test.callers, load.Options{Warmup: 100 * time.Millisecond, Window: time.Second}); !errors.Is(err, test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
			})
		})
	}
	t.Run("a call that never ends", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			if _, err := load.Whole(t.Context(), []load.Caller{&caller{takes: 24 * time.Hour}}, load.Options{Window: time.Second}); err == nil {
				t.Error("it ended")
			}
		})
	})
}
