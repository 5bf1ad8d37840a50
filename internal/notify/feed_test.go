// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// all is a filter for a bit of everything.
func all() notify.Filter {
	return notify.Filter{Tools: true, Prompts: true, Resources: true, ResourceURIs: []string{"x:a", "x:b/"}, TaskIDs: []string{"t", "u"}, Principal: "p"}
}

func TestWhoIsTold(t *testing.T) {
	t.Parallel()
	filters := map[string]notify.Filter{
		"nothing":    {},
		"tools":      {Tools: true},
		"prompts":    {Prompts: true},
		"resources":  {Resources: true},
		"uri":        {ResourceURIs: []string{"x:a"}},
		"task":       {TaskIDs: []string{"t"}, Principal: "p"},
		"other task": {TaskIDs: []string{"u"}, Principal: "p"},
		"other's":    {TaskIDs: []string{"t"}, Principal: "q"},
		"unowned":    {TaskIDs: []string{"t"}},
		"all":        all(),
	}
	tests := []struct {
		change notify.Change
		told   []string
	}{
		{list(notify.ToolsListChanged), []string{"all", "tools"}},
		{list(notify.PromptsListChanged), []string{"all", "prompts"}},
		{list(notify.ResourcesListChanged), []string{"all", "resources"}},
		{updated("x:a"), []string{"all", "uri"}},
		{updated("x:a/1"), []string{"all", "uri"}},
		{updated("x:b/1"), []string{"all"}},
		{updated("x:c"), nil},
		{task("p", "t", "1"), []string{"all", "task"}},
		{task("q", "t", "1"), []string{"other's"}},
		{task("", "t", "1"), []string{"unowned"}},
		{task("p", "u", "1"), []string{"all", "other task"}},
		{task("p", "v", "1"), nil},
		{task("p", "x:a", "1"), nil},
	}
	for _, tt := range tests {
		t.Run(shown(tt.change), func(t *testing.T) {
			t.Parallel()
			hub := notify.NewFeed(notify.FeedOptions{})
			subs := map[string]*notify.Subscription{}
			for name, filter := range filters {
				subs[name] = subscribe(t, hub, filter)
			}
			publish(t, hub, tt.change)
			var told []string
			for name, s := range subs {
				isReady := ready(s)
				got := pending(t, s)
				if isReady != (got != nil) {
					t.Errorf("%s: ready is %v, but pending is %q", name, isReady, got)
				}
				if got != nil {
					told = append(told, name)
				}
				if len(got) > 0 && !slices.Equal(got, []string{shown(tt.change)}) {
					t.Errorf("%s got %q", name, got)
				}
			}
			slices.Sort(told)
			if diff := cmp.Diff(tt.told, told); diff != "" {
				t.Errorf("(-want +got) %s", diff)
			}
			if got := hub.Stats(); got.Published != 1 || int(got.Queued) != len(tt.told) || got.Subscribers != len(filters) {
				t.Errorf("stats %+v", got)
			}
		})
	}
}

func TestPendingOnce(t *testing.T) {
	t.Parallel()
	tools, prompts, resources := list(notify.ToolsListChanged), list(notify.PromptsListChanged), list(notify.ResourcesListChanged)
	tests := []struct {
		name    string
		changes []notify.Change
		want    []string
	}{
		{"a list", []notify.Change{tools, tools, tools}, []string{"tools list changed"}},
		{"the lists in their order", []notify.Change{resources, tools, prompts, tools, resources}, []string{"resources list changed", "tools list changed", "prompts list changed"}},
		{"a URI", []notify.Change{updated("x:a"), updated("x:a")}, []string{"x:a"}},
		{"what is below apart from it", []notify.Change{updated("x:b/1"), updated("x:b/2"), updated("x:b/1"), updated("x:a/1"), updated("x:a")}, []string{"x:b/1", "x:b/2", "x:a/1", "x:a"}},
		{"a task's newest state", []notify.Change{task("p", "t", "1"), task("p", "t", "2"), task("p", "t", "3")}, []string{"p:t=3"}},
		{"at the first one's place", []notify.Change{task("p", "t", "1"), updated("x:a"), task("p", "u", "1"), task("p", "t", "2"), updated("x:a"), tools}, []string{"p:t=2", "x:a", "p:u=1", "tools list changed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hub := notify.NewFeed(notify.FeedOptions{})
			s := subscribe(t, hub, all())
			for range 2 { // what was read is not pending any more
				publish(t, hub, tt.changes...)
				if diff := cmp.Diff(tt.want, pending(t, s)); diff != "" {
					t.Errorf("(-want +got) %s", diff)
				}
			}
			if got := hub.Stats(); int(got.Queued) != 2*len(tt.want) || got.Queued+got.Merged != got.Published {
				t.Errorf("stats %+v", got)
			}
		})
	}
}

