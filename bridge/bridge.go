// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/compact"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/held"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/redact"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/share"
	"github.com/outrigger-mcp/outrigger/internal/skills"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
	"github.com/outrigger-mcp/outrigger/internal/watch"
)

// retryAfter is the hint that goes with UNAVAILABLE where nothing better is known:
// about one backoff step of the catalog's loader.
const retryAfter = time.Second

// Catalogs returns the current snapshot of the tools. [*catalog.Live] implements it.
type Catalogs interface {
	// Current returns the current snapshot, nil before the first.
	Current() *catalog.Catalog
	// Wait returns the current snapshot, or waits for the first one until ctx ends. Its error has the reason.
	Wait(ctx context.Context) (*catalog.Catalog, error)
}

// ServerInfo is how the sidecar introduces itself: name, title, version and
// instructions for models.
type ServerInfo struct {
	Name         string
	Title        string
	Version      string
	Instructions string
}

// Options configure a Bridge. Zero fields have the defaults of this package.
type Options struct {
	// Server is what the sidecar says of itself. What is empty comes from the catalog: see [Bridge.Server].
	Server ServerInfo
	// Version is the version of the sidecar itself. The default is 0.0.0.
	Version string
	// Timeout is the maximum duration of a call, CatalogWait the maximum wait for the first catalog.
	Timeout, CatalogWait time.Duration
	// OnBehalf makes the credentials of calls in the name of their callers. Nil makes none: calls have the backend's
	// credentials.
	OnBehalf OnBehalf
	// Authorizers restrict what callers may do, beyond the grants of their identities.
	Authorizers []Authorizer
	// Rules, if set, are one more Authorizer, which also decides about calls by their arguments.
	Rules Rules
	// Gate blocks destructive tools for untrusted callers; nil trusts no caller.
	Gate *policy.Gate
	// RepairArguments decodes objects and arrays that a model wrote as JSON
	// strings, see [Bridge.RepairArguments].
	RepairArguments bool
	// Confirm asks the user before a call that the gate blocks, if the caller's client supports questions.
	Confirm bool
	// Native is the backend, if it implements the tool API itself, else nil. A catalog with a description needs it.
	Native Native
	// Sealer seals the state that callers send back. Nil makes one with a random key, whose tokens no other replica can
	// open.
	Sealer *seal.Sealer
	// SingleUse remembers states that settle a question of the sidecar's own, which count once. Nil remembers those of this
	// process.
	SingleUse seal.SingleUse
	// Feed is the hub of changes. Nil makes one.
	Feed *feed.Hub
	// Tasks runs plain RPCs as tasks; nil disables that.
	Tasks *task.Manager
	// TaskAfter is the time after which a call continues as a task, if its tool does not configure it; zero is never.
	TaskAfter time.Duration
	// PageSize is the maximum number of entries on a page of a list, MaxItems that of messages of a streaming RPC in one
	// result, MaxInputItems that of messages that one call sends to an RPC that takes a stream.
	PageSize, MaxItems, MaxInputItems int
	// Slots limits concurrent calls; nil does not.
	Slots *policy.Slots
	// Shed, if set, returns the error for a call while memory is short, else nil. It must return at once.
	Shed func() *errmap.Error
	// Short reports the same as Shed, without counting. Calls of a caller with flow control are not shed: while memory is
	// short, one of them runs at a time. Short is required if Shed is set.
	Short func() bool
	// Streams limits long-lived streams; nil does not.
	Streams *share.Ledger
	// StreamTime bounds how long a stream of the typed pass-through lasts, and StreamIdle its time without a message; zero does
	// not.
	StreamTime, StreamIdle time.Duration
	// Unread, if set, returns the error for a request of a caller that does not read its responses, or a call of a tool whose results are not read, else nil. It must
	// return at once.
	Unread func(caller, tool string) *errmap.Error
	// Guard retries backend calls, and fails them fast while the backend is down. Nil makes one attempt per call.
	Guard *resilience.Guard
	// Limiter enforces the rate limits of callers and tools; nil does not.
	Limiter *policy.Limiter
	// Shared, if set, counts a request that Limiter has admitted against rates that replicas share, and returns the error for one
	// that may not run. tool is empty for what is no call. isPart is set for a call within a request that was counted for its
	// caller before. ctx has the caller's identity, and Shared may wait for a short time.
	Shared func(ctx context.Context, caller, tool string, isPart bool) *errmap.Error
	// Metadata says which headers cross the sidecar, and which way.
	Metadata metadata.Rules
	// ForwardsHeaders is set where Metadata lets headers through that callers choose, by which a backend may tell them apart.
	ForwardsHeaders bool
	// MaxResult is the maximum size of a result in bytes; zero leaves the limit to the upstream.
	MaxResult int
	// Held keeps documents of more than MaxInline bytes for their callers; nil makes every document a part of its result.
	Held      *held.Store
	MaxInline int
	// ResultBudget is the maximum size of a result for a model in bytes, above which it is cut; zero cuts none. A tool's own
	// budget takes precedence.
	ResultBudget int
	// Skills are those of folders; nil has none.
	Skills *skills.Source
	// Watches run the streams of watches. Nil makes an engine, which is never closed.
	Watches *watch.Engine
	// Compact offers three tools in the place of all. The zero value does not.
	Compact compact.Options
	// Log receives one line per call; nil discards. CallLog selects the calls.
	Log     *zap.Logger
	CallLog *CallLog
	// Stats counts finished requests by the index of [Operations]; nil does not.
	Stats *stats.Stats
	// Tracer makes the spans of requests; nil makes none.
	Tracer *tracing.Tracer
	// Audit is the audit trail; nil is none.
	Audit *audit.Trail
	// Documents records the document {tool, input, output} of each call; nil does not.
	Documents *record.Documents
}

