// SPDX-License-Identifier: Apache-2.0

package event_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"github.com/outrigger-mcp/outrigger/internal/event"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbered is the n-th event of a publisher.
func numbered(publisher uint64, n int) event.Event {
	return event.Event{Method: "count", Params: json.RawMessage(`{"n":` + strconv.Itoa(n) + `}`), Publisher: publisher}
}

func subscribe(t testing.TB, bus *event.Memory, methods ...string) event.Subscription {
	t.Helper()
	s, err := bus.Subscribe(event.Filter{Methods: methods})
	if err != nil {
		t.Fatalf("subscribe to %q: %v", methods, err)
	}
	t.Cleanup(s.Close)
	return s
}

// publish wants an event to reach so many subscribers.
func publish(t testing.TB, bus *event.Memory, e event.Event, want int) {
	t.Helper()
	got, err := bus.Publish(context.Background(), e)
	if err != nil || got != want {
		t.Fatalf("publish %s: %d subscribers, %v; want %d", e.Method, got, err, want)
	}
}

func next(t testing.TB, s event.Subscription) *event.Event {
	t.Helper()
	e, err := s.Next(t.Context())
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return e
}
