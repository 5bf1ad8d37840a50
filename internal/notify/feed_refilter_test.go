// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// refilter has a reader of the model ask for something else.
func (m *model) refilter(t *rapid.T) {
	r := m.draw(t)
	f := notify.Filter{
		Tools: rapid.Bool().Draw(t, "tools"), Prompts: rapid.Bool().Draw(t, "prompts"), Resources: rapid.Bool().Draw(t, "resources"),
		ResourceURIs: rapid.SliceOfN(uris(), 0, 5).Draw(t, "uris"),
		TaskIDs:      rapid.SliceOfN(rapid.SampledFrom([]string{"t", "u", "x:a"}), 0, 3).Draw(t, "ids"),
		Principal:    "somebody else",
	}
	before := m.interest()
	isTold(m.changed)
	err := r.sub.Refilter(f)
	if r.gone() || m.closed {
		if !errors.Is(err, notify.ErrClosed) {
			t.Fatalf("a subscription that is over: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Principal = r.filter.Principal
	r.filter = f
	r.unread = slices.DeleteFunc(r.unread, func(u unread) bool { return !r.wants(u.change(f.Principal)) })
	m.compareInterest(t, before)
}

// change is what an entry of the model is about.
func (u unread) change(principal string) notify.Change {
	for _, kind := range []notify.Kind{notify.ToolsListChanged, notify.PromptsListChanged, notify.ResourcesListChanged} {
		if u.about == kind.String() {
			return list(kind)
		}
	}
	if id, ok := strings.CutPrefix(u.about, "task "); ok {
		return task(principal, id, "")
	}
	return updated(u.about)
}

func TestRefilterKeepsWhatIsStillWanted(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	s := subscribe(t, hub, notify.Filter{Tools: true, ResourceURIs: []string{"x:a", "x:b"}})
	publish(t, hub, updated("x:b"), list(notify.ToolsListChanged), updated("x:a/1"), updated("x:a"))
	if err := s.Refilter(notify.Filter{Resources: true, ResourceURIs: []string{"x:a", "x:c"}}); err != nil {
		t.Fatal(err)
	}
	publish(t, hub, updated("x:b"), list(notify.ToolsListChanged), updated("x:a"), updated("x:c"), list(notify.ResourcesListChanged))
	want := []string{"x:a/1", "x:a", "x:c", "resources list changed"}
	if diff := cmp.Diff(want, pending(t, s)); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
	if err := s.Refilter(notify.Filter{}); err != nil || ready(s) {
		t.Errorf("%v, and there is news for somebody who wants none", err)
	}
	if got := hub.Stats(); got.Bytes != 0 || got.Subscribers != 1 {
		t.Errorf("%+v", got)
	}
}

// TestRefilterThatIsRefusedChangesNothing asks for too much and for nonsense.
func TestRefilterThatIsRefusedChangesNothing(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxBytes: 200})
	s := subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:a"}})
	before := hub.Stats().Bytes
	var wrong *notify.FilterError
	if err := s.Refilter(notify.Filter{ResourceURIs: []string{""}}); !errors.As(err, &wrong) {
		t.Errorf("no URI: %v", err)
	}
	if err := s.Refilter(notify.Filter{ResourceURIs: []string{"x:a", "x:b", "x:c"}}); !errors.Is(err, notify.ErrFull) {
		t.Errorf("too much: %v", err)
	}
	publish(t, hub, updated("x:a"), updated("x:b"))
	if got := pending(t, s); !slices.Equal(got, []string{"x:a"}) || hub.Stats().Bytes != before {
		t.Errorf("got %q, %d bytes", got, hub.Stats().Bytes)
	}
	s.Close()
	if err := s.Refilter(notify.Filter{}); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// TestRefilterMissesNothing has a reader ask for more and for less all the time,
// while what it always wants is published.
func TestRefilterMissesNothing(t *testing.T) {
	t.Parallel()
	const changes = 2000
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: changes})
	s := subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:all/"}})
	var working sync.WaitGroup
	stop := make(chan struct{})
	working.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := s.Refilter(notify.Filter{Tools: n%2 == 0, ResourceURIs: []string{"x:all/", "y:" + strconv.Itoa(n)}}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	working.Go(func() {
		defer close(stop)
		for n := range changes {
			publish(t, hub, updated("x:all/"+strconv.Itoa(n)), list(notify.ToolsListChanged))
		}
	})
	working.Wait()
	var got []string
	for _, what := range pending(t, s) {
		if what != notify.ToolsListChanged.String() {
			got = append(got, what)
		}
	}
	for n := range changes {
		if n >= len(got) || got[n] != "x:all/"+strconv.Itoa(n) {
			t.Fatalf("%d changes came, and at %d there is something else", len(got), n)
		}
	}
	if len(got) != changes {
		t.Errorf("%d changes came of %d", len(got), changes)
	}
}