// Bridge runs the requests of all edges. Make one with [New].
type Bridge struct {
	opts     Options
	catalogs Catalogs
	upstream Upstream
	flights  *correlate.Table
	feed     *feed.Hub
	spent    seal.SingleUse
	watches  *watch.Engine
	followed atomic.Uint64 // subscriptions to watches
	rendered any           // what an edge keeps of the catalog, see Rendered
	offers   featureCache
	views    views
	counted  countCache
	log      *zap.Logger
	// noted is the same log for lines that many requests can cause; it drops what is
	// over its bound.
	noted    *zap.Logger
	begun    atomic.Uint64
	draining draining
	buffers  bytepool.Pool // of large results and replies
	alone    chan struct{} // holds a value while a call runs alone
	secrets  redact.Messages
	index    toolIndex
	repaired atomic.Uint64
	reduced  atomic.Uint64
}

// New returns a Bridge: tools come from catalogs, calls go to upstream, and flights
// holds the requests in flight. Zero fields of opts take the defaults.
func New(catalogs Catalogs, upstream Upstream, flights *correlate.Table, opts Options) *Bridge {
	defaults.Fill(&opts.Timeout, defaults.Timeout)
	defaults.Fill(&opts.CatalogWait, defaults.CatalogWait)
	if opts.Gate == nil {
		opts.Gate = policy.NewGate(policy.Untrusted)
	}
	if opts.Log == nil {
		opts.Log = zap.NewNop()
	}
	defaults.Fill(&opts.PageSize, defaults.MaxPageEntries)
	defaults.Fill(&opts.MaxItems, defaults.MaxResultItems)
	defaults.Fill(&opts.MaxInline, defaults.MaxInlineBytes)
	defaults.Fill(&opts.MaxInputItems, defaults.MaxInputItems)
	if opts.Sealer == nil {
		opts.Sealer = seal.New(seal.Options{})
	}
	if opts.SingleUse == nil {
		opts.SingleUse = ownUse{seal.NewSpent(seal.SpentOptions{})}
	}
	if opts.Feed == nil {
		opts.Feed = feed.New(feed.Options{})
	}
	if opts.Watches == nil {
		opts.Watches = watch.New(watch.Options{})
	}
	opts.Version = cmp.Or(opts.Version, "0.0.0")
	if opts.Rules != nil {
		opts.Authorizers = append(slices.Clone(opts.Authorizers), opts.Rules)
	}
	return &Bridge{
		opts: opts, catalogs: catalogs, upstream: upstream, flights: flights, log: opts.Log, noted: loglimit.New(opts.Log),
		draining: draining{begun: make(chan struct{})}, alone: make(chan struct{}, 1),
		feed: opts.Feed, watches: opts.Watches, spent: opts.SingleUse,
	}
}

// Flights returns the table of requests in flight. Edges take their origins from it.
func (b *Bridge) Flights() *correlate.Table { return b.flights }

// Version returns the version of the sidecar itself.
func (b *Bridge) Version() string { return b.opts.Version }

// Server returns how the sidecar introduces itself with the current catalog: as it is configured, else as the native backend
// or the services name themselves, so that clients can tell one sidecar from another. The title of the services does not go
// with a configured name. Instructions are those of [Bridge.Instructions], which depend on what the caller may see.
func (b *Bridge) Server() ServerInfo {
	out, said := b.opts.Server, catalog.About{}
	if cat := b.catalogs.Current(); cat != nil {
		said = cat.About()
	}
	if out.Name == "" {
		out.Name, out.Title = cmp.Or(said.Name, defaults.ServerName), cmp.Or(out.Title, said.Title)
	}
	out.Version = cmp.Or(out.Version, said.Version, b.opts.Version)
	out.Instructions = ""
	return out
}

