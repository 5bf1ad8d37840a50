// SPDX-License-Identifier: Apache-2.0

// Package bridge is the pipeline that runs every request, whatever protocol it came in.
//
// Programs that embed a sidecar use the package outrigger at the module's root. This
// one is for code inside the module that adds an edge (a protocol for callers): its
// signatures have types of internal packages, which other modules cannot name.
//
// # A tour
//
// [New] joins three partners to a [Bridge]: the source of the tools ([Catalogs]), the
// backend ([Upstream]) and the table of requests in flight ([correlate.Table]).
//
// An edge turns what it reads into a [Request]: an operation ([Op]) and, for a call, a
// tool and its arguments as bytes. [Bridge.Handle] runs it and returns a [Response]. A
// call passes the steps that are listed in call.go: find the tool, ask the policy, wait
// for a slot, check the arguments, call the backend, check the result. Edges that read
// many requests from one stream use [Bridge.Begin] in reading order and [Flight.Run]
// concurrently. What an edge refuses before it is a Request is counted with
// [Bridge.Refused].
//
// A Response has a result ([Response.Result] for the answer of a plain RPC,
// [Response.Outcome] for a question, a task or content, [Response.Message] for other
// operations) or an error. Errors are canonical ([errmap.Error]); each edge shows them in
// the vocabulary of its callers.
//
// Calls that take long report meanwhile: events go to [Request.Events], questions to the
// client to [Request.AskClient], changes of what is offered to [Request.Changes].
//
// Lists, resources, prompts, completion, skills and streams of changes are answered by [Offers]; package internal/offer has
// them, and [Host] is what the bridge does for it.
//
// # What it does not know
//
// The package writes no JSON, no message of JSON-RPC or MCP and no header of theirs, and
// never asks for a protocol version. The package internal/dialect reads and writes those
// in front of it. Where an edge leaves parts of a message unread, the pipeline asks the
// [Envelope] for them. It opens no socket and starts no goroutine.
//
// A Bridge is safe for concurrent use. A Request belongs to one call of Handle or Begin,
// and does not change after that.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
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
	Sealer *keys.Sealer
	// SingleUse remembers states that settle a question of the sidecar's own, which count once. Nil remembers those of this
	// process.
	SingleUse keys.SingleUse
	// Tasks runs plain RPCs as tasks; nil disables that.
	Tasks *task.Manager
	// TaskAfter is the time after which a call continues as a task, if its tool does not configure it; zero is never.
	TaskAfter time.Duration
	// MaxItems is the maximum number of messages of a streaming RPC in one result, MaxInputItems that of messages that one call
	// sends to an RPC that takes a stream.
	MaxItems, MaxInputItems int
	// Slots limits concurrent calls; nil does not.
	Slots *policy.Slots
	// Shed, if set, returns the error for a call while memory is short, else nil. It must return at once.
	Shed func() *errmap.Error
	// Short reports the same as Shed, without counting. Calls of a caller with flow control are not shed: while memory is
	// short, one of them runs at a time. Short is required if Shed is set.
	Short func() bool
	// Streams limits long-lived streams; nil does not.
	Streams *peer.Ledger
	// StreamTime bounds how long a stream of the typed pass-through lasts, and StreamIdle its time without a message; zero does
	// not.
	StreamTime, StreamIdle time.Duration
	// Unread, if set, returns the error for a request of a caller that does not read its responses, or a call of a tool whose results are not read, else nil. It must
	// return at once.
	Unread func(caller, tool string) *errmap.Error
	// Guard retries backend calls, and fails them fast while the backend is down. Nil makes one attempt per call.
	Guard *backend.Guard
	// Limiter enforces the rate limits of callers and tools; nil does not.
	Limiter *policy.Limiter
	// Shared, if set, counts a request that Limiter has admitted against rates that replicas share, and returns the error for one
	// that may not run. tool is empty for what is no call. isPart is set for a call within a request that was counted for its
	// caller before. ctx has the caller's identity, and Shared may wait for a short time.
	Shared func(ctx context.Context, caller, tool string, isPart bool) *errmap.Error
	// Metadata says which headers cross the sidecar, and which way.
	Metadata backend.MetadataRules
	// MaxResult is the maximum size of a result in bytes; zero leaves the limit to the upstream.
	MaxResult int
	// Held keeps documents of more than MaxInline bytes for their callers; nil makes every document a part of its result.
	Held      *content.Store
	MaxInline int
	// ResultBudget is the maximum size of a result for a model in bytes, above which it is cut; zero cuts none. A tool's own
	// budget takes precedence.
	ResultBudget int
	// Compact offers three tools in the place of all. The zero value does not.
	Compact compact.Options
	// Log receives one line per call; nil discards. CallLog selects the calls.
	Log     *zap.Logger
	CallLog *CallLog
	// Stats counts finished requests by the index of [Operations]; nil does not.
	Stats *telemetry.Stats
	// Tracer makes the spans of requests; nil makes none.
	Tracer *telemetry.Tracer
	// Audit is the audit trail; nil is none.
	Audit *trail.Audit
	// Documents records the document {tool, input, output} of each call; nil does not.
	Documents *trail.Documents
}

