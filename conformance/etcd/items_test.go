// SPDX-License-Identifier: Apache-2.0

package etcd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"

	"github.com/outrigger-mcp/outrigger/conformance/caller"
	"github.com/outrigger-mcp/outrigger/conformance/sidecar"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// said is a message of the sidecar in a conversation: an item of a call, or its reply.
type said struct {
	ID     string
	Method string
	Params struct {
		RequestID string
		Item      json.RawMessage
	}
	Result struct {
		StructuredContent json.RawMessage
	}
	Error json.RawMessage
}

// conversation is a way to send items after a call.
type conversation interface {
	send(t *testing.T, id, method, params string)
	next(t *testing.T) said
}

// exchanging is a conversation over ToolService.Exchange.
type exchanging struct {
	stream *connect.BidiStreamForClient[outriggerv1.Envelope, outriggerv1.Envelope]
}

func (c exchanging) send(t *testing.T, id, method, params string) {
	t.Helper()
	e := &outriggerv1.Envelope{Message: &outriggerv1.Envelope_Notification{Notification: &outriggerv1.Notification{
		Method: method, ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(params)},
	}}}
	if id != "" {
		e.Message = &outriggerv1.Envelope_Request{Request: &outriggerv1.Request{
			Id: &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: id}}, Method: method,
			ParamsForm: &outriggerv1.Request_ParamsJson{ParamsJson: []byte(params)},
		}}
	}
	if err := c.stream.Send(e); err != nil {
		t.Fatal(err)
	}
}

func (c exchanging) next(t *testing.T) said {
	t.Helper()
	e, err := c.stream.Receive()
	if err != nil {
		t.Fatal(err)
	}
	out := said{ID: e.GetSuccessResponse().GetId().GetText(), Method: e.GetNotification().GetMethod(), Error: e.GetErrorResponse().GetError().GetDataJson()}
	for raw, into := range map[string]any{
		string(e.GetNotification().GetParamsJson()):    &out.Params,
		string(e.GetSuccessResponse().GetResultJson()): &out.Result,
	} {
		if raw != "" && json.Unmarshal([]byte(raw), into) != nil {
			t.Fatalf("%s", raw)
		}
	}
	return out
}

// piping is a conversation over standard input and output.
type piping struct{ pipe *sidecar.Stdio }

func (c piping) send(t *testing.T, id, method, params string) {
	t.Helper()
	if id != "" {
		id = fmt.Sprintf(`"id":%q,`, id)
	}
	c.pipe.MustSend(t, fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":%q,"params":%s}`, id, method, params))
}

func (c piping) next(t *testing.T) said {
	t.Helper()
	var out said
	if line := c.pipe.Next(t); json.Unmarshal([]byte(line), &out) != nil {
		t.Fatal(line)
	}
	return out
}

// TestItemsThatFollow talks to etcd's streams of both directions as a tool: what is sent depends
// on what has come.
func TestItemsThatFollow(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T, *etcd) conversation{
		"Exchange": func(t *testing.T, e *etcd) conversation {
			t.Helper()
			client := caller.Client(true)
			t.Cleanup(client.CloseIdleConnections)
			ctx, cancel := context.WithCancel(bounded(t))
			t.Cleanup(cancel)
			stream := outriggerv1connect.NewToolServiceClient(client, e.serve(t).URL(""), connect.WithGRPC()).Exchange(ctx)
			t.Cleanup(func() { _, _ = stream.CloseRequest(), stream.CloseResponse() })
			return exchanging{stream}
		},
		"stdio": func(t *testing.T, e *etcd) conversation {
			t.Helper()
			return piping{sidecar.Pipe(t, built.binary, e.backend()...)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEtcd(t)
			c := open(t, e)
			followLease(t, e, c)
			followWatch(t, e, c)
		})
	}
}

// followLease renews a lease for as often as it was asked; the result has it all.
func followLease(t *testing.T, e *etcd, c conversation) {
	t.Helper()
	const id = 1<<53 + 1
	if _, err := etcdserverpb.NewLeaseClient(dial(t, e.addr)).LeaseGrant(bounded(t), &etcdserverpb.LeaseGrantRequest{ID: id, TTL: 60}); err != nil {
		t.Fatal(err)
	}
	c.send(t, "lease", "tools/call", `{"name":"lease.lease_keep_alive","_meta":{"dev.outrigger/items":true}}`)
	var told []json.RawMessage
	for range 5 {
		c.send(t, "", "notifications/items", fmt.Sprintf(`{"requestId":"lease","items":[{"ID":"%d"}]}`, id))
		got := c.next(t)
		var kept struct{ ID, TTL string }
		if err := json.Unmarshal(got.Params.Item, &kept); err != nil || got.Params.RequestID != "lease" || kept.ID != fmt.Sprint(id) || kept.TTL != "60" {
			t.Fatalf("kept alive: %v %+v", err, got)
		}
		told = append(told, got.Params.Item)
	}
	c.send(t, "", "notifications/items", `{"requestId":"lease","last":true}`)
	got := c.next(t)
	var result struct {
		Items     []json.RawMessage
		Truncated bool
	}
	if err := json.Unmarshal(got.Result.StructuredContent, &result); err != nil || got.ID != "lease" || result.Truncated {
		t.Fatalf("the result: %v %+v", err, got)
	}
	if diff := cmp.Diff(told, result.Items); diff != "" {
		t.Errorf("the result (-told +result):\n%s", diff)
	}
}

