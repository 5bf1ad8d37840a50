// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// A reader that falls behind is told so, and how much it missed; what it has not
// read is not kept for it without end, and nothing waits for it.
func TestASubscriptionThatFallsBehindIsDroppedWithAnError(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		hub := feed.New(feed.Options{MaxPending: 2, MaxSubscribers: 1})
		b := dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{Feed: hub}), dialect.Options{})
		reads := make(chan struct{})
		var heard []string
		slow := modernClient{t: t, bridge: b, heard: func(message string) {
			heard = append(heard, message)
			<-reads
		}}
		ended := make(chan modernAnswer, 1)
		go func() { ended <- slow.send("subscriptions/listen", `"notifications":{"toolsListChanged":true}`) }()
		synctest.Wait()
		// There is room for one.
		other := modernClient{t: t, bridge: b, heard: func(string) {}}
		if got := other.send("subscriptions/listen", `"notifications":{"toolsListChanged":true}`); got.status != 503 || got.Error == nil || got.Error.Data.Code != "UNAVAILABLE" {
			t.Errorf("one too many: %d %s", got.status, got.raw)
		}
		for range 1000 { // a list is pending once, however often it changes
			if err := hub.Publish(feed.Change{Kind: feed.ToolsListChanged}); err != nil {
				t.Fatal(err)
			}
		}
		close(reads)
		synctest.Wait()
		if len(heard) != 2 {
			t.Errorf("it heard %q", heard)
		}
		hub.Close()
		if got := <-ended; got.text("resultType") != "complete" {
			t.Errorf("got %s", got.raw)
		}
	})
}

// What a subscription wants is told by name only as far as it can be kept.
func TestASubscriptionWithTooMuchPendingEnds(t *testing.T) {
	t.Parallel()
	rig, ann := deskOf(t, mcptest.Options{Adjust: server.Adjust{Feed: func(o *feed.Options) { o.MaxPending = 2 }}})
	reads, first := make(chan struct{}), make(chan struct{})
	var heard []string
	ann.heard = func(message string) {
		if heard = append(heard, message); len(heard) == 1 {
			close(first)
		}
		<-reads
	}
	ended := make(chan modernAnswer, 1)
	go func() {
		ended <- ann.send("subscriptions/listen", `"notifications":{"resourceSubscriptions":["desk://notes"]}`)
	}()
	<-first
	for i := range 5 {
		if err := rig.Bridge.Feed().Publish(feed.Change{Kind: feed.ResourceUpdated, URI: fmt.Sprintf("desk://notes/%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	close(reads)
	got := <-ended
	if got.Error == nil || got.Error.Data.Code != "RESOURCE_EXHAUSTED" || !strings.Contains(got.Error.Message, "fell behind") {
		t.Errorf("got %s", got.raw)
	}
}

// Ids of tasks are sealed, which makes them longer. Up to 137 bytes the sealed id
// keeps the contract's bound, and is good for everything; the longest ids that a
// backend may choose can be looked at and cancelled, but not subscribed to.
func TestLongTaskIDsCanBeUsedAlsoWhenSealed(t *testing.T) {
	t.Parallel()
	for _, length := range []int{1, 137, 256} {
		backend := mcptest.Desk()
		id := strings.Repeat("~", length)
		for _, states := range backend.Tasks {
			for _, state := range states {
				if state.GetTaskId() == "printing" {
					state.TaskId = id
				}
			}
		}
		backend.Tasks[id] = backend.Tasks["printing"]
		rig := mcptest.Start(t, mcptest.Options{Native: backend, NoDemo: true})
		heard := make(chan string, 4)
		ann := modernClient{t: t, bridge: rig.Bridge, caller: "ann", capabilities: withTasks, heard: func(message string) { heard <- message }}
		begun := ann.send("tools/call", `"name":"do","arguments":{"job":`+quoted(id)+`}`)
		shown := string(begun.Result["taskId"])
		if shown == "" {
			t.Fatalf("%d bytes: no task: %s", length, begun.raw)
		}
		for method, more := range map[string]string{"tasks/get": "", "tasks/update": `,"inputResponses":{}`, "tasks/cancel": ""} {
			if got := ann.send(method, `"taskId":`+shown+more); got.text("resultType") != "complete" {
				t.Errorf("%d bytes: %s: %s", length, method, got.raw)
			}
		}
		ended := make(chan modernAnswer, 1)
		go func() { ended <- ann.send("subscriptions/listen", `"notifications":{"taskIds":[`+shown+`]}`) }()
		select {
		case acknowledged := <-heard:
			if !strings.Contains(acknowledged, shown) {
				t.Errorf("%d bytes: it is left out: %s", length, acknowledged)
			}
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Limit())
			defer cancel()
			if err := rig.Native.Announce(ctx, &outriggerv1.Notification{
				Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: rig.Native.Advance(id)},
			}); err != nil {
				t.Fatalf("%d bytes: %v", length, err)
			}
			if change := <-heard; !strings.Contains(change, shown) || !strings.Contains(change, `"status":"completed"`) {
				t.Errorf("%d bytes: %s", length, change)
			}
			rig.Bridge.Feed().Close()
			<-ended
		case got := <-ended:
			if length <= 137 || got.code() != -32602 {
				t.Errorf("%d bytes: it cannot be listened to: %s", length, got.raw)
			}
		}
	}
}

// The same id twice on one stream is the client's fault, and a subscription
// holds its id as long as it lasts.
func TestASubscriptionHoldsItsID(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		b := dialect.New(bridge.New(live, bridge.NoBackend{}, correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
		origin := b.Flights().NewOrigin()
		begin := func(body string) func() *dialect.Reply {
			msg := jsonrpc.Parse([]byte(body), jsonrpc.ProfileMCP, jsonrpc.Limits{})
			return b.BeginMessage(t.Context(), &dialect.Inbound{
				Dialect: dialect.Modern, Origin: origin, Message: &msg, Send: func([]byte) error { return nil },
			})
		}
		listen := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{},` + modernMeta + `}}`
		ended := make(chan dialect.Reply, 1)
		go func() { ended <- *begin(listen)() }()
		synctest.Wait()
		for _, again := range []string{listen, strings.Replace(listen, "subscriptions/listen", "tools/list", 1)} {
			if got := begin(again)(); !strings.Contains(string(got.Bytes()), "DUPLICATE_REQUEST_ID") || got.Then != nil {
				t.Errorf("got %s", got.Bytes())
			}
		}
		if got := begin(strings.Replace(listen, `"id":7,"method":"subscriptions/listen"`, `"id":"7","method":"tools/list"`, 1))(); !strings.Contains(string(got.Bytes()), `"id":"7","result"`) {
			t.Errorf("an id of another type: %s", got.Bytes())
		}
		b.Feed().Close()
		if got := <-ended; !strings.Contains(string(got.Bytes()), `"id":7,"result"`) {
			t.Errorf("got %s", got.Bytes())
		}
	})
}
