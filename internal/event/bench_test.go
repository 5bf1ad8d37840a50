// SPDX-License-Identifier: Apache-2.0

package event_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/event"
)

// BenchmarkPublish measures what a sender pays. Readers catch up outside of the
// measured time.
func BenchmarkPublish(b *testing.B) {
	for _, bench := range []struct {
		name        string
		subscribers int
		methods     []string
	}{
		{"no subscriber", 0, nil},
		{"to 1", 1, nil},
		{"to 1000", 1000, nil},
		{"past 1000 who want others", 1000, []string{"other/*", "another"}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			const backlog = 256
			bus := event.NewMemory(event.Options{MaxBacklog: backlog})
			subs := make([]event.Subscription, bench.subscribers)
			for i := range subs {
				subs[i] = subscribe(b, bus, bench.methods...)
			}
			e := event.Event{Method: "orders/changed", Params: json.RawMessage(`{"id":"` + strings.Repeat("x", 200) + `"}`)}
			wanted := 0
			if bench.methods == nil {
				wanted = bench.subscribers
			}
			ctx, ended := context.WithCancel(context.Background())
			ended()
			b.ReportAllocs()
			pending := 0
			for b.Loop() {
				if n, err := bus.Publish(context.Background(), e); err != nil || n != wanted {
					b.Fatalf("%d, %v", n, err)
				}
				if pending++; pending < backlog {
					continue
				}
				b.StopTimer()
				for _, s := range subs {
					for {
						if _, err := s.Next(ctx); err != nil {
							break
						}
					}
				}
				pending = 0
				b.StartTimer()
			}
		})
	}
}
