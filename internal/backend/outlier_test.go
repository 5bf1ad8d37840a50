// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// Which addresses are outliers, by the rule of gRFC A50. Each row has the calls and the failed calls of ten addresses or fewer.
func TestOutliers(t *testing.T) {
	t.Parallel()
	same := func(n int, calls, failed int) (out [][2]int) {
		for range n {
			out = append(out, [2]int{calls, failed})
		}
		return out
	}
	var off int32
	for name, tc := range map[string]struct {
		set  *configv1.BackendSuccessRate
		of   [][2]int // calls, and failed ones
		want []int    // the worst first
	}{
		"all are well":               {of: same(10, 100, 0)},
		"all fail alike":             {of: same(10, 100, 30)},
		"all fail":                   {of: same(10, 100, 100)},
		"one fails one call of ten":  {of: append(same(9, 100, 0), [2]int{100, 10}), want: []int{9}},
		"two of ten, 1.9 deviations": {of: append(same(8, 100, 0), [2]int{100, 90}, [2]int{100, 80}), want: []int{8}},
		"two of twenty":              {of: append(same(18, 100, 0), [2]int{100, 50}, [2]int{100, 60}), want: []int{19, 18}},
		"half of them":               {of: append(same(5, 100, 0), same(5, 100, 50)...)},
		"few calls":                  {of: append(same(9, 100, 0), [2]int{99, 99})},
		"few addresses":              {of: append(same(3, 100, 0), [2]int{100, 100})},
		"five addresses":             {of: append(same(4, 100, 0), [2]int{100, 100}), want: []int{4}},
		"five of ten have calls":     {of: slices.Concat(same(4, 100, 0), same(5, 10, 0), [][2]int{{100, 20}}), want: []int{9}},
		"no calls":                   {of: same(10, 0, 0)},
		"a larger factor":            {set: &configv1.BackendSuccessRate{StdevFactor: new(int32(3000))}, of: append(same(9, 100, 0), [2]int{100, 100})},
		"below the mean":             {set: &configv1.BackendSuccessRate{StdevFactor: &off}, of: append(same(5, 100, 0), same(1, 100, 1)...), want: []int{5}},
		"not enforced":               {set: &configv1.BackendSuccessRate{EnforcementPercentage: &off}, of: append(same(9, 100, 0), [2]int{100, 100})},
		"more calls are wanted":      {set: &configv1.BackendSuccessRate{RequestVolume: new(int32(101))}, of: append(same(9, 100, 0), [2]int{100, 100})},
		"fewer addresses do":         {set: &configv1.BackendSuccessRate{MinimumHosts: new(int32(4)), StdevFactor: new(int32(1000))}, of: append(same(3, 100, 0), [2]int{100, 100}), want: []int{3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSuccessRate(tc.set)
			all, ends := make([]tally, len(tc.of)), make([]*endpoint, len(tc.of))
			for i, calls := range tc.of {
				ends[i] = &endpoint{}
				all[i] = tally{e: ends[i], answered: calls[0] - calls[1], lost: calls[1]}
			}
			var got []int
			for _, out := range s.outliers(all) {
				got = append(got, slices.Index(ends, out.e))
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("outliers %v, want %v", got, tc.want)
			}
		})
	}
}

// An address that fails every second call never fails five in a row. It is ejected at the end of an interval, longer each time, and no
// more than the percentage are; what was counted in one interval does not count in the next.
func TestEjectionBySuccessRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const bad = "10.0.0.1:1"
		b := inBubble(t, 6, nil)
		b.shares(t, 1, nil)
		synctest.Wait()
		time.Sleep(time.Second) // behind the ticks of the intervals
		record := func(calls int) {
			for _, e := range endpoints(b.many) {
				for n := range calls {
					var err error
					if (e.address == bad || e.address == "10.0.0.2:1") && n%2 == 0 && (n%4 == 0 || e.address == bad) {
						err = statusError(connect.CodeUnavailable, "")
					}
					b.many.leave(e, b.many.enter(e), err)
				}
			}
		}
		for range 3 { // too few in each interval, enough in all of them
			record(60)
			time.Sleep(10 * time.Second)
		}
		if got := b.Balance().Ejections; got != 0 {
			t.Fatalf("%d ejections with too few calls", got)
		}
		for round, want := range []time.Duration{30 * time.Second, 60 * time.Second} {
			record(100)
			if one := state(b.Client, bad); one.State != AddressReady {
				t.Fatalf("round %d: it is %+v within the interval", round, one)
			}
			time.Sleep(10 * time.Second)
			synctest.Wait()
			one := state(b.Client, bad)
			if one.State != AddressEjected || one.Left != want-time.Second || one.Times != round+1 {
				t.Fatalf("round %d: it is %+v, want an ejection for %v a second ago", round, one, want)
			}
			if other := state(b.Client, "10.0.0.2:1"); other.State != AddressReady {
				t.Errorf("round %d: a second one is %+v: one of six is more than 10 %%", round, other)
			}
			if got := b.shares(t, 300, nil); got[bad] != 0 {
				t.Errorf("round %d: %d calls went to an ejected address", round, got[bad])
			}
			time.Sleep(want)
			synctest.Wait()
			if one := state(b.Client, bad); one.State != AddressReady {
				t.Errorf("round %d: it is %+v after its ejection", round, one)
			}
		}
	})
}
