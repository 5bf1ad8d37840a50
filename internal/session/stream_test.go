// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/session"
)

// wantRead reads what is there and compares it.
func wantRead(t *testing.T, r *session.Reader, end error, want ...string) string {
	t.Helper()
	got, last, err := read(r)
	if !slices.Equal(got, want) || !errors.Is(err, end) {
		t.Fatalf("read %q and %v, want %q and %v", got, err, want, end)
	}
	return last
}

func TestAStreamIsReadToItsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, manage(t, session.Options{}))
		st := s.NewStream()
		r := st.Read()
		wantRead(t, r, nil, "") // an id to come back with, first of all
		send(t, st, "a", "b")
		wantRead(t, r, nil, "a", "b")
		go func() {
			time.Sleep(time.Second)
			send(t, st, "c")
			st.End()
		}()
		if e, err := nextEvent(t.Context(), r); err != nil || string(e.Message) != "c" {
			t.Errorf("waited for %s, %v", e.Message, err)
		}
		if _, err := nextEvent(t.Context(), r); !errors.Is(err, session.ErrEnded) {
			t.Errorf("the end is %v", err)
		}
		if _, err := nextEvent(hungUp(), s.NewStream().Read()); err != nil {
			t.Errorf("what is there comes before the end of the context: %v", err)
		}
		r = s.NewStream().Read()
		wantRead(t, r, nil, "")
		if _, err := nextEvent(hungUp(), r); !errors.Is(err, errHungUp) {
			t.Errorf("got %v", err)
		}
		if err := st.Send([]byte("d")); !errors.Is(err, session.ErrEnded) {
			t.Errorf("sent after the end: %v", err)
		}
	})
}

