// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// TestEveryKindOfChange has a row for each report of a backend, and what subscribers
// hear of it.
func TestEveryKindOfChange(t *testing.T) {
	t.Parallel()
	f := followDesk(t, mcptest.Desk())
	printing := f.desk.Advance("printing")
	f.subscribe(notify.Filter{ResourceURIs: []string{"desk://notes/1"}, TaskIDs: []string{task.Native("", printing).GetTaskId()}})
	for _, tt := range []struct {
		name   string
		report *outriggerv1.Notification
		want   notify.Change
	}{
		{"prompts", &outriggerv1.Notification{Method: "notifications/prompts/list_changed"}, notify.Change{Kind: notify.PromptsListChanged}},
		{"resources", &outriggerv1.Notification{Method: "notifications/resources/list_changed"}, notify.Change{Kind: notify.ResourcesListChanged}},
		{"a resource, JSON", updated("desk://notes/1")["JSON"], notify.Change{Kind: notify.ResourceUpdated, URI: "desk://notes/1"}},
		{"a resource, Struct", updated("desk://notes/1")["Struct"], notify.Change{Kind: notify.ResourceUpdated, URI: "desk://notes/1"}},
		{"tools", &outriggerv1.Notification{Method: "notifications/tools/list_changed"}, notify.Change{Kind: notify.ToolsListChanged}},
	} {
		f.announce(tt.report)
		if got := f.hears(); got != tt.want {
			t.Errorf("%s: heard %+v, want %+v", tt.name, got, tt.want)
		}
	}
	f.announce(&outriggerv1.Notification{Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: printing}})
	if got := f.hears(); got.Kind != notify.TaskChanged || got.Task.GetTaskId() != task.Native("", printing).GetTaskId() || got.Task.GetStatus() != printing.GetStatus() {
		t.Errorf("a task: heard %+v", got)
	}
	f.hearsNothing()
}

// TestToolsAreLoadedBeforeTheyAreAnnounced: a list that is asked for then has the change.
func TestToolsAreLoadedBeforeTheyAreAnnounced(t *testing.T) {
	t.Parallel()
	f := followDesk(t, mcptest.Desk())
	f.subscribe(notify.Filter{Tools: true})
	before := len(f.live.Current().Tools())
	f.desk.SetTools(f.desk.Tools[1:])
	f.announce(&outriggerv1.Notification{Method: "notifications/tools/list_changed"})
	if got := f.hears(); got.Kind != notify.ToolsListChanged {
		t.Errorf("heard %+v", got)
	}
	if got := len(f.live.Current().Tools()); got != before-1 {
		t.Errorf("%d tools are there when the change is announced, want %d", got, before-1)
	}
}

// TestAFailedLoadAnnouncesNothing keeps the catalog, and says why.
func TestAFailedLoadAnnouncesNothing(t *testing.T) {
	t.Parallel()
	f := followDesk(t, mcptest.Desk())
	f.subscribe(notify.Filter{Tools: true})
	before := f.live.Current()
	f.desk.SetTools(f.desk.Tools[1:])
	f.isDown.Store(true)
	f.announce(&outriggerv1.Notification{Method: "notifications/tools/list_changed"})
	const line = "catalog reload failed; keeping the last good catalog"
	f.logs(line)
	f.hearsNothing()
	if f.log.FilterMessage(line).Len() != 1 || f.live.Current() != before {
		t.Errorf("the log has %v", f.log.All())
	}
	f.isDown.Store(false)
	f.announce(&outriggerv1.Notification{Method: "notifications/tools/list_changed"})
	if got := f.hears(); got.Kind != notify.ToolsListChanged || f.live.Current() == before {
		t.Errorf("afterwards: heard %+v", got)
	}
}

// TestAnUnknownChange is logged by its name.
func TestAnUnknownChange(t *testing.T) {
	t.Parallel()
	f := followDesk(t, mcptest.Desk())
	f.subscribe(notify.Filter{ResourceURIs: []string{"desk://notes/1"}})
	change := updated("desk://notes/1")["JSON"]
	change.Method = "notifications/resources/burnt"
	f.announce(change)
	const line = "unknown kind of change from the backend"
	f.logs(line)
	f.hearsNothing()
	lines := f.log.FilterMessage(line).All()
	if len(lines) != 1 || lines[0].ContextMap()["mcp.method.name"] != change.GetMethod() {
		t.Errorf("the log has %v", f.log.All())
	}
}

// TestAfterABreakEverythingHasChanged, because changes may have been missed.
func TestAfterABreakEverythingHasChanged(t *testing.T) {
	t.Parallel()
	f := followDesk(t, mcptest.Desk())
	f.subscribe(notify.Filter{Tools: true, ResourceURIs: []string{"desk://notes/1"}})
	f.desk.Cut()
	all := []notify.Change{
		{Kind: notify.PromptsListChanged}, {Kind: notify.ResourcesListChanged}, {Kind: notify.ToolsListChanged},
		{Kind: notify.ResourceUpdated, URI: "desk://notes/1"},
	}
	// Of two breaks in a row, each counts.
	for seen := map[notify.Change]bool{}; len(seen) < len(all); {
		c := f.hears()
		if !slices.Contains(all, c) {
			t.Fatalf("heard %+v", c)
		}
		seen[c] = true
	}
}

