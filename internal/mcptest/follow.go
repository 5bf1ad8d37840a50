// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/native"
)

// follow publishes what the native backend reports, as the sidecar's own process
// does: tools once they have been loaded again, resources and tasks where
// somebody asks for them.
func (r *Rig) follow(t testing.TB, client *native.Client) {
	t.Helper()
	hub := r.Bridge.Feed()
	publish := func(c feed.Change) {
		// Whether anybody listens is the hub's affair, and a closed one has none.
		_ = hub.Publish(c)
	}
	watcher := client.NewWatcher(r.interest(), native.WatcherOptions{Changed: func(n *outriggerv1.Notification) {
		switch n.GetMethod() {
		case "notifications/tools/list_changed":
			if err := r.Live.Refresh(context.Background()); err == nil {
				publish(feed.Change{Kind: feed.ToolsListChanged})
			}
		case "notifications/prompts/list_changed":
			publish(feed.Change{Kind: feed.PromptsListChanged})
		case "notifications/resources/list_changed":
			publish(feed.Change{Kind: feed.ResourcesListChanged})
		case "notifications/resources/updated":
			raw, _ := jsonrpc.Lookup(n.GetParamsJson(), "uri")
			uri, _ := jsonrpc.Text(raw)
			publish(feed.Change{Kind: feed.ResourceUpdated, URI: uri})
		case "notifications/tasks":
			publish(feed.Change{Kind: feed.TaskChanged, Task: bridge.NativeTask(n.GetTask())})
		}
	}})
	hub.OnInterest(func() { watcher.SetFilter(r.interest()) })
	hub.OnSettle(func(ctx context.Context) { _ = watcher.Settled(ctx, r.interest()) })
	t.Cleanup(func() {
		hub.OnSettle(nil)
		hub.OnInterest(func() {})
		watcher.Close()
	})
}

// interest is what the backend is asked to report.
func (r *Rig) interest() *outriggerv1.ChangeFilter {
	wanted := r.Bridge.Feed().Interest()
	out := &outriggerv1.ChangeFilter{
		ToolsListChanged: true, PromptsListChanged: true, ResourcesListChanged: true, ResourceUris: wanted.ResourceURIs,
	}
	for _, key := range wanted.TaskIDs {
		if id, ok := bridge.NativeTaskID(key); ok {
			out.TaskIds = append(out.TaskIds, id)
		}
	}
	return out
}
