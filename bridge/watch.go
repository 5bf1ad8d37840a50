// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/resource"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/watch"
)

// readWatch reads the newest message of a watch: through the same steps as a call of its tool.
func (b *Bridge) readWatch(ctx context.Context, req *Request, tool *catalog.Tool, method *resource.Method, uri string) *Response {
	req.traceTool(tool)
	c, err := b.watchCall(req, tool, method, uri)
	if err != nil {
		return &Response{Err: err}
	}
	defer b.leave(c)
	for _, step := range [...]func(context.Context, *toolCall) *errmap.Error{b.gate, b.limit, b.share, b.admit, b.encodeWatch, b.permit, b.recordCall} {
		if err := step(ctx, c); err != nil {
			c.resp.Err = b.explained(ctx, c, err)
			return &c.resp
		}
	}
	defer c.req.waited(time.Now())
	ctx, cancel := context.WithTimeout(ctx, b.timeout(c))
	defer cancel()
	c.deadline, _ = ctx.Deadline()
	value, failed := b.watches.Read(ctx, b.watchSpec(ctx, c, uri))
	if failed != nil {
		if c.resp.Err = watchError(failed); isMissing(c.resp.Err) {
			c.resp.Err = errmap.UnknownResource(uri)
		}
		return &c.resp
	}
	body, failed := b.answerJSON(ctx, c, nil, value)
	if failed != nil {
		c.resp.Err = outputError(failed)
		return &c.resp
	}
	if limit := b.opts.MaxResult; limit > 0 && len(body) > limit {
		c.resp.Err = b.tooLargeResult(len(body))
		return &c.resp
	}
	contents, failed := method.Contents(uri, body)
	if failed != nil {
		c.resp.Err = errmap.Wrap(errmap.InvalidToolOutput, failed)
		return &c.resp
	}
	c.resp.Message = &outriggerv1.ResourceOutcome{Outcome: &outriggerv1.ResourceOutcome_Result{
		Result: &outriggerv1.ResourceResult{Contents: []*outriggerv1.ResourceContents{contents}, Cache: momentary()},
	}}
	return &c.resp
}

// watchCall is a call of the tool behind a watch, with the arguments that its URI has.
func (b *Bridge) watchCall(req *Request, tool *catalog.Tool, method *resource.Method, uri string) (*toolCall, *errmap.Error) {
	arguments, err := method.WatchRequest(uri)
	if err != nil {
		return nil, errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
			Path: req.pointer("uri"), Keyword: "format", Message: err.Error(),
		}))
	}
	return &toolCall{tool: tool, isPart: true, req: &Request{
		Op: OpCall, Origin: req.Origin, Tool: tool.Name, Arguments: Payload{Bytes: arguments}, Timeout: req.Timeout, Pointer: req.Pointer,
		Header: req.Header, Caller: req.Caller, Transport: req.Transport, Route: req.Route, Method: req.Method, Span: req.Span, meter: req.meter,
	}}, nil
}

// encodeWatch is encode for arguments that a URI has. What is wrong with them is wrong with the URI.
func (b *Bridge) encodeWatch(ctx context.Context, c *toolCall) *errmap.Error {
	err := b.encode(ctx, c)
	if err == nil || err.Code != errmap.InvalidToolInput {
		return err
	}
	out := errmap.New(errmap.InvalidParams)
	for _, v := range err.Violations {
		message := v.Message
		if v.Path != "" {
			message = v.Path + ": " + message
		}
		out.Violations = append(out.Violations, errmap.Violation{Path: c.req.pointer("uri"), Keyword: v.Keyword, Message: message})
	}
	return out
}

// watchSpec describes the stream of a watch, whose arguments are encoded.
func (b *Bridge) watchSpec(ctx context.Context, c *toolCall, uri string) watch.Spec {
	w := &watchStream{bridge: b, uri: uri, caller: c.req.Caller, values: access.NewContext(context.Background(), access.FromContext(ctx))}
	if b.opts.OnBehalf != nil {
		w.values = context.WithoutCancel(ctx) // it has the caller's token
	}
	w.header = b.opts.Metadata.Inbound(c.req.Header).Clone()
	for _, name := range [...]string{"Traceparent", "Tracestate"} {
		w.header.Del(name) // a stream belongs to no single request
	}
	key := c.tool.Name + "\x00" + b.watchIdentity(ctx, w.header) + string(c.wire)
	if c.pooled {
		b.buffers.Put(c.wire)
		c.wire, c.pooled = nil, false
	}
	return watch.Spec{Key: key, URI: uri, Tool: c.tool.Name, Version: versionOf(c.tool), Caller: c.req.Caller, Open: w.open}
}

