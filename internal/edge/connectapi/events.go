// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"buf.build/go/protovalidate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// methodCancelled is the method of a notification that is no event.
const methodCancelled = "notifications/cancelled"

// withoutBus answers what needs a bus where there is none.
func withoutBus(procedure string) *connect.Error {
	return errmap.ToConnect(errmap.New(errmap.MethodNotFound, errmap.Messagef(
		"Method not found: %s needs an event bus, and this sidecar has none", procedure)), errmap.About{})
}

// Publish publishes an event on the bus.
func (s *Service) Publish(ctx context.Context, req *connect.Request[outriggerv1.Notification]) (*connect.Response[outriggerv1.PublishResponse], error) {
	if s.opts.Events == nil {
		return nil, withoutBus("Publish")
	}
	params, failed := s.eventParams(req.Msg)
	if failed == nil && !identity.FromContext(ctx).MayPublish(req.Msg.GetMethod()) {
		failed = notOnBus(ctx, "publish "+req.Msg.GetMethod(), "publish")
		s.denied(ctx, rpcOf(req), operationPublish, req.Msg, failed)
	}
	if failed != nil {
		return nil, s.refused(req.Peer().Protocol, failed, errmap.About{})
	}
	count, err := s.opts.Events.Publish(ctx, notify.Event{
		Method: req.Msg.GetMethod(), Params: params, Publisher: uint64(s.bridge.Flights().NewOrigin()),
	})
	if err != nil {
		return nil, errmap.ToConnect(publishError(err), errmap.About{})
	}
	return connect.NewResponse(&outriggerv1.PublishResponse{Subscribers: int32(count)}), nil
}

// notOnBus is PERMISSION_DENIED for what a caller may not do on the event bus. field is
// that of the callers file which permits it.
func notOnBus(ctx context.Context, what, field string) *errmap.Error {
	who := identity.FromContext(ctx)
	return errmap.New(errmap.PermissionDenied, errmap.Challenge(identity.NotPermitted("")), errmap.Messagef(
		"Permission denied: caller %s may not %s; an operator can allow it in the callers file (--tokens, `%s`)", who.Name(), what, field))
}

// eventParams returns the JSON text of what goes with an event. The forms that
// only a change feed has are no event's, and neither is a cancellation: the caller that
// publishes one wants something else.
func (s *Service) eventParams(n *outriggerv1.Notification) ([]byte, *errmap.Error) {
	switch {
	case n.GetTask() != nil:
		return nil, notAnEvent("/task", "a task is reported by the service that has it; give an event params or params_json")
	case n.GetAcknowledged() != nil:
		return nil, notAnEvent("/acknowledged", "a change feed says this itself; give an event params or params_json")
	case n.GetSequence() != 0:
		return nil, notAnEvent("/sequence", "the bus numbers events itself; leave sequence out")
	case n.GetMethod() == methodCancelled:
		return nil, notAnEvent("/method", "to cancel a call, end its RPC, or send this on the Exchange stream that the call came on")
	}
	params, failed := freeForm(n.GetParamsJson(), n.GetParams(), s.opts.Limits)
	switch {
	case failed != nil:
		return nil, failed.at("/params_json")
	case params != nil && !jsontext.IsObject(params):
		return nil, notAnEvent("/params_json", "params_json is not a JSON object")
	}
	return params, nil
}

func notAnEvent(path, message string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{Path: path, Keyword: "event", Message: message}))
}

