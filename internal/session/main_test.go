// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const alice, bob = "alice", "bob"

// client is what a client says when it opens a session.
func client() *outriggerv1.RequestContext {
	return &outriggerv1.RequestContext{
		ProtocolVersion: "2025-11-25",
		Capabilities:    &outriggerv1.ClientCapabilities{Elicitation: &outriggerv1.ElicitationCapability{Form: true}},
		ClientInfo:      &outriggerv1.Implementation{Name: "client", Version: "1"},
	}
}

// manage returns a manager that ends with the test.
func manage(t testing.TB, o session.Options) *session.Manager {
	t.Helper()
	m := session.New(o)
	t.Cleanup(m.Close)
	return m
}

// open opens a session of alice, which is in use.
func open(t testing.TB, m *session.Manager) *session.Session {
	t.Helper()
	s, err := m.Open(alice, client(), 7)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

// has reports whether a session is there, without using it for long.
func has(m *session.Manager, principal string, s *session.Session) bool {
	found, err := m.Use(context.Background(), principal, s.ID())
	if err != nil {
		return false
	}
	found.Release()
	return found == s
}

// isDone reports whether a session has ended.
func isDone(s *session.Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// send puts messages on a stream.
func send(t testing.TB, st *session.Stream, messages ...string) {
	t.Helper()
	for _, m := range messages {
		if err := st.Send([]byte(m)); err != nil {
			t.Fatalf("send %s: %v", m, err)
		}
	}
}

// read returns what is there to read, as text, empty for events without a
// message; the id of the last one; and what ended it, if anything did.
func read(r *session.Reader) (messages []string, last string, err error) {
	for {
		e, ok, err := r.Poll()
		if !ok {
			return messages, last, err
		}
		messages, last = append(messages, string(e.Message)), e.ID
	}
}

var errHungUp = errors.New("the connection broke")

// hungUp is a context that has ended.
func hungUp() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errHungUp)
	return ctx
}

// nextEvent waits for the next event of a stream, as a connection does.
func nextEvent(ctx context.Context, r *session.Reader) (session.Event, error) {
	for {
		e, ok, err := r.Poll()
		if ok || err != nil {
			return e, err
		}
		select {
		case <-r.News():
		case <-ctx.Done():
			return session.Event{}, context.Cause(ctx)
		}
	}
}
