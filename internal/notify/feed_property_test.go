// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// The model's bounds: small, so that they are met.
const (
	modelPending     = 3
	modelSubscribers = 6
)

// model says in the simplest words what everybody has to see.
type model struct {
	hub     *notify.Feed
	changed <-chan struct{}
	readers []*reader
	sent    int
	dropped uint64
	closed  bool
}

type reader struct {
	sub    *notify.Subscription
	filter notify.Filter
	// unread is what has to come, by what it is about; text is how it shows.
	unread []unread
	missed int
	over   bool // closed by its reader
}

type unread struct{ about, text string }

func (r *reader) gone() bool { return r.over || r.missed > 0 }

func (r *reader) named() int {
	n := 0
	for _, u := range r.unread {
		if !strings.HasSuffix(u.about, "list changed") {
			n++
		}
	}
	return n
}

// wants is the filter's rule, without an index.
func (r *reader) wants(c notify.Change) bool {
	f := r.filter
	switch c.Kind {
	case notify.ToolsListChanged:
		return f.Tools
	case notify.PromptsListChanged:
		return f.Prompts
	case notify.ResourcesListChanged:
		return f.Resources
	case notify.TaskChanged:
		return f.Principal == c.Principal && slices.Contains(f.TaskIDs, c.Task.GetTaskId())
	default:
		return slices.ContainsFunc(f.ResourceURIs, func(wanted string) bool {
			rest, ok := strings.CutPrefix(c.URI, wanted)
			return ok && (rest == "" || strings.HasSuffix(wanted, "/") || strings.ContainsAny(rest[:1], "/?#"))
		})
	}
}

// see puts a change behind what is unread, or where it is unread already.
func (r *reader) see(c notify.Change) {
	about := c.Kind.String()
	switch {
	case c.URI != "":
		about = c.URI
	case c.Task != nil:
		about = "task " + c.Task.GetTaskId()
	}
	if at := slices.IndexFunc(r.unread, func(u unread) bool { return u.about == about }); at >= 0 {
		r.unread[at].text = shown(c)
		return
	}
	if (c.URI != "" || c.Task != nil) && r.named() == modelPending {
		r.missed, r.unread = len(r.unread)+1, nil
		return
	}
	r.unread = append(r.unread, unread{about: about, text: shown(c)})
}

func uris() *rapid.Generator[string] { return rapid.StringMatching(`x:[a/?#]{0,4}`) }

func (m *model) subscribe(t *rapid.T) {
	f := notify.Filter{
		Tools: rapid.Bool().Draw(t, "tools"), Prompts: rapid.Bool().Draw(t, "prompts"), Resources: rapid.Bool().Draw(t, "resources"),
		ResourceURIs: rapid.SliceOfN(uris(), 0, 5).Draw(t, "uris"),
		TaskIDs:      rapid.SliceOfN(rapid.SampledFrom([]string{"t", "u", "x:a"}), 0, 3).Draw(t, "ids"),
		Principal:    rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "principal"),
	}
	before := m.interest()
	isTold(m.changed)
	s, err := m.hub.Subscribe(f)
	if want := m.admits(); !errors.Is(err, want) {
		t.Fatalf("subscribe: %v, want %v", err, want)
	}
	if err == nil {
		m.readers = append(m.readers, &reader{sub: s, filter: f})
	}
	m.compareInterest(t, before)
}

func (m *model) admits() error {
	living := 0
	for _, r := range m.readers {
		if !r.gone() {
			living++
		}
	}
	switch {
	case m.closed:
		return notify.ErrClosed
	case living == modelSubscribers:
		return notify.ErrFull
	}
	return nil
}

func (m *model) publish(t *rapid.T) {
	m.sent++
	var c notify.Change
	switch kind := rapid.SampledFrom([]notify.Kind{
		notify.ToolsListChanged, notify.PromptsListChanged, notify.ResourcesListChanged, notify.ResourceUpdated, notify.ResourceUpdated, notify.TaskChanged,
	}).Draw(t, "kind"); kind {
	case notify.ResourceUpdated:
		c = updated(uris().Draw(t, "uri"))
	case notify.TaskChanged:
		c = task(rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "principal"), rapid.SampledFrom([]string{"t", "u", "x:a"}).Draw(t, "id"), strconv.Itoa(m.sent))
	default:
		c = list(kind)
	}
	before := m.interest()
	isTold(m.changed)
	err := m.hub.Publish(c)
	if m.closed {
		if !errors.Is(err, notify.ErrClosed) {
			t.Fatalf("publish after the end: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.readers {
		if !r.gone() && r.wants(c) {
			r.see(c)
			if r.missed > 0 {
				m.dropped++
			}
		}
	}
	m.compareInterest(t, before)
}

func (m *model) draw(t *rapid.T) *reader {
	if len(m.readers) == 0 {
		t.Skip("no listener")
	}
	return m.readers[rapid.IntRange(0, len(m.readers)-1).Draw(t, "reader")]
}

func (m *model) read(t *rapid.T) {
	r := m.draw(t)
	c, ok, err := r.sub.Poll()
	var slow *notify.SlowError
	switch {
	case len(r.unread) > 0:
		if !ok || err != nil || shown(c) != r.unread[0].text {
			t.Fatalf("got %s, %v, %v; want %s", shown(c), ok, err, r.unread[0].text)
		}
		r.unread = r.unread[1:]
	case ok:
		t.Fatalf("got %s, want nothing", shown(c))
	case r.missed > 0:
		if !errors.As(err, &slow) || slow.Missed != r.missed {
			t.Fatalf("slow: %v; want %d missed", err, r.missed)
		}
	case r.over || m.closed:
		if !errors.Is(err, notify.ErrClosed) {
			t.Fatalf("closed: %v", err)
		}
	case err != nil:
		t.Fatalf("nothing unread: %v", err)
	}
	wantReady := len(r.unread) > 0 || r.gone() || m.closed
	if got := len(r.sub.Ready()) > 0; got != wantReady {
		t.Fatalf("ready is %v with %d unread", got, len(r.unread))
	}
}

func (m *model) unsubscribe(t *rapid.T) {
	r := m.draw(t)
	before := m.interest()
	isTold(m.changed)
	r.sub.Close()
	// Who was dropped keeps being told so.
	r.over = r.missed == 0
	r.unread = nil
	m.compareInterest(t, before)
}

// close comes seldom, so that there is something to close.
func (m *model) close(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "close") > 0 {
		t.Skip("not now")
	}
	m.hub.Close()
	m.closed = true
}

