// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSpend(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := NewSpent(SpentOptions{Max: 2, Now: c.now})
	until := c.t.Add(time.Minute)
	spend := func(token string, until time.Time, want bool) {
		t.Helper()
		if got := s.Spend(token, until); got != want {
			t.Errorf("Spend(%q) = %v, want %v", token, got, want)
		}
	}
	spend("a", until, true)
	spend("a", until, false)
	spend("b", until.Add(time.Minute), true)
	// Full: what cannot be remembered is not let through, what is remembered stays.
	spend("c", until, false)
	spend("a", until, false)
	c.advance(time.Minute - time.Nanosecond)
	spend("a", until, false)
	spend("c", until, false)
	if diff := cmp.Diff(SpentStats{Held: 2, Spent: 2, Replayed: 3, Overfull: 2}, s.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	c.advance(time.Nanosecond)
	// Forgotten, but over: it may not come late.
	spend("a", until, false)
	spend("c", until, false)
	spend("c", until.Add(time.Second), true)
	// A clock that is set back brings nothing back.
	c.advance(-time.Hour)
	spend("a", until, false)
	if held := s.Stats().Held; held != 2 {
		t.Errorf("%d tokens are held, want 2", held)
	}
	c.advance(10 * time.Hour)
	if diff := cmp.Diff(SpentStats{Held: 0, Spent: 3, Replayed: 6, Overfull: 2}, s.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestSpentIsBoundedByDefault(t *testing.T) {
	t.Parallel()
	s := NewSpent(SpentOptions{})
	until := time.Now().Add(time.Hour)
	for n := range defaultMaxSpent {
		if !s.Spend(strconv.Itoa(n), until) {
			t.Fatalf("token %d was refused", n)
		}
	}
	if s.Spend("one more", until) {
		t.Error("there is no bound")
	}
}

func TestATokenIsSpentOnce(t *testing.T) {
	t.Parallel()
	s := NewSpent(SpentOptions{})
	until := time.Now().Add(time.Hour)
	const tokens, callers = 100, 8
	var wins [tokens]atomic.Int32
	var spending sync.WaitGroup
	for range callers {
		spending.Go(func() {
			for n := range tokens {
				if s.Spend(strconv.Itoa(n), until) {
					wins[n].Add(1)
				}
			}
		})
	}
	spending.Wait()
	for n := range wins {
		if got := wins[n].Load(); got != 1 {
			t.Errorf("token %d was spent %d times", n, got)
		}
	}
}

// TestSpentKeepsToItsModel drives a guard beside a list of all that was spent.
func TestSpentKeepsToItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		start := c.t
		size := rapid.IntRange(1, 4).Draw(t, "max")
		s := NewSpent(SpentOptions{Max: size, Now: c.now})
		spent := map[string]time.Time{}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) { c.advance(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second) },
			"spend": func(t *rapid.T) {
				// A token's expiry is its own, so both come from one number.
				n := rapid.IntRange(0, 30).Draw(t, "token")
				token, until := strconv.Itoa(n), start.Add(time.Duration(n)*time.Second)
				held := 0
				for _, end := range spent {
					if end.After(c.t) {
						held++
					}
				}
				_, again := spent[token]
				want := !again && until.After(c.t) && held < size
				if got := s.Spend(token, until); got != want {
					t.Fatalf("Spend(%s) = %v, want %v (%d held)", token, got, want, held)
				}
				if want {
					spent[token] = until
				}
			},
		})
	})
}
