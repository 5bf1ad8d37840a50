// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestALateWordOfAnotherReader: a client read its stream at another replica and has come back when this one hears of it.
func TestALateWordOfAnotherReader(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a := startKeeper(t, n, sealer, session.Options{})
	w := &waver{held: make(chan struct{})}
	b := startKeeper(t, n, sealer, session.Options{Store: w})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	old := st.Read()
	first := poll(t, old)
	there := b.use(t, s.ID())
	defer there.Release()
	if _, err := there.Resume(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	back, err := s.Resume(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	defer back.Close()
	close(w.held)
	// A later word arrives after the late one.
	again := s.NewStreamFor(aCall, true)
	reader := again.Read()
	if _, err := there.Resume(t.Context(), poll(t, reader)); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the later word arrives", func() bool {
		_, _, err := reader.Poll()
		return errors.Is(err, session.ErrTaken)
	})
	if err := st.Finish([]byte("the answer")); err != nil {
		t.Fatal(err)
	}
	if e, err := back.Next(t.Context()); err != nil || string(e.Message) != "the answer" {
		t.Errorf("who came back gets %q, %v", e.Message, err)
	}
}

// TestTooManySessionsBecomeFewer: replicas that open sessions at once can have more than the limit together. The next one that
// is opened makes them as many as may be, and those in use stay.
func TestTooManySessionsBecomeFewer(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	wide, narrow := startKeeper(t, n, sealer, session.Options{Max: 6}), startKeeper(t, n, sealer, session.Options{Max: 3})
	used := wide.open(t)
	for range 5 {
		wide.open(t).Release()
	}
	testkit.Until(t, "the other replica knows of them", func() bool { return narrow.Stats().Sessions == 6 })
	narrow.open(t).Release()
	testkit.Until(t, "there are as many as may be", func() bool { return narrow.Stats().Sessions == 3 && wide.Stats().Sessions == 3 })
	select {
	case <-used.Done():
		t.Error("the one in use has ended")
	default:
	}
	used.Release()
}

// TestSessionsInUseElsewhereStay: where all sessions are in use at another replica, one more is refused.
func TestSessionsInUseElsewhereStay(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startKeeper(t, n, sealer, session.Options{Max: 3}), startKeeper(t, n, sealer, session.Options{Max: 3})
	var used []*session.Session
	for range 3 {
		used = append(used, a.open(t))
	}
	testkit.Until(t, "the other replica knows of them", func() bool { return b.Stats().Sessions == 3 })
	if _, err := openAt(t, b.Manager); !errors.Is(err, session.ErrFull) {
		t.Errorf("one more: %v, want %v", err, session.ErrFull)
	}
	if got := a.Stats(); got.Sessions != 3 || got.Evicted != 0 {
		t.Errorf("%+v", got)
	}
	for _, s := range used {
		s.Release()
	}
}

// TestAnEndIsToldOnce: a replica hears of the end of a session before the store has answered its deletion.
func TestAnEndIsToldOnce(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	w := &waver{}
	k := startKeeper(t, n, sealer, session.Options{Store: w, Max: 1})
	w.deleted = func() {
		testkit.Until(t, "the end is heard of", func() bool { return k.Stats().Sessions == 0 })
	}
	k.open(t).Release()
	s := k.open(t)
	if err := k.End(t.Context(), "alice", s.ID()); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var why []session.Reason
	for _, e := range k.ended {
		why = append(why, e.Why)
	}
	if want := []session.Reason{session.Evicted, session.Requested}; !slices.Equal(why, want) {
		t.Errorf("told %v, want %v", why, want)
	}
	if got := k.Stats(); got.Evicted != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAStoreThatIsBehind: right after a change of its leader, the store does not know an event that a client has.
func TestAStoreThatIsBehind(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a := startKeeper(t, n, sealer, session.Options{})
	w := &waver{}
	b := startKeeper(t, n, sealer, session.Options{Store: w})
	s := a.open(t)
	st := s.NewStreamFor(aCall, true)
	first := poll(t, st.Read())
	there := b.use(t, s.ID())
	defer there.Release()
	w.behind.Store(2)
	r, err := there.Resume(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	w.behind.Store(1000)
	if _, err := there.Resume(t.Context(), first); !errors.Is(err, session.ErrLost) {
		t.Errorf("an event that is gone: %v", err)
	}
}
