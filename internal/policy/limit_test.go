// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// admitted counts how many of n requests in a row are let through.
func admitted(l *policy.Limiter, n int, caller, tool string) int {
	passed := 0
	for range n {
		if l.Check(caller, tool) == nil {
			passed++
		}
	}
	return passed
}

func TestALimiterWithoutRatesLimitsNothing(t *testing.T) {
	t.Parallel()
	var none *policy.Limiter
	for name, l := range map[string]*policy.Limiter{"nil": none, "zero": policy.NewLimiter(&configv1.Limits{})} {
		if got := admitted(l, 1000, "a", "shop.look"); got != 1000 {
			t.Errorf("%s: %d of 1000 pass", name, got)
		}
	}
}

func TestTheBurstAndThenTheRate(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		rate      *configv1.Rate
		burst     int
		inASecond int
		wait      time.Duration
	}{
		{"burst is the rate", &configv1.Rate{PerSecond: 5}, 5, 5, 200 * time.Millisecond},
		{"explicit burst", &configv1.Rate{PerSecond: 2, Burst: new(int32(7))}, 7, 2, 500 * time.Millisecond},
		{"burst below the rate", &configv1.Rate{PerSecond: 10, Burst: new(int32(1))}, 1, 1, 100 * time.Millisecond},
		{"at least one", &configv1.Rate{PerSecond: 0.25}, 1, 0, 4 * time.Second},
		{"the wait is rounded up", &configv1.Rate{PerSecond: 3}, 3, 3, 334 * time.Millisecond},
		{"a wait has an end", &configv1.Rate{PerSecond: 1e-12}, 1, 0, 24 * time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := policy.NewLimiter(&configv1.Limits{CallerRate: tc.rate})
				if got := admitted(l, tc.burst+10, "a", "shop.look"); got != tc.burst {
					t.Errorf("%d pass at once, want %d", got, tc.burst)
				}
				err := l.Check("a", "shop.look")
				if err == nil || err.Code != errmap.RateLimited || err.RetryAfter != tc.wait {
					t.Fatalf("got %v after %v, want RATE_LIMITED with %v", err, err.RetryAfter, tc.wait)
				}
				time.Sleep(time.Second)
				if got := admitted(l, tc.burst+10, "a", "shop.look"); got != tc.inASecond {
					t.Errorf("%d pass a second later, want %d", got, tc.inASecond)
				}
			})
		})
	}
}

// What a caller is asked to wait is enough, whatever the rate: else it would be
// refused twice.
func TestTheWaitIsLongEnough(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{0.001, 0.3, 0.7, 1, 3, 7, 9.99, 33, 101, 997, 12345.678, 1e6} {
		synctest.Test(t, func(t *testing.T) {
			l := policy.NewLimiter(&configv1.Limits{ToolRate: &configv1.Rate{PerSecond: perSecond, Burst: new(int32(1))}})
			for range 20 {
				if err := l.Check("a", "shop.look"); err != nil {
					t.Fatalf("%v a second: refused after the wait: %v", perSecond, err)
				}
				if err := l.Check("b", "shop.look"); err != nil {
					time.Sleep(err.RetryAfter)
				}
			}
		})
	}
}

func TestCallersAndToolsHaveBucketsOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		newLimiter := func() *policy.Limiter {
			return policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 3}, ToolRate: &configv1.Rate{PerSecond: 5}})
		}
		l := newLimiter()
		for _, step := range []struct {
			caller, tool string
			want         int
		}{
			{"a", "shop.look", 3}, // a's own rate
			{"a", "shop.buy", 0},  // whatever the tool
			{"a", "", 0},          // and where there is none
			{"b", "shop.look", 2}, // what a left of the tool
			{"b", "shop.buy", 0},  // attempts cost a token too
			{"c", "shop.look", 0}, // the tool's rate counts for all together
			{"d", "shop.buy", 3},
			{"e", "", 3},
		} {
			if got := admitted(l, 10, step.caller, step.tool); got != step.want {
				t.Errorf("%s calls %q: %d pass, want %d", step.caller, step.tool, got, step.want)
			}
		}

		l = newLimiter()
		admitted(l, 1000, "greedy", "shop.look")
		if got := admitted(l, 10, "modest", "shop.look"); got != 2 {
			t.Errorf("a caller over its rate takes from the tool: %d are left, want 2", got)
		}
	})
}

// An attacker with many addresses must not make the sidecar grow, nor lock
// anybody out.
func TestCallersAreForgottenOldestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1}})
		policy.LimitBuckets(l, 3)
		for _, step := range []struct {
			caller string
			passes bool
		}{
			{"a", true}, {"b", true}, {"c", true},
			{"a", false}, // used, so b is the oldest now
			{"d", true},  // b goes
			{"a", false}, {"c", false}, {"d", false},
			{"b", true}, // forgotten is let in
		} {
			if got := l.Check(step.caller, "") == nil; got != step.passes {
				t.Errorf("%s passes: %v, want %v", step.caller, got, step.passes)
			}
		}
	})
}

func TestTheNumberOfBucketsIsBounded(t *testing.T) {
	t.Parallel()
	l := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1}, ToolRate: &configv1.Rate{PerSecond: 1}})
	for i := range 3 * policy.DefaultMaxCallers {
		l.Check(fmt.Sprint("192.0.2.", i), fmt.Sprint("shop.tool", i))
	}
	callers, tools := policy.BucketCounts(l)
	if callers != policy.DefaultMaxCallers || tools != defaults.MaxTools {
		t.Errorf("%d callers and %d tools are remembered", callers, tools)
	}
}

func TestALimiterIsExactUnderConcurrency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1, Burst: new(int32(100))}})
		var passed atomic.Int64
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() { passed.Add(int64(admitted(l, 100, "a", "shop.look"))) })
		}
		callers.Wait()
		if got := passed.Load(); got != 100 {
			t.Errorf("%d pass, want 100", got)
		}
	})
}

func BenchmarkCheck(b *testing.B) {
	l := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1e6}, ToolRate: &configv1.Rate{PerSecond: 1e6}})
	b.ReportAllocs()
	for b.Loop() {
		l.Check("192.0.2.1", "shop.look")
	}
}
