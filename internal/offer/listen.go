// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"errors"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/notify"
)

// listen streams changes until the caller goes, the feed ends or [bridge.Bridge.EndListens]
// is called, or the reader falls behind. The end of the feed and EndListens are the
// good ends.
func (s *Service) listen(ctx context.Context, req *bridge.Request) *bridge.Response {
	if !req.HasPlace {
		release, failed := s.place(req.Caller)
		if failed != nil {
			return &bridge.Response{Err: failed}
		}
		defer release()
	}
	ctx, stop := bridge.UntilRevoked(ctx)
	defer stop()
	l, failed := s.subscribe(ctx, req)
	if failed != nil {
		return &bridge.Response{Err: failed}
	}
	defer l.close()
	if err := l.forward(ctx); !errors.Is(err, notify.ErrClosed) {
		return &bridge.Response{Err: listenFailure(ctx, err)}
	}
	return &bridge.Response{}
}

// place takes a place for a stream of changes. It is not inlined: the stack that it needs would lie below each stream while that waits.
//
//go:noinline
func (s *Service) place(caller string) (release func(), err *errmap.Error) {
	return s.bridge.OpenStream(caller, "changes", "")
}

// subscribe makes ready for a stream of changes. It is apart because the
// stream may last for days, and should not hold what only its start needs.
func (s *Service) subscribe(ctx context.Context, req *bridge.Request) (*listening, *errmap.Error) {
	wanted, ok := req.Message.(*outriggerv1.ChangeFilter)
	if !ok || req.Changes == nil {
		return nil, errmap.Wrap(errmap.InternalError, errors.New("a listen request without filter or sink"))
	}
	cat, failed := s.bridge.Catalog(ctx)
	if failed != nil {
		return nil, failed
	}
	l := &listening{service: s, req: req}
	filter, honoured, failed := l.choose(ctx, wanted, cat)
	if failed != nil {
		return nil, failed
	}
	// Subscribed before it is acknowledged, so that nothing is lost in between.
	var err error
	if l.sub, err = s.opts.Feed.Subscribe(filter); err != nil {
		return nil, listenError(err)
	}
	for _, f := range l.watches {
		if failed := f.start(); failed != nil {
			l.close()
			return nil, failed
		}
	}
	if len(filter.ResourceURIs)+len(filter.TaskIDs) > 0 {
		s.opts.Feed.Settle(ctx)
	}
	if err = l.tell(ctx, notify.Acknowledgement(honoured)); err != nil {
		l.close()
		return nil, listenFailure(ctx, err)
	}
	req.Forget()
	return l, nil
}

