// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// BenchmarkPublish measures what a publisher pays. Readers catch up outside of
// the measured time, except where they do not read at all.
func BenchmarkPublish(b *testing.B) {
	for _, bench := range []struct {
		name   string
		crowd  string
		change notify.Change
		unread bool
	}{
		{"list to 10000", "lists", list(notify.ToolsListChanged), false},
		{"list to 10000 who do not read", "lists", list(notify.ToolsListChanged), true},
		{"resource to 10000", "one shared", updated("file:///shared/report/page"), false},
		{"resource to 1 of 10000", "own ones", updated("file:///own/report/77/page"), true},
		{"task to 1 of 10000", "own ones", task("p", "task-77", "1"), true},
		{"list past 10000", "own ones", list(notify.PromptsListChanged), false},
		{"resource past 10000", "own ones", updated("file:///other/report/page"), false},
	} {
		b.Run(bench.name, func(b *testing.B) {
			hub := notify.NewFeed(notify.FeedOptions{})
			defer hub.Close()
			subs := fill(b, hub, crowds()[bench.crowd])
			b.ReportAllocs()
			for b.Loop() {
				if err := hub.Publish(bench.change); err != nil {
					b.Fatal(err)
				}
				if bench.unread {
					continue
				}
				b.StopTimer()
				for _, s := range subs {
					if _, _, err := s.Poll(); err != nil {
						b.Fatal(err)
					}
				}
				b.StartTimer()
			}
		})
	}
}

// BenchmarkSubscribe measures a subscription that comes and goes in a full
// house.
func BenchmarkSubscribe(b *testing.B) {
	for name, filter := range crowds() {
		b.Run(name, func(b *testing.B) {
			hub := notify.NewFeed(notify.FeedOptions{MaxSubscribers: crowd + 1})
			defer hub.Close()
			fill(b, hub, filter)
			f := filter(crowd)
			b.ReportAllocs()
			for b.Loop() {
				s, err := hub.Subscribe(f)
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
}

// BenchmarkIdle reports the bytes of an idle subscription beside its time.
func BenchmarkIdle(b *testing.B) {
	for name, filter := range crowds() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			bytes := 0
			for b.Loop() {
				bytes = idleBytes(b, filter)
			}
			b.ReportMetric(float64(bytes), "bytes/subscription")
		})
	}
}