func publishError(err error) *errmap.Error {
	var large *notify.TooLargeError
	switch {
	case errors.As(err, &large):
		return errmap.Wrap(errmap.PayloadTooLarge, err, errmap.WithViolations(errmap.Violation{
			Keyword: "size", Message: fmt.Sprintf("the %s has %d bytes, over the limit of %d", large.Part, large.Size, large.Limit),
		}))
	case errors.Is(err, notify.ErrTooLarge):
		return errmap.Wrap(errmap.PayloadTooLarge, err, errmap.WithViolations(errmap.Violation{
			Keyword: "size", Message: "the event is larger than the servers that keep events accept; an operator can raise their max_payload",
		}))
	case errors.Is(err, notify.ErrClosed):
		return shuttingDown()
	case errors.Is(err, notify.ErrUnavailable):
		return busUnavailable(err)
	case errors.Is(err, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	case errors.Is(err, context.Canceled):
		return errmap.Wrap(errmap.Cancelled, err)
	}
	return errmap.Wrap(errmap.InternalError, err)
}

// noneAfter says why a subscriber cannot go on after an event; nil for other errors.
func noneAfter(err error) *errmap.Error {
	var gap *notify.GapError
	var message string
	switch {
	case errors.As(err, &gap) && gap.After > gap.Last:
		message = fmt.Sprintf("there is no event %d yet: the last one is %d", gap.After, gap.Last)
	case errors.As(err, &gap):
		message = fmt.Sprintf("events after %d are not kept any more: the first that is kept is %d. Subscribe without after, and read anew what the events are about", gap.After, gap.First)
	case errors.Is(err, notify.ErrNotKept):
		message = "this sidecar keeps no events; an operator can have replicas keep them together (--state)"
	default:
		return nil
	}
	return errmap.Wrap(errmap.InvalidParams, err, errmap.WithViolations(errmap.Violation{Path: "/events/after", Keyword: "after", Message: message}))
}

// Subscribe streams events of the bus, or changes of the sidecar itself, until
// the caller ends the stream.
func (s *Service) Subscribe(ctx context.Context, req *connect.Request[outriggerv1.SubscribeRequest], stream *connect.ServerStream[outriggerv1.Notification]) error {
	if err := protovalidate.Validate(req.Msg); err != nil {
		return s.refused(req.Peer().Protocol, ruleError(err), errmap.About{})
	}
	events := req.Msg.GetEvents()
	if events != nil && s.opts.Events == nil {
		return withoutBus("Subscribe")
	}
	if err := mayListen(ctx, s.bridge, events); err != nil {
		s.denied(ctx, rpcOf(req), bridge.OpListen.String(), filterOf(req.Msg), err)
		return s.refused(req.Peer().Protocol, err, errmap.About{})
	}
	l, failed := s.last(ctx, req.Peer().Addr, map[bool]string{true: "events", false: "changes"}[events != nil])
	if failed != nil {
		return errmap.ToConnect(failed, errmap.About{})
	}
	defer l.close()
	if events != nil {
		return s.sendEvents(l, events, stream)
	}
	return s.sendChanges(l, req, stream)
}

// mayListen returns PERMISSION_DENIED for a caller that may not have a stream: of changes,
// if events is nil.
func mayListen(ctx context.Context, b *bridge.Bridge, events *outriggerv1.EventFilter) *errmap.Error {
	if err := b.MayRun(ctx, bridge.OpListen); err != nil || events == nil {
		return err
	}
	return maySubscribe(ctx, events.GetMethods())
}

// filterOf is what a caller subscribes to, of events or of changes.
func filterOf(m *outriggerv1.SubscribeRequest) proto.Message {
	if events := m.GetEvents(); events != nil {
		return events
	}
	return m.GetChanges()
}

// sendEvents sends the headers at once: from then on the caller misses nothing.
func (s *Service) sendEvents(l *lasting, filter *outriggerv1.EventFilter, stream *connect.ServerStream[outriggerv1.Notification]) error {
	who := identity.FromContext(l.ctx)
	events, err := s.events(l.ctx, filter)
	if err != nil {
		if failed := noneAfter(err); failed != nil {
			return errmap.ToConnect(failed, errmap.About{})
		}
		return l.ended(err)
	}
	defer events.Close()
	if err := send(l, stream, nil); err != nil {
		return err
	}
	for {
		e, err := events.Next(l.ctx)
		if err != nil {
			return l.ended(err)
		}
		if !who.MaySubscribe(e.Method) {
			continue
		}
		if err := send(l, stream, notificationFrom(e)); err != nil {
			return err
		}
	}
}

// events subscribes to what a filter selects.
func (s *Service) events(ctx context.Context, filter *outriggerv1.EventFilter) (notify.EventSubscription, error) {
	if filter.After != nil {
		return s.opts.Events.SubscribeAfter(ctx, filter.GetMethods(), filter.GetAfter())
	}
	return s.opts.Events.Subscribe(filter.GetMethods())
}

// maySubscribe returns PERMISSION_DENIED for a caller that may read nothing of the bus, or
// not a method that it names. Of what a pattern matches, the stream has the events that the
// caller may read.
func maySubscribe(ctx context.Context, methods []string) *errmap.Error {
	who := identity.FromContext(ctx)
	if !who.MaySubscribeAny() {
		return notOnBus(ctx, "subscribe to events", "subscribe")
	}
	for _, method := range methods {
		if !strings.Contains(method, "*") && !who.MaySubscribe(method) {
			return notOnBus(ctx, "subscribe to "+method, "subscribe")
		}
	}
	return nil
}

func notificationFrom(e *notify.Event) *outriggerv1.Notification {
	n := &outriggerv1.Notification{Method: e.Method, Sequence: e.Sequence}
	if e.Params != nil {
		n.ParamsForm = &outriggerv1.Notification_ParamsJson{ParamsJson: e.Params}
	}
	return n
}

// sendChanges reports changes of what the sidecar offers. To ask for tasks is to
// be able to work with them. The stream has no good end, because it lasts until
// the caller ends it.
func (s *Service) sendChanges(l *lasting, req *connect.Request[outriggerv1.SubscribeRequest], stream *connect.ServerStream[outriggerv1.Notification]) error {
	listen := s.request(l.ctx, bridge.OpListen, req)
	listen.HasPlace = true
	listen.Message, listen.Context = req.Msg.GetChanges(), withTasks(nil)
	listen.Changes = func(n *outriggerv1.Notification) error { return send(l, stream, n) }
	resp := s.run(l.ctx, listen)
	if resp.Err == nil || errors.Is(context.Cause(l.ctx), errEnding) {
		return l.ended(errEnding)
	}
	return connectError(resp)
}
