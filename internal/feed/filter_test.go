// SPDX-License-Identifier: Apache-2.0

package feed_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/feed"
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
			hub := feed.New(feed.Options{})
			s := subscribe(t, hub, feed.Filter{ResourceURIs: []string{tt.wanted}})
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
		hub := feed.New(feed.Options{})
		s := subscribe(t, hub, feed.Filter{ResourceURIs: uris})
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
	many := make([]string, max(feed.MaxURIs, feed.MaxTaskIDs)+1)
	for i := range many {
		many[i] = "x:" + strconv.Itoa(i)
	}
	tests := []struct {
		name   string
		filter feed.Filter
		want   feed.FilterError
		text   string
	}{
		{
			"an empty URI", feed.Filter{ResourceURIs: []string{"x:a", ""}},
			feed.FilterError{Field: "resource URI", Index: 1}, "feed: filter: resource URI 1: it is empty",
		},
		{
			"a long URI", feed.Filter{ResourceURIs: []string{strings.Repeat("x", feed.MaxURIBytes+1)}},
			feed.FilterError{Field: "resource URI", Index: 0}, "feed: filter: resource URI 0: 8193 bytes, over the limit of 8192",
		},
		{
			"many URIs", feed.Filter{ResourceURIs: many[:feed.MaxURIs+1]},
			feed.FilterError{Field: "resource URI", Index: -1}, "feed: filter: resource URIs: 1025 of them, over the limit of 1024",
		},
		{
			"an empty id", feed.Filter{TaskIDs: []string{""}},
			feed.FilterError{Field: "task id", Index: 0}, "feed: filter: task id 0: it is empty",
		},
		{
			"a long id", feed.Filter{TaskIDs: []string{"t", strings.Repeat("x", feed.MaxTaskIDBytes+1)}},
			feed.FilterError{Field: "task id", Index: 1}, "feed: filter: task id 1: 1025 bytes, over the limit of 1024",
		},
		{
			"many ids", feed.Filter{TaskIDs: many[:feed.MaxTaskIDs+1]},
			feed.FilterError{Field: "task id", Index: -1}, "feed: filter: task ids: 1025 of them, over the limit of 1024",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hub := feed.New(feed.Options{})
			_, err := hub.Subscribe(tt.filter)
			var got *feed.FilterError
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
	hub := feed.New(feed.Options{MaxPending: feed.MaxURIs + feed.MaxTaskIDs})
	filter := feed.Filter{Principal: "p"}
	var want []string
	for i := range feed.MaxURIs {
		uri := "x:" + strings.Repeat("u", feed.MaxURIBytes-6) + strconv.Itoa(i+1000)
		filter.ResourceURIs = append(filter.ResourceURIs, uri)
		want = append(want, uri)
	}
	for i := range feed.MaxTaskIDs {
		id := strings.Repeat("t", feed.MaxTaskIDBytes-4) + strconv.Itoa(i+1000)
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
	withURI, withTask, withOwner := list(feed.ToolsListChanged), updated("x:a"), updated("x:a")
	withURI.URI = "x:a"
	withTask.Task = task("p", "t", "1").Task
	withOwner.Principal = "p"
	tests := []struct {
		name   string
		change feed.Change
		text   string
	}{
		{"no kind", feed.Change{}, "feed: kind 0: there is no such kind"},
		{"another kind", feed.Change{Kind: feed.TaskChanged + 1}, "feed: kind 6: there is no such kind"},
		{"a list with a URI", withURI, "feed: tools list changed: only an updated resource has a URI"},
		{"a resource with a task", withTask, "feed: resource updated: only a changed task has a task"},
		{"a resource of somebody's", withOwner, "feed: resource updated: only a task belongs to a principal"},
		{"no URI", updated(""), "feed: resource updated: it does not say which: set its URI"},
		{"a long URI", updated(strings.Repeat("x", feed.MaxURIBytes+1)), "feed: resource updated: its URI has 8193 bytes, over the limit of 8192"},
		{"no task", feed.Change{Kind: feed.TaskChanged}, "feed: task changed: it does not say which: set its task, with an id"},
		{"a task without id", task("p", "", "1"), "feed: task changed: it does not say which: set its task, with an id"},
		{"a long id", task("p", strings.Repeat("x", feed.MaxTaskIDBytes+1), "1"), "feed: task changed: its task's id has 1025 bytes, over the limit of 1024"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hub := feed.New(feed.Options{})
			subscribe(t, hub, feed.Filter{Tools: true, ResourceURIs: []string{"x:a"}})
			err := hub.Publish(tt.change)
			var got *feed.ChangeError
			if !errors.As(err, &got) || got.Kind != tt.change.Kind || got.Error() != tt.text {
				t.Errorf("got %v", err)
			}
			if stats := hub.Stats(); stats.Published != 0 || stats.Queued != 0 {
				t.Errorf("it counts: %+v", stats)
			}
		})
	}
}
