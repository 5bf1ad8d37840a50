// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

func updated(uri string) notify.Change { return notify.Change{Kind: notify.ResourceUpdated, URI: uri} }

func publish(t testing.TB, hub *notify.Feed, changes ...notify.Change) {
	t.Helper()
	for _, c := range changes {
		if err := hub.Publish(c); err != nil {
			t.Fatal(err)
		}
	}
}

// changes returns what a session is to be told, as text.
func changes(t testing.TB, s *session.Session) []string {
	t.Helper()
	var out []string
	for {
		c, ok, err := s.PollChange()
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return out
		}
		out = append(out, strings.TrimSpace(c.Kind.String()+" "+c.URI))
	}
}

func TestASessionHearsOfWhatItWatches(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	m := manage(t, session.Options{Feed: hub})
	s, other := open(t, m), open(t, m)
	watch := func(uri string) {
		t.Helper()
		if err := s.Watch(t.Context(), uri); err != nil {
			t.Fatal(err)
		}
	}
	publish(t, hub, updated("x:a"), notify.Change{Kind: notify.ToolsListChanged})
	watch("x:a")
	watch("x:a")
	publish(t, hub, updated("x:a"), updated("x:a/below"), updated("x:b"), updated("x:a"), notify.Change{Kind: notify.PromptsListChanged})
	watch("x:b")
	publish(t, hub, updated("x:b"), notify.Change{Kind: notify.ResourcesListChanged}, notify.Change{Kind: notify.ToolsListChanged})
	if err := s.Unwatch(t.Context(), "x:c"); err != nil {
		t.Error(err)
	}
	want := []string{
		"tools list changed", "resource updated x:a", "resource updated x:a/below", "prompts list changed",
		"resource updated x:b", "resources list changed",
	}
	if got := changes(t, s); !slices.Equal(got, want) {
		t.Errorf("told of %q, want %q", got, want)
	}
	publish(t, hub, updated("x:a/below"), updated("x:b"))
	if err := s.Unwatch(t.Context(), "x:a"); err != nil {
		t.Error(err)
	}
	publish(t, hub, updated("x:a"))
	if got := changes(t, s); !slices.Equal(got, []string{"resource updated x:b"}) {
		t.Errorf("told of %q", got)
	}
	if got := changes(t, other); !slices.Equal(got, []string{"tools list changed", "prompts list changed", "resources list changed"}) {
		t.Errorf("a session that watches nothing hears of %q", got)
	}
}

func TestWatchingIsBounded(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxBytes: 1000})
	m := manage(t, session.Options{Feed: hub, MaxWatched: 2, MaxWatchedBytes: 10})
	s := open(t, m)
	for _, tc := range []struct {
		uri  string
		want error
	}{{"x:1", nil}, {"x:12345678", session.ErrTooMany}, {"x:2", nil}, {"x:3", session.ErrTooMany}, {"x:2", nil}} {
		if err := s.Watch(t.Context(), tc.uri); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.uri, err)
		}
	}
	if err := s.Unwatch(t.Context(), "x:1"); err != nil {
		t.Error(err)
	}
	if err := s.Watch(t.Context(), "x:34567"); err != nil {
		t.Errorf("what was given up makes room: %v", err)
	}
	// What the feed has no room for is not watched.
	full := manage(t, session.Options{Feed: hub})
	greedy := open(t, full)
	if err := greedy.Watch(t.Context(), "x:"+strings.Repeat("y", 900)); !errors.Is(err, notify.ErrFull) {
		t.Errorf("a full feed: %v", err)
	}
	if err := greedy.Watch(t.Context(), "x:z"); err != nil {
		t.Errorf("a little: %v", err)
	}
	var wrong *notify.FilterError
	if err := greedy.Watch(t.Context(), ""); !errors.As(err, &wrong) {
		t.Errorf("no URI: %v", err)
	}
	publish(t, hub, updated("x:z"), updated("x:"+strings.Repeat("y", 900)))
	if got := changes(t, greedy); !slices.Equal(got, []string{"resource updated x:z"}) {
		t.Errorf("told of %q", got)
	}
}

func TestWatchingEndsWithTheSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := notify.NewFeed(notify.FeedOptions{})
		m := manage(t, session.Options{Feed: hub})
		s := open(t, m)
		ended := make(chan error, 1)
		go func() {
			_, err := s.NextChange(t.Context())
			ended <- err
		}()
		synctest.Wait()
		if err := m.End(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, session.ErrClosed) {
			t.Errorf("the reader: %v", err)
		}
		for name, err := range map[string]error{"watch": s.Watch(t.Context(), "x:a"), "unwatch": s.Unwatch(t.Context(), "x:a")} {
			if !errors.Is(err, session.ErrClosed) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, _, err := s.PollChange(); !errors.Is(err, session.ErrClosed) || s.Changed() != nil {
			t.Errorf("poll: %v", err)
		}
		going := open(t, m)
		if _, err := going.NextChange(hungUp()); !errors.Is(err, errHungUp) {
			t.Errorf("the end of the context: %v", err)
		}
		publish(t, hub, notify.Change{Kind: notify.ToolsListChanged})
		hub.Close()
		if c, err := going.NextChange(t.Context()); err != nil || c.Kind != notify.ToolsListChanged {
			t.Errorf("what came before the end of the feed: %v, %v", c, err)
		}
		if _, err := going.NextChange(t.Context()); !errors.Is(err, notify.ErrClosed) {
			t.Errorf("the end of the feed: %v", err)
		}
		if err := going.Watch(t.Context(), "x:a"); !errors.Is(err, notify.ErrClosed) {
			t.Errorf("watch after it: %v", err)
		}
	})
}

func TestWithoutAFeedNothingChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, manage(t, session.Options{}))
		if err := s.Watch(t.Context(), "x:a"); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := s.NextChange(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestWhoIsFarBehindHearsOfEverything has more change than is kept: the client
// learns of all that it wants to know, and of what changes after that.
func TestWhoIsFarBehindHearsOfEverything(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: 3})
	m := manage(t, session.Options{Feed: hub})
	all := []string{"tools list changed", "prompts list changed", "resources list changed", "resource updated x:a/"}
	overflow := func(s *session.Session) {
		for n := range 5 {
			publish(t, hub, updated("x:a/"+strconv.Itoa(n)))
		}
	}
	s := open(t, m)
	if err := s.Watch(t.Context(), "x:a/"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		overflow(s)
		if got := changes(t, s); !slices.Equal(got, all) {
			t.Errorf("told of %q", got)
		}
	}
	// What is watched may change while it is behind, and while it catches up.
	overflow(s)
	if err := s.Watch(t.Context(), "x:b"); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.PollChange(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	publish(t, hub, updated("x:b"))
	if err := s.Unwatch(t.Context(), "x:a/"); err != nil {
		t.Fatal(err)
	}
	if got := changes(t, s); !slices.Equal(got, []string{"prompts list changed", "resources list changed", "resource updated x:b", "resource updated x:b"}) {
		t.Errorf("told of %q", got)
	}
	if got := hub.Stats(); got.Subscribers != 1 || got.Dropped != 3 {
		t.Errorf("%+v", got)
	}
}

// TestNothingIsLostWhileWatchingChanges has a client that watches more and less
// all the time. Two read at a time, as where a new connection takes over.
func TestNothingIsLostWhileWatchingChanges(t *testing.T) {
	t.Parallel()
	const total = 2000
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: 2 * total})
	s := open(t, manage(t, session.Options{Feed: hub}))
	if err := s.Watch(t.Context(), "x:all/"); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var watching, reading sync.WaitGroup
	watching.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			uri := fmt.Sprint("y:", n%7)
			if err := errors.Join(s.Watch(t.Context(), uri), s.Unwatch(t.Context(), uri)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var mu sync.Mutex
	seen := map[string]int{}
	for range 2 {
		reading.Go(func() {
			for {
				c, err := s.NextChange(ctx)
				if err != nil {
					return
				}
				mu.Lock()
				if seen[c.URI]++; len(seen) == total {
					cancel(nil)
				}
				mu.Unlock()
			}
		})
	}
	for n := range total {
		publish(t, hub, updated(fmt.Sprint("x:all/", n)))
	}
	reading.Wait()
	close(stop)
	watching.Wait()
	for n := range total {
		if got := seen[fmt.Sprint("x:all/", n)]; got != 1 {
			t.Fatalf("change %d was told %d times", n, got)
		}
	}
}
