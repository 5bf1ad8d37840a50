// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/correlate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// maxID is the length of the longest id, and idle how long a session stays in memory without a use.
const (
	maxID = 1 << 10
	idle  = 30 * time.Minute
)

// deployment is NATS as replicas see it, and the key that they share.
type deployment struct {
	keys *keys.Keys

	mu       sync.Mutex
	deaf     bool // a replica without an answer has not ended
	replicas map[string]func([]byte) []byte
	watchers map[string]state.Watcher
	ended    map[string]bool
	away     bool
}

func newDeployment() *deployment {
	return &deployment{
		keys: keys.RandomKeys(), replicas: map[string]func([]byte) []byte{}, watchers: map[string]state.Watcher{}, ended: map[string]bool{},
	}
}

func (d *deployment) setAway(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

// end is the end of a replica without a word.
func (d *deployment) end(replica string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.replicas, replica)
}

func (d *deployment) gone(context.Context, string) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.deaf, nil
}

func (d *deployment) reach() error {
	if d.away {
		return state.ErrUnavailable
	}
	return nil
}

// Tell is that of a [state.Channel], and so are Ask and Serve.
func (d *deployment) Tell(_ context.Context, data []byte) error {
	d.mu.Lock()
	err, all := d.reach(), maps.Clone(d.replicas)
	d.mu.Unlock()
	if err == nil {
		for _, hears := range all {
			hears(data)
		}
	}
	return err
}

func (d *deployment) Ask(_ context.Context, replica string, data []byte) ([]byte, error) {
	d.mu.Lock()
	err, answers := d.reach(), d.replicas[replica]
	d.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case answers == nil:
		return nil, state.ErrNotFound
	}
	return answers(data), nil
}

func (d *deployment) Serve(ctx context.Context, replica string, answer func([]byte) []byte) {
	d.mu.Lock()
	d.replicas[replica] = answer
	d.mu.Unlock()
	<-ctx.Done()
}

// Create is that of a [state.Bucket], and so is Watch.
func (d *deployment) Create(_ context.Context, key string, _ []byte, _ time.Duration) (uint64, error) {
	d.mu.Lock()
	err, was, all := d.reach(), d.ended[key], maps.Clone(d.watchers)
	d.ended[key] = d.ended[key] || err == nil
	d.mu.Unlock()
	switch {
	case err != nil:
		return 0, err
	case was:
		return 0, state.ErrExists
	}
	for _, w := range all {
		w.Changed(state.Entry{Key: key})
	}
	return 1, nil
}

func (d *deployment) Watch(ctx context.Context, w state.Watcher) {
	d.mu.Lock()
	before := maps.Clone(d.ended)
	d.watchers[fmt.Sprint(len(d.watchers))] = w
	d.mu.Unlock()
	for key := range before {
		w.Changed(state.Entry{Key: key})
	}
	<-ctx.Done()
}

// replica is one of the deployment. What happens to what runs in it is noted.
type replica struct {
	*session.Manager
	mu             sync.Mutex
	cancelled, cut []string
	ended          []session.Ended
}

// start starts a replica, in a bubble.
func (d *deployment) start(t *testing.T, name string, o session.Options) *replica {
	t.Helper()
	r := &replica{}
	note := func(to *[]string, text string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		*to = append(*to, text)
	}
	o.Sealer = keys.NewSealer(keys.SealerOptions{Keys: d.keys})
	o.Replicas = &session.Replicas{Self: name, Gone: d.gone, Channel: d, Ended: d}
	o.Origin = func() correlate.Origin { return 9 }
	o.Cancel = func(origin correlate.Origin, id jsonrpc.ID, reason string) bool {
		note(&r.cancelled, fmt.Sprint(origin, string(id.Raw()), reason))
		return true
	}
	o.Cut = func(origin correlate.Origin) int {
		note(&r.cut, fmt.Sprint(origin))
		return 1
	}
	o.Ended = func(e session.Ended) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ended = append(r.ended, e)
	}
	r.Manager = session.New(o)
	ctx, stop := context.WithCancel(context.Background())
	running := make(chan struct{})
	go func() {
		defer close(running)
		r.Run(ctx)
	}()
	t.Cleanup(func() {
		r.Close()
		stop()
		<-running
	})
	synctest.Wait()
	return r
}