func TestWhoComesBackMissesNothing(t *testing.T) {
	t.Parallel()
	s := open(t, manage(t, session.Options{}))
	st, other := s.NewStream(), s.NewStream()
	send(t, st, "a", "b")
	send(t, other, "x")
	first := st.Read()
	last := wantRead(t, first, nil, "", "a", "b")
	first.Close()
	send(t, st, "c")
	st.End()
	for range 2 { // it may break again
		r, err := s.Resume(last)
		if err != nil || r.IsMain() {
			t.Fatalf("resume %s: %v", last, err)
		}
		end := wantRead(t, r, session.ErrEnded, "c")
		if r, err = s.Resume(end); err != nil {
			t.Fatal(err)
		}
		wantRead(t, r, session.ErrEnded)
	}
	for _, id := range []string{"", "-", "1", "1-", "-1", "1-0", "1-5", "3-1", "0-1", "a-b", "1-18446744073709551615", "1-99999999999999999999", "1-1-1", "+1-1"} {
		if _, err := s.Resume(id); !errors.Is(err, session.ErrLost) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if _, err := open(t, manage(t, session.Options{})).Resume(last); !errors.Is(err, session.ErrLost) {
		t.Errorf("another session: %v", err)
	}
}

func TestTheNewestReaderWins(t *testing.T) {
	t.Parallel()
	s := open(t, manage(t, session.Options{}))
	st := s.Main()
	if s.Main() != st {
		t.Fatal("there are two main streams")
	}
	old := st.Read()
	wantRead(t, old, nil, "")
	send(t, st, "a")
	now := st.Read()
	select {
	case <-old.News():
	default:
		t.Error("the old reader is not told")
	}
	wantRead(t, old, session.ErrTaken)
	wantRead(t, now, nil, "a")
	old.Return() // nothing can be given back any more
	old.Close()  // nor does it end the new one
	send(t, st, "b")
	if len(now.News()) != 1 {
		t.Error("the new reader is not told")
	}
	wantRead(t, now, nil, "b")
	// What was read and could not be written is read again, once.
	send(t, st, "c", "d")
	if e, _, _ := now.Poll(); string(e.Message) != "c" {
		t.Fatal("not c")
	}
	now.Return()
	now.Return()
	now.Close()
	wantRead(t, st.Read(), nil, "c", "d")
}

// TestGreet gives every new reader an id at once.
func TestGreet(t *testing.T) {
	t.Parallel()
	s := open(t, manage(t, session.Options{}))
	st := s.Main()
	first := wantRead(t, st.Greet(), nil, "")
	second := wantRead(t, st.Greet(), nil, "")
	if first == second {
		t.Errorf("two events with the id %s", first)
	}
	send(t, st, "a")
	last := wantRead(t, st.Greet(), nil, "a")
	for id, want := range map[string][]string{first: {"", "a"}, second: {"a"}, last: nil} {
		r, err := s.Resume(id)
		if err != nil {
			t.Fatal(err)
		}
		wantRead(t, r, nil, want...)
	}
	st.End()
	wantRead(t, st.Greet(), session.ErrEnded)
}

func TestAPauseSendsTheReaderAway(t *testing.T) {
	t.Parallel()
	s := open(t, manage(t, session.Options{}))
	st := s.NewStream()
	st.Pause() // before anybody reads
	r := st.Read()
	last := wantRead(t, r, session.ErrPaused, "")
	r, err := s.Resume(last) // the client comes back and waits
	if err != nil {
		t.Fatal(err)
	}
	wantRead(t, r, nil)
	st.Pause()
	if len(r.News()) != 1 {
		t.Error("the reader is not told")
	}
	wantRead(t, r, session.ErrPaused)
	send(t, st, "a") // a message ends the pause
	wantRead(t, r, nil, "a")
	st.Pause()
	st.End()
	st.Pause()
	wantRead(t, r, session.ErrEnded)
}

func TestAStreamKeepsTheNewest(t *testing.T) {
	t.Parallel()
	s := open(t, manage(t, session.Options{MaxEvents: 3, MaxBytes: 1000}))
	st := s.NewStream()
	slow := st.Read()
	send(t, st, "a", "b")
	wantRead(t, slow, nil, "", "a", "b")
	send(t, st, "c", "d", "e", "f")
	wantRead(t, slow, session.ErrLost)
	for id, lost := range map[string]bool{"1-1": true, "1-3": true, "1-4": false, "1-5": false, "1-7": false, "1-8": true} {
		if _, err := s.Resume(id); errors.Is(err, session.ErrLost) != lost {
			t.Errorf("%s: %v", id, err)
		}
	}
	wantRead(t, st.Read(), nil, "d", "e", "f")
	large := strings.Repeat("x", 940)
	send(t, st, large)
	if _, err := s.Resume("1-6"); !errors.Is(err, session.ErrLost) {
		t.Errorf("what came before a large message: %v", err)
	}
	// The newest stays, however large it is.
	send(t, st, large+large)
	wantRead(t, st.Read(), nil, large+large)
}

func TestEndedStreamsAreKeptForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, session.Options{Keep: time.Minute})
		s := open(t, m)
		first, second, lasting := s.NewStream(), s.NewStream(), s.NewStream()
		send(t, first, "a")
		first.End()
		time.Sleep(30 * time.Second)
		send(t, second, "b")
		second.End()
		second.End()
		resumable := func() string {
			synctest.Wait()
			out := ""
			for _, id := range []string{"1-1", "2-1", "3-1"} {
				if _, err := s.Resume(id); err == nil {
					out += id + " "
				}
			}
			return out
		}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{29 * time.Second, "1-1 2-1 3-1 "}, {time.Second, "2-1 3-1 "}, {30 * time.Second, "3-1 "}, {time.Hour, "3-1 "}} {
			time.Sleep(step.after)
			if got := resumable(); got != step.want {
				t.Errorf("after %v more: %q, want %q", step.after, got, step.want)
			}
		}
		before := m.Stats().Kept
		lasting.End()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := m.Stats().Kept; before == 0 || got != 0 {
			t.Errorf("%d bytes before the end, %d after it", before, got)
		}
	})
}