// Instructions returns the configured instructions for models, else what the services of the catalog say of themselves.
func (b *Bridge) Instructions(cat *catalog.Catalog) string {
	if b.opts.Server.Instructions != "" || cat == nil {
		return b.opts.Server.Instructions
	}
	return cat.Instructions()
}

// Stats returns the counters that were given to New, or nil.
func (b *Bridge) Stats() *stats.Stats { return b.opts.Stats }

// Tracer returns the tracer that was given to New, or nil. Edges start the spans of their messages with it.
func (b *Bridge) Tracer() *tracing.Tracer { return b.opts.Tracer }

// Begun returns the number of requests since the start.
func (b *Bridge) Begun() uint64 { return b.begun.Load() }

// Reduced returns the number of results that were cut to a budget since the start.
func (b *Bridge) Reduced() uint64 { return b.reduced.Load() }

// Catalogs returns the source of the tools that was given to New.
func (b *Bridge) Catalogs() Catalogs { return b.catalogs }

// BoundedLog returns the log for lines that callers can cause at will. It drops lines
// above a rate.
func (b *Bridge) BoundedLog() *zap.Logger { return b.noted }

// Buffers returns the pool of buffers for large results and replies.
func (b *Bridge) Buffers() *bytepool.Pool { return &b.buffers }

// Handle runs one request and returns its outcome. It never panics and never returns nil. It combines [Bridge.Begin]
// and [Flight.Run].
func (b *Bridge) Handle(ctx context.Context, req *Request) *Response {
	return b.Begin(ctx, req).Run()
}

// Flight is a request that [Bridge.Begin] has registered and that has not run yet.
type Flight struct {
	bridge *Bridge
	req    *Request
	call   *correlate.Call
	err    *errmap.Error
	start  time.Time
	meter  meter
	// who is the caller, if there is an audit trail.
	who *access.Identity
}

// Begin registers a request and returns at once. Edges that read many messages from one stream call it in reading order
// and run the flights concurrently. So of two equal ids the second is rejected, and a cancellation finds the requests
// before it. Every Flight must be run exactly once.
func (b *Bridge) Begin(ctx context.Context, req *Request) *Flight {
	b.begun.Add(1)
	f := &Flight{bridge: b, req: req, start: time.Now()}
	b.readThrough(req)
	if b.opts.Audit.IsOn() {
		f.who = access.FromContext(ctx)
		f.meter.invoked = b.invoked(f)
	}
	f.meter.document = b.newDocument(req)
	f.meter.traced = tracedInput(req)
	req.meter = &f.meter // from here on req does not change
	id := req.ID
	if req.Op == OpOpen {
		id = jsonrpc.ID{} // initialize cannot be cancelled (MCP 2025-11-25, cancellation)
	}
	var err error
	f.call, err = b.flights.RegisterNamed(ctx, req.Origin, id, req.name())
	if err == nil && f.meter.invoked != nil {
		f.call.Own(f)
	}
	if err != nil {
		f.err = registerError(err)
	}
	return f
}

// IsRefused reports whether the request was not registered, for example because its id
// is in flight. Run then returns the error at once.
func (f *Flight) IsRefused() bool { return f.call == nil }

// Run runs the request to its end. If the Response is Silent, the caller has cancelled
// and no reply may be written.
func (f *Flight) Run() *Response {
	if f.call == nil {
		resp := &Response{Err: f.err.Redacted()}
		f.ended(resp)
		return resp
	}
	if f.req.Paced {
		f.meter.upstream += time.Since(f.start) // in its edge's queue
	}
	resp := f.notRun()
	if resp == nil {
		resp = f.bridge.run(f.call, f.req)
	}
	f.bridge.decided(resp)
	resp = settle(f.call, resp)
	resp.Err = resp.Err.Redacted() // once, for whatever shows it
	f.ended(resp)
	return resp
}

// notRun is the response to a request that ended before it ran: it was cancelled
// while it waited, or the sidecar shut down. Nil where it is to be run.
func (f *Flight) notRun() *Response {
	switch cause := f.call.Ended(); {
	case cause == nil:
		return nil
	case errors.Is(cause, correlate.ErrDrainCut):
		return &Response{Err: unavailable("the sidecar shut down before this request began; try another replica")}
	case errors.Is(f.call.Context().Err(), context.Canceled):
		return &Response{Err: errmap.Wrap(errmap.Cancelled, cause)}
	}
	return nil
}

