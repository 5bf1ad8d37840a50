// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// subscriber is one subscription to changes.
type subscriber struct {
	filter *outriggerv1.ChangeFilter
	queue  chan *outriggerv1.Notification
}

// errNoSubscriber says that nothing subscribed to a change in time.
var errNoSubscriber = errors.New("mcptest: no subscriber for the change")

// maxQueued is how many changes a test may publish before the sidecar reads one.
const maxQueued = 256

// Subscribe implements the contract for changes. All that is asked for is
// honoured.
func (n *Native) Subscribe(ctx context.Context, req *connect.Request[outriggerv1.SubscribeRequest], stream *connect.ServerStream[outriggerv1.Notification]) error {
	if err := n.check(req.Msg, false); err != nil {
		return err
	}
	filter := req.Msg.GetChanges()
	// It is one before it learns it.
	s := &subscriber{filter: filter, queue: make(chan *outriggerv1.Notification, maxQueued)}
	n.join(s)
	defer n.leave(s)
	if err := stream.Send(&outriggerv1.Notification{
		Method:     "notifications/subscriptions/acknowledged",
		ParamsForm: &outriggerv1.Notification_Acknowledged{Acknowledged: filter},
	}); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case change := <-s.queue:
			if err := stream.Send(change); err != nil {
				return err
			}
		}
	}
}

func (n *Native) join(s *subscriber) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subs = append(n.subs, s)
	close(n.moved)
	n.moved = make(chan struct{})
}

func (n *Native) leave(s *subscriber) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subs = slices.DeleteFunc(n.subs, func(other *subscriber) bool { return other == s })
}

// Announce tells of a change: to the newest subscription that asked for it, so
// that one which replaces another does not make two of it. It waits for such a
// subscription until ctx ends.
func (n *Native) Announce(ctx context.Context, change *outriggerv1.Notification) error {
	for {
		s, moved := n.subscribed(change)
		if s != nil {
			s.queue <- change
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", errNoSubscriber, change.GetMethod())
		}
	}
}

func (n *Native) subscribed(change *outriggerv1.Notification) (*subscriber, <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range slices.Backward(n.subs) {
		if wants(s.filter, change) {
			return s, nil
		}
	}
	return nil, n.moved
}

func wants(f *outriggerv1.ChangeFilter, change *outriggerv1.Notification) bool {
	switch change.GetMethod() {
	case "notifications/tools/list_changed":
		return f.GetToolsListChanged()
	case "notifications/prompts/list_changed":
		return f.GetPromptsListChanged()
	case "notifications/resources/list_changed":
		return f.GetResourcesListChanged()
	case "notifications/tasks":
		return slices.Contains(f.GetTaskIds(), change.GetTask().GetTaskId())
	}
	if s := change.GetParams(); s != nil {
		return slices.Contains(f.GetResourceUris(), s.GetFields()["uri"].GetStringValue())
	}
	raw, _ := jsontext.Lookup(change.GetParamsJson(), "uri")
	uri, _ := jsontext.Text(raw)
	return slices.Contains(f.GetResourceUris(), uri)
}
