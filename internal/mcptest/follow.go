// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"testing"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/native"
	"github.com/outrigger-mcp/outrigger/internal/server/follow"
)

// follow publishes what the native backend reports, as the sidecar's own process
// does, until the end of the test.
func (r *Rig) follow(t testing.TB, client *native.Client) {
	t.Helper()
	hub := r.Bridge.Feed()
	watch := follow.New(follow.Options{
		Native: client, Live: r.Live, Feed: hub, Log: zap.NewNop(),
		// A hub that is closed has no subscribers left.
		Publish: func(c feed.Change) { _ = hub.Publish(c) },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watch.Run(ctx)
	}()
	<-watch.Begun()
	t.Cleanup(func() {
		hub.OnSettle(nil)
		stop()
		<-ended
	})
}
