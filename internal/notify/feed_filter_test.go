// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

func TestURIsCoverWhatIsBelow(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, wanted string
		brings, not  []string
	}{
		{
			"a document", "file:///a/b",
			[]string{"file:///a/b", "file:///a/b/", "file:///a/b/c", "file:///a/b?x=1", "file:///a/b#part", "file:///a/b//"},
			[]string{"file:///a/bc", "file:///a/", "file:///a", "file:///a/b.txt", "FILE:///a/b", "file:///a/B", "file:///a/%62", "x"},
		},
		{
			"a folder", "file:///a/",
			[]string{"file:///a/", "file:///a/b", "file:///a/b/c", "file:///a/?x", "file:///a/#x", "file:///a//"},
			[]string{"file:///a", "file:///ab", "file:///a?x", "file:///"},
		},
		{
			"a root", "mem://",
			[]string{"mem://", "mem://a", "mem:///a", "mem://?x"},
			[]string{"mem:/", "memo://a"},
		},
		{
			"a query", "x:a?b",
			[]string{"x:a?b", "x:a?b#c", "x:a?b/c", "x:a?b?c"},
			[]string{"x:a", "x:a?b&c", "x:a?bc"},
		},
		{
			"an open query", "x:a?",
			[]string{"x:a?", "x:a?/", "x:a??", "x:a?#"},
			[]string{"x:a?b", "x:a", "x:a/"},
		},
		{"one byte", "/", []string{"/", "/a", "//"}, []string{"a/", "?"}},
		{"not ASCII", "x:ä", []string{"x:ä", "x:ä/ö"}, []string{"x:äb", "x:a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hub := notify.NewFeed(notify.FeedOptions{})
			s := subscribe(t, hub, notify.Filter{ResourceURIs: []string{tt.wanted}})
			for _, uri := range tt.brings {
				publish(t, hub, updated(uri))
				if got := pending(t, s); !slices.Equal(got, []string{uri}) {
					t.Errorf("%q brought %q", uri, got)
				}
			}
			for _, uri := range tt.not {
				publish(t, hub, updated(uri))
				if got := pending(t, s); got != nil {
					t.Errorf("%q brought %q", uri, got)
				}
			}
		})
	}
}

// TestManyURIsBringOneChange subscribes to a resource in several ways: an update
// comes once, also where it is read between two looks at the subscribers.
func TestManyURIsBringOneChange(t *testing.T) {
	t.Parallel()
	uris := []string{"file:///a/b/c", "file:///a", "file:///a/", "file:///a/b", "file:///a/b", "file:///a-b", "file:///a?b", "file:///z"}
	for _, uri := range []string{"file:///a", "file:///a/", "file:///a/b", "file:///a/b/c", "file:///a/b/c#d", "file:///a-b", "file:///a?b", "file:///z/"} {
		hub := notify.NewFeed(notify.FeedOptions{})
		s := subscribe(t, hub, notify.Filter{ResourceURIs: uris})
		publish(t, hub, updated(uri))
		if got := hub.Stats(); got.Queued != 1 || got.Merged != 0 {
			t.Errorf("%q was offered %d times", uri, got.Queued+got.Merged)
		}
		if got := pending(t, s); !slices.Equal(got, []string{uri}) {
			t.Errorf("%q brought %q", uri, got)
		}
	}
}