func TestASessionKeepsSoManyStreams(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{MaxStreams: 2})
	s := open(t, m)
	if !s.Main().Read().IsMain() {
		t.Error("the main stream is another one")
	}
	first, second := s.NewStream(), s.NewStream()
	second.End()
	third := s.NewStream() // for the one that has ended
	lost := func(id string) bool {
		_, err := s.Resume(id)
		return errors.Is(err, session.ErrLost)
	}
	if lost("1-1") || lost("2-1") || !lost("3-1") || lost("4-1") {
		t.Error("another stream made room than the one that has ended")
	}
	s.NewStream() // none has ended: the oldest goes, but not the main one
	if lost("1-1") || !lost("2-1") || lost("4-1") || lost("5-1") {
		t.Error("another stream made room than the oldest")
	}
	r := first.Read() // who reads it gets the rest
	send(t, first, "a")
	first.End()
	wantRead(t, r, session.ErrEnded, "", "a")
	if m.Stats().Kept == 0 {
		t.Error("nothing is counted")
	}
	third.End()
	if err := m.End(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if got := m.Stats().Kept; got != 0 {
		t.Errorf("%d bytes are kept of sessions that ended", got)
	}
	late := s.NewStream()
	if err := late.Send([]byte("x")); !errors.Is(err, session.ErrEnded) || !lost("6-1") || m.Stats().Kept != 0 {
		t.Errorf("a stream of a session that ended: %v", err)
	}
}

// TestAllStreamsTogetherAreBounded has more to keep than may be kept, in many
// sessions: the longest ended go first, then what clients have had.
func TestAllStreamsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 100_000
		m := manage(t, session.Options{MaxKept: most})
		text := strings.Repeat("x", 1000)
		var sessions []*session.Session
		for range 200 {
			s := open(t, m)
			sessions = append(sessions, s)
			st := s.NewStream()
			send(t, st, text)
			st.End()
			time.Sleep(time.Millisecond)
			if got := m.Stats().Kept; got > most+1100 {
				t.Fatalf("%d bytes are kept, of at most %d", got, most)
			}
		}
		for i, s := range sessions {
			_, err := s.Resume("1-1")
			if lost := errors.Is(err, session.ErrLost); lost != (i < 200-most/1064) {
				t.Fatalf("stream %d: %v", i, err)
			}
		}
		// Streams that go on keep what is unread, and nothing else.
		going := make([]*session.Stream, 100)
		for i, s := range sessions[:100] {
			going[i] = s.NewStream()
			send(t, going[i], text, text)
		}
		if got := m.Stats().Kept; got < 2*most || got > 2*most+10_000+100*96 {
			t.Errorf("%d bytes are kept", got)
		}
		for _, st := range going {
			wantRead(t, st.Read(), nil, "", text, text)
			send(t, st, "y")
		}
		if got := m.Stats().Kept; got > most+1100 {
			t.Errorf("%d bytes are kept, of at most %d", got, most)
		}
		for i, st := range going {
			if got, _, err := read(st.Read()); err != nil || fmt.Sprint(got) != "[y]" {
				t.Errorf("stream %d: %q, %v", i, got, err)
			}
		}
	})
}

// FuzzResume has clients name events that may never have been: nothing but what
// was sent is found, and reading goes on right behind it.
func FuzzResume(f *testing.F) {
	for _, id := range []string{"1-1", "1-3", "2-1", "", "-", "1", "1-0", "01-1", "1-18446744073709551615", "1--1", "+1-1", "1-1 "} {
		f.Add(id)
	}
	m := session.New(session.Options{})
	f.Cleanup(m.Close)
	s := open(f, m)
	st := s.NewStream()
	send(f, st, "a", "b")
	st.End()
	f.Fuzz(func(t *testing.T, id string) {
		r, err := s.Resume(id)
		if err != nil {
			if !errors.Is(err, session.ErrLost) {
				t.Fatal(err)
			}
			return
		}
		rest, _, err := read(r)
		want := map[string]int{"1-1": 2, "1-2": 1, "1-3": 0}
		if left, ok := want[id]; !ok || len(rest) != left || !errors.Is(err, session.ErrEnded) {
			t.Fatalf("%q: %q, %v", id, rest, err)
		}
	})
}
