// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/session"
)

// TestEveryEndOfASessionIsTold ends sessions in every way, each after its own time.
func TestEveryEndOfASessionIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // sessions expire on goroutines of their own
		var ends []session.Ended
		m := session.New(session.Options{Max: 2, Idle: time.Hour, Ended: func(e session.Ended) {
			mu.Lock()
			defer mu.Unlock()
			ends = append(ends, e)
		}})
		first := &outriggerv1.RequestContext{ProtocolVersion: "2025-06-18"}
		open := func(principal string, client *outriggerv1.RequestContext) *session.Session {
			s, err := m.Open(principal, client, 7)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}

		ended := open(alice, first)
		time.Sleep(time.Second)
		if err := m.End(t.Context(), ended); err != nil {
			t.Fatal(err)
		}
		if err := m.End(t.Context(), ended); !errors.Is(err, session.ErrUnknown) {
			t.Errorf("ended twice: %v", err)
		}
		open(alice, nil).Release()
		open(bob, first).Release()
		time.Sleep(time.Minute)
		open(bob, first).Release() // the older one of bob's, or alice's, has to go
		time.Sleep(time.Hour)
		synctest.Wait()
		open(alice, first)
		time.Sleep(2 * time.Second)
		m.Close()
		m.Close()

		mu.Lock()
		defer mu.Unlock()
		want := []session.Ended{
			{Version: "2025-06-18", Principal: alice, Took: time.Second},
			{Version: "2025-06-18", Principal: bob, Evicted: true, Took: time.Minute},
			{Principal: alice, Took: time.Hour},
			{Version: "2025-06-18", Principal: bob, Took: time.Hour},
			{Version: "2025-06-18", Principal: alice, Took: 2 * time.Second},
		}
		if diff := cmp.Diff(want, ends); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
	})
}

// TestASessionThatNeverBeganHasNoEnd opens one where the feed has no place.
func TestASessionThatNeverBeganHasNoEnd(t *testing.T) {
	t.Parallel()
	full := notify.NewFeed(notify.FeedOptions{MaxSubscribers: 1})
	t.Cleanup(full.Close)
	ends := 0
	m := session.New(session.Options{Feed: full, Ended: func(session.Ended) { ends++ }})
	open(t, m)
	if _, err := m.Open(alice, client(), 7); !errors.Is(err, notify.ErrFull) {
		t.Fatalf("opened without a place in the feed: %v", err)
	}
	if m.Close(); ends != 1 {
		t.Errorf("%d sessions ended, want the one that began", ends)
	}
}
