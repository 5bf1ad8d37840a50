// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

type notificationSender = connect.ServerStream[outriggerv1.Notification]

func acknowledgement(f *outriggerv1.ChangeFilter) *outriggerv1.Notification {
	return &outriggerv1.Notification{Method: methodAcknowledged, ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: f}}
}

func change(method string) *outriggerv1.Notification {
	return &outriggerv1.Notification{Method: "notifications/" + method}
}

func toolsFilter() *outriggerv1.ChangeFilter {
	return &outriggerv1.ChangeFilter{ToolsListChanged: true}
}

// notifying is a feed of these notifications, then end.
func notifying(all []*outriggerv1.Notification, end error) func(context.Context, *connect.Request[outriggerv1.SubscribeRequest], *notificationSender) error {
	return func(_ context.Context, _ *connect.Request[outriggerv1.SubscribeRequest], out *notificationSender) error {
		for _, n := range all {
			if err := out.Send(n); err != nil {
				return err
			}
		}
		return end
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	asked := &outriggerv1.ChangeFilter{ToolsListChanged: true, PromptsListChanged: true, ResourceUris: []string{"shop://1"}, TaskIds: []string{"t"}}
	sent := []*outriggerv1.Notification{
		acknowledgement(&outriggerv1.ChangeFilter{ToolsListChanged: true, TaskIds: []string{"t"}}),
		change("tools/list_changed"),
		{Method: "notifications/resources/updated", ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: []byte(`{"uri":"shop://1"}`)}},
		{Method: "notifications/tasks", ParamsForm: &outriggerv1.Notification_Task{Task: task("t")}},
	}
	arrived := make(chan *outriggerv1.SubscribeRequest, 1)
	over := make(chan error, 1)
	addr := serve(t, &service{subscribe: func(ctx context.Context, req *connect.Request[outriggerv1.SubscribeRequest], out *notificationSender) error {
		arrived <- req.Msg
		if err := notifying(sent, nil)(ctx, req, out); err != nil {
			return err
		}
		if req.Msg.GetChanges().GetResourcesListChanged() {
			return nil
		}
		<-ctx.Done()
		over <- ctx.Err()
		return ctx.Err()
	}})
	for _, scheme := range allSchemes() {
		c := dial(t, scheme+"://"+addr, nativeLimits{})
		ctx, cancel := context.WithCancel(t.Context())
		var got []*outriggerv1.Notification
		err := c.Watch(ctx, asked, func(n *outriggerv1.Notification) {
			if got = append(got, n); len(got) == len(sent) {
				cancel()
			}
		})
		if e := failure(t, err); e.Kind != KindCancelled {
			t.Errorf("%s: got %v", scheme, err)
		}
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the backend's context ended with %v", scheme, err)
		}
		if diff := cmp.Diff(sent, got, protocmp.Transform()); diff != "" {
			t.Errorf("%s: notifications (-want +got):\n%s", scheme, diff)
		}
		if req := <-arrived; !proto.Equal(req.GetChanges(), asked) {
			t.Errorf("%s: the backend was asked %v", scheme, req)
		}
		n := 0
		if err := c.Watch(t.Context(), &outriggerv1.ChangeFilter{ResourcesListChanged: true}, func(*outriggerv1.Notification) { n++ }); err != nil || n != len(sent) {
			t.Errorf("%s: a good end: %v after %d", scheme, err, n)
		}
		<-arrived
	}
}

func TestWatchFaults(t *testing.T) {
	t.Parallel()
	ack := acknowledgement(toolsFilter())
	for _, tc := range []struct {
		name    string
		sent    []*outriggerv1.Notification
		end     error
		heard   int
		keyword string // of an *InvalidAnswerError; "": a status
		code    connect.Code
	}{
		{name: "nothing", keyword: keywordAcknowledged},
		{name: "a change first", sent: []*outriggerv1.Notification{change("tools/list_changed"), ack}, keyword: keywordAcknowledged},
		{name: "an acknowledgement of nothing", sent: []*outriggerv1.Notification{{Method: methodAcknowledged}}, keyword: keywordAcknowledged},
		{name: "acknowledged twice", sent: []*outriggerv1.Notification{ack, change("x"), ack}, heard: 2, keyword: keywordAcknowledged},
		{name: "a bad notification", sent: []*outriggerv1.Notification{ack, {}}, heard: 1, keyword: "string.min_len"},
		{name: "a task elsewhere", sent: []*outriggerv1.Notification{ack, {Method: "x", ParamsForm: &outriggerv1.Notification_Task{Task: task("t")}}}, heard: 1, keyword: "notification.task.method"},
		{name: "unimplemented", end: connect.NewError(connect.CodeUnimplemented, errors.New("not here")), code: connect.CodeUnimplemented},
		{name: "too slow a reader", sent: []*outriggerv1.Notification{ack, change("x")}, heard: 2, end: connect.NewError(connect.CodeResourceExhausted, errors.New("too slow")), code: connect.CodeResourceExhausted},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, &service{subscribe: notifying(tc.sent, tc.end)})
			for _, scheme := range allSchemes() {
				n := 0
				err := dial(t, scheme+"://"+addr, nativeLimits{}).Watch(t.Context(), toolsFilter(), func(*outriggerv1.Notification) { n++ })
				if n != tc.heard {
					t.Errorf("%s: %d notifications, want %d", scheme, n, tc.heard)
				}
				if tc.keyword != "" {
					if e := refusal(t, err); e.Violations[0].Keyword != tc.keyword {
						t.Errorf("%s: got %v", scheme, err)
					}
				} else if e := failure(t, err); e.Kind != KindStatus || e.Code != tc.code {
					t.Errorf("%s: got %v", scheme, err)
				}
			}
		})
	}
}