// sealed opens a session of alice whose id is sealed.
func sealed(t testing.TB, m *session.Manager) *session.Session {
	t.Helper()
	s, err := m.OpenSealed(alice, client(), 7, session.Lists{Prompts: true})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// use uses a session until the end of the test.
func use(t testing.TB, m *session.Manager, id string) *session.Session {
	t.Helper()
	s, err := m.Use(t.Context(), alice, id)
	if err != nil {
		t.Fatalf("use: %v", err)
	}
	return s
}

// unknown wants an id to be unknown.
func unknown(t testing.TB, m *session.Manager, principal, id, why string) {
	t.Helper()
	if _, err := m.Use(t.Context(), principal, id); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("%s: %v", why, err)
	}
}

// TestAnIDIsServedByAnyProcess: a process with the same keys knows from it what its client said.
// Nothing else opens.
func TestAnIDIsServedByAnyProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ring := keys.RandomKeys()
		o := session.Options{Sealer: keys.NewSealer(keys.SealerOptions{Keys: ring}), Age: time.Hour}
		a, b := manage(t, o), manage(t, session.Options{Sealer: keys.NewSealer(keys.SealerOptions{Keys: ring}), Age: time.Hour, Origin: func() correlate.Origin { return 9 }})
		s := sealed(t, a)
		id := s.ID()
		if len(id) > maxID || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			t.Errorf("the id is %d letters: %s", len(id), id)
		}
		there := use(t, b, id)
		if there == s || !proto.Equal(there.Context(), client()) || there.Declared() != (session.Lists{Prompts: true}) || there.Origin() != 9 || there.ID() != id {
			t.Errorf("elsewhere it is %v, %+v", there.Context(), there.Declared())
		}
		if use(t, b, id) != there || use(t, a, id) != s {
			t.Error("one process has two of one session")
		}
		other := sealed(t, a).ID()
		unknown(t, a, bob, id, "another caller, where it is in memory")
		unknown(t, b, bob, other, "another caller")
		unknown(t, manage(t, session.Options{}), alice, id, "another key")
		unknown(t, b, alice, other[:len(other)-8]+"AAAAAAAA", "a changed id")
		unknown(t, b, alice, strings.Repeat("x", 32), "an id as releases before gave it")
		unknown(t, b, alice, "v1."+strings.Repeat("A", 2*maxID), "a long id")
		local, err := a.Open(alice, client(), 7)
		if err != nil {
			t.Fatal(err)
		}
		unknown(t, b, alice, local.ID(), "an id of one process")

		time.Sleep(time.Hour - time.Second)
		if b.Use(t.Context(), alice, other); use(t, b, other) == nil || use(t, b, id) != there {
			t.Error("it is gone too early")
		}
		time.Sleep(2 * time.Second)
		for name, m := range map[string]*session.Manager{"its own process": a, "another": b, "one that never saw it": manage(t, o)} {
			unknown(t, m, alice, id, "after its age, at "+name)
			if got := m.Stats().TooOld; got != 1 {
				t.Errorf("%s counts %d", name, got)
			}
		}
	})
}

// TestTheLargestClientHasAnID of the longest form, and a larger one none.
func TestTheLargestClientHasAnID(t *testing.T) {
	t.Parallel()
	m, longest := manage(t, session.Options{}), 0
	for n := 1; ; n++ {
		said := client()
		said.Capabilities.ExperimentalForm = &outriggerv1.ClientCapabilities_ExperimentalJson{ExperimentalJson: []byte(strings.Repeat("x", n))}
		s, err := m.OpenSealed(alice, said, 7, session.Lists{})
		if errors.Is(err, session.ErrLargeClient) {
			break
		}
		if err != nil || len(s.ID()) > maxID || n > maxID {
			t.Fatalf("%d letters: %d, %v", n, len(s.ID()), err)
		}
		longest = max(longest, len(s.ID()))
	}
	if longest < maxID-4 {
		t.Errorf("the longest id has %d letters", longest)
	}
}

