// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// crowd is the default bound of subscribers.
const crowd = 10000

// crowds are what the subscribers of a full hub may ask for; the last index is
// that of a subscriber.
func crowds() map[string]func(int) notify.Filter {
	return map[string]func(int) notify.Filter{
		"nothing": func(int) notify.Filter { return notify.Filter{} },
		"lists":   func(int) notify.Filter { return notify.Filter{Tools: true, Prompts: true, Resources: true} },
		"one shared": func(int) notify.Filter {
			return notify.Filter{Tools: true, ResourceURIs: []string{"file:///shared/report"}}
		},
		"own ones": func(i int) notify.Filter {
			return notify.Filter{Tools: true, ResourceURIs: []string{"file:///own/report/" + strconv.Itoa(i)}, TaskIDs: []string{"task-" + strconv.Itoa(i)}, Principal: "p"}
		},
	}
}

// fill subscribes as many as a hub admits.
func fill(t testing.TB, hub *notify.Feed, filter func(int) notify.Filter) []*notify.Subscription {
	t.Helper()
	subs := make([]*notify.Subscription, crowd)
	for i := range subs {
		var err error
		if subs[i], err = hub.Subscribe(filter(i)); err != nil {
			t.Fatal(err)
		}
	}
	return subs
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// idleBytes measures what an idle subscription costs.
func idleBytes(t testing.TB, filter func(int) notify.Filter) int {
	t.Helper()
	hub := notify.NewFeed(notify.FeedOptions{})
	before := heap()
	subs := fill(t, hub, filter)
	after := heap()
	runtime.KeepAlive(subs)
	hub.Close()
	return int(max(after, before)-before) / crowd
}

// TestIdleSubscriptionsAreCheap runs alone: it looks at the whole process. The
// bounds are some third above what was measured.
func TestIdleSubscriptionsAreCheap(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	for name, most := range map[string]int{"nothing": 400, "lists": 512, "one shared": 512, "own ones": 960} {
		got := idleBytes(t, crowds()[name])
		t.Logf("%s: %d bytes for each of %d subscriptions", name, got, crowd)
		if got > most || got < 100 {
			t.Errorf("%s: %d bytes for each subscription, want at most %d", name, got, most)
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
}

// TestPublishingIsQuick wants a change at 10,000 readers within 10 ms, and past
// them in next to no time. The best of some runs counts, since others use the
// machine too.
func TestPublishingIsQuick(t *testing.T) {
	hub := notify.NewFeed(notify.FeedOptions{})
	subs := fill(t, hub, func(i int) notify.Filter {
		return notify.Filter{Tools: true, ResourceURIs: []string{"x:/shared", "x:/own/" + strconv.Itoa(i)}, TaskIDs: []string{strconv.Itoa(i)}}
	})
	defer hub.Close()
	tests := []struct {
		name   string
		change notify.Change
		within time.Duration
		told   int
	}{
		{"a list to all", list(notify.ToolsListChanged), 10 * time.Millisecond, crowd},
		{"a resource to all", updated("x:/shared/1"), 10 * time.Millisecond, crowd},
		{"a resource to one", updated("x:/own/1"), 100 * time.Microsecond, 1},
		{"a task to one", task("", "1", "1"), 100 * time.Microsecond, 1},
		{"a list to none", list(notify.PromptsListChanged), 100 * time.Microsecond, 0},
		{"a resource to none", updated("x:/other/1"), 100 * time.Microsecond, 0},
		{"a task to none", task("p", "1", "1"), 100 * time.Microsecond, 0},
	}
	for _, tt := range tests {
		best := time.Hour
		for range 10 {
			start := time.Now()
			publish(t, hub, tt.change)
			best = min(best, time.Since(start))
			told := 0
			for _, s := range subs {
				_, ok, err := s.Poll()
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					told++
				}
			}
			if told != tt.told {
				t.Fatalf("%s: told %d, want %d", tt.name, told, tt.told)
			}
		}
		t.Logf("%s: %v", tt.name, best)
		if best > slowdown*tt.within {
			t.Errorf("%s took %v, want at most %v", tt.name, best, tt.within)
		}
	}
}

// TestWakingIsQuick has 10,000 readers wait, each on its own goroutine.
func TestWakingIsQuick(t *testing.T) {
	const (
		runs   = 50 // a busy machine may not give the CPU for a while: one quick run is enough
		within = slowdown * 10 * time.Millisecond
	)
	hub := notify.NewFeed(notify.FeedOptions{})
	var reading sync.WaitGroup
	var got atomic.Int64
	for _, s := range fill(t, hub, func(int) notify.Filter { return notify.Filter{Tools: true} }) {
		reading.Go(func() {
			for {
				if _, err := s.Next(context.Background()); err != nil {
					return
				}
				got.Add(1)
			}
		})
	}
	best := time.Hour
	for n := 0; n < runs && best > within; n++ {
		start := time.Now()
		publish(t, hub, list(notify.ToolsListChanged))
		best = min(best, time.Since(start))
		for got.Load() < int64(n+1)*crowd {
			runtime.Gosched()
		}
	}
	hub.Close()
	reading.Wait()
	t.Logf("waking %d readers: %v", crowd, best)
	if best > within {
		t.Errorf("waking took %v", best)
	}
}

// TestLongURIsAreNoBurden publishes the longest URI, all of slashes, past
// subscribers of many of its beginnings. The best of some runs counts, since others
// use the machine too.
func TestLongURIsAreNoBurden(t *testing.T) {
	const (
		runs   = 5
		parts  = 8
		within = slowdown * 100 * time.Millisecond
	)
	long := strings.Repeat("/", notify.MaxURIBytes)
	var filters [parts]notify.Filter
	for part := range filters {
		for n := range notify.MaxURIs {
			filters[part].ResourceURIs = append(filters[part].ResourceURIs, long[:part*notify.MaxURIs+n+1])
		}
	}
	var subscribing [parts]time.Duration
	for part := range subscribing {
		subscribing[part] = time.Hour
	}
	publishing := time.Hour
	for range runs {
		hub := notify.NewFeed(notify.FeedOptions{})
		for part, filter := range filters {
			start := time.Now()
			subscribe(t, hub, filter)
			subscribing[part] = min(subscribing[part], time.Since(start))
		}
		start := time.Now()
		publish(t, hub, updated(long))
		publishing = min(publishing, time.Since(start))
		// Of every filter only the shortest takes the change.
		if got := hub.Stats(); got.Queued != parts || got.Merged != 0 {
			t.Errorf("stats %+v", got)
		}
		hub.Close()
	}
	for part, took := range subscribing {
		if took > within {
			t.Errorf("subscribing to part %d took %v", part, took)
		}
	}
	if publishing > within {
		t.Errorf("publishing took %v", publishing)
	}
}
