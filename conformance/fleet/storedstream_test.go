// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// waver is a store whose appends may be stored without a word of it, or not be stored.
type waver struct {
	session.Store
	// stored makes appends succeed and say that they did not; away makes them fail.
	// deaf: no message reaches another replica.
	stored, away, deaf atomic.Bool
	// held keeps messages to other replicas back until it is closed; deleted is called before a deletion is answered.
	held    chan struct{}
	deleted func()
	// behind is how often the store has not heard of any event yet.
	behind atomic.Int32
}

func (w *waver) Last(ctx context.Context, key, stream string) (session.StoredEvent, error) {
	if w.behind.Add(-1) >= 0 {
		return session.StoredEvent{}, session.ErrLost
	}
	return w.Store.Last(ctx, key, stream)
}

func (w *waver) Tell(ctx context.Context, m session.Message) error {
	if w.held == nil {
		return w.Store.Tell(ctx, m)
	}
	go func() {
		<-w.held
		_ = w.Store.Tell(context.WithoutCancel(ctx), m)
	}()
	return nil
}

func (w *waver) Delete(ctx context.Context, key string) error {
	err := w.Store.Delete(ctx, key)
	if w.deleted != nil {
		w.deleted()
	}
	return err
}

func (w *waver) Ask(ctx context.Context, replica string, m session.Message) (bool, error) {
	if w.deaf.Load() {
		return false, session.ErrNoReplica
	}
	return w.Store.Ask(ctx, replica, m)
}

func (w *waver) Append(ctx context.Context, key, stream string, e session.StoredEvent, after uint64) (uint64, error) {
	if w.away.Load() {
		return 0, session.ErrUnavailable
	}
	sequence, err := w.Store.Append(ctx, key, stream, e, after)
	if err == nil && w.stored.Load() {
		return 0, session.ErrUnavailable
	}
	return sequence, err
}

// startWaverer starts a keeper over a store that wavers.
func startWaverer(t *testing.T, n *natsServer, sealer *seal.Sealer) (*keeper, *waver) {
	t.Helper()
	w := &waver{}
	return startKeeper(t, n, sealer, session.Options{Store: w}), w
}

func send(t *testing.T, st *session.Stream, messages ...string) {
	t.Helper()
	for _, m := range messages {
		if err := st.Send([]byte(m)); err != nil {
			t.Fatalf("send %s: %v", m, err)
		}
	}
}

