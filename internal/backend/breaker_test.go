// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
)

// call makes one call that ends with a code, "" for an answer, and returns the
// code that its caller got and whether it was sent at all.
func call(g *backend.Guard, c backend.GuardedCall, code errmap.Code) (got errmap.Code, wait time.Duration, sent bool) {
	_, err := backend.DoGuarded(context.Background(), g, c, func(context.Context) (int, *errmap.Error) {
		sent = true
		if code == "" {
			return 0, nil
		}
		return 0, errmap.New(code)
	})
	if err != nil {
		got, wait = err.Code, err.RetryAfter
	}
	return got, wait, sent
}

// once is a Guard that repeats nothing.
func once(t testing.TB, c *configv1.Resilience, o backend.GuardOptions) *backend.Guard {
	t.Helper()
	c = configtest.Filled(t, c)
	c.Retry.MaxAttempts = new(int32(1))
	return backend.NewGuard(c, o)
}

func TestTheBreakerOpensProbesAndCloses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var changes []string
		g := once(t, &configv1.Resilience{
			Breaker: &configv1.Breaker{MinCalls: new(int32(4)), OpenFor: durationpb.New(2 * time.Second), Probes: new(int32(2))},
		}, backend.GuardOptions{OnState: func(from, to backend.BreakerState) {
			changes = append(changes, fmt.Sprintf("%v to %v", from, to))
		}})
		plain := backend.GuardedCall{}
		for range 4 {
			if got, _, sent := call(g, plain, errmap.Unavailable); got != errmap.Unavailable || !sent {
				t.Fatalf("a call of a closed breaker: %s, sent %v", got, sent)
			}
		}
		got, wait, sent := call(g, plain, "")
		if got != errmap.Unavailable || sent || wait != 2*time.Second {
			t.Errorf("an open breaker: %s after %v, sent %v", got, wait, sent)
		}
		time.Sleep(1500 * time.Millisecond)
		if _, wait, sent := call(g, plain, ""); sent || wait != 500*time.Millisecond {
			t.Errorf("later: wait %v, sent %v", wait, sent)
		}
		time.Sleep(500 * time.Millisecond)
		// The first probe fails: it is open again.
		if _, _, sent := call(g, plain, errmap.TransportError); !sent {
			t.Error("the probe is not sent")
		}
		if _, _, sent := call(g, plain, ""); sent {
			t.Error("a failed probe closes the breaker")
		}
		time.Sleep(2 * time.Second)
		for range 2 {
			if got, _, sent := call(g, plain, ""); got != "" || !sent {
				t.Errorf("a probe: %s, sent %v", got, sent)
			}
		}
		want := []string{"closed to open", "open to half_open", "half_open to open", "open to half_open", "half_open to closed"}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if s := g.Stats(); s.Opened != 2 || s.Held != 3 || s.Breaker != backend.BreakerClosed {
			t.Errorf("%+v", s)
		}
	})
}

// TestWhatTripsTheBreaker sends a hundred calls that end in one way.
func TestWhatTripsTheBreaker(t *testing.T) {
	t.Parallel()
	for code, trips := range map[errmap.Code]bool{
		"":                         false,
		errmap.Unavailable:         true,
		errmap.TransportError:      true,
		errmap.Timeout:             false, // of one tool alone
		errmap.Cancelled:           false,
		errmap.ToolExecutionFailed: false,
		errmap.SerializationError:  false,
		errmap.ResourceExhausted:   false,
		errmap.InvalidToolOutput:   false,
		errmap.PayloadTooLarge:     false,
		errmap.InternalError:       false,
	} {
		synctest.Test(t, func(t *testing.T) {
			g := once(t, nil, backend.GuardOptions{})
			for range 100 {
				call(g, backend.GuardedCall{}, code)
			}
			if got := g.Stats().Breaker == backend.BreakerOpen; got != trips {
				t.Errorf("%q: open %v, want %v", code, got, trips)
			}
			off := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{Mode: new("off")}}, backend.GuardOptions{})
			for range 100 {
				if _, _, sent := call(off, backend.GuardedCall{}, code); !sent {
					t.Fatalf("%q: held where there is no breaker", code)
				}
			}
		})
	}
	// A caller with too short a deadline affects only itself.
	g := once(t, nil, backend.GuardOptions{})
	for range 100 {
		call(g, backend.GuardedCall{Hurried: true}, errmap.Timeout)
	}
	if g.Stats().Breaker != backend.BreakerClosed {
		t.Error("callers in a hurry opened the breaker")
	}
}

func TestTheBreakerCountsAShareOverAWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		half := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{FailurePercent: new(int32(50)), MinCalls: new(int32(20))}}, backend.GuardOptions{})
		for i := range 200 {
			code := errmap.Code("")
			if i%5 < 2 {
				code = errmap.Unavailable
			}
			call(half, backend.GuardedCall{}, code)
		}
		if half.Stats().Breaker != backend.BreakerClosed {
			t.Error("40 % opened it")
		}
		// What succeeded before the first failure does not hide what fails now.
		busy := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{FailurePercent: new(int32(50)), MinCalls: new(int32(20))}}, backend.GuardOptions{})
		for range 1000 {
			call(busy, backend.GuardedCall{}, "")
		}
		for range 20 {
			call(busy, backend.GuardedCall{}, errmap.Unavailable)
		}
		if busy.Stats().Breaker != backend.BreakerOpen {
			t.Error("calls from before the failures kept it closed")
		}
		slow := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(20)), Window: durationpb.New(10 * time.Second)}}, backend.GuardOptions{})
		for range 100 { // one failure a second: ten within the window
			call(slow, backend.GuardedCall{}, errmap.Unavailable)
			time.Sleep(time.Second)
		}
		if slow.Stats().Breaker != backend.BreakerClosed {
			t.Error("fewer calls than have to be there opened it")
		}
	})
}

// TestASuccessNeverOpensTheBreaker has a backend that is back before there were
// enough calls: the calls that it answers must not be what completes the number.
// Found by the fault test: kill -9, restart, and calls held back after that.
func TestASuccessNeverOpensTheBreaker(t *testing.T) {
	t.Parallel()
	for failures := 1; failures < 99; failures++ {
		synctest.Test(t, func(t *testing.T) {
			g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{FailurePercent: new(int32(1 + failures*98/99)), MinCalls: new(int32(failures + 1 + failures%20))}}, backend.GuardOptions{})
			for range failures {
				call(g, backend.GuardedCall{}, errmap.Unavailable)
			}
			for i := range 100 {
				if _, _, sent := call(g, backend.GuardedCall{}, ""); !sent {
					t.Fatalf("%d failures, then success %d is held back", failures, i)
				}
			}
			if s := g.Stats(); s.Opened != 0 {
				t.Errorf("%d failures and 100 successes: %+v", failures, s)
			}
			// It is none the worse at what it is for.
			time.Sleep(time.Minute)
			for range 200 {
				call(g, backend.GuardedCall{}, errmap.Unavailable)
			}
			if s := g.Stats(); s.Breaker != backend.BreakerOpen {
				t.Errorf("%d failures, 100 successes and later 200 failures: %+v", failures, s)
			}
		})
	}
}

// TestASuccessDoesNotOpenTheBreakerWhenOldOnesAreForgotten has successes that leave
// the window before failures do, so that the share of failures grows while all is
// well. Found by the fault test: calls held back ten seconds after a fault, in the
// midst of successes. The next failure may open the breaker.
func TestASuccessDoesNotOpenTheBreakerWhenOldOnesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{FailurePercent: new(int32(50)), MinCalls: new(int32(20)), Window: durationpb.New(10 * time.Second)}}, backend.GuardOptions{})
		call(g, backend.GuardedCall{}, errmap.Unavailable)
		for range 29 {
			call(g, backend.GuardedCall{}, "")
		}
		time.Sleep(5 * time.Second)
		for range 19 { // 20 of 49
			call(g, backend.GuardedCall{}, errmap.Unavailable)
		}
		time.Sleep(5500 * time.Millisecond)
		for i := range 10 { // 19 of 20, and more
			if _, _, sent := call(g, backend.GuardedCall{}, ""); !sent {
				t.Fatalf("success %d is held back: %+v", i, g.Stats())
			}
		}
		call(g, backend.GuardedCall{}, errmap.Unavailable) // 20 of 30
		if g.Stats().Breaker != backend.BreakerOpen {
			t.Errorf("%+v", g.Stats())
		}
	})
}

