// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// TestACallerOverItsShareEndsItsOwnSessions has one caller open more sessions than
// there may be at all: others keep theirs, and newcomers find room.
func TestACallerOverItsShareEndsItsOwnSessions(t *testing.T) {
	t.Parallel()
	const most = 100
	m := session.New(session.Options{Max: most, Share: share.Percent(80)})
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
		s, err := m.Use(caller, id)
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
	if got := m.Stats(); got.Sessions < most*3/4 || got.Sessions > most*5/6 || got.Over != got.Evicted || got.Over == 0 {
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

// TestACallerWhoUsesItsShareIsRefused: sessions in use do not go.
func TestACallerWhoUsesItsShareIsRefused(t *testing.T) {
	t.Parallel()
	m := session.New(session.Options{Max: 10, Share: share.Percent(80)})
	defer m.Close()
	for range 8 {
		if _, err := m.Open("greedy", nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.Open("greedy", nil, 0); !errors.Is(err, session.ErrShare) {
		t.Errorf("got %v", err)
	}
	if _, err := m.Open("other", nil, 0); err != nil {
		t.Errorf("another caller: %v", err)
	}
}