// TestWhatWaitsIsStoredFirst: events that came while NATS was away, and that nobody has read,
// are before those that come afterwards, at every replica.
func TestWhatWaitsIsStoredFirst(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, w := startWaverer(t, n, sealer)
	b := startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	first := poll(t, st.Read())
	w.away.Store(true)
	send(t, st, "one", "two")
	w.away.Store(false)
	send(t, st, "three")
	if err := st.Finish([]byte("the answer")); err != nil {
		t.Fatal(err)
	}
	there := b.use(t, s.ID())
	defer there.Release()
	want := []string{"one", "two", "three", "the answer"}
	for name, at := range map[string]*session.Session{"its replica": s, "another": there} {
		if got := resume(t, at, first, 9); !slices.Equal(got, want) {
			t.Errorf("%s tells %q, want %q", name, got, want)
		}
	}
	r, err := s.Resume(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	one := poll(t, r)
	if got := resume(t, there, one, 9); !slices.Equal(got, want[1:]) {
		t.Errorf("after the first one, the other replica tells %q, want %q", got, want[1:])
	}
}

// TestAnEventInDoubtIsStoredOnce: NATS has stored events, and the word of it was lost.
func TestAnEventInDoubtIsStoredOnce(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, w := startWaverer(t, n, sealer)
	b := startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	there := b.use(t, s.ID())
	defer there.Release()
	for name, with := range map[string]func(st *session.Stream) (want []string){
		"a question": func(st *session.Stream) []string {
			send(t, st, "question")
			w.stored.Store(false)
			send(t, st, "more")
			return []string{"question", "more", "the answer"}
		},
		"two in a row": func(st *session.Stream) []string {
			send(t, st, "one", "two")
			w.stored.Store(false)
			return []string{"one", "two", "the answer"}
		},
		"one that was read": func(st *session.Stream) []string {
			r := st.Read()
			send(t, st, "read")
			if id := poll(t, r); id != "" {
				t.Errorf("an event in doubt has the id %s", id)
			}
			w.stored.Store(false)
			w.away.Store(true)
			send(t, st, "unread")
			w.away.Store(false)
			return []string{"read", "unread", "the answer"}
		},
		"the answer": func(st *session.Stream) []string {
			if err := st.Finish([]byte("the answer")); err != nil {
				t.Fatal(err)
			}
			w.stored.Store(false)
			return []string{"the answer"}
		},
	} {
		st := s.NewStreamFor(aCall, true)
		first := poll(t, st.Read())
		w.stored.Store(true)
		want := with(st)
		if err := st.Finish([]byte("the answer")); err != nil && !errors.Is(err, session.ErrEnded) {
			t.Fatal(err)
		}
		for _, at := range []*session.Session{there, s} {
			if got := resume(t, at, first, 9); !slices.Equal(got, want) {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	if len(a.cancelled) > 0 {
		t.Errorf("cancelled: %q", a.cancelled)
	}
}

// TestAnAnswerWithoutAnIDCanBeRead elsewhere: it was written to a connection that was dead.
func TestAnAnswerWithoutAnIDCanBeRead(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, w := startWaverer(t, n, sealer)
	b := startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	r := st.Read()
	first := poll(t, r)
	w.away.Store(true)
	if err := st.Finish([]byte("the answer")); err != nil {
		t.Fatal(err)
	}
	if id := poll(t, r); id != "" {
		t.Errorf("an event that was not stored has the id %s", id)
	}
	w.away.Store(false)
	there := b.use(t, s.ID())
	defer there.Release()
	if got := resume(t, there, first, 9); !slices.Equal(got, []string{"the answer"}) {
		t.Errorf("told %q", got)
	}
}

// TestAQuietStreamGoesOn: all of its events have been dropped from the store. That is no
// replica which has taken it over.
func TestAQuietStreamGoesOn(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startKeeper(t, n, sealer, session.Options{}), startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	main, call := s.Main(), s.NewStreamFor(aCall, true)
	send(t, main, "a notice")
	stream, err := n.admin().Stream(t.Context(), "outrigger_default_streams")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	send(t, main, "another")
	r := call.Read()
	poll(t, r)
	send(t, call, "progress")
	if err := call.Finish([]byte("the answer")); err != nil {
		t.Fatal(err)
	}
	progress := poll(t, r)
	there := b.use(t, s.ID())
	defer there.Release()
	if got := resume(t, there, progress, 9); !slices.Equal(got, []string{"the answer"}) {
		t.Errorf("told %q", got)
	}
}

// TestALargeEventDoesNotStopTheStream: one event is more than a replica keeps of a stream.
func TestALargeEventDoesNotStopTheStream(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	o := session.Options{MaxBytes: 64 << 10}
	a, b := startKeeper(t, n, sealer, o), startKeeper(t, n, sealer, o)
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	first := poll(t, st.Read())
	large := string(bytes.Repeat([]byte{'x'}, 80<<10))
	send(t, st, large, "small")
	if err := st.Finish([]byte("the answer")); err != nil {
		t.Fatal(err)
	}
	there := b.use(t, s.ID())
	defer there.Release()
	if got := resume(t, there, first, 9); !slices.Equal(got, []string{large, "small", "the answer"}) {
		t.Errorf("told %d events", len(got))
	}
}

// TestTheNewestReaderWins, wherever it is: a client that reads a stream at a third replica has
// left its connection to the second one, which may not know.
func TestTheNewestReaderWins(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	var all []*session.Session
	for range 3 {
		k := startKeeper(t, n, sealer, session.Options{})
		if all == nil {
			all = append(all, k.open(t))
			continue
		}
		there := k.use(t, all[0].ID())
		defer there.Release()
		all = append(all, there)
	}
	st := all[0].NewStreamFor(aCall, true)
	before := st.Read()
	first := poll(t, before)
	for _, at := range []int{1, 2, 1, 0, 2} {
		r, err := all[at].Resume(t.Context(), first)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
		if _, err := before.Next(ctx); !errors.Is(err, session.ErrTaken) {
			t.Errorf("the reader before that at replica %d: %v", at, err)
		}
		cancel()
		before = r
	}
}

// TestANoticeAfterATakeover: two replicas have told the client, and the one that does now is
// fenced by an event of the other. It goes on with another stream, and tells all again.
func TestANoticeAfterATakeover(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startKeeper(t, n, sealer, session.Options{}), startKeeper(t, n, sealer, session.Options{})
	s := a.open(t)
	before := s.Main()
	r := before.Read()
	send(t, before, "one")
	id := poll(t, r)
	there := b.use(t, s.ID())
	defer there.Release()
	again, err := there.Resume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	send(t, before, "two, from the one before") // it did not know yet
	now := there.Main()
	if err := now.Send([]byte("two")); !errors.Is(err, session.ErrEnded) {
		t.Fatalf("the notice was sent: %v", err)
	}
	if there.Main() == now {
		t.Error("a stream that has ended is that of what belongs to no request")
	}
	send(t, there.Main(), "three")
	if got := poll(t, there.Main().Read()); got == "" {
		t.Error("no event came")
	}
}

// TestAnAnswerForAReplicaThatIsCutOff: it still has its lease, so it waits for the answer,
// which the client has to send again.
func TestAnAnswerForAReplicaThatIsCutOff(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a := startKeeper(t, n, sealer, session.Options{})
	b, w := startWaverer(t, n, sealer)
	s := a.open(t)
	there := b.use(t, s.ID())
	defer there.Release()
	asked, answered := make(chan []byte, 1), make(chan string, 1)
	go func() {
		result, err := s.Ask(t.Context(), func(m []byte) error { asked <- m; return nil }, "elicitation/create", nil)
		answered <- fmt.Sprint(string(result), err)
	}()
	question := jsonrpc.Parse(<-asked, jsonrpc.ProfileMCP, jsonrpc.Limits{})
	answer := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":`+string(question.ID.Raw())+`,"result":{"action":"accept"}}`), jsonrpc.ProfileMCP, jsonrpc.Limits{})
	w.deaf.Store(true)
	if err := there.Deliver(t.Context(), &answer); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("while it is cut off: %v", err)
	}
	w.deaf.Store(false)
	if err := there.Deliver(t.Context(), &answer); err != nil {
		t.Error(err)
	}
	if got := <-answered; got != `{"action":"accept"}<nil>` {
		t.Errorf("answered %s", got)
	}
}