// TestAProbeThatBringsNoAnswerGivesItsPlaceBack cancels a probe, gives one no
// time, and panics in one: each time the breaker tries again later.
func TestAProbeThatBringsNoAnswerGivesItsPlaceBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1)), OpenFor: durationpb.New(time.Second)}}, backend.GuardOptions{})
		call(g, backend.GuardedCall{}, errmap.Unavailable)
		for name, probe := range map[string]func(){
			"cancelled": func() { call(g, backend.GuardedCall{}, errmap.Cancelled) },
			"hurried":   func() { call(g, backend.GuardedCall{Hurried: true}, errmap.Timeout) },
			"panic": func() {
				defer func() { _ = recover() }()
				_, _ = backend.DoGuarded(t.Context(), g, backend.GuardedCall{}, func(context.Context) (int, *errmap.Error) { panic("probe") })
			},
		} {
			time.Sleep(time.Second)
			probe()
			if g.Stats().Breaker != backend.BreakerOpen {
				t.Errorf("%s: %v", name, g.Stats().Breaker)
			}
		}
		time.Sleep(time.Second)
		if got, _, sent := call(g, backend.GuardedCall{}, ""); got != "" || !sent || g.Stats().Breaker != backend.BreakerClosed {
			t.Errorf("at last: %s, sent %v, %v", got, sent, g.Stats().Breaker)
		}
	})
}

// TestOneProbeAtATime has many callers at the moment when the breaker tries
// again, and one call from before it opened that ends then.
func TestOneProbeAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1)), OpenFor: durationpb.New(time.Second)}}, backend.GuardOptions{})
		release, old := make(chan struct{}), make(chan struct{})
		go func() {
			_, _ = backend.DoGuarded(t.Context(), g, backend.GuardedCall{}, func(context.Context) (int, *errmap.Error) {
				<-old
				return 0, errmap.New(errmap.TransportError)
			})
		}()
		synctest.Wait()
		call(g, backend.GuardedCall{}, errmap.Unavailable)
		time.Sleep(time.Second)
		sent := make(chan struct{}, 10)
		for range 10 {
			go func() {
				_, _ = backend.DoGuarded(t.Context(), g, backend.GuardedCall{}, func(context.Context) (int, *errmap.Error) {
					sent <- struct{}{}
					<-release
					return 0, nil
				})
			}()
		}
		synctest.Wait()
		if len(sent) != 1 || g.Stats().Breaker != backend.BreakerHalfOpen {
			t.Errorf("%d probes, %v", len(sent), g.Stats().Breaker)
		}
		close(old) // it says nothing about now
		synctest.Wait()
		if g.Stats().Breaker != backend.BreakerHalfOpen {
			t.Errorf("a call from before decides: %v", g.Stats().Breaker)
		}
		close(release)
		synctest.Wait()
		if g.Stats().Breaker != backend.BreakerClosed {
			t.Errorf("after the probe: %v", g.Stats().Breaker)
		}
	})
}

// TestAnAnsweredProbeMakesRoomForTheNext: with two probes at a time, one that is slow keeps the breaker from closing no longer than
// the other ones need.
func TestAnAnsweredProbeMakesRoomForTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := once(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1)), OpenFor: durationpb.New(time.Second), Probes: new(int32(2))}}, backend.GuardOptions{})
		call(g, backend.GuardedCall{}, errmap.Unavailable)
		time.Sleep(time.Second)
		release := make(chan struct{})
		go func() {
			_, _ = backend.DoGuarded(t.Context(), g, backend.GuardedCall{}, func(context.Context) (int, *errmap.Error) {
				<-release
				return 0, nil
			})
		}()
		synctest.Wait()
		for n := range 2 {
			if got, _, sent := call(g, backend.GuardedCall{}, ""); got != "" || !sent {
				t.Errorf("probe %d beside a slow one: %s, sent %v", n+1, got, sent)
			}
		}
		if g.Stats().Breaker != backend.BreakerClosed {
			t.Errorf("after two answers: %v", g.Stats().Breaker)
		}
		close(release)
		synctest.Wait()
	})
}

// TestABreakerThatOpensEndsRepetitions: the caller learns what happened, not
// that the next attempt was held.
func TestABreakerThatOpensEndsRepetitions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1)), OpenFor: durationpb.New(time.Minute)}}), backend.GuardOptions{})
		got, wait, _ := call(g, backend.GuardedCall{Repeatable: true}, errmap.TransportError)
		if got != errmap.TransportError || wait != 0 || g.Stats().Held != 1 {
			t.Errorf("%s, %v, %+v", got, wait, g.Stats())
		}
	})
}
