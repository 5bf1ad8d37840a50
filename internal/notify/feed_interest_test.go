// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// TestInterest follows the union of all filters, and who learns that it
// changed.
func TestInterest(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: 1})
	changed, forget := hub.OnInterest()
	defer forget()
	step := func(what string, wantTold int, want notify.Filter) {
		t.Helper()
		if diff := cmp.Diff(want, hub.Interest()); diff != "" {
			t.Errorf("%s (-want +got): %s", what, diff)
		}
		if isTold(changed) != (wantTold == 1) {
			t.Errorf("%s: told %v", what, wantTold != 1)
		}
	}
	step("none", 0, notify.Filter{})
	subscribe(t, hub, notify.Filter{})
	step("one that wants nothing", 0, notify.Filter{})

	first := subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:b", "x:a", "x:b"}})
	step("the first of two URIs", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	second := subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	step("the second", 0, notify.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	below := subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:a", "x:a/1"}, Tools: true})
	step("one below another of the same filter", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, Tools: true})
	tasks := subscribe(t, hub, notify.Filter{TaskIDs: []string{"u", "t"}, Principal: "p", Prompts: true, Resources: true})
	step("tasks", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, TaskIDs: []string{"t", "u"}, Tools: true, Prompts: true, Resources: true})
	others := subscribe(t, hub, notify.Filter{TaskIDs: []string{"t"}, Principal: "q"})
	step("somebody else's task of the same name", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, TaskIDs: []string{"t", "u"}, Tools: true, Prompts: true, Resources: true})

	tasks.Close()
	tasks.Close()
	step("the tasks' end", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, TaskIDs: []string{"t"}, Tools: true})
	others.Close()
	step("the other task's end", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:a/1", "x:b"}, Tools: true})
	below.Close()
	step("the end of what is below", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	first.Close()
	step("the end of the first", 0, notify.Filter{ResourceURIs: []string{"x:a", "x:b"}})
	publish(t, hub, updated("x:a"), updated("x:b"))
	if hub.Stats().Dropped != 1 {
		t.Errorf("stats %+v", hub.Stats())
	}
	step("the second fell behind", 1, notify.Filter{})
	second.Close()
	step("its end", 0, notify.Filter{})

	subscribe(t, hub, all())
	step("everything", 1, notify.Filter{ResourceURIs: []string{"x:a", "x:b/"}, TaskIDs: []string{"t", "u"}, Tools: true, Prompts: true, Resources: true})
	hub.Close()
	step("the hub's end", 0, notify.Filter{})
}

// isTold reports whether the interest may have changed since it was asked last.
func isTold(changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	default:
		return false
	}
}

// TestInterestIsNeverStale changes it from many sides, beside an owner that follows it and uses the feed meanwhile: after the
// last change the owner has looked once more.
func TestInterestIsNeverStale(t *testing.T) {
	t.Parallel()
	const workers, rounds = 8, 200
	hub := notify.NewFeed(notify.FeedOptions{})
	changed, forget := hub.OnInterest()
	defer forget()
	var want []string
	for w := range workers {
		want = append(want, fmt.Sprintf("x:%d/%d", w, rounds-1))
	}
	want = append(want, "x:shared")
	var working sync.WaitGroup
	for w := range workers {
		working.Go(func() {
			for n := range rounds {
				s, err := hub.Subscribe(notify.Filter{ResourceURIs: []string{fmt.Sprintf("x:%d/%d", w, n), "x:shared"}})
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
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	var last notify.Filter
	for isDone := false; !isDone; {
		select {
		case <-changed:
			last = hub.Interest()
		case <-done:
			if isDone = true; isTold(changed) {
				last = hub.Interest()
			}
		}
		publish(t, hub, updated("x:shared"))
	}
	if diff := cmp.Diff(notify.Filter{ResourceURIs: want}, last); diff != "" {
		t.Errorf("the last look saw (-want +got) %s", diff)
	}
	hub.Close()
}
