// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// BenchmarkBusPublish measures what a sender pays. Readers catch up outside of the
// measured time.
func BenchmarkBusPublish(b *testing.B) {
	for _, bench := range []struct {
		name        string
		subscribers int
		methods     []string
	}{
		{"no subscriber", 0, nil},
		{"to 1", 1, nil},
		{"to 1000", 1000, nil},
		{"past 1000 who want others", 1000, []string{"other/*", "another"}},
		{"past 1000 who want 255 others each", 1000, manyMethods(255)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			const backlog = 256
			bus := notify.NewBus(notify.BusOptions{MaxBacklog: backlog})
			subs := make([]notify.EventSubscription, bench.subscribers)
			for i := range subs {
				methods := bench.methods
				if len(methods) > 2 { // filters with the same patterns share a topic
					methods = append(slices.Clone(methods), fmt.Sprintf("other/%d", i))
				}
				subs[i] = subscribeBus(b, bus, methods...)
			}
			e := notify.Event{Method: "orders/changed", Params: json.RawMessage(`{"id":"` + strings.Repeat("x", 200) + `"}`)}
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

// manyMethods are the names of n methods.
func manyMethods(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("orders/of/%d", i)
	}
	return out
}