// Bridge runs the requests of all edges: it wires the parts that take the steps of a request. Make one with [New].
type Bridge struct {
	*directory
	*rates
	*gatekeeper
	*rounds
	*admission
	*deadlines
	*encoder
	*rulebook
	*sender
	*keeper
	*decoder
	*payloads
	*auditor
	*documents
	*counter
	*panics
	*rpcs
	*natives
	*compacts
	*operations
	*tasks
	*exchanger
	asker     *asker
	calls     *calls
	observers []observer

	opts     Options
	catalogs Catalogs
	upstream Upstream
	flights  *correlate.Table
	offers   Offers // what is offered besides calls
	log      *zap.Logger
	// noted is the same log for lines that many requests can cause; it drops what is
	// over its bound.
	noted    *zap.Logger
	begun    atomic.Uint64
	draining draining
	buffers  *bytepool.Pool // of large results and replies
}

// New returns a Bridge: tools come from catalogs, calls go to upstream, and flights
// holds the requests in flight. Zero fields of opts take the defaults.
func New(catalogs Catalogs, upstream Upstream, flights *correlate.Table, opts Options) *Bridge {
	opts.fill()
	b := &Bridge{
		opts: opts, catalogs: catalogs, upstream: upstream, flights: flights, log: opts.Log, noted: loglimit.New(opts.Log),
		draining: draining{begun: make(chan struct{})}, buffers: &bytepool.Pool{},
	}
	b.directory = &directory{catalogs: catalogs, catalogWait: opts.CatalogWait, authorizers: opts.Authorizers, compact: opts.Compact, isCompact: opts.Compact.IsOffered()}
	b.rates = &rates{limiter: opts.Limiter, askShared: opts.Shared, askUnread: opts.Unread}
	b.gatekeeper = &gatekeeper{policy: opts.Gate, rules: opts.Rules, canConfirm: opts.Confirm}
	b.rounds = &rounds{sealer: opts.Sealer, spent: opts.SingleUse}
	b.admission = &admission{slots: opts.Slots, streams: opts.Streams, shed: opts.Shed, short: opts.Short, alone: make(chan struct{}, 1)}
	b.deadlines = &deadlines{most: opts.Timeout}
	b.encoder = &encoder{deadlines: b.deadlines, slots: opts.Slots, buffers: b.buffers, maxInputItems: opts.MaxInputItems, repairArguments: opts.RepairArguments}
	b.rulebook = &rulebook{rules: opts.Rules}
	b.sender = &sender{
		deadlines: b.deadlines, upstream: upstream, native: opts.Native, guard: opts.Guard, metadata: opts.Metadata, credentials: opts.OnBehalf,
	}
	b.keeper = &keeper{
		held: opts.Held, sealer: opts.Sealer, maxResult: opts.MaxResult, maxInline: opts.MaxInline, resultBudget: opts.ResultBudget, stats: opts.Stats,
	}
	b.decoder = &decoder{
		keeper: b.keeper, catalogs: catalogs, slots: opts.Slots, buffers: b.buffers,
		canRead: func(cat *catalog.Catalog) bool { return b.offers != nil && b.offers.HasResources(cat) },
	}
	b.payloads = &payloads{}
	b.auditor = &auditor{directory: b.directory, gatekeeper: b.gatekeeper, payloads: b.payloads, trail: opts.Audit, noted: b.noted}
	b.documents = &documents{payloads: b.payloads, trail: opts.Documents}
	b.counter = &counter{stats: opts.Stats}
	b.panics = &panics{log: opts.Log}
	streamer := &streamer{
		deadlines: b.deadlines, encoder: b.encoder, rulebook: b.rulebook, sender: b.sender, decoder: b.decoder, keeper: b.keeper, panics: b.panics,
		upstream: upstream, guard: opts.Guard, held: opts.Held, buffers: b.buffers, slots: opts.Slots, stats: opts.Stats,
		maxInputItems: opts.MaxInputItems, maxItems: opts.MaxItems, maxResult: opts.MaxResult,
	}
	pager := &pager{
		deadlines: b.deadlines, rates: b.rates, sender: b.sender, decoder: b.decoder, keeper: b.keeper,
		limiter: opts.Limiter, buffers: b.buffers, stats: opts.Stats, maxItems: opts.MaxItems, maxResult: opts.MaxResult,
	}
	b.rpcs = &rpcs{deadlines: b.deadlines, sender: b.sender, streamer: streamer, pager: pager, buffers: b.buffers}
	b.natives = &natives{
		deadlines: b.deadlines, rounds: b.rounds, sender: b.sender, decoder: b.decoder, keeper: b.keeper,
		native: opts.Native, guard: opts.Guard, sealer: opts.Sealer, maxResult: opts.MaxResult,
	}
	b.compacts = &compacts{directory: b.directory, keeper: b.keeper, catalogs: catalogs, maxResult: opts.MaxResult}
	b.operations = &operations{
		deadlines: b.deadlines, directory: b.directory, auditor: b.auditor, sender: b.sender, decoder: b.decoder, keeper: b.keeper, rpcs: b.rpcs,
		upstream: upstream, guard: opts.Guard, metadata: opts.Metadata, sealer: opts.Sealer, maxResult: opts.MaxResult, draining: b.draining.begun,
	}
	b.asker = &asker{auditor: b.auditor, sender: b.sender, keeper: b.keeper, rounds: b.rounds}
	b.tasks = &tasks{
		deadlines: b.deadlines, auditor: b.auditor, documents: b.documents, sender: b.sender, decoder: b.decoder, natives: b.natives, rpcs: b.rpcs, panics: b.panics,
		directory: b.directory, operations: b.operations, asker: b.asker, manager: opts.Tasks, after: opts.TaskAfter, tracer: opts.Tracer, sealer: opts.Sealer,
	}
	b.exchanger = &exchanger{
		admission: b.admission, auditor: b.auditor, encoder: b.encoder, rulebook: b.rulebook, sender: b.sender, decoder: b.decoder, keeper: b.keeper, panics: b.panics,
		upstream: upstream, guard: opts.Guard, metadata: opts.Metadata, rules: opts.Rules, buffers: b.buffers, maxResult: opts.MaxResult,
		streamIdle: opts.StreamIdle, streamTime: opts.StreamTime,
	}
	b.observers = []observer{b.counter}
	if opts.Audit.IsOn() {
		b.observers = append(b.observers, b.auditor)
	}
	if opts.Documents != nil {
		b.observers = append(b.observers, b.documents)
	}
	if opts.Tracer.IsOn() {
		b.observers = append(b.observers, &spans{payloads: b.payloads})
	}
	b.observers = append(b.observers, &lines{log: opts.Log, callLog: opts.CallLog})
	b.calls = newCalls(&callParts{
		directory: b.directory, counter: b.counter, gatekeeper: b.gatekeeper, rates: b.rates, admission: b.admission, encoder: b.encoder, rulebook: b.rulebook,
		rounds: b.rounds, auditor: b.auditor, rpcs: b.rpcs, tasks: b.tasks, natives: b.natives, compacts: b.compacts, operations: b.operations, exchanger: b.exchanger,
		decoder: b.decoder,
	})
	return b
}

