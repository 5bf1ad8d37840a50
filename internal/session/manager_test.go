// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

func TestASessionIsItsCallersAlone(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{})
	s := open(t, m)
	if !has(m, alice, s) {
		t.Error("its own caller does not find it")
	}
	if has(m, bob, s) {
		t.Error("another caller finds it")
	}
	if _, err := m.Use(t.Context(), alice, s.ID()+"x"); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("another id: %v", err)
	}
	if err := m.End(t.Context(), s); err != nil || !isDone(s) || has(m, alice, s) {
		t.Errorf("ended: %v", err)
	}
	if err := m.End(t.Context(), s); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("ended twice: %v", err)
	}
	s.Release()
	if got := m.Stats(); got.Sessions != 0 || got.Opened != 1 {
		t.Errorf("%+v", got)
	}
}

// TestIDsAreVisibleASCII holds MCP 2025-11-25 (Streamable HTTP, session
// management): visible ASCII, and nothing that could be guessed from another.
func TestIDsAreVisibleASCII(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{})
	seen, places := map[string]bool{}, make([]map[byte]bool, 32)
	for range 1000 {
		s := open(t, m)
		id := s.ID()
		if len(id) != 32 || seen[id] || strings.ContainsFunc(id, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
			t.Fatalf("id %q", id)
		}
		seen[id] = true
		for i := range id {
			if places[i] == nil {
				places[i] = map[byte]bool{}
			}
			places[i][id[i]] = true
		}
	}
	for i, letters := range places {
		if len(letters) < 60 { // of 64, in a thousand draws
			t.Errorf("place %d has %d letters only", i, len(letters))
		}
	}
}

func TestNoRandomnessNoSession(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{Rand: bytes.NewReader(make([]byte, 40))})
	open(t, m)
	if _, err := m.Open(alice, client(), 7); err == nil || m.Stats().Sessions != 1 {
		t.Errorf("a short source of ids: %v", err)
	}
}

func TestIdleSessionsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, session.Options{Idle: time.Minute})
		used, early, late := open(t, m), open(t, m), open(t, m)
		early.Release()
		time.Sleep(30 * time.Second)
		late.Release()
		time.Sleep(30*time.Second - time.Nanosecond)
		synctest.Wait()
		if isDone(early) || !has(m, alice, used) {
			t.Error("one ended too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !isDone(early) || isDone(late) || isDone(used) || has(m, alice, early) {
			t.Error("the one that was unused for a minute has not ended alone")
		}
		// A use begins the time anew, and is no time at all.
		if !has(m, alice, late) {
			t.Fatal("it is gone")
		}
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if isDone(late) {
			t.Error("it was used 59 s ago")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if !isDone(late) || isDone(used) {
			t.Error("after a minute")
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if isDone(used) {
			t.Error("it is in use")
		}
		used.Release()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := m.Stats(); !isDone(used) || got != (session.Stats{Opened: 3, Expired: 3}) {
			t.Errorf("%+v", got)
		}
	})
}

func TestUsesAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, session.Options{Idle: time.Second})
		s := open(t, m)
		for range 3 {
			if _, err := m.Use(t.Context(), alice, s.ID()); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			s.Release()
			time.Sleep(time.Minute)
			synctest.Wait()
			if isDone(s) {
				t.Fatal("it ended in use")
			}
		}
		s.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		if !isDone(s) {
			t.Error("it is idle")
		}
	})
}

func TestTheLongestUnusedMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := manage(t, session.Options{Max: 3, Idle: time.Hour})
		used, first, second := open(t, m), open(t, m), open(t, m)
		if _, err := m.Open(bob, client(), 8); !errors.Is(err, session.ErrFull) {
			t.Errorf("all are in use: %v", err)
		}
		first.Release()
		time.Sleep(time.Second)
		second.Release()
		time.Sleep(time.Second)
		if !has(m, alice, first) { // now the second one is the longest unused
			t.Fatal("the first is gone")
		}
		third := open(t, m)
		if !isDone(second) || isDone(first) || isDone(used) {
			t.Error("another one than the longest unused has ended")
		}
		open(t, m)
		if !isDone(first) || isDone(used) || isDone(third) {
			t.Error("the other unused one has not ended")
		}
		if _, err := m.Open(alice, client(), 7); !errors.Is(err, session.ErrFull) {
			t.Errorf("all are in use again: %v", err)
		}
		if got := m.Stats(); got != (session.Stats{Sessions: 3, Held: 3, Opened: 5, Evicted: 2}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestOneMoreThanTheFeedHolds has as many sessions as subscriptions: the one
// that goes makes room in the feed, too.
func TestOneMoreThanTheFeedHolds(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{MaxSubscribers: 2})
	m := manage(t, session.Options{Max: 2, Feed: hub})
	open(t, m).Release()
	second := open(t, m)
	third := open(t, m)
	if !has(m, alice, second) || !has(m, alice, third) || hub.Stats().Subscribers != 2 {
		t.Errorf("%+v", hub.Stats())
	}
	// Where the feed has no room at all, nothing is left of the attempt.
	narrow := manage(t, session.Options{Feed: hub})
	if _, err := narrow.Open(alice, client(), 7); !errors.Is(err, notify.ErrFull) || narrow.Stats() != (session.Stats{}) {
		t.Errorf("%v, %+v", err, narrow.Stats())
	}
	hub.Close()
	if _, err := narrow.Open(alice, client(), 7); !errors.Is(err, notify.ErrClosed) || narrow.Stats() != (session.Stats{}) {
		t.Errorf("%v, %+v", err, narrow.Stats())
	}
}