// TestReadyTellsAboutAll reads one change for each word of Ready.
func TestReadyTellsAboutAll(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	s := subscribe(t, hub, all())
	if ready(s) {
		t.Error("ready for nothing")
	}
	publish(t, hub, list(notify.ToolsListChanged), updated("x:a"), task("p", "t", "1"))
	for _, want := range []string{"tools list changed", "x:a", "p:t=1"} {
		if !ready(s) {
			t.Fatalf("not ready for %s", want)
		}
		if ready(s) {
			t.Error("ready twice before it was looked at")
		}
		if c, ok, err := s.Poll(); !ok || err != nil || shown(c) != want {
			t.Fatalf("got %s, %v, %v; want %s", shown(c), ok, err, want)
		}
	}
	if ready(s) {
		t.Error("ready with nothing left")
	}
	publish(t, hub, updated("x:a"))
	if c, err := next(s); err != nil || shown(c) != "x:a" {
		t.Errorf("got %s, %v", shown(c), err)
	}
	if ready(s) {
		t.Error("ready for what was read without asking")
	}
	s.Close()
	for range 2 {
		if !ready(s) {
			t.Error("not ready for its end")
		}
		if _, _, err := s.Poll(); !errors.Is(err, notify.ErrClosed) {
			t.Errorf("the end: %v", err)
		}
	}
}

func TestNextPrefersWhatIsPending(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	s := subscribe(t, hub, all())
	publish(t, hub, updated("x:a"))
	if c, err := next(s); err != nil || c.URI != "x:a" {
		t.Errorf("got %s, %v", shown(c), err)
	}
	if c, err := next(s); !errors.Is(err, errNothing) {
		t.Errorf("got %s, %v; want the cause of the context", shown(c), err)
	}
}

func TestSlowReaderIsDropped(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: 3})
	s, quick := subscribe(t, hub, all()), subscribe(t, hub, all())
	publish(t, hub,
		list(notify.ToolsListChanged), list(notify.PromptsListChanged), list(notify.ResourcesListChanged),
		updated("x:a"), updated("x:b/1"), task("p", "t", "1"),
		updated("x:a"), task("p", "t", "2"), list(notify.ToolsListChanged))
	if got := pending(t, quick); len(got) != 6 {
		t.Fatalf("what fits was not kept: %q", got)
	}
	publish(t, hub, updated("x:b/2"))
	if got := hub.Stats(); got.Subscribers != 1 || got.Dropped != 1 {
		t.Errorf("stats %+v", got)
	}
	publish(t, hub, list(notify.ToolsListChanged))
	if got := pending(t, quick); !slices.Equal(got, []string{"x:b/2", "tools list changed"}) {
		t.Errorf("the other reader got %q", got)
	}
	for _, after := range []func(){func() {}, s.Close, hub.Close} {
		after()
		_, err := s.Next(t.Context())
		var slow *notify.SlowError
		if !errors.As(err, &slow) || slow.Missed != 7 || !ready(s) {
			t.Errorf("got %v", err)
		}
	}
	if want := "notify: the subscriber fell behind and missed 7 items"; (&notify.SlowError{Missed: 7}).Error() != want {
		t.Error("the error says something else")
	}
}

// TestDefaultBounds has as many pending as the default allows, and one more.
func TestDefaultBounds(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	s := subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:"}, TaskIDs: []string{"t"}})
	s2 := subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:/"}, TaskIDs: []string{"t"}})
	for i := range 1024 {
		publish(t, hub, updated("x:/"+strconv.Itoa(i)))
	}
	if got := pending(t, s); len(got) != 1024 {
		t.Errorf("%d pending", len(got))
	}
	publish(t, hub, task("", "t", "1"))
	var slow *notify.SlowError
	if _, err := next(s2); !errors.As(err, &slow) || slow.Missed != 1024+1 {
		t.Errorf("got %v", err)
	}
	if got := pending(t, s); !slices.Equal(got, []string{":t=1"}) {
		t.Errorf("got %q", got)
	}
}

