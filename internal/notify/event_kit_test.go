// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// numbered is the n-th event of a publisher.
func numbered(publisher uint64, n int) notify.Event {
	return notify.Event{Method: "count", Params: json.RawMessage(`{"n":` + strconv.Itoa(n) + `}`), Publisher: publisher}
}

func subscribeBus(t testing.TB, bus *notify.Bus, methods ...string) notify.EventSubscription {
	t.Helper()
	s, err := bus.Subscribe(methods)
	if err != nil {
		t.Fatalf("subscribe to %q: %v", methods, err)
	}
	t.Cleanup(s.Close)
	return s
}

// publishEvent wants an event to reach so many subscribers.
func publishEvent(t testing.TB, bus *notify.Bus, e notify.Event, want int) {
	t.Helper()
	got, err := bus.Publish(context.Background(), e)
	if err != nil || got != want {
		t.Fatalf("publish %s: %d subscribers, %v; want %d", e.Method, got, err, want)
	}
}

func nextEvent(t testing.TB, s notify.EventSubscription) *notify.Event {
	t.Helper()
	e, err := s.Next(t.Context())
	if err != nil {
		t.Fatalf("next: %v", err)
	}
	return e
}
