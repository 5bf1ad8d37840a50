// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestContractOfSessions holds for sessions in memory, and for those that replicas share.
func TestContractOfSessions(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, session.Options) *session.Manager{
		"memory": func(t *testing.T, o session.Options) *session.Manager {
			t.Helper()
			m := session.New(o)
			t.Cleanup(m.Close)
			return m
		},
		"JetStream": func(t *testing.T, o session.Options) *session.Manager {
			t.Helper()
			return startKeeper(t, startNATS(t, nil), newSealer(t), o).Manager
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("life", func(t *testing.T) { t.Parallel(); contractOfLife(t, begin(t, session.Options{})) })
			t.Run("streams", func(t *testing.T) { t.Parallel(); contractOfStreams(t, begin(t, session.Options{})) })
			t.Run("limits", func(t *testing.T) { t.Parallel(); contractOfLimits(t, begin(t, session.Options{Max: 2})) })
			t.Run("time", func(t *testing.T) {
				t.Parallel()
				contractOfTime(t, begin(t, session.Options{Idle: time.Second, MaxEvents: 4}))
			})
		})
	}
}

func openAt(t *testing.T, m *session.Manager) (*session.Session, error) {
	t.Helper()
	return m.OpenShared(t.Context(), "alice", &outriggerv1.RequestContext{ProtocolVersion: "2025-11-25"}, 1)
}

func mustOpen(t *testing.T, m *session.Manager) *session.Session {
	t.Helper()
	s, err := openAt(t, m)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// isKnown reports whether a caller has a session; any other error is a failure.
func isKnown(t *testing.T, m *session.Manager, principal, id string) bool {
	t.Helper()
	s, err := m.Use(t.Context(), principal, id, (&keeper{}).origin)
	if err == nil {
		s.Release()
	} else if !errors.Is(err, session.ErrUnknown) {
		t.Errorf("use: %v", err)
	}
	return err == nil
}

func contractOfLife(t *testing.T, m *session.Manager) {
	t.Helper()
	s := mustOpen(t, m)
	switch {
	case !isKnown(t, m, "alice", s.ID()):
		t.Error("the caller does not find its session")
	case isKnown(t, m, "bob", s.ID()), isKnown(t, m, "alice", s.ID()+"x"), isKnown(t, m, "alice", ""):
		t.Error("somebody finds a session that is not theirs")
	}
	if err := s.SetLogLevel(t.Context(), outriggerv1.LogLevel_LOG_LEVEL_ERROR); err != nil || s.LogLevel() != outriggerv1.LogLevel_LOG_LEVEL_ERROR {
		t.Errorf("the level is %v, %v", s.LogLevel(), err)
	}
	if err := errors.Join(s.Watch(t.Context(), "x:a"), s.Watch(t.Context(), "x:b"), s.Unwatch(t.Context(), "x:a")); err != nil || s.Watches("x:a") || !s.Watches("x:b") {
		t.Errorf("watches: %v", err)
	}
	if err := m.End(t.Context(), "bob", s.ID()); !errors.Is(err, session.ErrUnknown) {
		t.Errorf("the end by another caller: %v", err)
	}
	if err := m.End(t.Context(), "alice", s.ID()); err != nil {
		t.Error(err)
	}
	<-s.Done()
	if isKnown(t, m, "alice", s.ID()) || m.Stats().Sessions != 0 {
		t.Errorf("after the end: %+v", m.Stats())
	}
}

func contractOfStreams(t *testing.T, m *session.Manager) {
	t.Helper()
	s := mustOpen(t, m)
	st := s.NewStreamFor(aCall, true)
	r := st.Read()
	ids := []string{poll(t, r)}
	want := []string{"a", "b", "c"}
	for _, text := range want[:2] {
		if err := st.Send([]byte(text)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, poll(t, r))
	}
	if err := st.Finish([]byte("c")); err != nil {
		t.Fatal(err)
	}
	ids = append(ids, poll(t, r))
	if _, _, err := r.Poll(); !errors.Is(err, session.ErrEnded) {
		t.Errorf("the end is %v", err)
	}
	r.Close()
	for i, id := range ids {
		for range 2 {
			if got := resume(t, s, id, 9); !slices.Equal(got, want[i:]) {
				t.Errorf("after %d: %q", i, got)
			}
		}
	}
	for _, id := range []string{"", "x", "1-99", ids[0] + "9", "-", ids[0] + "-1"} {
		if _, err := s.Resume(t.Context(), id); !errors.Is(err, session.ErrLost) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if err := st.Send([]byte("d")); !errors.Is(err, session.ErrEnded) {
		t.Errorf("sent after the end: %v", err)
	}
}

func contractOfLimits(t *testing.T, m *session.Manager) {
	t.Helper()
	first, second := mustOpen(t, m), mustOpen(t, m)
	if _, err := openAt(t, m); !errors.Is(err, session.ErrFull) && !errors.Is(err, session.ErrShare) {
		t.Errorf("all are in use: %v", err)
	}
	first.Release()
	third := mustOpen(t, m)
	<-first.Done()
	if isKnown(t, m, "alice", first.ID()) || !isKnown(t, m, "alice", second.ID()) || !isKnown(t, m, "alice", third.ID()) {
		t.Error("another session than the idle one has ended")
	}
	if got := m.Stats(); got.Sessions != 2 || got.Evicted != 1 {
		t.Errorf("%+v", got)
	}
}

// contractOfTime: what is idle ends, and what is in use does not, however long.
func contractOfTime(t *testing.T, m *session.Manager) {
	t.Helper()
	idle, used := mustOpen(t, m), mustOpen(t, m)
	idle.Release()
	<-idle.Done()
	testkit.Until(t, "the idle session is unknown, without a look that would use it", func() bool { return m.Stats().Sessions == 1 })
	if isKnown(t, m, "alice", idle.ID()) || !isKnown(t, m, "alice", used.ID()) {
		t.Error("another session than the idle one has ended")
	}
	if got := m.Stats(); got.Expired != 1 {
		t.Errorf("%+v", got)
	}
}