func TestSubscribersAreBounded(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxSubscribers: 2})
	first := subscribe(t, hub, notify.Filter{})
	subscribe(t, hub, all())
	if _, err := hub.Subscribe(notify.Filter{}); !errors.Is(err, notify.ErrFull) {
		t.Fatalf("got %v", err)
	}
	first.Close()
	first.Close()
	subscribe(t, hub, all())
	if _, err := hub.Subscribe(notify.Filter{}); !errors.Is(err, notify.ErrFull) {
		t.Errorf("a second close made room: %v", err)
	}
}

func TestWhatIsAskedForIsBounded(t *testing.T) {
	t.Parallel()
	const each = 64
	// Three bytes of a URI, one of an id, one list, and what each costs.
	const wants = 3 + 1 + 3*each
	hub := notify.NewFeed(notify.FeedOptions{MaxBytes: 2 * wants})
	filter := notify.Filter{Tools: true, ResourceURIs: []string{"x:a", "x:a"}, TaskIDs: []string{"t"}}
	first := subscribe(t, hub, filter)
	subscribe(t, hub, filter)
	if got := hub.Stats().Bytes; got != 2*wants {
		t.Errorf("%d bytes, want %d", got, 2*wants)
	}
	if _, err := hub.Subscribe(notify.Filter{Tools: true}); !errors.Is(err, notify.ErrFull) {
		t.Fatalf("got %v", err)
	}
	subscribe(t, hub, notify.Filter{})
	first.Close()
	first.Close()
	if got := hub.Stats(); got.Bytes != wants || got.Subscribers != 2 {
		t.Errorf("stats %+v", got)
	}
	subscribe(t, hub, filter)
}

func TestCloseOfASubscription(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	s, other := subscribe(t, hub, all()), subscribe(t, hub, all())
	publish(t, hub, list(notify.ToolsListChanged), updated("x:a"))
	s.Close()
	if got, err := drain(t, s); got != nil || !errors.Is(err, notify.ErrClosed) {
		t.Errorf("after its close: %q, %v", got, err)
	}
	publish(t, hub, task("p", "t", "1"))
	if got := pending(t, other); len(got) != 3 {
		t.Errorf("the other one got %q", got)
	}
	if got := hub.Stats(); got.Subscribers != 1 || got.Dropped != 0 {
		t.Errorf("stats %+v", got)
	}
}

func TestCloseOfTheHub(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	s, idle := subscribe(t, hub, all()), subscribe(t, hub, notify.Filter{})
	publish(t, hub, list(notify.ToolsListChanged), updated("x:a"))
	hub.Close()
	hub.Close()
	if err := hub.Publish(updated("x:b/1")); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("publish: %v", err)
	}
	if _, err := hub.Subscribe(all()); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("subscribe: %v", err)
	}
	if got, err := drain(t, s); !slices.Equal(got, []string{"tools list changed", "x:a"}) || !errors.Is(err, notify.ErrClosed) {
		t.Errorf("got %q, %v; want what was pending, then the end", got, err)
	}
	if _, err := idle.Next(context.Background()); !errors.Is(err, notify.ErrClosed) {
		t.Errorf("the idle one: %v", err)
	}
	s.Close()
	if got := hub.Stats(); got.Subscribers != 0 || got.Bytes != 0 {
		t.Errorf("stats %+v", got)
	}
}

// TestNamesAreCopied has URIs that are parts of whole messages, which must not
// stay in memory for them.
func TestNamesAreCopied(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	message := "x:a/1 and much more"
	filter := notify.Filter{ResourceURIs: []string{message[:3]}}
	s := subscribe(t, hub, filter)
	if got := hub.Interest().ResourceURIs[0]; got != "x:a" || unsafe.StringData(got) == unsafe.StringData(message) {
		t.Errorf("the hub keeps %q inside of the request", got)
	}
	for _, uri := range []string{message[:3], message[:5]} {
		publish(t, hub, updated(uri))
		c, err := next(s)
		if err != nil || c.URI != uri || unsafe.StringData(c.URI) == unsafe.StringData(message) {
			t.Errorf("the backlog keeps %q inside of the notification (%v)", c.URI, err)
		}
	}
}

func TestKindsHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for kind := range notify.TaskChanged + 2 {
		name := kind.String()
		if name == "" || seen[name] {
			t.Errorf("kind %d is called %q", kind, name)
		}
		seen[name] = true
	}
}