// interest is the union of all filters.
func (m *model) interest() notify.Filter {
	var out notify.Filter
	for _, r := range m.readers {
		if r.gone() || m.closed {
			continue
		}
		out.Tools, out.Prompts, out.Resources = out.Tools || r.filter.Tools, out.Prompts || r.filter.Prompts, out.Resources || r.filter.Resources
		out.ResourceURIs = append(out.ResourceURIs, r.filter.ResourceURIs...)
		out.TaskIDs = append(out.TaskIDs, r.filter.TaskIDs...)
	}
	slices.Sort(out.ResourceURIs)
	slices.Sort(out.TaskIDs)
	out.ResourceURIs, out.TaskIDs = slices.Compact(out.ResourceURIs), slices.Compact(out.TaskIDs)
	return out
}

// compareInterest wants the owner told where the interest has changed since
// before. It may be told of more: tasks of one name belong to several.
func (m *model) compareInterest(t *rapid.T, before notify.Filter) {
	after := m.interest()
	if diff := cmp.Diff(after, m.hub.Interest()); diff != "" {
		t.Fatalf("interest (-want +got) %s", diff)
	}
	if cmp.Diff(before, after) != "" && !isTold(m.changed) && !m.closed {
		t.Fatalf("it was not told of %s", cmp.Diff(before, after))
	}
}

func (m *model) check(t *rapid.T) {
	want := 0
	for _, r := range m.readers {
		if !r.gone() && !m.closed {
			want++
		}
	}
	if got := m.hub.Stats(); got.Subscribers != want || got.Dropped != m.dropped {
		t.Fatalf("stats %+v, want %d subscribers, %d dropped", got, want, m.dropped)
	}
}

// TestHubIsItsModel drives a hub beside a model of it.
func TestHubIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{hub: notify.NewFeed(notify.FeedOptions{MaxPending: modelPending, MaxSubscribers: modelSubscribers})}
		defer m.hub.Close()
		changed, forget := m.hub.OnInterest()
		defer forget()
		m.changed = changed
		t.Repeat(map[string]func(*rapid.T){
			"subscribe": m.subscribe, "publish": m.publish, "publish more": m.publish, "read": m.read, "read more": m.read,
			"unsubscribe": m.unsubscribe, "refilter": m.refilter, "close": m.close, "": m.check,
		})
	})
}

// TestBacklogIsItsModel has one reader far behind and catching up by turns, so
// that what it keeps is looked up, cut and filled again.
func TestBacklogIsItsModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hub := notify.NewFeed(notify.FeedOptions{})
		defer hub.Close()
		s, err := hub.Subscribe(notify.Filter{Tools: true, ResourceURIs: []string{"x:"}, TaskIDs: []string{"/1", "/2"}})
		if err != nil {
			t.Fatal(err)
		}
		var want []unread
		for turn := range rapid.IntRange(1, 12).Draw(t, "turns") {
			for n := range rapid.IntRange(0, 80).Draw(t, "changes") {
				what := rapid.IntRange(0, 60).Draw(t, "what")
				c, about := updated("x:/"+strconv.Itoa(what)), "x:/"+strconv.Itoa(what)
				switch what {
				case 0:
					c, about = list(notify.ToolsListChanged), "tools"
				case 1, 2:
					about = "/" + strconv.Itoa(what)
					c = task("", about, strconv.Itoa(100*turn+n))
				}
				if err := hub.Publish(c); err != nil {
					t.Fatal(err)
				}
				if at := slices.IndexFunc(want, func(u unread) bool { return u.about == about }); at >= 0 {
					want[at].text = shown(c)
				} else {
					want = append(want, unread{about: about, text: shown(c)})
				}
			}
			for range min(len(want), rapid.IntRange(0, 70).Draw(t, "reads")) {
				c, ok, err := s.Poll()
				if !ok || err != nil || shown(c) != want[0].text {
					t.Fatalf("got %s, %v, %v; want %s", shown(c), ok, err, want[0].text)
				}
				want = want[1:]
			}
		}
	})
}
