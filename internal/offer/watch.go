// SPDX-License-Identifier: Apache-2.0

package offer

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// watchArguments are the arguments of the tool behind a watch that a URI has.
func watchArguments(req *bridge.Request, method *resource.Method, uri string) ([]byte, *errmap.Error) {
	arguments, err := method.WatchRequest(uri)
	if err != nil {
		return nil, errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
			Path: req.At("uri"), Keyword: "format", Message: err.Error(),
		}))
	}
	return arguments, nil
}

// watchSpec describes the stream of a watch for a caller.
func (s *Service) watchSpec(ctx context.Context, req *bridge.Request, tool *catalog.Tool, wire []byte, uri string) notify.Watch {
	own, values, key := s.host.Detach(ctx, req, tool)
	return notify.Watch{
		Key: tool.Name + "\x00" + key + string(wire), Tool: tool.Name, Version: versionOf(tool), Caller: own.Caller,
		Open: func(ctx context.Context, each func(message []byte)) *errmap.Error {
			return s.openWatch(callerContext{ctx, values}, own, uri, each)
		},
	}
}

// callerContext is the context of a stream with the values of its caller's request.
type callerContext struct {
	context.Context //nolint:containedctx // it is one

	values context.Context //nolint:containedctx // who the caller is, long after its request
}

// Value implements [context.Context].
func (c callerContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// versionOf changes where a stream has to be opened again.
func versionOf(t *catalog.Tool) string { return t.Method.Procedure + " " + t.Fingerprint() }

// unavailable is UNAVAILABLE with a reason and a retry hint.
func unavailable(reason string) *errmap.Error {
	return errmap.Because(errmap.Unavailable, reason, errmap.RetryAfter(time.Second))
}

// watchError says why a watch has no value; nil if it has one.
func watchError(err error) *errmap.Error {
	var failed *errmap.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		own := *failed // readers share it
		return &own
	case errors.Is(err, notify.ErrWatchesFull):
		return unavailable("too many watches are running (--max-watches)")
	case errors.Is(err, notify.ErrWatchShare):
		return errmap.OverShare("this caller's watches exceed its share (--max-watches, --caller-share)")
	case errors.Is(err, notify.ErrClosed):
		return unavailable("the sidecar is shutting down; try another replica")
	case errors.Is(err, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	}
	return errmap.Wrap(errmap.Cancelled, err)
}

// openWatch opens the stream of a watch for one caller. The tool is looked up, and the caller's permission is checked, each time:
// both may have changed since the last one.
func (s *Service) openWatch(ctx context.Context, req *bridge.Request, uri string, each func(message []byte)) (failed *errmap.Error) {
	defer func() {
		if p := recover(); p != nil {
			failed = s.bridge.Panicked(p, zap.String(logkey.Caller, req.Caller))
		}
	}()
	if s.host.Current() == nil {
		return unavailable("the tool catalog has not been loaded yet")
	}
	method, tool := s.watchAt(uri)
	if method == nil {
		return errmap.UnknownResource(uri)
	}
	if err := s.host.MayUse(ctx, tool); err != nil {
		return err
	}
	arguments, err := watchArguments(req, method, uri)
	if err != nil {
		return err
	}
	return s.host.Stream(ctx, req, tool, arguments, each)
}

// watchAt finds the watch that a URI is of, for any caller.
func (s *Service) watchAt(uri string) (*resource.Method, *catalog.Tool) {
	all := s.host.Current()
	if all == nil || len(uri) > maxURI {
		return nil, nil
	}
	method, _, ok := all.Resources().Match(uri)
	if !ok || !method.IsWatch() {
		return nil, nil
	}
	return method, all.ResourceTool(method)
}

// following is a subscription to a watch.
type following struct {
	watches    *notify.Watches
	feed       *notify.Feed
	uri, scope string
	spec       notify.Watch
	who        *identity.Identity
	listener   *notify.Listener
	unwatch    func() bool
}

// prepareFollow checks whether a caller may subscribe to a watch, as a call of its tool is checked. Nil is for a URI that
// is of no watch.
func (s *Service) prepareFollow(ctx context.Context, req *bridge.Request, uri string) (*following, *errmap.Error) {
	method, tool := s.watchAt(uri)
	if method == nil {
		return nil, nil //nolint:nilnil // it is no watch
	}
	if err := s.host.MayUse(ctx, tool); err != nil {
		return nil, err
	}
	arguments, err := watchArguments(req, method, uri)
	if err != nil {
		return nil, err
	}
	wire, err := s.host.Subscribe(ctx, req, tool, arguments, uri)
	if err != nil {
		return nil, err
	}
	f := &following{
		watches: s.opts.Watches, feed: s.opts.Feed, uri: uri, scope: strconv.FormatUint(s.followed.Add(1), 10),
		spec: s.watchSpec(ctx, req, tool, wire, uri), who: identity.FromContext(ctx),
	}
	f.spec.Changed = f.publish
	return f, nil
}

// publish announces a change to this subscription.
func (f *following) publish() {
	// A closed feed has no subscribers.
	_ = f.feed.Publish(notify.Change{Kind: notify.ResourceUpdated, URI: f.uri, Scope: f.scope})
}

// start begins it, once the feed is subscribed to.
func (f *following) start() *errmap.Error {
	var err error
	if f.listener, err = f.watches.Listen(f.spec); err != nil {
		return watchError(err)
	}
	f.unwatch = f.who.WhenRevoked(func() {
		f.listener.Revoke()
		f.publish() // who reads now learns why
	})
	return nil
}

// stop ends it. It may be called again, and without a start.
func (f *following) stop() {
	if f.listener != nil {
		f.unwatch()
		f.listener.Close()
	}
}

// FollowWatch subscribes the caller in ctx to a watch, until end is called or the caller's identity is revoked. isWatch is
// false if the URI is of none. The changes are published to the feed under a scope: join has the subscriber receive them,
// before the first one.
func (s *Service) FollowWatch(ctx context.Context, req *bridge.Request, uri string, join func(scope string) *errmap.Error) (end func(), isWatch bool, err *errmap.Error) {
	f, err := s.prepareFollow(ctx, req, uri)
	if f == nil || err != nil {
		return nil, err != nil, err
	}
	if err = join(f.scope); err == nil {
		err = f.start()
	}
	return f.stop, true, err
}

// CatalogChanged opens streams of watches again whose tools have changed. Call it when there is a new catalog.
func (s *Service) CatalogChanged() {
	cat := s.host.Current()
	s.opts.Watches.Renew(func(name string) string {
		if tool, ok := cat.Lookup(name); ok && tool.Watch != "" {
			return versionOf(tool)
		}
		return ""
	})
}
