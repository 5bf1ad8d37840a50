// SPDX-License-Identifier: Apache-2.0

package feed_test

import (
	"context"
	"errors"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/feed"
)

// TestSettle asks the function named last, if there is one.
func TestSettle(t *testing.T) {
	t.Parallel()
	hub := feed.New(feed.Options{})
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
	hub.OnSettle(nil)
	hub.Settle(ctx)
	if asked != 2 {
		t.Error("asked though none is named")
	}
}