// Abort ends the work of the request with a cause, because its caller has gone away. It
// may be called at any time after Begin, on any goroutine.
func (f *Flight) Abort(cause error) {
	if f.call != nil {
		f.call.Abort(cause)
	}
}

// settle takes the request out of the table before anything is written. A
// cancellation that came first leaves nothing to write; a call that the end of
// a drain cut off is answered as what it is, not as the caller's own doing.
func settle(flight *correlate.Call, resp *Response) *Response {
	cause := flight.Ended()
	if !flight.Finish() {
		return &Response{Tool: resp.Tool, Silent: true, Err: errmap.New(errmap.Cancelled), Decision: resp.Decision}
	}
	if resp.Err != nil && resp.Err.Code == errmap.Cancelled && errors.Is(cause, correlate.ErrDrainCut) {
		return &Response{Tool: resp.Tool, Err: cutOff(resp.Tool), Decision: resp.Decision}
	}
	return resp
}

// cutOff is what a call is told that the end of a drain left unfinished. It may
// have run, so it may be sent again only where a second run does no harm.
func cutOff(tool *catalog.Tool) *errmap.Error {
	err := unavailable("the sidecar shut down before this call could finish; its outcome is unknown")
	if tool != nil && !tool.IsIdempotent() {
		again := false
		err.Retryable, err.RetryAfter = &again, 0
	}
	return err
}

// run is the one place that recovers from panics: around one request.
func (b *Bridge) run(call *correlate.Call, req *Request) (resp *Response) {
	defer func() {
		if p := recover(); p != nil {
			resp = &Response{Err: b.Panicked(p, append(TraceFields(req.Span, req.Header), zap.String(logkey.CanonicalTool, req.Tool), RequestID(req.ID))...)}
		}
	}()
	if resp := b.rejected(call.Parent(), req); resp != nil {
		return resp
	}
	ctx := call.Context()
	if err := b.mayRun(ctx, req); err != nil {
		return &Response{Err: err}
	}
	if err := b.shareOther(ctx, req); err != nil {
		return &Response{Err: err}
	}
	switch req.Op {
	case OpCall:
		return b.dialogue(ctx, req, (*Bridge).call)
	case OpOpen:
		cat, _ := b.Catalog(ctx)
		return &Response{Catalog: cat}
	case OpList:
		return b.list(ctx, req)
	case OpGet:
		return b.get(ctx, req)
	case OpServer:
		cat, err := b.Catalog(ctx)
		return &Response{Catalog: cat, Err: err, who: access.FromContext(ctx)}
	case OpPing:
		return &Response{}
	case OpListen:
		return b.listen(ctx, req)
	case OpReadResource, OpGetPrompt:
		return b.dialogue(ctx, req, (*Bridge).offer)
	case OpListResources, OpListTemplates, OpListSkills, OpGetSkill, OpReadDirectory, OpListPrompts, OpComplete, OpGetTask, OpUpdateTask, OpCancelTask:
		return b.offer(ctx, req)
	}
	return &Response{Err: &errmap.Error{Code: errmap.MethodNotFound}}
}

// Panicked logs a recovered panic with its stack and returns INTERNAL_ERROR for the
// caller concerned. Edges call it where they recover; the pipeline recovers by itself.
func (b *Bridge) Panicked(p any, fields ...zap.Field) *errmap.Error {
	b.log.Error("panic while handling a request", logkey.AppendPanic(fields, p, debug.Stack())...)
	return errmap.Wrap(errmap.InternalError, fmt.Errorf("panic: %v", p))
}

// Cancel cancels the request that the origin sent under the id, and reports whether it
// was in flight.
func (b *Bridge) Cancel(origin correlate.Origin, id jsonrpc.ID, reason string) bool {
	return b.flights.Cancel(origin, id, reason)
}

// registerError turns a refusal of the in-flight table into its canonical form.
func registerError(err error) *errmap.Error {
	switch {
	case errors.Is(err, correlate.ErrDuplicateID):
		return errmap.Wrap(errmap.DuplicateRequestID, err)
	case errors.Is(err, correlate.ErrDraining):
		return unavailable("the sidecar is shutting down; try another replica")
	case errors.Is(err, correlate.ErrFull):
		return unavailable("too many requests are in flight")
	case errors.Is(err, context.Canceled):
		return errmap.Wrap(errmap.Cancelled, err)
	}
	return errmap.Wrap(errmap.InternalError, err)
}
