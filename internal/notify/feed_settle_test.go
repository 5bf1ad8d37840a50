// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// TestSettle asks all sources, if there are any, and waits for all.
func TestSettle(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	hub.Settle(t.Context())
	gone := errors.New("gone")
	var asked [2]atomic.Int32
	for i := range asked {
		hub.OnSettle(func(ctx context.Context) {
			<-ctx.Done()
			asked[i].Add(1)
			if !errors.Is(context.Cause(ctx), gone) {
				t.Errorf("asked with another context: %v", context.Cause(ctx))
			}
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	hub.Settle(ctx)
	hub.Settle(ctx)
	if asked[0].Load() != 2 || asked[1].Load() != 2 {
		t.Errorf("asked %d and %d times, want twice each", asked[0].Load(), asked[1].Load())
	}
}
