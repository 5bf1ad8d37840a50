// SPDX-License-Identifier: Apache-2.0

package notify_test

import (
	"context"
	"errors"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// TestSettle asks the function named last, if there is one.
func TestSettle(t *testing.T) {
	t.Parallel()
	hub := notify.NewFeed(notify.FeedOptions{})
	hub.Settle(t.Context())
	hub.OnSettle(func(context.Context) { t.Error("asked though another took its place") })
	gone := errors.New("gone")
	asked := 0
	hub.OnSettle(func(ctx context.Context) {
		asked++
		if !errors.Is(context.Cause(ctx), gone) {
			t.Errorf("asked with another context: %v", context.Cause(ctx))
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	hub.Settle(ctx)
	hub.Settle(ctx)
	if asked != 2 {
		t.Errorf("asked %d times, want twice", asked)
	}
}
