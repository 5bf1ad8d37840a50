// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

func TestNotificationsReachTheConsumer(t *testing.T) {
	t.Parallel()
	type heard struct {
		Method, Params string
		Origin         mcptest.Origin
	}
	const from = mcptest.Origin(42)
	tests := []struct {
		name    string
		dialect mcptest.Dialect
		send    string
		want    []heard
		status  int
	}{
		{"a canonical one", mcptest.Canonical, `{"jsonrpc":"2.0","method":"orders/new","params":{"id":18446744073709551615}}`,
			[]heard{{"orders/new", `{"id":18446744073709551615}`, from}}, 202},
		{"without params", mcptest.Canonical, `{"jsonrpc":"2.0","method":"x"}`, []heard{{"x", "", from}}, 202},
		{"one that looks like a call", mcptest.Canonical, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`,
			[]heard{{"tools/call", `{"name":"lab.echo","arguments":{}}`, from}}, 202},
		{"one that is MCP's elsewhere", mcptest.Canonical, `{"jsonrpc":"2.0","method":"notifications/progress","params":{}}`,
			[]heard{{"notifications/progress", `{}`, from}}, 202},
		{"a cancellation is none", mcptest.Canonical, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}`, nil, 202},
		{"MCP modern", mcptest.Modern, `{"jsonrpc":"2.0","method":"orders/new","params":{` + modernMeta + `}}`, nil, 202},
		{"MCP legacy", mcptest.Legacy, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202},
		{"params that are no object", mcptest.Canonical, `{"jsonrpc":"2.0","method":"x","params":[1]}`, nil, 400},
		{"no method", mcptest.Canonical, `{"jsonrpc":"2.0","method":""}`, nil, 400},
		{"a request is none", mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"orders/new","params":{}}`, nil, 404},
		{"a stray response is none", mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","result":{}}`, nil, 400},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []heard
			b := mcptest.Notified(t, func(method string, params []byte, origin mcptest.Origin) {
				got = append(got, heard{method, string(params), origin})
			})
			reply := b.Send(context.Background(), inbound(from, tt.dialect, tt.send))
			if reply.Status != tt.status || (reply.Bytes() == nil) != (tt.status == http.StatusAccepted) {
				t.Errorf("answered %d %s, want %d", reply.Status, reply.Bytes(), tt.status)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("heard (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNotificationsAreTakenInReadingOrder registers and never runs: what an edge
// does later on other goroutines changes no order.
func TestNotificationsAreTakenInReadingOrder(t *testing.T) {
	t.Parallel()
	var got []string
	b := mcptest.Notified(t, func(method string, _ []byte, _ mcptest.Origin) { got = append(got, method) })
	for _, method := range []string{"a", "b", "c"} {
		b.Begin(context.Background(), inbound(1, mcptest.Canonical, `{"jsonrpc":"2.0","method":"`+method+`"}`))
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestANotificationIsNeverAnswered(t *testing.T) {
	t.Parallel()
	for name, notify := range map[string]func(string, []byte, mcptest.Origin){
		"no listener":         nil,
		"the listener panics": func(string, []byte, mcptest.Origin) { panic("no") },
	} {
		b := mcptest.Notified(t, notify)
		reply := b.Send(context.Background(), inbound(1, mcptest.Canonical, `{"jsonrpc":"2.0","method":"x"}`))
		if reply.Bytes() != nil || reply.Status != http.StatusAccepted {
			t.Errorf("%s: answered %d %s", name, reply.Status, reply.Bytes())
		}
	}
}

func TestDescriptionIsWhatDescribeAnswers(t *testing.T) {
	t.Parallel()
	b := fake(t, mcptest.Echo, func(c *configv1.Config) { c.Server = &configv1.Server{Name: "n", Version: "1.2.3"} })
	reply := b.Send(context.Background(), inbound(1, mcptest.Canonical, `{"jsonrpc":"2.0","id":"1","method":"server/describe","params":{}}`))
	var got struct{ Result json.RawMessage }
	if err := json.Unmarshal(reply.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	client := mcptest.Client(t, 1)
	status, said := send(t, client, http.MethodGet, b.Operators(t)+"/describe", "")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, said)
	}
	if diff := cmp.Diff(string(got.Result), string(bytes.TrimSpace(said))); diff != "" {
		t.Errorf("(-describe +description):\n%s", diff)
	}
	var description struct {
		Tools int `json:"tools_count"`
	}
	if err := json.Unmarshal(said, &description); err != nil || description.Tools != len(b.Live.Current().Tools()) {
		t.Errorf("%d tools, %v", description.Tools, err)
	}
	none := mcptest.Pipe(t, mcptest.Parts{Tools: loading(), Configure: catalogWait(time.Millisecond)})
	if status, said := send(t, client, http.MethodGet, none.Operators(t)+"/describe", ""); status != http.StatusServiceUnavailable {
		t.Errorf("without a catalog: %d %s", status, said)
	}
}

// A reader that falls behind learns it, and how much it missed; what it has not
// read is not kept for it without end, and nothing waits for it.
func TestASubscriptionThatFallsBehindIsDroppedWithAnError(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		b := mcptest.Pipe(t, mcptest.Parts{Tools: live, Adjust: mcptest.Pending(2, 1)})
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
			if err := b.ToolsChanged(); err != nil {
				t.Fatal(err)
			}
		}
		close(reads)
		synctest.Wait()
		if len(heard) != 2 {
			t.Errorf("it heard %q", heard)
		}
		b.EndStreams()
		if got := <-ended; got.text("resultType") != "complete" {
			t.Errorf("got %s", got.raw)
		}
	})
}

// What a subscription wants is named only as far as it can be kept.
func TestASubscriptionWithTooMuchPendingEnds(t *testing.T) {
	t.Parallel()
	rig, ann := deskOf(t, mcptest.Options{Adjust: mcptest.Pending(2, 0)})
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
		if err := rig.ResourceUpdated(fmt.Sprintf("desk://notes/%d", i)); err != nil {
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
		ann := modernClient{t: t, bridge: rig, caller: "ann", capabilities: withTasks, heard: func(message string) { heard <- message }}
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
			rig.EndStreams()
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
		b := mcptest.Pipe(t, mcptest.Parts{Tools: live})
		origin := b.NewOrigin()
		begin := func(body string) func() mcptest.Reply {
			return b.Begin(t.Context(), &mcptest.Message{
				Dialect: mcptest.Modern, Origin: origin, Text: body, Send: func([]byte) error { return nil },
			})
		}
		listen := `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{},` + modernMeta + `}}`
		ended := make(chan mcptest.Reply, 1)
		go func() { ended <- begin(listen)() }()
		synctest.Wait()
		for _, again := range []string{listen, strings.Replace(listen, "subscriptions/listen", "tools/list", 1)} {
			if got := begin(again)(); !strings.Contains(string(got.Bytes()), "DUPLICATE_REQUEST_ID") || got.Then != nil {
				t.Errorf("got %s", got.Bytes())
			}
		}
		if got := begin(strings.Replace(listen, `"id":7,"method":"subscriptions/listen"`, `"id":"7","method":"tools/list"`, 1))(); !strings.Contains(string(got.Bytes()), `"id":"7","result"`) {
			t.Errorf("an id of another type: %s", got.Bytes())
		}
		b.EndStreams()
		if got := <-ended; !strings.Contains(string(got.Bytes()), `"id":7,"result"`) {
			t.Errorf("got %s", got.Bytes())
		}
	})
}