func TestCloseEndsAll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := notify.NewFeed(notify.FeedOptions{})
		m := session.New(session.Options{Feed: hub, Idle: time.Hour})
		used, unused := open(t, m), open(t, m)
		unused.Release()
		reader := used.Main().Read()
		m.Close()
		m.Close()
		if !isDone(used) || !isDone(unused) || hub.Stats().Subscribers != 0 {
			t.Errorf("%+v", hub.Stats())
		}
		if _, _, err := read(reader); !errors.Is(err, session.ErrEnded) {
			t.Errorf("its stream: %v", err)
		}
		if _, err := m.Open(alice, client(), 7); !errors.Is(err, session.ErrClosed) {
			t.Errorf("opened: %v", err)
		}
		if _, err := m.Use(t.Context(), alice, used.ID()); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("used: %v", err)
		}
		used.Release()
		if got := m.Stats(); got.Sessions != 0 || got.Expired != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestWhatIsKeptOfAClient is a copy within a bound: what it says for display is
// left out first.
func TestWhatIsKeptOfAClient(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{MaxClient: 200})
	said := client()
	said.Capabilities.ExtensionsForm = &outriggerv1.ClientCapabilities_ExtensionsJson{ExtensionsJson: []byte(`{"a/b":{}}`)}
	s, err := m.Open(alice, said, 7)
	if err != nil {
		t.Fatal(err)
	}
	want := proto.CloneOf(said)
	copy(said.GetCapabilities().GetExtensionsJson(), "########")
	said.ProtocolVersion = "changed"
	if !proto.Equal(s.Context(), want) {
		t.Errorf("kept %v, want %v", s.Context(), want)
	}
	if s.Origin() != 7 {
		t.Errorf("origin %d", s.Origin())
	}

	pictured := client()
	pictured.ClientInfo.Icons = []*outriggerv1.Icon{{Src: "data:" + strings.Repeat("x", 200)}}
	if s, err = m.Open(alice, pictured, 7); err != nil || s.Context().GetClientInfo().GetName() != "client" || s.Context().GetClientInfo().GetIcons() != nil {
		t.Errorf("without its icons: %v, %v", s.Context(), err)
	}
	verbose := client()
	verbose.ClientInfo.Description = strings.Repeat("x", 200)
	if s, err = m.Open(alice, verbose, 7); err != nil || !proto.Equal(s.Context(), client()) {
		t.Errorf("without its description: %v, %v", s.Context(), err)
	}
	verbose.ClientInfo.Name = strings.Repeat("x", 200)
	if s, err = m.Open(alice, verbose, 7); err != nil || s.Context().GetClientInfo() != nil || s.Context().GetCapabilities() == nil {
		t.Errorf("without its name: %v, %v", s.Context(), err)
	}
	able := client()
	able.Capabilities.ExperimentalForm = &outriggerv1.ClientCapabilities_ExperimentalJson{ExperimentalJson: []byte(strings.Repeat("x", 200))}
	if _, err = m.Open(alice, able, 7); !errors.Is(err, session.ErrLargeClient) {
		t.Errorf("capabilities that are too large: %v", err)
	}
	if s, err = m.Open(alice, nil, 7); err != nil || s.Context().GetProtocolVersion() != "" {
		t.Errorf("a client that said nothing: %v, %v", s.Context(), err)
	}
}

func TestStateOfASession(t *testing.T) {
	t.Parallel()
	m := manage(t, session.Options{})
	s, other := open(t, m), open(t, m)
	if s.LogLevel() != outriggerv1.LogLevel_LOG_LEVEL_INFO {
		t.Errorf("a client that said nothing gets %v", s.LogLevel())
	}
	s.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_ERROR)
	if s.LogLevel() != outriggerv1.LogLevel_LOG_LEVEL_ERROR || other.LogLevel() != outriggerv1.LogLevel_LOG_LEVEL_INFO {
		t.Errorf("levels %v and %v", s.LogLevel(), other.LogLevel())
	}
	if !s.Started() || s.Started() || !other.Started() {
		t.Error("a session starts once")
	}
	names := map[string]bool{}
	for _, name := range []string{s.NewName("a"), s.NewName("a"), other.NewName("a"), other.NewName("a")} {
		if names[name] || !strings.HasPrefix(name, "a-") {
			t.Errorf("name %q", name)
		}
		names[name] = true
	}
}
