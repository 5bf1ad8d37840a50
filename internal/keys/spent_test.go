// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// spend uses a token, and reports whether it was fresh.
func spend(s *Spent, token string, until time.Time) bool {
	fresh, err := s.Spend(context.Background(), token, until)
	return fresh && err == nil
}

func TestSpend(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := NewSpent(SpentOptions{Max: 2, Now: c.now})
	until := c.t.Add(time.Minute)
	check := func(token string, until time.Time, want bool) {
		t.Helper()
		if got := spend(s, token, until); got != want {
			t.Errorf("Spend(%q) = %v, want %v", token, got, want)
		}
	}
	check("a", until, true)
	check("a", until, false)
	check("b", until.Add(time.Minute), true)
	// Full: what cannot be remembered is not let through, what is remembered stays.
	check("c", until, false)
	check("a", until, false)
	c.advance(time.Minute - time.Nanosecond)
	check("a", until, false)
	check("c", until, false)
	c.advance(time.Nanosecond)
	// Forgotten, but over: it may not come late.
	check("a", until, false)
	check("c", until, false)
	check("c", until.Add(time.Second), true)
	// A clock that is set back brings nothing back.
	c.advance(-time.Hour)
	check("a", until, false)
	if held := len(s.known); held != 2 {
		t.Errorf("%d tokens are held, want 2", held)
	}
	c.advance(10 * time.Hour)
	check("d", c.t.Add(time.Minute), true)
	if len(s.known) != 1 || len(s.order) != 1 {
		t.Errorf("%d tokens are held, in order %d, want 1", len(s.known), len(s.order))
	}
}

func TestSpentIsBoundedByDefault(t *testing.T) {
	t.Parallel()
	s := NewSpent(SpentOptions{})
	until := time.Now().Add(time.Hour)
	for n := range defaultMaxSpent {
		if !spend(s, strconv.Itoa(n), until) {
			t.Fatalf("token %d was refused", n)
		}
	}
	if spend(s, "one more", until) {
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
				if spend(s, strconv.Itoa(n), until) {
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
				if got := spend(s, token, until); got != want {
					t.Fatalf("Spend(%s) = %v, want %v (%d held)", token, got, want, held)
				}
				if want {
					spent[token] = until
				}
			},
		})
	})
}