func TestFilterRefusesWhatItCannotKeep(t *testing.T) {
	t.Parallel()
	many := make([]string, max(notify.MaxURIs, notify.MaxTaskIDs)+1)
	for i := range many {
		many[i] = "x:" + strconv.Itoa(i)
	}
	tests := []struct {
		name   string
		filter notify.Filter
		want   notify.FilterError
		text   string
	}{
		{
			"an empty URI", notify.Filter{ResourceURIs: []string{"x:a", ""}},
			notify.FilterError{Field: "resource URI", Index: 1}, "notify: filter: resource URI 1: it is empty",
		},
		{
			"a long URI", notify.Filter{ResourceURIs: []string{strings.Repeat("x", notify.MaxURIBytes+1)}},
			notify.FilterError{Field: "resource URI", Index: 0}, "notify: filter: resource URI 0: 8193 bytes, over the limit of 8192",
		},
		{
			"many URIs", notify.Filter{ResourceURIs: many[:notify.MaxURIs+1]},
			notify.FilterError{Field: "resource URI", Index: -1}, "notify: filter: resource URIs: 1025 of them, over the limit of 1024",
		},
		{
			"an empty id", notify.Filter{TaskIDs: []string{""}},
			notify.FilterError{Field: "task id", Index: 0}, "notify: filter: task id 0: it is empty",
		},
		{
			"a long id", notify.Filter{TaskIDs: []string{"t", strings.Repeat("x", notify.MaxTaskIDBytes+1)}},
			notify.FilterError{Field: "task id", Index: 1}, "notify: filter: task id 1: 1025 bytes, over the limit of 1024",
		},
		{
			"many ids", notify.Filter{TaskIDs: many[:notify.MaxTaskIDs+1]},
			notify.FilterError{Field: "task id", Index: -1}, "notify: filter: task ids: 1025 of them, over the limit of 1024",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hub := notify.NewFeed(notify.FeedOptions{})
			_, err := hub.Subscribe(tt.filter)
			var got *notify.FilterError
			if !errors.As(err, &got) || got.Field != tt.want.Field || got.Index != tt.want.Index || got.Error() != tt.text {
				t.Errorf("got %v", err)
			}
			if n := hub.Stats().Subscribers; n != 0 {
				t.Errorf("%d subscribers", n)
			}
		})
	}
}

// TestFilterAtItsBounds admits what the contract admits, and brings all of it.
func TestFilterAtItsBounds(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxPending: notify.MaxURIs + notify.MaxTaskIDs})
	filter := notify.Filter{Principal: "p"}
	var want []string
	for i := range notify.MaxURIs {
		uri := "x:" + strings.Repeat("u", notify.MaxURIBytes-6) + strconv.Itoa(i+1000)
		filter.ResourceURIs = append(filter.ResourceURIs, uri)
		want = append(want, uri)
	}
	for i := range notify.MaxTaskIDs {
		id := strings.Repeat("t", notify.MaxTaskIDBytes-4) + strconv.Itoa(i+1000)
		filter.TaskIDs = append(filter.TaskIDs, id)
		want = append(want, "p:"+id+"=1")
	}
	s := subscribe(t, hub, filter)
	for _, uri := range filter.ResourceURIs {
		publish(t, hub, updated(uri))
	}
	for _, id := range filter.TaskIDs {
		publish(t, hub, task("p", id, "1"))
	}
	if diff := cmp.Diff(want, pending(t, s)); diff != "" {
		t.Errorf("(-want +got) %s", diff)
	}
}

func TestChangesThatAreRefused(t *testing.T) {
	t.Parallel()
	withURI, withTask, withOwner := list(notify.ToolsListChanged), updated("x:a"), updated("x:a")
	withURI.URI = "x:a"
	withTask.Task = task("p", "t", "1").Task
	withOwner.Principal = "p"
	tests := []struct {
		name   string
		change notify.Change
		text   string
	}{
		{"no kind", notify.Change{}, "feed: kind 0: there is no such kind"},
		{"another kind", notify.Change{Kind: notify.TaskChanged + 1}, "feed: kind 6: there is no such kind"},
		{"a list with a URI", withURI, "feed: tools list changed: only an updated resource has a URI"},
		{"a resource with a task", withTask, "feed: resource updated: only a changed task has a task"},
		{"a resource of somebody's", withOwner, "feed: resource updated: only a task belongs to a principal"},
		{"no URI", updated(""), "feed: resource updated: it does not say which: set its URI"},
		{"a long URI", updated(strings.Repeat("x", notify.MaxURIBytes+1)), "feed: resource updated: its URI has 8193 bytes, over the limit of 8192"},
		{"no task", notify.Change{Kind: notify.TaskChanged}, "feed: task changed: it does not say which: set its task, with an id"},
		{"a task without id", task("p", "", "1"), "feed: task changed: it does not say which: set its task, with an id"},
		{"a long id", task("p", strings.Repeat("x", notify.MaxTaskIDBytes+1), "1"), "feed: task changed: its task's id has 1025 bytes, over the limit of 1024"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hub := notify.NewFeed(notify.FeedOptions{})
			subscribe(t, hub, notify.Filter{Tools: true, ResourceURIs: []string{"x:a"}})
			err := hub.Publish(tt.change)
			var got *notify.ChangeError
			if !errors.As(err, &got) || got.Kind != tt.change.Kind || got.Error() != tt.text {
				t.Errorf("got %v", err)
			}
			if stats := hub.Stats(); stats.Published != 0 || stats.Queued != 0 {
				t.Errorf("it counts: %+v", stats)
			}
		})
	}
}