// TestOnlyWhatIsOfferedAndWantedIsAskedFor has reports that nothing asked
// for: the backend does not find a subscription for them.
func TestOnlyWhatIsOfferedAndWantedIsAskedFor(t *testing.T) {
	t.Parallel()
	offers := func(c *outriggerv1.ServerCapabilities) *mcptest.Native {
		desk := mcptest.Desk()
		desk.Description = &outriggerv1.ServerDescription{Name: "desk", Version: "1", ContractVersion: "1.0.0", Capabilities: c}
		return desk
	}
	changing := &outriggerv1.ToolsCapability{ListChanged: true}
	all := notify.Filter{Tools: true, Prompts: true, Resources: true, ResourceURIs: []string{"desk://notes/1"}}
	for name, tt := range map[string]struct {
		desk   *mcptest.Native
		wanted notify.Filter
		report *outriggerv1.Notification
	}{
		"tools without list_changed":     {offers(&outriggerv1.ServerCapabilities{Tools: &outriggerv1.ToolsCapability{}}), all, &outriggerv1.Notification{Method: "notifications/tools/list_changed"}},
		"prompts without list_changed":   {offers(&outriggerv1.ServerCapabilities{Tools: changing, Prompts: &outriggerv1.PromptsCapability{}}), all, &outriggerv1.Notification{Method: "notifications/prompts/list_changed"}},
		"resources without list_changed": {offers(&outriggerv1.ServerCapabilities{Tools: changing, Resources: &outriggerv1.ResourcesCapability{Subscribe: true}}), all, &outriggerv1.Notification{Method: "notifications/resources/list_changed"}},
		"resources without subscribe":    {offers(&outriggerv1.ServerCapabilities{Tools: changing, Resources: &outriggerv1.ResourcesCapability{ListChanged: true}}), all, updated("desk://notes/1")["JSON"]},
		"a resource that none wants":     {mcptest.Desk(), notify.Filter{Tools: true}, updated("desk://notes/1")["JSON"]},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := followDesk(t, tt.desk)
			f.subscribe(tt.wanted)
			ctx, cancel := context.WithTimeout(t.Context(), quiet)
			defer cancel()
			if err := f.desk.Announce(ctx, tt.report); err == nil {
				t.Errorf("the backend was asked for it")
			}
		})
	}
}

// TestMoreResourcesThanOneSubscriptionAdmits follows as many as it may, and says so.
func TestMoreResourcesThanOneSubscriptionAdmits(t *testing.T) {
	t.Parallel()
	f := followDesk(t, mcptest.Desk())
	for caller := range 2 {
		filter := notify.Filter{}
		for i := range notify.MaxURIs {
			filter.ResourceURIs = append(filter.ResourceURIs, fmt.Sprintf("desk://%d/%04d", caller, i))
		}
		f.subscribe(filter)
	}
	f.announce(updated("desk://0/0000")["JSON"])
	if got := f.hears(); got.URI != "desk://0/0000" {
		t.Errorf("heard %+v", got)
	}
	lines := f.log.FilterMessage("too many subscriptions for the backend; some changes will not be reported").All()
	if len(lines) == 0 || lines[0].ContextMap()["followed"] != int64(2*notify.MaxURIs) || lines[0].ContextMap()["asked"] != int64(notify.MaxURIs) {
		t.Errorf("the log has %v", f.log.All())
	}
}

// TestNothingToFollow ends at once, and keeps no subscriber waiting.
func TestNothingToFollow(t *testing.T) {
	t.Parallel()
	memory := mcptest.Memory(t)
	for name, tt := range map[string]struct {
		live  func() *catalog.Live
		isEnd bool
	}{
		"a backend without a tool API": {func() *catalog.Live { return memory }, false},
		"an end before the catalog":    {func() *catalog.Live { return catalog.NewLive(nil, catalog.LiveOptions{}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := notify.NewFeed(notify.FeedOptions{})
				defer hub.Close()
				w := upstream.NewFollower(upstream.FollowerOptions{Live: tt.live(), Feed: hub, Log: zap.NewNop()})
				ctx, end := context.WithCancel(t.Context())
				defer end()
				if tt.isEnd {
					end()
				}
				w.Run(ctx)
				begun := time.Now()
				if hub.Settle(t.Context()); time.Since(begun) > 0 {
					t.Errorf("a subscriber waits for %v", time.Since(begun))
				}
			})
		})
	}
	(*upstream.Follower)(nil).Run(t.Context())
}
