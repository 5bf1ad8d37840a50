// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// Feed returns the hub of changes. Code that notices a change publishes it there;
// [Request.Changes] gets it. The hub's owner closes it.
func (b *Bridge) Feed() *feed.Hub { return b.feed }

// listen streams changes until the caller goes, the feed ends or [Bridge.EndListens]
// is called, or the reader falls behind. The end of the feed and EndListens are the
// good ends.
func (b *Bridge) listen(ctx context.Context, req *Request) *Response {
	if !req.HasPlace {
		release, failed := b.OpenStream(req.Caller)
		if failed != nil {
			return &Response{Err: failed}
		}
		defer release()
	}
	ctx, stop := UntilRevoked(ctx)
	defer stop()
	l, failed := b.subscribe(ctx, req)
	if failed != nil {
		return &Response{Err: failed}
	}
	defer l.close()
	if err := l.forward(ctx); !errors.Is(err, feed.ErrClosed) {
		return &Response{Err: listenFailure(ctx, err)}
	}
	return &Response{}
}

// draining is the end of the streams of changes.
type draining struct {
	once  sync.Once
	begun chan struct{}
}

// EndListens ends all requests of OpListen well, as closing the feed would. The feed
// stays open for its other subscribers. It may be called more than once.
func (b *Bridge) EndListens() { b.draining.once.Do(func() { close(b.draining.begun) }) }

// subscribe makes ready for a stream of changes. It stands apart because the
// stream may last for days, and should not hold what only its start needs.
func (b *Bridge) subscribe(ctx context.Context, req *Request) (*listening, *errmap.Error) {
	wanted, ok := req.Message.(*outriggerv1.ChangeFilter)
	if !ok || req.Changes == nil {
		return nil, errmap.Wrap(errmap.InternalError, errors.New("a listen request without filter or sink"))
	}
	cat, failed := b.Catalog(ctx)
	if failed != nil {
		return nil, failed
	}
	l := &listening{bridge: b, req: req}
	filter, honoured, failed := l.choose(ctx, wanted, cat)
	if failed != nil {
		return nil, failed
	}
	// Subscribed before it is acknowledged, so that nothing is lost in between.
	var err error
	if l.sub, err = b.feed.Subscribe(filter); err != nil {
		return nil, listenError(err)
	}
	for _, f := range l.watches {
		if failed := f.start(); failed != nil {
			l.close()
			return nil, failed
		}
	}
	if len(filter.ResourceURIs)+len(filter.TaskIDs) > 0 {
		b.feed.Settle(ctx)
	}
	if err = l.tell(ctx, feed.Acknowledgement(honoured)); err != nil {
		l.close()
		return nil, listenFailure(ctx, err)
	}
	req.forget()
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
		case <-l.bridge.draining.begun:
			return feed.ErrClosed
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
	bridge  *Bridge
	req     *Request
	sub     *feed.Subscription
	watches []*following
	// shownTasks are the tasks as the caller knows them, by the feed's ids.
	shownTasks map[string]shownTask
}

// close ends what the stream follows.
func (l *listening) close() {
	for _, f := range l.watches {
		f.end()
	}
	l.sub.Close()
}

// shownTask is one task that a caller hears of.
type shownTask struct {
	id string
	of nativeResult
}

// choose works out what of the wanted changes will be reported, as the feed and
// as the caller know it. Which callers may hear of a task is settled here: its id is
// the caller's, or it is unknown.
func (l *listening) choose(ctx context.Context, wanted *outriggerv1.ChangeFilter, cat *catalog.Catalog) (feed.Filter, *outriggerv1.ChangeFilter, *errmap.Error) {
	f := l.bridge.Features(cat)
	honoured := &outriggerv1.ChangeFilter{
		ToolsListChanged:     wanted.GetToolsListChanged(),
		PromptsListChanged:   wanted.GetPromptsListChanged() && f.PromptsChanged,
		ResourcesListChanged: wanted.GetResourcesListChanged() && f.Resources,
	}
	var filter feed.Filter
	if f.ResourcesSubscribe {
		if err := l.chooseResources(ctx, wanted.GetResourceUris(), cat, &filter, honoured); err != nil {
			return feed.Filter{}, nil, err
		}
	}
	if len(wanted.GetTaskIds()) > 0 && f.Tasks {
		if err := requireTasks(l.req, f); err != nil {
			return feed.Filter{}, nil, err
		}
		var err *errmap.Error
		if honoured.TaskIds, err = l.chooseTasks(ctx, wanted.GetTaskIds()); err != nil {
			return feed.Filter{}, nil, err
		}
	}
	filter.Tools, filter.Prompts, filter.Resources = honoured.GetToolsListChanged(), honoured.GetPromptsListChanged(), honoured.GetResourcesListChanged()
	for key := range l.shownTasks {
		filter.TaskIDs = append(filter.TaskIDs, key)
	}
	return filter, honoured, nil
}