// TestWhatNothingWasLearnedOfIsForgotten after the idle time, and begins again from its id. What was learned stays where it was learned.
func TestWhatNothingWasLearnedOfIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := notify.NewFeed(notify.FeedOptions{})
		m := manage(t, session.Options{Idle: time.Minute, Age: time.Hour, Feed: hub})
		unused, learned := sealed(t, m), sealed(t, m)
		ended := 0
		if err := errors.Join(learned.Watch(t.Context(), "x:a"), learned.WatchScoped(t.Context(), "x:b", "one")); err != nil {
			t.Fatal(err)
		}
		learned.OnUnwatch("x:b", "one", func() { ended++ })
		unused.Release()
		learned.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := m.Stats(); !isDone(unused) || isDone(learned) || got.Sessions != 0 || got.Held != 1 || got.Expired != 1 || hub.Stats().Subscribers != 0 || ended != 1 {
			t.Errorf("%+v, %+v, %d", got, hub.Stats(), ended)
		}
		if again := use(t, m, unused.ID()); again == unused {
			t.Error("a session that was forgotten goes on")
		}
		if use(t, m, learned.ID()) != learned || !learned.Watches("x:a") {
			t.Error("what was learned is gone")
		}
		if err := learned.Hear(); err != nil {
			t.Fatal(err)
		}
		publish(t, hub, updated("x:a"))
		want := []string{
			"tools list changed", "prompts list changed", "resources list changed", "resource updated x:a", "resource updated x:b", "resource updated x:a",
		}
		if got := changes(t, learned); !slices.Equal(got, want) || !slices.Equal(learned.Unfollowed(), []string{"x:b"}) {
			t.Errorf("told of %q, to follow %q", got, learned.Unfollowed())
		}
		learned.Release()
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := m.Stats(); got.Held != 1 || !isDone(learned) { // the other one is in use
			t.Errorf("after its age: %+v", got)
		}
	})
}

// TestWhatWasLearnedIsNotLostSilently: a session that makes room begins again from its id, unless it had learned something.
func TestWhatWasLearnedIsNotLostSilently(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{Max: 1})
	plain := sealed(t, m)
	plain.Release()
	learned := sealed(t, m)
	if err := learned.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_ERROR); err != nil {
		t.Fatal(err)
	}
	learned.Release()
	use(t, m, plain.ID()).Release()
	unknown(t, m, alice, learned.ID(), "a session that lost what it had learned")
	if got := m.Stats(); got.Evicted != 2 || got.Opened != 2 {
		t.Errorf("%+v", got)
	}
}

// TestAnEndedIDIsRefused at all replicas, also where it is used and where no one used it; without any, at its own process.
func TestAnEndedIDIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment()
		a, b, c := d.start(t, "a", session.Options{}), d.start(t, "b", session.Options{}), d.start(t, "c", session.Options{})
		s, going := sealed(t, a.Manager), sealed(t, a.Manager)
		there := use(t, b.Manager, s.ID())
		d.setAway(true)
		if err := b.End(t.Context(), there); !errors.Is(err, session.ErrUnavailable) || isDone(there) {
			t.Errorf("while NATS is away: %v", err)
		}
		d.setAway(false)
		if err := b.End(t.Context(), there); err != nil && !errors.Is(err, session.ErrUnknown) { // its own word may be faster
			t.Errorf("end: %v", err)
		}
		if err := b.End(t.Context(), there); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("ended twice: %v", err)
		}
		late := d.start(t, "late", session.Options{})
		for name, r := range map[string]*replica{"its home": a, "where it ended": b, "elsewhere": c, "one that began later": late} {
			unknown(t, r.Manager, alice, s.ID(), name)
			use(t, r.Manager, going.ID())
		}
		if !isDone(s) || !isDone(there) || !slices.Equal(a.cut, []string{"7"}) || len(a.ended) != 1 || a.ended[0].Evicted || b.ended != nil {
			t.Errorf("cut %q, told %v and %v", a.cut, a.ended, b.ended)
		}

		keys := keys.NewSealer(keys.SealerOptions{Keys: d.keys})
		one, other := manage(t, session.Options{Sealer: keys}), manage(t, session.Options{Sealer: keys})
		alone := sealed(t, one)
		if err := one.End(t.Context(), alone); err != nil {
			t.Fatal(err)
		}
		unknown(t, one, alice, alone.ID(), "its own process")
		use(t, other, alone.ID()) // no one told it
	})
}

