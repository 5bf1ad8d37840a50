// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// TestNextWaits has a reader wait for an hour, for each of its reasons.
func TestNextWaits(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	tests := []struct {
		name string
		end  func(*notify.Feed, *notify.Subscription, context.CancelCauseFunc)
		want error
	}{
		{"for a change", func(h *notify.Feed, _ *notify.Subscription, _ context.CancelCauseFunc) { _ = h.Publish(updated("x:a")) }, nil},
		{"for its context", func(_ *notify.Feed, _ *notify.Subscription, c context.CancelCauseFunc) { c(stop) }, stop},
		{"for the hub's close", func(h *notify.Feed, _ *notify.Subscription, _ context.CancelCauseFunc) { h.Close() }, notify.ErrClosed},
		{"for its own close", func(_ *notify.Feed, s *notify.Subscription, _ context.CancelCauseFunc) { s.Close() }, notify.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := notify.NewFeed(notify.FeedOptions{})
				s := subscribe(t, hub, all())
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				start := time.Now()
				go func() {
					time.Sleep(time.Hour)
					tt.end(hub, s, cancel)
				}()
				c, err := s.Next(ctx)
				if !errors.Is(err, tt.want) || (c.Kind != 0) != (tt.want == nil) {
					t.Errorf("got %s, %v", shown(c), err)
				}
				if waited := time.Since(start); waited != time.Hour {
					t.Errorf("waited %v, want an hour", waited)
				}
			})
		})
	}
}

// TestReadyBesideOtherEvents is how an edge reads: it waits for changes, for its
// keep-alive and for its caller at once, on one goroutine.
func TestReadyBesideOtherEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := notify.NewFeed(notify.FeedOptions{})
		s := subscribe(t, hub, all())
		go func() {
			time.Sleep(35 * time.Second)
			_ = hub.Publish(list(notify.ToolsListChanged))
			_ = hub.Publish(task("p", "t", "1"))
			_ = hub.Publish(list(notify.ToolsListChanged))
			time.Sleep(30 * time.Second)
			_ = hub.Publish(updated("x:a"))
			hub.Close()
		}()
		start := time.Now()
		keepAlive := time.NewTicker(20 * time.Second)
		defer keepAlive.Stop()
		var sent []string
		send := func(what string) { sent = append(sent, time.Since(start).String()+" "+what) }
		for over := false; !over; {
			select {
			case <-s.Ready():
				c, ok, err := s.Poll()
				over = err != nil
				switch {
				case ok:
					send(shown(c))
				case over:
					send(err.Error())
				default:
					t.Error("ready for nothing")
				}
			case <-keepAlive.C:
				send(":")
			case <-t.Context().Done():
				t.Error("the caller has left")
				over = true
			}
		}
		want := []string{
			"20s :", "35s tools list changed", "35s p:t=1", "40s :", "1m0s :", "1m5s x:a", "1m5s notify: closed",
		}
		if !slices.Equal(sent, want) {
			t.Errorf("sent %q, want %q", sent, want)
		}
	})
}

// TestPublishDoesNotWait publishes past a reader that never reads, and one that
// waits: nothing runs on while the publisher works, and no time passes.
func TestPublishDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := notify.NewFeed(notify.FeedOptions{MaxPending: 2})
		subscribe(t, hub, notify.Filter{ResourceURIs: []string{"x:"}})
		waiting := subscribe(t, hub, notify.Filter{Tools: true})
		done := make(chan error)
		go func() {
			_, err := waiting.Next(t.Context())
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		for range 1000 {
			publish(t, hub, updated("x:/1"), updated("x:/2"), updated("x:/3"), list(notify.ToolsListChanged))
		}
		if err := <-done; err != nil {
			t.Errorf("the reader: %v", err)
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}