// chooseResources leaves out resources that the caller may not read, or that nobody reports. A watch that is refused only
// for now fails the request, so that its caller tries again.
func (l *listening) chooseResources(ctx context.Context, uris []string, cat *catalog.Catalog, filter *feed.Filter, honoured *outriggerv1.ChangeFilter) *errmap.Error {
	isNative := cat.Description().GetCapabilities().GetResources().GetSubscribe()
	seen := make(map[string]bool, len(uris))
	for _, uri := range uris {
		if seen[uri] {
			continue
		}
		seen[uri] = true
		f, err := l.bridge.prepareFollow(ctx, l.req, uri)
		switch {
		case err != nil && err.CanRetry(true):
			return err
		case err != nil:
			l.bridge.AuditDenied(ctx, l.req, OpListen.String(), err)
			continue
		case f != nil:
			l.watches = append(l.watches, f)
			filter.Scoped = append(filter.Scoped, feed.Scoped{URI: uri, Scope: f.scope})
		case isNative && access.FromContext(ctx).MayRead(uri):
			filter.ResourceURIs = append(filter.ResourceURIs, uri)
		default:
			continue
		}
		honoured.ResourceUris = append(honoured.ResourceUris, uri)
	}
	return nil
}

// chooseTasks leaves out ids that are unknown here, as other kinds of changes
// that are never reported are left out. While nobody can say whether an id is known, the
// request fails.
func (l *listening) chooseTasks(ctx context.Context, ids []string) (honoured []string, failed *errmap.Error) {
	l.shownTasks = make(map[string]shownTask, len(ids))
	for _, id := range ids {
		ref, ok, err := l.bridge.findTask(ctx, l.req.Caller, id)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			continue
		}
		honoured = append(honoured, id)
		l.shownTasks[ref.key()] = shownTask{id: id, of: ref.of}
	}
	return honoured, nil
}

// notification is a change in the words of the contract. Each caller knows a task
// by an id of its own.
func (l *listening) notification(c feed.Change) *outriggerv1.Notification {
	if c.Kind != feed.TaskChanged {
		return c.Notification()
	}
	shown, _ := proto.Clone(c.Task).(*outriggerv1.Task)
	known := l.shownTasks[c.Task.GetTaskId()]
	shown.TaskId = known.id
	if cat := l.bridge.Catalogs().Current(); cat != nil {
		l.bridge.settleTask(l.req, cat, &known.of, shown)
	}
	c.Task = shown
	return c.Notification()
}

// listenError is what ended a stream, or kept it from beginning.
func listenError(err error) *errmap.Error {
	var slow *feed.SlowError
	var wrong *feed.FilterError
	var shown *errmap.Error
	switch {
	case errors.As(err, &shown):
		return shown
	case errors.As(err, &slow):
		return errmap.Wrap(errmap.ResourceExhausted, err, errmap.Retryable(true), errmap.Messagef(
			"Subscription dropped: the reader fell behind and missed %d changes", slow.Missed))
	case errors.As(err, &wrong):
		return errmap.Wrap(errmap.InvalidParams, err, errmap.Message("Invalid params: "+wrong.Error()))
	case errors.Is(err, feed.ErrFull):
		full := unavailable("too many streams are open (--max-streams)")
		full.Limit = errmap.LimitStreams
		return full
	case errors.Is(err, feed.ErrClosed):
		return unavailable("the sidecar is shutting down; try another replica")
	case errors.Is(err, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	}
	// Nothing else ends a stream but its reader.
	return errmap.Wrap(errmap.Cancelled, err)
}

// OpenStream takes one of the places for long-lived streams (changes, GET streams,
// exchanges, subscriptions), or returns why there is none. The function that it returns
// gives the place back and must be called once.
func (b *Bridge) OpenStream(caller string) (release func(), err *errmap.Error) {
	switch b.opts.Streams.Acquire(caller) {
	case share.Full:
		return nil, errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: too many streams are open (--max-streams)"))
	case share.Over:
		return nil, errmap.OverShare("this caller's open streams exceed its share (--max-streams, --caller-share)")
	case share.Granted:
	}
	return func() { b.opts.Streams.Release(caller) }, nil
}