// forward passes changes on; it returns why it stopped.
func (l *listening) forward(ctx context.Context) error {
	for {
		isMore, err := l.pass(ctx)
		if err != nil {
			return err
		}
		if isMore {
			continue
		}
		select {
		case <-l.sub.Ready():
		case <-l.service.host.Draining():
			return notify.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// pass passes one change on, where there is one.
func (l *listening) pass(ctx context.Context) (bool, error) {
	change, ok, err := l.sub.Poll()
	if !ok || err != nil {
		return false, err
	}
	return true, l.tell(ctx, l.notification(change))
}

// tell gives the caller a notification. After a cancellation nothing may be sent.
func (l *listening) tell(ctx context.Context, n *outriggerv1.Notification) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return l.req.Changes(n)
}

// listenFailure is what ended a stream before its time.
func listenFailure(ctx context.Context, err error) *errmap.Error {
	if cause := context.Cause(ctx); cause != nil {
		err = errors.Join(err, cause)
	}
	return listenError(err)
}

// listening is one stream of changes.
type listening struct {
	service *Service
	req     *bridge.Request
	sub     *notify.Subscription
	watches []*following
	// shownTasks are the tasks as the caller knows them, by the feed's ids.
	shownTasks map[string]func(*outriggerv1.Task) *outriggerv1.Task
}

// close ends what the stream follows.
func (l *listening) close() {
	for _, f := range l.watches {
		f.stop()
	}
	l.sub.Close()
}

// choose works out what of the wanted changes will be reported, as the feed and
// as the caller know it. Which callers may hear of a task is settled here: its id is
// the caller's, or it is unknown.
func (l *listening) choose(ctx context.Context, wanted *outriggerv1.ChangeFilter, cat *catalog.Catalog) (notify.Filter, *outriggerv1.ChangeFilter, *errmap.Error) {
	f := l.service.Features(cat)
	honoured := &outriggerv1.ChangeFilter{
		ToolsListChanged:     wanted.GetToolsListChanged(),
		PromptsListChanged:   wanted.GetPromptsListChanged() && f.PromptsChanged,
		ResourcesListChanged: wanted.GetResourcesListChanged() && f.Resources,
	}
	var filter notify.Filter
	if f.ResourcesSubscribe {
		if err := l.chooseResources(ctx, wanted.GetResourceUris(), cat, &filter, honoured); err != nil {
			return notify.Filter{}, nil, err
		}
	}
	if len(wanted.GetTaskIds()) > 0 && f.Tasks {
		var err *errmap.Error
		if honoured.TaskIds, l.shownTasks, err = l.service.host.FollowTasks(ctx, l.req, wanted.GetTaskIds()); err != nil {
			return notify.Filter{}, nil, err
		}
	}
	filter.Tools, filter.Prompts, filter.Resources = honoured.GetToolsListChanged(), honoured.GetPromptsListChanged(), honoured.GetResourcesListChanged()
	for key := range l.shownTasks {
		filter.TaskIDs = append(filter.TaskIDs, key)
	}
	return filter, honoured, nil
}

// chooseResources leaves out resources that the caller may not read, or that no one reports. A watch that is refused only
// for now fails the request, so that its caller tries again.
func (l *listening) chooseResources(ctx context.Context, uris []string, cat *catalog.Catalog, filter *notify.Filter, honoured *outriggerv1.ChangeFilter) *errmap.Error {
	isNative := cat.Description().GetCapabilities().GetResources().GetSubscribe()
	seen := make(map[string]bool, len(uris))
	for _, uri := range uris {
		if seen[uri] {
			continue
		}
		seen[uri] = true
		f, err := l.service.prepareFollow(ctx, l.req, uri)
		switch {
		case err != nil && err.CanRetry(true):
			return err
		case err != nil:
			l.service.bridge.AuditDenied(ctx, l.req, bridge.OpListen.String(), err)
			continue
		case f != nil:
			l.watches = append(l.watches, f)
			filter.Scoped = append(filter.Scoped, notify.Scoped{URI: uri, Scope: f.scope})
		case isNative && identity.FromContext(ctx).MayRead(uri):
			filter.ResourceURIs = append(filter.ResourceURIs, uri)
		default:
			continue
		}
		honoured.ResourceUris = append(honoured.ResourceUris, uri)
	}
	return nil
}

// notification is a change in the words of the contract. Each caller knows a task
// by its own id.
func (l *listening) notification(c notify.Change) *outriggerv1.Notification {
	if c.Kind == notify.TaskChanged {
		c.Task = l.shownTasks[c.Task.GetTaskId()](c.Task) // the filter has no others
	}
	return c.Notification()
}

// listenError is what ended a stream, or kept it from beginning.
func listenError(err error) *errmap.Error {
	var slow *notify.SlowError
	var wrong *notify.FilterError
	var shown *errmap.Error
	switch {
	case errors.As(err, &shown):
		return shown
	case errors.As(err, &slow):
		return errmap.Wrap(errmap.ResourceExhausted, err, errmap.Retryable(true), errmap.Messagef(
			"Subscription dropped: the reader fell behind and missed %d changes", slow.Missed))
	case errors.As(err, &wrong):
		return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: "+wrong.Error()))
	case errors.Is(err, notify.ErrFull):
		full := unavailable("too many streams are open (--max-streams)")
		full.Limit = errmap.LimitStreams
		return full
	case errors.Is(err, notify.ErrClosed):
		return unavailable("the sidecar is shutting down; try another replica")
	case errors.Is(err, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	}
	// Nothing else ends a stream but its reader.
	return errmap.Wrap(errmap.Cancelled, err)
}
