// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// TestOneCallerLeavesSomeForTheOthers has callers take all that they get, one
// after the other, and then a newcomer.
func TestOneCallerLeavesSomeForTheOthers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		percent, total int
		want           []int64 // what each greedy caller ends up with
		newcomer       peer.Verdict
	}{
		{80, 10000, []int64{8000, 1600, 320}, peer.Granted},
		{80, 1024, []int64{820, 164, 32}, peer.Granted},
		{50, 1000, []int64{500, 250, 125}, peer.Granted},
		{100, 1000, []int64{1000, 0}, peer.ShareFull},
		// A bound of a few is no bound to divide.
		{80, 1, []int64{1}, peer.ShareFull},
		{80, 4, []int64{4}, peer.ShareFull},
		{80, 5, []int64{4}, peer.Granted},
	} {
		t.Run(fmt.Sprintf("%d %% of %d", tc.percent, tc.total), func(t *testing.T) {
			t.Parallel()
			l := peer.NewLedger(int64(tc.total), peer.Percent(tc.percent))
			for i, want := range tc.want {
				name := fmt.Sprint("greedy ", i)
				var got int64
				for l.Acquire(name) == peer.Granted {
					got++
				}
				if got != want {
					t.Errorf("%s holds %d, want %d", name, got, want)
				}
			}
			if got := l.Acquire("newcomer"); got != tc.newcomer {
				t.Errorf("the newcomer gets %v, want %v", got, tc.newcomer)
			}
		})
	}
}

// TestGreedyCallersEvenOut: those who ask in turns hold the same.
func TestGreedyCallersEvenOut(t *testing.T) {
	t.Parallel()
	l := peer.NewLedger(9000, peer.Percent(80))
	held := map[string]int{}
	for took := true; took; {
		took = false
		for _, name := range []string{"a", "b"} {
			if l.Acquire(name) == peer.Granted {
				held[name]++
				took = true
			}
		}
	}
	if held["a"] != 4000 || held["b"] != 4000 {
		t.Errorf("they hold %v, want 4/9 each", held)
	}
}

// TestALedgerForgets: what is given back leaves nothing behind.
func TestALedgerForgets(t *testing.T) {
	t.Parallel()
	l := peer.NewLedger(10, peer.Percent(80))
	for i := range 1000 {
		name := fmt.Sprint(i)
		if l.Acquire(name) != peer.Granted {
			t.Fatal(i)
		}
		l.Release(name)
	}
	for range 9 {
		l.Acquire("x")
	}
	if s := l.Stats(); s.Used != 8 || s.Callers != 1 || s.Over != 1 || s.Full != 0 {
		t.Errorf("%+v", s)
	}
	var none *peer.Ledger
	if none.Acquire("x") != peer.Granted {
		t.Error("nil refuses")
	}
	none.Release("x")
}

// TestWeightedRules: a caller may hold its weight times as much of what is free as others may.
func TestWeightedRules(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		percent, weight int
		used, most      int64 // what it may hold at most while so much of 1,000 is used
	}{
		{80, 1, 900, 400}, {80, 4, 900, 1600}, {80, 0, 900, 400}, {80, -1, 900, 400}, {50, 3, 800, 600}, {50, 1000, 999, 1000},
	} {
		rule := peer.Percent(tc.percent).Weighted(tc.weight)
		if !rule.Allows(tc.most-1, 1, tc.used, 1000) || rule.Allows(tc.most, 1, tc.used, 1000) {
			t.Errorf("%+v", tc)
		}
	}
	if got := (peer.Rule{}).Weighted(4); got != (peer.Rule{}) {
		t.Errorf("a weight of a rule that limits nothing: %+v", got)
	}
}

// TestRecent: somebody is alone when no other was seen for ten seconds.
func TestRecent(t *testing.T) {
	t.Parallel()
	var r peer.Recent
	start := time.Now()
	if !r.Alone("a", start) {
		t.Error("none was seen")
	}
	r.Seen("a", start)
	if !r.Alone("a", start) || r.Alone("b", start) {
		t.Error("a was seen")
	}
	r.Seen("b", start.Add(time.Second))
	if r.Alone("a", start.Add(11*time.Second)) || !r.Alone("a", start.Add(12*time.Second)) || !r.Alone("b", start.Add(11*time.Second)) {
		t.Error("b was seen a second later")
	}
}
