// SPDX-License-Identifier: Apache-2.0

package upstream

import (
	"context"
	"time"

	"go.uber.org/zap"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// settleTimeout bounds how long a caller's subscription waits for the backend's.
// It takes a round trip; a backend that is away is not waited for, because
// everything counts as changed once it is back.
const settleTimeout = 2 * time.Second

// followerOptions configure a [follower].
type followerOptions struct {
	// Name is that of one of several backends.
	Name   string
	Native *backend.NativeClient
	Live   *catalog.Live
	Feed   *notify.Feed
	// Publish publishes a change to the feed.
	Publish func(notify.Change)
	Log     *zap.Logger
}

// follower forwards changes that a native backend reports: to the catalog and to subscribers. It subscribes only to changes
// that have a subscriber. A nil follower does nothing.
type follower struct {
	with followerOptions
	// tools wakes the loop: the backend's tools changed.
	tools chan struct{}
	// begun is closed when there is a watcher, or it is certain that there will be
	// none.
	begun   chan struct{}
	watcher *backend.Watcher
}

// newFollower prepares a follower for a native backend. Callers may subscribe earlier, and wait
// until it is running.
func newFollower(o followerOptions) *follower {
	w := &follower{with: o, tools: make(chan struct{}, 1), begun: make(chan struct{})}
	o.Feed.OnSettle(w.settle)
	return w
}

// settle waits until the backend reports what callers have subscribed to, so that
// nothing is missed after they have been told so.
func (w *follower) settle(ctx context.Context) {
	if w.with.Name != "" && w.with.Live.Current() == nil {
		return // one of several that is away
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	select {
	case <-w.begun:
	case <-ctx.Done():
		return
	}
	if w.watcher != nil {
		_ = w.watcher.Settled(ctx, w.filter())
	}
}

// Run forwards the changes that a native backend reports, until ctx ends. It
// subscribes to changes that have a subscriber, and to changes of the tools, for the
// catalog.
func (w *follower) Run(ctx context.Context) {
	if w == nil {
		return
	}
	cat, err := w.with.Live.Wait(ctx)
	if err != nil || cat.Description() == nil {
		close(w.begun)
		return
	}
	interest, forget := w.with.Feed.OnInterest()
	defer forget()
	w.watcher = w.with.Native.NewWatcher(w.filter(), backend.WatcherOptions{
		Changed: w.changed, Resynced: w.resynced, Failed: w.failed,
	})
	close(w.begun)
	defer w.watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-interest:
			w.watcher.SetFilter(w.filter())
		case <-w.tools:
			w.reload(ctx)
		}
	}
}

// reloadSoon wakes the loop.
func (w *follower) reloadSoon() {
	select {
	case w.tools <- struct{}{}:
	default:
	}
}

// filter is what the backend is asked to report.
func (w *follower) filter() *outriggerv1.ChangeFilter {
	offered := w.with.Live.Current().Description().GetCapabilities()
	wanted := w.with.Feed.Interest()
	out := &outriggerv1.ChangeFilter{
		ToolsListChanged:     offered.GetTools().GetListChanged(),
		PromptsListChanged:   offered.GetPrompts().GetListChanged(),
		ResourcesListChanged: offered.GetResources().GetListChanged(),
	}
	if offered.GetResources().GetSubscribe() {
		out.ResourceUris = w.atMost(notify.MaxURIs, "resources", wanted.ResourceURIs)
	}
	for _, key := range wanted.TaskIDs {
		if id, ok := task.NativeID(w.with.Name, key); ok && offered.GetTasks() {
			out.TaskIds = append(out.TaskIds, id)
		}
	}
	out.TaskIds = w.atMost(notify.MaxTaskIDs, "tasks", out.TaskIds)
	return out
}

// atMost keeps to what one subscription of the contract admits. More would be
// refused as a whole.
func (w *follower) atMost(most int, what string, names []string) []string {
	if len(names) <= most {
		return names
	}
	w.with.Log.Warn("too many subscriptions for the backend; some changes will not be reported",
		zap.String("kind", what), zap.Int("followed", len(names)), zap.Int("asked", most))
	return names[:most]
}

// changed passes on one change. Tools are announced once they have been loaded,
// so that a list sees the change.
func (w *follower) changed(n *outriggerv1.Notification) {
	switch n.GetMethod() {
	case notify.MethodToolsChanged:
		w.reloadSoon()
	case notify.MethodPromptsChanged:
		w.with.Publish(notify.Change{Kind: notify.PromptsListChanged})
	case notify.MethodResourcesChanged:
		w.with.Publish(notify.Change{Kind: notify.ResourcesListChanged})
	case notify.MethodResourceUpdated:
		if uri := updatedURI(n); uri != "" {
			w.with.Publish(notify.Change{Kind: notify.ResourceUpdated, URI: uri})
		}
	case notify.MethodTaskChanged:
		if n.GetTask() != nil {
			w.with.Publish(notify.Change{Kind: notify.TaskChanged, Task: task.Native(w.with.Name, n.GetTask())})
		}
	default:
		w.with.Log.Warn("unknown kind of change from the backend", zap.String(logkey.Method, n.GetMethod()))
	}
}

// updatedURI is the resource that changed.
func updatedURI(n *outriggerv1.Notification) string {
	if s := n.GetParams(); s != nil {
		return s.GetFields()["uri"].GetStringValue()
	}
	raw, _ := jsontext.Lookup(n.GetParamsJson(), "uri")
	uri, _ := jsontext.Text(raw)
	return uri
}

// resynced treats everything as changed, because changes may have been missed.
func (w *follower) resynced() {
	w.reloadSoon()
	w.with.Publish(notify.Change{Kind: notify.PromptsListChanged})
	w.with.Publish(notify.Change{Kind: notify.ResourcesListChanged})
	for _, uri := range w.with.Feed.Interest().ResourceURIs {
		w.with.Publish(notify.Change{Kind: notify.ResourceUpdated, URI: uri})
	}
}

func (w *follower) failed(err error, pause time.Duration) {
	// Whether the backend can be used is said elsewhere, once.
	w.with.Log.Debug("backend change stream ended; resubscribing", zap.Duration("retry_in_ms", pause), logkey.Error(err))
}

// reload loads the tools again and announces that they changed, also where the
// catalog shows no difference: the backend knows best.
func (w *follower) reload(ctx context.Context) {
	if err := w.with.Live.Refresh(ctx); err != nil {
		w.with.Log.Warn("catalog reload failed; keeping the last good catalog", logkey.Error(err))
		return
	}
	w.with.Publish(notify.Change{Kind: notify.ToolsListChanged})
}
