// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// TestBusIdleSubscriptionsAreCheap runs alone: it looks at the whole process. The
// bounds are some third above what was measured.
func TestBusIdleSubscriptionsAreCheap(t *testing.T) {
	const crowd = 10_000
	filters := map[string]struct {
		methods func(int) []string
		most    int
	}{
		"everything":   {func(int) []string { return nil }, 340},
		"a shared one": {func(int) []string { return []string{"orders/*", "invoices/paid"} }, 800},
		"their own":    {func(i int) []string { return []string{"orders/" + strconv.Itoa(i)} }, 800},
	}
	goroutines := runtime.NumGoroutine()
	for name, filter := range filters {
		bus := notify.NewBus(notify.BusOptions{MaxSubscribers: crowd})
		subs := make([]notify.EventSubscription, crowd)
		before := heap()
		for i := range subs {
			var err error
			if subs[i], err = bus.Subscribe(filter.methods(i)); err != nil {
				t.Fatal(err)
			}
		}
		got := int(max(heap(), before)-before) / crowd
		runtime.KeepAlive(subs)
		bus.Close()
		t.Logf("%s: %d bytes for each of %d subscriptions", name, got, crowd)
		if got > filter.most || got < 100 {
			t.Errorf("%s: %d bytes for each subscription, want at most %d", name, got, filter.most)
		}
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		t.Errorf("%d goroutines, %d before", n, goroutines)
	}
}