// watchIdentity tells apart streams that the backend may answer differently: where it is called in the name of callers, or
// gets headers of theirs. Otherwise all callers share a stream.
func (b *Bridge) watchIdentity(ctx context.Context, header http.Header) string {
	if b.opts.OnBehalf == nil && len(header) == 0 {
		return ""
	}
	var seen [2]any
	seen[0] = header
	if b.opts.OnBehalf != nil {
		who := access.FromContext(ctx)
		seen[1] = []any{who.Principal(), who.Facts()}
	}
	text, err := json.Marshal(seen)
	if err != nil { // claims come from JSON
		return strconv.FormatUint(b.followed.Add(1), 10) // shared with nobody
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// versionOf changes where a stream has to be opened again.
func versionOf(t *catalog.Tool) string { return t.Method.Procedure + " " + t.Fingerprint() }

// watchError is what a caller is told where a watch has no value.
func watchError(err error) *errmap.Error {
	var failed *errmap.Error
	switch {
	case errors.As(err, &failed):
		own := *failed // readers share it
		return &own
	case errors.Is(err, watch.ErrFull):
		return unavailable("too many watches are running (--max-watches)")
	case errors.Is(err, watch.ErrShare):
		return errmap.OverShare("this caller's watches exceed its share (--max-watches, --caller-share)")
	case errors.Is(err, watch.ErrClosed):
		return unavailable("the sidecar is shutting down; try another replica")
	case errors.Is(err, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, err)
	}
	return errmap.Wrap(errmap.Cancelled, err)
}

// watchStream opens the stream of a watch for one caller.
type watchStream struct {
	bridge      *Bridge
	uri, caller string
	header      http.Header
	values      context.Context //nolint:containedctx // who the caller is, long after its request
}

// callerContext is the context of a stream with the values of its caller's request.
type callerContext struct {
	context.Context //nolint:containedctx // it is one

	values context.Context //nolint:containedctx // see watchStream
}

// Value implements [context.Context].
func (c callerContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// open implements [watch.Open]. The tool is looked up, and the caller's permission is checked, each time: both may have
// changed since the last one.
func (w *watchStream) open(ctx context.Context, each func(message []byte)) (failed *errmap.Error) {
	b := w.bridge
	defer func() {
		if p := recover(); p != nil {
			failed = b.Panicked(p, zap.String(logkey.Caller, w.caller))
		}
	}()
	ctx = callerContext{ctx, w.values}
	cat := b.catalogs.Current()
	if cat == nil {
		return unavailable("the tool catalog has not been loaded yet")
	}
	method, _, ok := cat.Resources().Match(w.uri)
	if !ok || !method.IsWatch() {
		return errmap.UnknownResource(w.uri)
	}
	tool := cat.ResourceTool(method)
	if err := b.mayUse(ctx, tool); err != nil {
		return err
	}
	c, err := b.watchCall(&Request{Caller: w.caller, Header: w.header}, tool, method, w.uri)
	if err != nil {
		return err
	}
	for _, step := range [...]func(context.Context, *toolCall) *errmap.Error{b.gate, b.encodeWatch, b.permit} {
		if err := step(ctx, c); err != nil {
			return err
		}
	}
	if ctx, err = b.onBehalf(ctx, c.req); err != nil {
		return err
	}
	stream, err := w.begin(ctx, c)
	if stream == nil || err != nil {
		return err
	}
	defer stream.Close()
	for {
		message, err := stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return b.explained(ctx, c, asError(err))
		}
		each(message)
	}
}

// begin calls the backend. The circuit breaker hears of how the response begins, and not of its end.
func (w *watchStream) begin(ctx context.Context, c *toolCall) (BackendStream, *errmap.Error) {
	b := w.bridge
	upstream, ok := b.upstream.(Streams)
	if !ok {
		return nil, unavailable("no backend is configured; set --backend")
	}
	var stream BackendStream
	_, err := resilience.Do(ctx, b.opts.Guard, resilience.Call{Key: c.tool.Name, Hurried: true}, func(ctx context.Context) (_ struct{}, err *errmap.Error) {
		if stream, err = upstream.Open(ctx, c.tool.Method, w.header); err != nil {
			return struct{}{}, err
		}
		if failed := stream.Send(c.wire); failed != nil && !errors.Is(failed, io.EOF) {
			return struct{}{}, asError(failed)
		}
		stream.CloseSend()
		return struct{}{}, begun(ctx, stream)
	})
	switch {
	case err == nil, errors.Is(err, errSilent):
		return stream, nil
	case stream != nil:
		stream.Close()
	}
	return nil, b.explained(ctx, c, err)
}

// begun waits until the response of a stream begins, for a bounded time.
func begun(ctx context.Context, stream BackendStream) *errmap.Error {
	heard := make(chan bool, 1)
	go func() {
		_, ok := stream.Header() // ends with the stream, which is always closed
		heard <- ok
	}()
	timer := time.NewTimer(openingTime)
	defer timer.Stop()
	select {
	case ok := <-heard:
		if ok {
			return nil
		}
		_, err := stream.Receive()
		return asError(err)
	case <-timer.C:
	case <-ctx.Done():
	}
	return errmap.Wrap(errmap.Cancelled, errSilent)
}

// following is a subscription to a watch.
type following struct {
	bridge     *Bridge
	uri, scope string
	spec       watch.Spec
	who        *access.Identity
	listener   *watch.Listener
	unwatch    func() bool
}

// prepareFollow checks whether a caller may subscribe to a watch, as a call of its tool is checked. Nil is for a URI that
// is of no watch.
func (b *Bridge) prepareFollow(ctx context.Context, req *Request, uri string) (*following, *errmap.Error) {
	method, tool := b.watchAt(uri)
	if method == nil {
		return nil, nil //nolint:nilnil // it is no watch
	}
	if err := b.mayUse(ctx, tool); err != nil {
		return nil, err
	}
	c, err := b.watchCall(req, tool, method, uri)
	if err != nil {
		return nil, err
	}
	defer b.leave(c)
	for _, step := range [...]func(context.Context, *toolCall) *errmap.Error{b.gate, b.limit, b.room, b.share, b.encodeWatch, b.permit} {
		if err := step(ctx, c); err != nil {
			return nil, b.explained(ctx, c, err)
		}
	}
	if err := b.auditFollow(ctx, req, tool, uri, c.resp.Decision); err != nil {
		return nil, err
	}
	f := &following{
		bridge: b, uri: uri, scope: strconv.FormatUint(b.followed.Add(1), 10), spec: b.watchSpec(ctx, c, uri), who: access.FromContext(ctx),
	}
	f.spec.Changed = f.publish
	return f, nil
}

// watchAt finds the watch that a URI is of, whoever may use it.
func (b *Bridge) watchAt(uri string) (*resource.Method, *catalog.Tool) {
	all := b.catalogs.Current()
	if all == nil || len(uri) > maxURI {
		return nil, nil
	}
	method, _, ok := all.Resources().Match(uri)
	if !ok || !method.IsWatch() {
		return nil, nil
	}
	return method, all.ResourceTool(method)
}

// auditFollow writes the line of a subscription to a watch: it has the backend called in the name of its caller.
func (b *Bridge) auditFollow(ctx context.Context, req *Request, tool *catalog.Tool, uri string, said Decision) *errmap.Error {
	if !b.opts.Audit.IsOn() {
		return nil
	}
	inv := b.newInvocation(&Flight{bridge: b, req: req, who: access.FromContext(ctx)})
	inv.found(tool)
	inv.event.Operation, inv.event.Target = OpListen.String(), uri
	if err := b.recordBegin(ctx, req, inv); err != nil {
		return err
	}
	inv.event.Decision, inv.event.Rule = audit.Allowed, said.Rule
	b.addOutcome(&inv.event, &Response{}, "")
	b.opts.Audit.End(&inv.event)
	return nil
}

// publish announces a change to this subscription.
func (f *following) publish() {
	// A closed feed has no subscribers.
	_ = f.bridge.feed.Publish(feed.Change{Kind: feed.ResourceUpdated, URI: f.uri, Scope: f.scope})
}

// start begins it, once the feed is subscribed to.
func (f *following) start() *errmap.Error {
	var err error
	if f.listener, err = f.bridge.watches.Listen(f.spec); err != nil {
		return watchError(err)
	}
	f.unwatch = f.who.WhenRevoked(func() {
		f.listener.Revoke()
		f.publish() // whoever reads now learns why
	})
	return nil
}

// end ends it. It may be called again, and without a start.
func (f *following) end() {
	if f.listener != nil {
		f.unwatch()
		f.listener.Close()
	}
}

// FollowWatch subscribes the caller in ctx to a watch, until end is called or the caller's identity is revoked. isWatch is
// false if the URI is of none. The changes are published to the feed under a scope: join has the subscriber receive them,
// before the first one.
func (b *Bridge) FollowWatch(ctx context.Context, req *Request, uri string, join func(scope string) *errmap.Error) (end func(), isWatch bool, err *errmap.Error) {
	f, err := b.prepareFollow(ctx, req, uri)
	if f == nil || err != nil {
		return nil, err != nil, err
	}
	if err = join(f.scope); err == nil {
		err = f.start()
	}
	return f.end, true, err
}

// CatalogChanged opens streams of watches again whose tools have changed. Call it when there is a new catalog.
func (b *Bridge) CatalogChanged() {
	cat := b.catalogs.Current()
	b.watches.Renew(func(name string) string {
		if tool, ok := cat.Lookup(name); ok && tool.Watch != "" {
			return versionOf(tool)
		}
		return ""
	})
}