// TestWhatASessionLearnsIsKnownEverywhere: its home keeps it, whichever replica it comes to, for those that meet the session later.
func TestWhatASessionLearnsIsKnownEverywhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment()
		o := session.Options{MaxWatched: 2}
		a, b := d.start(t, "a", o), d.start(t, "b", o)
		s := sealed(t, a.Manager)
		there := use(t, b.Manager, s.ID())
		level := func(s *session.Session, want outriggerv1.LogLevel) {
			t.Helper()
			if got := s.LogLevel(); got != want {
				t.Errorf("%v, want %v", got, want)
			}
		}
		if err := there.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_ERROR); err != nil {
			t.Fatal(err)
		}
		level(s, outriggerv1.LogLevel_LOG_LEVEL_ERROR)
		level(there, outriggerv1.LogLevel_LOG_LEVEL_ERROR)
		if err := errors.Join(s.Watch(t.Context(), "x:a"), there.WatchScoped(t.Context(), "x:b", "one")); err != nil {
			t.Fatal(err)
		}
		if err := there.Watch(t.Context(), "x:c"); !errors.Is(err, session.ErrTooMany) || there.Watches("x:c") {
			t.Errorf("one too many: %v", err)
		}
		met := use(t, d.start(t, "c", o).Manager, s.ID())
		level(met, outriggerv1.LogLevel_LOG_LEVEL_ERROR)
		for name, at := range map[string]*session.Session{"home": s, "there": there, "a replica that met it later": met} {
			if !at.Watches("x:a") || !at.Watches("x:b") {
				t.Errorf("%s does not watch all", name)
			}
		}
		if err := met.Unwatch(t.Context(), "x:a"); err != nil || s.Watches("x:a") || there.Watches("x:a") || met.Watches("x:a") {
			t.Errorf("unwatched: %v", err)
		}

		d.setAway(true)
		if err := there.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_DEBUG); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("while NATS is away: %v", err)
		}
		if err := s.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_INFO); err != nil {
			t.Errorf("at home: %v", err)
		}
		blind := d.start(t, "d", o)
		level(use(t, blind.Manager, s.ID()), outriggerv1.LogLevel_LOG_LEVEL_INFO) // it is served, with what its id says
		if err := s.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_ALERT); err != nil {
			t.Error(err)
		}
		d.setAway(false)
		level(use(t, blind.Manager, s.ID()), outriggerv1.LogLevel_LOG_LEVEL_ALERT)

		// A home that forgot the session knows it from its id.
		quiet := sealed(t, a.Manager)
		quiet.Release()
		time.Sleep(idle)
		synctest.Wait()
		if err := use(t, b.Manager, quiet.ID()).SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_ERROR); err != nil {
			t.Errorf("a home that forgot: %v", err)
		}
		level(use(t, a.Manager, quiet.ID()), outriggerv1.LogLevel_LOG_LEVEL_ERROR)

		d.end("a")
		d.deaf = true
		if err := there.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_DEBUG); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("while its home is cut off: %v", err)
		}
		d.deaf = false
		if err := there.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_WARNING); err != nil {
			t.Errorf("without a home: %v", err)
		}
		level(there, outriggerv1.LogLevel_LOG_LEVEL_WARNING)
	})
}

// TestAnswersAndCancellationsFindTheirReplica, by the name in the question's id, and by asking all.
func TestAnswersAndCancellationsFindTheirReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment()
		a, b, c := d.start(t, "a", session.Options{}), d.start(t, "b", session.Options{}), d.start(t, "c", session.Options{})
		s := sealed(t, a.Manager)
		there, third := use(t, b.Manager, s.ID()), use(t, c.Manager, s.ID())
		w := make(wire, 2)
		answer := ask(t.Context(), there, w, "roots/list", "") // no home
		id := string(w.next(t).ID.Raw())
		for name, tc := range map[string]struct {
			at *session.Session
			id string
		}{
			"another number":  {third, strings.Replace(id, "-1.", "-2.", 1)},
			"a changed name":  {third, id[:len(id)-9] + `AAAAAAAA"`},
			"another session": {sealed(t, c.Manager), id},
			"another caller":  {mustOpen(t, c.Manager, bob), id},
		} {
			if err := tc.at.Deliver(t.Context(), response(t, tc.id, `"result":{}`)); !errors.Is(err, session.ErrUnexpected) {
				t.Errorf("%s: %v", name, err)
			}
		}
		d.setAway(true)
		if err := third.Deliver(t.Context(), response(t, id, `"result":{}`)); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("while NATS is away: %v", err)
		}
		d.setAway(false)
		if err := third.Deliver(t.Context(), response(t, id, `"result":{"roots":[]}`)); err != nil {
			t.Error(err)
		}
		if got := <-answer; got.err != nil || got.result != `{"roots":[]}` {
			t.Errorf("got %+v", got)
		}
		refused := ask(t.Context(), there, w, "roots/list", "")
		id = string(w.next(t).ID.Raw())
		if err := s.Deliver(t.Context(), response(t, id, `"error":{"code":-1,"message":"no roots"}`)); err != nil {
			t.Error(err)
		}
		var why *session.RefusedError
		if got := <-refused; !errors.As(got.err, &why) || why.Message != "no roots" {
			t.Errorf("got %+v", got)
		}
		if err := s.Cancel(t.Context(), []byte(`"r1"`), "enough"); err != nil {
			t.Error(err)
		}
		if want := []string{`9"r1"enough`}; !slices.Equal(b.cancelled, want) || !slices.Equal(c.cancelled, want) {
			t.Errorf("cancelled %q and %q", b.cancelled, c.cancelled)
		}
		// A cancellation and a question as releases before sent them, which stored sessions.
		old := []byte("\x0a\x03key\x1a\x06\x0a\x04\"r1\"")
		if said, err := d.Ask(t.Context(), "b", old); err != nil || d.Tell(t.Context(), old) != nil || string(said) != "\x08\x01" || len(b.cancelled) != 1 {
			t.Errorf("a message of a release before: %q, %v, %q", said, err, b.cancelled)
		}
		gone := ask(t.Context(), there, w, "roots/list", "")
		id = string(w.next(t).ID.Raw())
		d.end("b")
		if err := s.Deliver(t.Context(), response(t, id, `"result":{}`)); !errors.Is(err, session.ErrUnavailable) {
			t.Errorf("a replica that is gone: %v", err)
		}
		b.Close()
		<-gone
	})
}

