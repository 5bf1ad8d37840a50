// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// TestWhoHasMostMakesRoom has one caller open more sessions than
// there may be at all: others keep theirs, and newcomers find room.
func TestWhoHasMostMakesRoom(t *testing.T) {
	t.Parallel()
	const most = 100
	m := session.New(session.Options{Max: most})
	defer m.Close()
	open := func(caller string) string {
		t.Helper()
		s, err := m.Open(caller, nil, 0)
		if err != nil {
			t.Fatalf("%s: %v", caller, err)
		}
		defer s.Release()
		return s.ID()
	}
	isOpen := func(caller, id string) bool {
		s, err := m.Use(t.Context(), caller, id)
		if err == nil {
			s.Release()
		}
		return err == nil
	}
	victim := open("victim") // the longest unused of all
	var greedy []string
	for range most + most/20 {
		greedy = append(greedy, open("greedy"))
	}
	if !isOpen("victim", victim) {
		t.Error("another caller's session is gone")
	}
	if isOpen("greedy", greedy[0]) || !isOpen("greedy", greedy[len(greedy)-1]) {
		t.Error("it is not the caller's own longest unused session that goes")
	}
	if got := m.Stats(); got.Sessions != most || got.Evicted != most/20+1 {
		t.Errorf("%+v", got)
	}
	// More callers than there are sessions: who has most gives.
	for i := range most {
		newcomer := fmt.Sprint("newcomer ", i)
		if id := open(newcomer); !isOpen(newcomer, id) {
			t.Errorf("%s has no session", newcomer)
		}
		if i == most/2 && !isOpen("victim", victim) {
			t.Error("while one caller has many, another loses its only one")
		}
	}
	if got := m.Stats(); got.Sessions != most {
		t.Errorf("%+v", got)
	}
}

// kept has a caller end a stream for each message, in a session for each, and
// returns the sessions: their streams can be resumed after "1-1".
func kept(t *testing.T, m *session.Manager, caller string, messages ...string) (sessions []*session.Session) {
	t.Helper()
	for _, message := range messages {
		s, err := m.Open(caller, nil, 0)
		if err != nil {
			t.Fatalf("%s: %v", caller, err)
		}
		st := s.NewStream()
		send(t, st, message)
		st.End()
		sessions = append(sessions, s)
	}
	return sessions
}

// resumable counts the sessions whose stream can be resumed.
func resumable(sessions []*session.Session) (n int) {
	for _, s := range sessions {
		if _, err := s.Resume("1-1"); err == nil {
			n++
		}
	}
	return n
}

const (
	// mostKept is room for a hundred streams of one message of messageBytes each.
	mostKept     = 100 * streamBytes
	messageBytes = 1000
	streamBytes  = messageBytes + 2*32 // and what the two events cost
)

// TestACallerOverItsShareLosesItsOwnStreams has one caller end more streams than
// there is room for. Those of the others can still be resumed, however old.
func TestACallerOverItsShareLosesItsOwnStreams(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{MaxKept: mostKept, Share: peer.Percent(80)})
	message := strings.Repeat("x", messageBytes)
	victim := kept(t, m, "victim", message, message)
	greedy := kept(t, m, "greedy", slices.Repeat([]string{message}, 300)...)
	newcomer := kept(t, m, "newcomer", message, message, message)
	if n := resumable(victim); n != len(victim) {
		t.Errorf("another caller's streams are gone: %d of %d are left", n, len(victim))
	}
	if n := resumable(newcomer); n != len(newcomer) {
		t.Errorf("a newcomer has %d of %d streams", n, len(newcomer))
	}
	if n := resumable(greedy); n < 70 || n > 80 || resumable(greedy[:len(greedy)-n]) != 0 {
		t.Errorf("%d streams are left, and %d of the first; want the last 70 to 80", n, resumable(greedy[:len(greedy)-n]))
	}
	for _, s := range greedy {
		if err := m.End(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.Stats().Kept; got != 5*streamBytes {
		t.Errorf("%d bytes are kept, want those of five streams", got)
	}
}

// TestTheCallerThatKeepsMostGives where all together keep too much.
func TestTheCallerThatKeepsMostGives(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{MaxKept: mostKept}) // one caller may have it all
	message := strings.Repeat("x", messageBytes)
	victim := kept(t, m, "victim", slices.Repeat([]string{message}, 30)...)
	greedy := kept(t, m, "greedy", slices.Repeat([]string{message}, 70)...)
	newcomer := kept(t, m, "newcomer", slices.Repeat([]string{message}, 20)...)
	if v, g, n := resumable(victim), resumable(greedy), resumable(newcomer); v != 30 || n != 20 || g < 49 || g > 50 {
		t.Errorf("%d, %d and %d streams are left; want 30, 50 and 20", v, g, n)
	}
}

// TestUnreadMessagesHaveAShare: streams that go on lose unread messages only
// where their caller has more than any may have. The newest message stays.
func TestUnreadMessagesHaveAShare(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{MaxKept: mostKept, Share: peer.Percent(80)})
	message := strings.Repeat("x", messageBytes)
	victim := kept(t, m, "victim", message)
	s, err := m.Open("greedy", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var going []*session.Stream
	for range 50 {
		going = append(going, s.NewStream())
	}
	for range 10 {
		for _, st := range going {
			send(t, st, message)
		}
	}
	if got := m.Stats().Kept; got > 85*streamBytes || got < 70*streamBytes {
		t.Errorf("%d bytes are kept, of %d", got, mostKept)
	}
	for _, st := range going {
		if got, _, err := read(st.Read()); err != nil || len(got) == 0 || got[len(got)-1] != message {
			t.Errorf("%d messages are left, and %v; the newest one always stays", len(got), err)
		}
	}
	if resumable(victim) != 1 {
		t.Error("another caller's stream is gone")
	}
}
