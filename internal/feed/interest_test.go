// SPDX-License-Identifier: Apache-2.0

package feed_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/feed"
)

// TestInterest follows the union of all filters, and who is told that it
// changed.
func TestInterest(t *testing.T) {
	t.Parallel()
	hub := feed.New(feed.Options{MaxPending: 1})
	told := 0
	hub.OnInterest(func() { told++ })
	step := func(what string, wantTold int, want feed.Filter) {
		t.Helper()
		if diff := cmp.Diff(want, hub.Interest()); diff != "" {
			t.Errorf("%s (-want +got): %s", what, diff)
		}
		if told != wantTold {
			t.Errorf("%s: told %d times, want %d", what, told, wantTold)
		}
		told = 0
	}
	step("none", 0, feed.Filter{})
	subscribe(t, hub, feed.Filter{})
	step("one that wants nothing", 0, feed.Filter{})

	first := subscribe(t, hub, feed.Filter{ResourceURIs: []string{"x:b", "x:a", "x:b"}})
	step("the first of two URIs", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	second := subscribe(t, hub, feed.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	step("the second", 0, feed.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	below := subscribe(t, hub, feed.Filter{ResourceURIs: []string{"x:a", "x:a/1"}, Tools: true})
	step("one below another of the same filter", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, Tools: true})
	tasks := subscribe(t, hub, feed.Filter{TaskIDs: []string{"u", "t"}, Principal: "p", Prompts: true, Resources: true})
	step("tasks", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, TaskIDs: []string{"t", "u"}, Tools: true, Prompts: true, Resources: true})
	others := subscribe(t, hub, feed.Filter{TaskIDs: []string{"t"}, Principal: "q"})
	step("somebody else's task of the same name", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, TaskIDs: []string{"t", "u"}, Tools: true, Prompts: true, Resources: true})

	tasks.Close()
	tasks.Close()
	step("the tasks' end", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, TaskIDs: []string{"t"}, Tools: true})
	others.Close()
	step("the other task's end", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, Tools: true})
	below.Close()
	step("the end of what is below", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	first.Close()
	step("the end of the first", 0, feed.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	publish(t, hub, updated("x:a"), updated("x:b"))
	if hub.Stats().Dropped != 1 {
		t.Errorf("stats %+v", hub.Stats())
	}
	step("the second fell behind", 1, feed.Filter{})
	second.Close()
	step("its end", 0, feed.Filter{})

	subscribe(t, hub, all())
	step("everything", 1, feed.Filter{ResourceURIs: []string{"x:a", "x:b/"}, TaskIDs: []string{"t", "u"}, Tools: true, Prompts: true, Resources: true})
	hub.Close()
	step("the hub's end", 0, feed.Filter{})
	hub.OnInterest(func() { told++ })
	step("asked after its end", 0, feed.Filter{})
}

// TestInterestOfAnOwnerThatComesLate is told what it missed.
func TestInterestOfAnOwnerThatComesLate(t *testing.T) {
	t.Parallel()
	hub := feed.New(feed.Options{})
	told := 0
	hub.OnInterest(nil)
	subscribe(t, hub, feed.Filter{Tools: true})
	subscribe(t, hub, feed.Filter{Prompts: true})
	hub.OnInterest(func() { told++ })
	if told != 1 {
		t.Errorf("told %d times, want once", told)
	}
	hub.OnInterest(func() { t.Error("told of nothing") })
	hub.OnInterest(nil)
	subscribe(t, hub, feed.Filter{Resources: true})
}

// TestInterestMayUseTheHub has an owner that looks, subscribes, publishes and
// closes while it is told.
func TestInterestMayUseTheHub(t *testing.T) {
	t.Parallel()
	hub := feed.New(feed.Options{})
	var seen [][]string
	hub.OnInterest(func() {
		seen = append(seen, hub.Interest().ResourceURIs)
		if len(seen) == 1 {
			s := subscribe(t, hub, feed.Filter{ResourceURIs: []string{"x:b"}})
			publish(t, hub, updated("x:b"))
			s.Close()
			subscribe(t, hub, feed.Filter{ResourceURIs: []string{"x:c"}})
		}
	})
	subscribe(t, hub, feed.Filter{ResourceURIs: []string{"x:a"}})
	// The three changes of the first call are one call together.
	if diff := cmp.Diff([][]string{{"x:a"}, {"x:a", "x:c"}}, seen); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}

// TestInterestAfterAPanic keeps telling.
func TestInterestAfterAPanic(t *testing.T) {
	t.Parallel()
	hub := feed.New(feed.Options{})
	told := 0
	hub.OnInterest(func() {
		if told++; told == 1 {
			panic("the owner's fault")
		}
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = hub.Subscribe(feed.Filter{Tools: true})
	}()
	subscribe(t, hub, feed.Filter{Prompts: true})
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// TestInterestIsNeverStale changes it from many sides: calls never overlap, and
// after the last change there is a call that sees it.
func TestInterestIsNeverStale(t *testing.T) {
	t.Parallel()
	const workers, rounds = 8, 200
	hub := feed.New(feed.Options{})
	var calling, calls atomic.Int32
	var last feed.Filter
	hub.OnInterest(func() {
		if calling.Add(1) != 1 {
			t.Error("two calls at a time")
		}
		last = hub.Interest()
		calls.Add(1)
		calling.Add(-1)
	})
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for n := range rounds {
				s, err := hub.Subscribe(feed.Filter{ResourceURIs: []string{fmt.Sprintf("x:%d/%d", w, n), "x:shared"}})
				if err != nil {
					t.Error(err)
					return
				}
				if n < rounds-1 {
					s.Close()
				}
			}
		})
	}
	working.Wait()
	var want []string
	for w := range workers {
		want = append(want, fmt.Sprintf("x:%d/%d", w, rounds-1))
	}
	if diff := cmp.Diff(feed.Filter{ResourceURIs: append(want, "x:shared")}, last); diff != "" {
		t.Errorf("the last call saw (-want +got) %s", diff)
	}
	if n := calls.Load(); n < 1 || n > 2*workers*rounds {
		t.Errorf("%d calls", n)
	}
	hub.Close()
}