// followWatch adds watches to a stream and ends them, and then cancels the call.
func followWatch(t *testing.T, e *etcd, c conversation) {
	t.Helper()
	kv := etcdserverpb.NewKVClient(dial(t, e.addr))
	item := func(what string, is func(watchItem) bool) {
		t.Helper()
		got := c.next(t)
		var w watchItem
		if err := json.Unmarshal(got.Params.Item, &w); err != nil || got.Method != "notifications/item" || got.Params.RequestID != "watch" || !is(w) {
			t.Fatalf("%s: %v %s %+v", what, err, got.Params.Item, got)
		}
	}
	event := func(id, value string) {
		t.Helper()
		item("an event", func(w watchItem) bool {
			return w.WatchID == id && len(w.Events) == 1 && w.Events[0].Type == "PUT" && string(w.Events[0].KV.Value) == value
		})
	}
	send := func(request string) {
		t.Helper()
		c.send(t, "", "notifications/items", `{"requestId":"watch","items":[`+request+`]}`)
	}
	c.send(t, "watch", "tools/call", fmt.Sprintf(
		`{"name":"watch.watch","arguments":{"items":[{"createRequest":{"key":%q,"watchId":"1"}}]},"_meta":{"dev.outrigger/items":true}}`, base64Of("a")))
	item("the first watch", func(w watchItem) bool { return w.Created && w.WatchID == "1" })
	put(bounded(t), t, kv, "a", "\x00\xff")
	event("1", "\x00\xff")
	send(fmt.Sprintf(`{"createRequest":{"key":%q,"watchId":"2"}}`, base64Of("b")))
	item("the second watch", func(w watchItem) bool { return w.Created && w.WatchID == "2" })
	put(bounded(t), t, kv, "b", "of b")
	event("2", "of b")
	send(`{"cancelRequest":{"watchId":"1"}}`)
	item("the end of the first", func(w watchItem) bool { return w.Canceled && w.WatchID == "1" })
	put(bounded(t), t, kv, "a", "unseen")
	last := put(bounded(t), t, kv, "b", "the last")
	event("2", "the last")
	send(`{"progressRequest":{}}`)
	item("progress", func(w watchItem) bool { return w.WatchID == "-1" && w.Header.Revision == last.Header.Revision })

	const watchers = "etcd_debugging_mvcc_watcher_total"
	if n := e.metric(t, watchers); n != 1 {
		t.Errorf("%v watchers before the end", n)
	}
	c.send(t, "", "notifications/cancelled", `{"requestId":"watch"}`)
	testkit.Until(t, "etcd has no watchers", func() bool { return e.metric(t, watchers) == 0 })
}

// TestEvents reads an election as it happens, as events of a call of its tool.
func TestEvents(t *testing.T) {
	t.Parallel()
	e := startEtcd(t)
	server := e.serve(t)
	direct := dial(t, e.addr)
	c := &campaigning{ElectionClient: v3electionpb.NewElectionClient(direct), t: t, leases: etcdserverpb.NewLeaseClient(direct), name: []byte(t.Name())}
	leader, err := c.campaign(bounded(t), "candidate")
	if err != nil {
		t.Fatal(err)
	}
	for name, options := range map[string][]connect.ClientOption{
		"Connect": nil, "gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
	} {
		t.Run(name, func(t *testing.T) {
			client := caller.Client(name == "gRPC")
			defer client.CloseIdleConnections()
			ctx, cancel := context.WithCancel(bounded(t))
			defer cancel()
			c.proclaim(bounded(t), leader, name)
			stream, err := outriggerv1connect.NewToolServiceClient(client, server.URL(""), options...).CallToolStream(ctx,
				connect.NewRequest(&outriggerv1.ToolCall{ToolName: "election.observe", ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{
					ArgumentsJson: []byte(`{"name":"` + base64Of(t.Name()[:len("TestEvents")]) + `"}`),
				}}))
			if err != nil {
				t.Fatal(err)
			}
			observe := func(want string) {
				t.Helper()
				for stream.Receive() {
					partial := stream.Msg().GetPartial()
					if partial == nil {
						continue // progress
					}
					var got struct{ KV keyValue }
					if err := json.Unmarshal(partial.GetDataJson(), &got); err != nil || string(got.KV.Value) != want {
						t.Fatalf("observed %v %s, want %s", err, partial.GetDataJson(), want)
					}
					return
				}
				t.Fatalf("the stream ended: %v", stream.Err())
			}
			observe(name)
			for i := range 5 {
				text := fmt.Sprintf("%s %d", name, i)
				c.proclaim(bounded(t), leader, text)
				observe(text)
			}
			cancel()
			for stream.Receive() {
				continue
			}
			_ = stream.Close()
		})
	}
	testkit.Until(t, "etcd has no watchers", func() bool { return e.metric(t, "etcd_debugging_mvcc_watcher_total") == 0 })
}