// A watcher against a real backend: it survives breaks, follows its filter, and
// leaves nothing open.
func TestWatcherOfARealBackend(t *testing.T) {
	t.Parallel()
	type subscription struct {
		filter *outriggerv1.ChangeFilter
		send   chan *outriggerv1.Notification // closed: the stream fails
		over   chan struct{}
	}
	opened := make(chan *subscription, 1)
	addr := serve(t, &service{subscribe: func(ctx context.Context, req *connect.Request[outriggerv1.SubscribeRequest], out *notificationSender) error {
		s := &subscription{filter: req.Msg.GetChanges(), send: make(chan *outriggerv1.Notification), over: make(chan struct{})}
		defer close(s.over)
		if err := out.Send(acknowledgement(s.filter)); err != nil {
			return err
		}
		opened <- s
		for {
			select {
			case n, ok := <-s.send:
				if !ok {
					return connect.NewError(connect.CodeUnavailable, errors.New("restarting"))
				}
				if err := out.Send(n); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}})
	for _, scheme := range allSchemes() {
		c := dial(t, scheme+"://"+addr, nativeLimits{})
		heard, acked, resynced, failed := make(chan string, 8), make(chan *outriggerv1.ChangeFilter, 8), make(chan struct{}, 8), make(chan error, 8)
		w := c.NewWatcher(toolsFilter(), WatcherOptions{
			Changed:      func(n *outriggerv1.Notification) { heard <- n.GetMethod() },
			Acknowledged: func(_, honoured *outriggerv1.ChangeFilter) { acked <- honoured },
			Resynced:     func() { resynced <- struct{}{} },
			Failed:       func(err error, _ time.Duration) { failed <- err },
		})
		first := <-opened
		if got := <-acked; !proto.Equal(got, toolsFilter()) {
			t.Errorf("%s: acknowledged %v", scheme, got)
		}
		first.send <- change("one")
		if got := <-heard; got != "notifications/one" {
			t.Errorf("%s: heard %q", scheme, got)
		}
		close(first.send)
		if e := failure(t, <-failed); e.Code != connect.CodeUnavailable {
			t.Errorf("%s: failed with %v", scheme, e)
		}
		second := <-opened
		<-acked
		<-resynced
		more := &outriggerv1.ChangeFilter{ToolsListChanged: true, TaskIds: []string{"t"}}
		w.SetFilter(more)
		third := <-opened
		if got := <-acked; !proto.Equal(got, more) {
			t.Errorf("%s: acknowledged %v", scheme, got)
		}
		<-second.over
		third.send <- change("two")
		if got := <-heard; got != "notifications/two" {
			t.Errorf("%s: heard %q", scheme, got)
		}
		w.Close()
		<-third.over
		if len(heard)+len(acked)+len(resynced)+len(failed) != 0 {
			t.Errorf("%s: more was told than there was", scheme)
		}
	}
}

// Watchers of one client do not disturb each other or its calls.
func TestManyWatchers(t *testing.T) {
	t.Parallel()
	addr := serve(t, &service{subscribe: func(ctx context.Context, req *connect.Request[outriggerv1.SubscribeRequest], out *notificationSender) error {
		err := errors.Join(out.Send(acknowledgement(req.Msg.GetChanges())), out.Send(change(req.Msg.GetChanges().GetTaskIds()[0])))
		<-ctx.Done()
		return err
	}})
	c := dial(t, "grpc://"+addr, nativeLimits{})
	var wg sync.WaitGroup
	for _, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		wg.Go(func() {
			heard := make(chan string, 1)
			w := c.NewWatcher(&outriggerv1.ChangeFilter{TaskIds: []string{id}}, WatcherOptions{Changed: func(n *outriggerv1.Notification) { heard <- n.GetMethod() }})
			defer w.Close()
			if got := <-heard; got != "notifications/"+id {
				t.Errorf("the watcher of %s heard %s", id, got)
			}
		})
	}
	wg.Wait()
}

func TestNormalFilter(t *testing.T) {
	t.Parallel()
	given := &outriggerv1.ChangeFilter{ResourceUris: []string{"b:1", "a:1", "b:1"}, TaskIds: []string{"2", "1"}}
	got := normal(given)
	if !slices.Equal(got.GetResourceUris(), []string{"a:1", "b:1"}) || !slices.Equal(got.GetTaskIds(), []string{"1", "2"}) {
		t.Errorf("got %v", got)
	}
	if given.GetResourceUris()[0] != "b:1" || len(given.GetResourceUris()) != 3 {
		t.Errorf("the given filter changed: %v", given)
	}
	if got := normal(nil); got == nil || proto.Size(got) != 0 {
		t.Errorf("nothing reads %v", got)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for random, want := range map[float64][]int{
		0:   {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000},
		0.5: {75, 150, 300, 600, 1200, 2400, 4800, 7500, 7500},
	} {
		b := backoff{min: watchBackoffMin, max: watchBackoffMax, random: func() float64 { return random }}
		for range 2 {
			for i, ms := range want {
				if got := b.next().Milliseconds(); got != int64(ms) {
					t.Errorf("random %v, pause %d: %d ms, want %d", random, i, got, ms)
				}
			}
			for range 100 { // no overflow, ever
				if got := b.next(); got < watchBackoffMax/2 || got > watchBackoffMax {
					t.Fatalf("a late pause of %v", got)
				}
			}
			b.reset()
		}
	}
}
