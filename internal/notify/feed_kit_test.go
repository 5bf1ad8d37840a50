// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func subscribe(t testing.TB, hub *notify.Feed, f notify.Filter) *notify.Subscription {
	t.Helper()
	s, err := hub.Subscribe(f)
	if err != nil {
		t.Fatalf("subscribe to %+v: %v", f, err)
	}
	t.Cleanup(s.Close)
	return s
}

func publish(t testing.TB, hub *notify.Feed, changes ...notify.Change) {
	t.Helper()
	for _, c := range changes {
		if err := hub.Publish(c); err != nil {
			t.Fatalf("publish %s: %v", shown(c), err)
		}
	}
}

// drain returns what is pending, as text, and the error behind it.
func drain(t testing.TB, s *notify.Subscription) ([]string, error) {
	t.Helper()
	var out []string
	for {
		c, ok, err := s.Poll()
		if !ok {
			return out, err
		}
		if err != nil {
			t.Fatalf("a change and an error: %s, %v", shown(c), err)
		}
		out = append(out, shown(c))
	}
}

// pending is drain of a subscription that goes on.
func pending(t testing.TB, s *notify.Subscription) []string {
	t.Helper()
	got, err := drain(t, s)
	if err != nil {
		t.Fatalf("it is over: %v", err)
	}
	return got
}

// shown is a change in words: what it is about, and whose.
func shown(c notify.Change) string {
	switch {
	case c.Task != nil:
		return c.Principal + ":" + c.Task.GetTaskId() + "=" + c.Task.GetStatusMessage()
	case c.URI != "":
		return c.URI
	default:
		return c.Kind.String()
	}
}

func list(kind notify.Kind) notify.Change { return notify.Change{Kind: kind} }

func updated(uri string) notify.Change { return notify.Change{Kind: notify.ResourceUpdated, URI: uri} }

// task is a task of a principal in some state.
func task(principal, id, state string) notify.Change {
	return notify.Change{
		Kind: notify.TaskChanged, Principal: principal,
		Task: &outriggerv1.Task{TaskId: id, StatusMessage: state},
	}
}

// ready reports whether a subscription says that it has something, and takes
// that word.
func ready(s *notify.Subscription) bool {
	select {
	case <-s.Ready():
		return true
	default:
		return false
	}
}

// next fails where a change is not there already.
func next(s *notify.Subscription) (notify.Change, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errNothing)
	return s.Next(ctx)
}

var errNothing = errors.New("nothing is pending")