func mustOpen(t *testing.T, m *session.Manager, principal string) *session.Session {
	t.Helper()
	s, err := m.OpenSealed(principal, client(), 7, session.Lists{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestEventsOfAnotherProcess are told from those that are lost, and never taken for those of this one.
func TestEventsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	keys := keys.NewSealer(keys.SealerOptions{})
	a, b := manage(t, session.Options{Sealer: keys}), manage(t, session.Options{Sealer: keys})
	s := sealed(t, a)
	there := use(t, b, s.ID())
	var ids []string
	for _, at := range []*session.Session{s, there} {
		st := at.NewStream()
		r := st.Read()
		ids = append(ids, wantRead(t, r, nil, ""))
		r.Close()
		send(t, st, "more")
	}
	for i, at := range []*session.Session{s, there} {
		if _, err := at.Resume(ids[i]); err != nil {
			t.Errorf("its own %s: %v", ids[i], err)
		}
		if _, err := at.Resume(ids[1-i]); !errors.Is(err, session.ErrElsewhere) {
			t.Errorf("%s of the other: %v", ids[1-i], err)
		}
		for _, odd := range []string{"", "1", "1-", "-1", "x-1", "1-x", "01-1", "1-01", "1-1-1", "zz.1-1", "1-99999999999999999999", strings.Repeat("1", 30) + "-1"} {
			if _, err := at.Resume(odd); !errors.Is(err, session.ErrLost) {
				t.Errorf("%q: %v", odd, err)
			}
		}
	}
}

// TestChangesWhereTheyAreRead: a replica that only answers requests collects no changes. One that a client reads from tells it first
// that everything may have changed.
func TestChangesWhereTheyAreRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDeployment()
		hub := notify.NewFeed(notify.FeedOptions{})
		here := notify.NewFeed(notify.FeedOptions{})
		a, b := d.start(t, "a", session.Options{Feed: here}), d.start(t, "b", session.Options{Feed: hub})
		s := sealed(t, a.Manager)
		there := use(t, b.Manager, s.ID())
		ended := 0
		if err := errors.Join(s.WatchScoped(t.Context(), "x:a", "one"), there.WatchScoped(t.Context(), "x:b", "two")); err != nil {
			t.Fatal(err)
		}
		there.OnUnwatch("x:b", "two", func() { ended++ })
		if <-s.FollowAgain(); !slices.Equal(s.Unfollowed(), []string{"x:b"}) {
			t.Errorf("its home has to follow %q", s.Unfollowed())
		}
		if hub.Stats().Subscribers != 0 || ended != 1 || there.Unfollowed() != nil {
			t.Errorf("no one reads: %+v, %d, %q", hub.Stats(), ended, there.Unfollowed())
		}
		if err := there.Hear(); err != nil {
			t.Fatal(err)
		}
		want := []string{"tools list changed", "prompts list changed", "resources list changed", "resource updated x:a", "resource updated x:b"}
		if got := changes(t, there); !slices.Equal(got, want) {
			t.Errorf("told of %q", got)
		}
		<-there.FollowAgain()
		if got := there.Unfollowed(); !slices.Equal(got, []string{"x:a", "x:b"}) {
			t.Errorf("to follow: %q", got)
		}
		for uri, scope := range map[string]string{"x:a": "one", "x:b": "two"} {
			if err := there.Rescope(uri, scope); err != nil {
				t.Fatal(err)
			}
			there.OnUnwatch(uri, scope, func() { ended++ })
		}
		if err := s.Unwatch(t.Context(), "x:a"); err != nil || ended != 2 || there.Unfollowed() != nil {
			t.Errorf("%v, %d ended, to follow %q", err, ended, there.Unfollowed())
		}
		if there.Miss(); !slices.Equal(changes(t, there), slices.Delete(want, 3, 4)) {
			t.Error("a gap is not everything")
		}
	})
}
