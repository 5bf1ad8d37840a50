// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/structpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// quiet is how long a test waits for what must not come.
const quiet = 300 * time.Millisecond

// followed is a backend on loopback that is followed.
type followed struct {
	t     *testing.T
	desk  *mcptest.Native
	hub   *notify.Feed
	live  *catalog.Live
	watch *upstream.Follower
	// published is what subscribers would hear.
	published chan notify.Change
	log       *observer.ObservedLogs
	// isDown has loads of the catalog fail.
	isDown atomic.Bool
}

// Name implements [source.Source].
func (f *followed) Name() string { return "a switch" }

// Load implements [source.Source]: it brings nothing, or fails.
func (f *followed) Load(context.Context) (*source.Loaded, error) {
	if f.isDown.Load() {
		return nil, errors.New("switched off")
	}
	return &source.Loaded{}, nil
}

// followDesk follows a backend until the end of the test.
func followDesk(t *testing.T, desk *mcptest.Native) *followed {
	t.Helper()
	target, err := backend.ParseTarget("connect+" + desk.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := backend.New(target, backend.Options{})
	if err != nil {
		t.Fatal(err)
	}
	core, logged := observer.New(zapcore.InfoLevel)
	f := &followed{t: t, desk: desk, hub: notify.NewFeed(notify.FeedOptions{}), published: make(chan notify.Change, 100), log: logged}
	speaks := backend.NewNative(client)
	f.live = catalog.NewLive([]source.Source{backend.NewNativeSource("desk", speaks, false), f}, catalog.LiveOptions{})
	if err := f.live.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.watch = upstream.NewFollower(upstream.FollowerOptions{
		Native: speaks, Live: f.live, Feed: f.hub, Log: zap.New(core), Publish: func(c notify.Change) { f.published <- c },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.watch.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
		f.hub.Close()
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// subscribe has a caller ask for changes, and waits until the backend reports them.
func (f *followed) subscribe(filter notify.Filter) {
	f.t.Helper()
	if _, err := f.hub.Subscribe(filter); err != nil {
		f.t.Fatal(err)
	}
	f.hub.Settle(f.t.Context())
}

// announce has the backend report a change.
func (f *followed) announce(n *outriggerv1.Notification) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), testkit.Limit())
	defer cancel()
	if err := f.desk.Announce(ctx, n); err != nil {
		f.t.Fatal(err)
	}
}

// hears is the next change.
func (f *followed) hears() notify.Change {
	f.t.Helper()
	return testkit.Receive(f.t, "a change", f.published)
}

// hearsNothing waits for a change that must not come.
func (f *followed) hearsNothing() {
	f.t.Helper()
	select {
	case c := <-f.published:
		f.t.Errorf("heard %v %s", c.Kind, c.URI)
	case <-time.After(quiet):
	}
}

// logs waits for a line in the log.
func (f *followed) logs(message string) {
	f.t.Helper()
	testkit.Try(f.t, "a line", func() error {
		if f.log.FilterMessage(message).Len() == 0 {
			return fmt.Errorf("no line says %q; the log has %v", message, f.log.All())
		}
		return nil
	})
}

// updated is a report that a resource changed, in both forms of its params.
func updated(uri string) map[string]*outriggerv1.Notification {
	const method = "notifications/resources/updated"
	return map[string]*outriggerv1.Notification{
		"JSON": {Method: method, ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: fmt.Appendf(nil, `{"uri":%q}`, uri)}},
		"Struct": {Method: method, ParamsForm: &outriggerv1.Notification_Params{Params: &structpb.Struct{
			Fields: map[string]*structpb.Value{"uri": structpb.NewStringValue(uri)},
		}}},
	}
}