// fill gives zero fields their defaults.
func (o *Options) fill() {
	defaults.Fill(&o.Timeout, defaults.Timeout)
	defaults.Fill(&o.CatalogWait, defaults.CatalogWait)
	if o.Gate == nil {
		o.Gate = policy.NewGate(policy.Untrusted)
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	defaults.Fill(&o.MaxItems, defaults.MaxResultItems)
	defaults.Fill(&o.MaxInline, defaults.MaxInlineBytes)
	defaults.Fill(&o.MaxInputItems, defaults.MaxInputItems)
	if o.Sealer == nil {
		o.Sealer = keys.NewSealer(keys.SealerOptions{})
	}
	if o.SingleUse == nil {
		o.SingleUse = ownUse{keys.NewSpent(keys.SpentOptions{})}
	}
	o.Version = cmp.Or(o.Version, "0.0.0")
	if o.Rules != nil {
		o.Authorizers = append(slices.Clone(o.Authorizers), o.Rules)
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
func (b *Bridge) Stats() *telemetry.Stats { return b.opts.Stats }

// Tracer returns the tracer that was given to New, or nil. Edges start the spans of their messages with it.
func (b *Bridge) Tracer() *telemetry.Tracer { return b.opts.Tracer }

// Begun returns the number of requests since the start.
func (b *Bridge) Begun() uint64 { return b.begun.Load() }

// Reduced returns the number of results that were cut to a budget since the start.
func (b *Bridge) Reduced() uint64 { return b.decoder.reduced.Load() }

// Catalogs returns the source of the tools that was given to New.
func (b *Bridge) Catalogs() Catalogs { return b.catalogs }

// BoundedLog returns the log for lines that callers can cause at will. It drops lines
// above a rate.
func (b *Bridge) BoundedLog() *zap.Logger { return b.noted }

// Buffers returns the pool of buffers for large results and replies.
func (b *Bridge) Buffers() *bytepool.Pool { return b.buffers }

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
	who *identity.Identity

	// What is known of its end: the response, the edge, the code that it is counted under (empty for success), and when it ended
	// after what time.
	resp *Response
	edge telemetry.Edge
	code errmap.Code
	at   time.Time
	took time.Duration
}

// Begin registers a request and returns at once. Edges that read many messages from one stream call it in reading order
// and run the flights concurrently. So of two equal ids the second is rejected, and a cancellation finds the requests
// before it. Every Flight must be run exactly once.
func (b *Bridge) Begin(ctx context.Context, req *Request) *Flight {
	b.begun.Add(1)
	f := &Flight{bridge: b, req: req, start: time.Now()}
	if b.isCompact {
		b.readThrough(req)
	}
	if b.opts.Audit.IsOn() {
		f.who = identity.FromContext(ctx)
		f.meter.invoked = b.invoked(req, f.who)
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
	if f.bridge.rulebook.rules != nil {
		f.bridge.decided(resp)
	}
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

// cutOff is what a call learns that the end of a drain left unfinished. It may
// have run, so it may be sent again only where a second run does no harm.
func cutOff(tool *catalog.Tool) *errmap.Error {
	err := unavailable("the sidecar shut down before this call could finish; its outcome is unknown")
	if tool != nil && !tool.IsIdempotent() {
		again := false
		err.Retryable, err.RetryAfter = &again, 0
	}
	return err
}

// run is the one place that recovers from panics: around one request. Its frame is on the stack of every stream that waits, so it
// keeps little there.
func (b *Bridge) run(call *correlate.Call, req *Request) (resp *Response) {
	defer b.recovered(req, &resp)
	if resp := b.turnedAway(call, req); resp != nil {
		return resp
	}
	return b.operation(call.Context(), req)
}

// recovered answers a request that panicked.
func (b *Bridge) recovered(req *Request, resp **Response) {
	if p := recover(); p != nil {
		*resp = &Response{Err: b.Panicked(p, append(TraceFields(req.Span, req.Header), zap.String(logkey.CanonicalTool, req.Tool), RequestID(req.ID))...)}
	}
}

// turnedAway is the response to a request that may not run; nil for others.
//
//go:noinline
func (b *Bridge) turnedAway(call *correlate.Call, req *Request) *Response {
	if resp := b.rejected(call.Parent(), req); resp != nil {
		return resp
	}
	err := b.mayRun(call.Context(), req)
	if err == nil {
		err = b.shareOther(call.Context(), req)
	}
	if err != nil {
		return &Response{Err: err}
	}
	return nil
}

// operation runs the operation of a request.
func (b *Bridge) operation(ctx context.Context, req *Request) *Response {
	if req.Op == OpListen && b.offers != nil {
		return b.offers.Answer(ctx, req)
	}
	return b.shortOperation(ctx, req)
}

// shortOperation runs an operation that is no stream.
//
//go:noinline
func (b *Bridge) shortOperation(ctx context.Context, req *Request) *Response {
	switch req.Op {
	case OpCall:
		return dialogue(ctx, req, b.calls.call)
	case OpPing:
		return &Response{}
	case OpGet:
		return b.get(ctx, req)
	case OpOpen:
		cat, _ := b.Catalog(ctx)
		return &Response{Catalog: cat}
	case OpServer:
		cat, err := b.Catalog(ctx)
		return &Response{Catalog: cat, Err: err, who: identity.FromContext(ctx)}
	case OpGetTask, OpUpdateTask, OpCancelTask:
		return b.tasks.answer(ctx, req)
	case OpReadResource, OpGetPrompt:
		return dialogue(ctx, req, b.answer)
	case OpList, OpListResources, OpListTemplates, OpListSkills, OpGetSkill, OpReadDirectory, OpListPrompts, OpComplete, OpListen:
		return b.answer(ctx, req)
	}
	return &Response{Err: &errmap.Error{Code: errmap.MethodNotFound}}
}

// draining is the end of the streams of changes.
type draining struct {
	once  sync.Once
	begun chan struct{}
}

// EndListens ends all requests of OpListen well, as closing the feed would. The feed
// stays open for its other subscribers. It may be called more than once.
func (b *Bridge) EndListens() { b.draining.once.Do(func() { close(b.draining.begun) }) }

// panics logs panics where they are recovered.
type panics struct{ log *zap.Logger }

// Panicked logs a recovered panic with its stack and returns INTERNAL_ERROR for the
// caller concerned. Edges call it where they recover; the pipeline recovers by itself.
func (w *panics) Panicked(p any, fields ...zap.Field) *errmap.Error {
	w.log.Error("panic while handling a request", logkey.AppendPanic(fields, p, debug.Stack())...)
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
