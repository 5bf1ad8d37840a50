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
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	adminv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/admin/v1"
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
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

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
	Authorizers policy.Authorities
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
	// Backends are several backends by their names, which the methods of their tools have. The one that New is given, Native, Guard,
	// Metadata and OnBehalf are for tools without such a name, and for what is asked of no tool.
	Backends map[string]Backend
	// Sealer seals the state that callers send back. Nil makes one with a random key, whose tokens no other replica can
	// open.
	Sealer *keys.Sealer
	// SingleUse remembers states that settle a question of the sidecar's own, which count once. Nil remembers those of this
	// process.
	SingleUse keys.SingleUse
	// AnswerTTL is how long the first answer to a call with an idempotency key is kept; zero keeps none. Answers keeps them for all
	// replicas; nil keeps those of this process, at most MaxAnswers. MaxAnswerBytes bounds them together, and a 64th of it each.
	AnswerTTL      time.Duration
	Answers        KeptAnswers
	MaxAnswers     int
	MaxAnswerBytes int64
	// Tasks runs plain RPCs as tasks; nil disables that.
	Tasks *task.Manager
	// Approvals has calls wait for others, where Rules say so; nil refuses them. Named returns a caller as it is now, by the name of
	// its entry in the callers file; nil knows none. Again returns a caller of OAuth as it is now, by what its token said and by its
	// [identity.Identity.Standing] then; nil knows none.
	Approvals *approval.Service
	Named     func(name string) *identity.Identity
	Again     func(f identity.Facts, standing []byte) *identity.Identity
	// StructuredDenials has errors say whether asking for approval can help, in the draft form of SEP-2643.
	StructuredDenials bool
	// ToolDigests has calls refused that name another digest of their tool than it has. Without it every such call is refused.
	ToolDigests bool
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
	// Deterministic makes the ids of requests that the sidecar fills in the same in each run.
	Deterministic bool
	// Held keeps documents of more than MaxInline bytes for their callers; nil makes every document a part of its result.
	Held      *content.Store
	MaxInline int
	// ResultBudget is the maximum size of a result for a model in bytes, above which it is cut; zero cuts none. A tool's own
	// budget takes precedence.
	ResultBudget int
	// Compact offers a few tools in the place of all, and one that runs programs. The zero value does not.
	Compact compact.Options
	// Programs bound the programs that its tool runs, if it offers that; nil runs none.
	Programs *Programs
	// Log receives one line per call; nil discards. CallLog selects the calls.
	Log     *zap.Logger
	CallLog *telemetry.CallLog
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
	parts     *parts
	calls     *calls
	documents *documents
	payloads  *trail.Payloads
	panics    *panics
	lines     *lines
	observers []observer
	records   bool // something may record requests
	watched   watched

	opts    Options
	flights *correlate.Table
	offers  Offers // what is offered besides calls
	// noted is the log for lines that many requests can cause; it drops what is over its
	// bound.
	noted      *zap.Logger
	begun      atomic.Uint64
	draining   chan struct{} // closed when the streams of changes are to end
	endListens func()
	buffers    *bytepool.Pool // of large results and replies
}

// New returns a Bridge: tools come from catalogs, calls go to upstream, and flights
// holds the requests in flight. Zero fields of opts take the defaults.
func New(catalogs Catalogs, upstream Upstream, flights *correlate.Table, opts Options) *Bridge {
	opts.fill()
	b := &Bridge{
		opts: opts, flights: flights, noted: loglimit.New(opts.Log),
		draining: make(chan struct{}), buffers: &bytepool.Pool{}, panics: &panics{log: opts.Log},
		lines: &lines{log: opts.Log, callLog: opts.CallLog},
	}
	b.endListens = sync.OnceFunc(func() { close(b.draining) })
	limit, deadlines, payloads := &resultLimit{most: opts.MaxResult, stats: opts.Stats}, &deadlines{most: opts.Timeout}, recordedPayloads(opts.Rules)
	held := func(caller string, ttl time.Duration) keys.Binding {
		return keys.Binding{Purpose: "held-result", Principal: caller, TTL: ttl}
	}
	keeper := &content.Keeper{
		Store: opts.Held, MaxInline: opts.MaxInline, MaxResult: opts.MaxResult, Exceeded: limit.exceeded,
		Seal: func(caller string, ttl time.Duration, id []byte) (string, error) {
			return opts.Sealer.Seal(held(caller, ttl), id)
		},
		Open: func(caller, token string) ([]byte, time.Time, error) {
			return opts.Sealer.OpenUntil(held(caller, 0), token)
		},
	}
	rules := &rulebook{rules: opts.Rules}
	p := &parts{
		directory: &directory{
			catalogs: catalogs, catalogWait: opts.CatalogWait, authorities: opts.Authorizers, compact: opts.Compact, isCompact: opts.Compact.IsOffered() || opts.Compact.HasPrograms, rules: opts.Rules,
		},
		counter:    &counter{stats: opts.Stats},
		gatekeeper: &gatekeeper{policy: opts.Gate, rules: opts.Rules, canConfirm: opts.Confirm},
		rates:      &rates{limiter: opts.Limiter, askShared: opts.Shared, askUnread: opts.Unread},
		admission:  &admission{slots: opts.Slots, streams: opts.Streams, shed: opts.Shed, short: opts.Short, alone: make(chan struct{}, 1)},
		encoder:    &encoder{deadlines: deadlines, rulebook: rules, slots: opts.Slots, buffers: b.buffers, maxInputItems: opts.MaxInputItems, repairArguments: opts.RepairArguments},
		rulebook:   rules,
		rounds:     &rounds{sealer: opts.Sealer, spent: opts.SingleUse},
		digests:    &digests{isOn: opts.ToolDigests},
		sender:     newSender(upstream, &opts, deadlines, b.buffers),
		decoder: &decoder{
			keeper: keeper, limit: limit, catalogs: catalogs, slots: opts.Slots, buffers: b.buffers, resultBudget: opts.ResultBudget,
			canRead: func(cat *catalog.Catalog) bool { return b.offers != nil && b.offers.HasResources(cat) },
		},
	}
	b.parts = p
	if opts.Rules != nil {
		p.sender.views = &views{rules: opts.Rules, typesOf: p.decoder.typesOf}
	}
	p.encoder.ids.isFixed = opts.Deterministic
	p.auditor = &auditor{directory: p.directory, payloads: payloads, gate: opts.Gate, trail: opts.Audit, noted: b.noted}
	b.payloads = payloads
	p.previews = &previews{auditor: p.auditor, sender: p.sender, decoder: p.decoder, rulebook: p.rulebook}
	p.rounds.previews = p.previews
	p.answers = &answers{deadlines: deadlines, sender: p.sender, rulebook: rules, store: opts.Answers, ttl: opts.AnswerTTL, most: int(opts.MaxAnswerBytes / answerShare)}
	b.documents = &documents{payloads: payloads, secrets: b.Secrets, trail: opts.Documents}
	p.rpcs = &rpcs{
		sender:   p.sender,
		streamer: &streamer{encoder: p.encoder, rulebook: p.rulebook, sender: p.sender, decoder: p.decoder, panics: b.panics, maxItems: opts.MaxItems},
		pager:    &pager{rates: p.rates, sender: p.sender, decoder: p.decoder, maxItems: opts.MaxItems},
	}
	p.natives = &natives{auditor: p.auditor, rounds: p.rounds, sender: p.sender, decoder: p.decoder}
	p.compacts = &compacts{directory: p.directory, encoder: p.encoder, limit: limit}
	p.programs = newPrograms(p, &opts, b.panics, b.runPart)
	p.operations = &operations{
		directory: p.directory, auditor: p.auditor, sender: p.sender, decoder: p.decoder, sealer: opts.Sealer, draining: b.draining,
	}
	p.tasks = &tasks{
		auditor: p.auditor, documents: b.documents, rulebook: rules, sender: p.sender, decoder: p.decoder, natives: p.natives, rpcs: p.rpcs, panics: b.panics,
		directory: p.directory, operations: p.operations, manager: opts.Tasks, after: opts.TaskAfter, tracer: opts.Tracer,
		discloses: opts.StructuredDenials,
	}
	p.approvals = &approvals{
		service: opts.Approvals, rulebook: rules, directory: p.directory, auditor: p.auditor, previews: p.previews, tasks: p.tasks,
		sealer: opts.Sealer, named: opts.Named, again: opts.Again,
	}
	p.tasks.approvals = p.approvals
	p.exchanger = &exchanger{
		admission: p.admission, auditor: p.auditor, encoder: p.encoder, rulebook: p.rulebook, sender: p.sender, decoder: p.decoder, panics: b.panics,
		streamIdle: opts.StreamIdle, streamTime: opts.StreamTime,
	}
	b.records = opts.Audit.IsOn() || opts.Documents != nil || opts.Tracer.IsOn()
	b.observers = []observer{p.counter}
	if opts.Audit.IsOn() {
		b.observers = append(b.observers, p.auditor)
	}
	if opts.Documents != nil {
		b.observers = append(b.observers, b.documents)
	}
	if opts.Tracer.IsOn() {
		b.observers = append(b.observers, &spans{payloads: payloads})
	}
	b.observers = append(b.observers, b.lines)
	b.calls = newCalls(p)
	return b
}

// recordedPayloads makes payloads for records, by what rules leave out of them. Nil rules leave out nothing.
func recordedPayloads(rules Rules) *trail.Payloads {
	if rules == nil {
		return &trail.Payloads{}
	}
	return trail.NewPayloads(rules.Unrecorded, rules.UnrecordedPaths)
}

// newSender returns a sender for the backends of the options.
func newSender(upstream Upstream, opts *Options, deadlines *deadlines, buffers *bytepool.Pool) *sender {
	s := &sender{
		deadlines: deadlines, buffers: buffers, named: make(map[string]*Backend, len(opts.Backends)),
		only: Backend{Upstream: upstream, Native: opts.Native, Guard: opts.Guard, Metadata: opts.Metadata, OnBehalf: opts.OnBehalf},
	}
	for name, one := range opts.Backends {
		s.named[name] = &one
	}
	return s
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
		o.SingleUse = keys.NewSpent(keys.SpentOptions{})
	}
	defaults.Fill(&o.MaxAnswers, defaults.MaxAnswers)
	defaults.Fill(&o.MaxAnswerBytes, defaults.MaxAnswerBytes)
	switch {
	case o.AnswerTTL <= 0:
		o.Answers = nil
	case o.Answers == nil:
		o.Answers = newAnswerMemory(o.MaxAnswers, o.MaxAnswerBytes)
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
	if cat := b.parts.directory.catalogs.Current(); cat != nil {
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

// Secrets returns the names of what records leave out of calls of a tool, and of an error of such a call; nil for none.
func (b *Bridge) Secrets(tool *catalog.Tool, err *errmap.Error) []redact.Names {
	var more []protoreflect.MessageDescriptor
	if err != nil && len(err.Details) > 0 {
		cat := b.parts.decoder.catalogs.Current().Of(tool)
		for _, d := range err.Details {
			if mt, err := cat.Types().FindMessageByURL(d.GetTypeUrl()); err == nil {
				more = append(more, mt.Descriptor())
			}
		}
	}
	return b.payloads.Secrets(tool, more...)
}

// Stats returns the counters that were given to New, or nil.
func (b *Bridge) Stats() *telemetry.Stats { return b.opts.Stats }

// Tracer returns the tracer that was given to New, or nil. Edges start the spans of their messages with it.
func (b *Bridge) Tracer() *telemetry.Tracer { return b.opts.Tracer }

// Begun returns the number of requests since the start.
func (b *Bridge) Begun() uint64 { return b.begun.Load() }

// Reduced returns the number of results that were cut to a budget since the start.
func (b *Bridge) Reduced() uint64 { return b.parts.decoder.reduced.Load() }

// Catalogs returns the source of the tools that was given to New.
func (b *Bridge) Catalogs() Catalogs { return b.parts.directory.catalogs }

// BoundedLog returns the log for lines that callers can cause at will. It drops lines
// above a rate.
func (b *Bridge) BoundedLog() *zap.Logger { return b.noted }

// Buffers returns the pool of buffers for large results and replies.
func (b *Bridge) Buffers() *bytepool.Pool { return b.buffers }

// Repaired returns the number of calls whose arguments were repaired.
func (b *Bridge) Repaired() uint64 { return b.parts.encoder.repaired.Load() }

// RepairArguments returns arguments as a Payload. If the option RepairArguments is set
// and raw is a JSON string that holds an object, the Payload is that object. Edges call
// it before they refuse arguments that are not an object.
func (b *Bridge) RepairArguments(raw []byte) Payload { return b.parts.encoder.repair(raw) }

// CheckArguments checks JSON arguments as a call of a tool would, and calls nothing: of a tool that takes a stream, all items. The
// policy is not asked, and a tool that another sidecar checks is checked here by the schema that is shown. It returns nil for
// arguments that no call is refused for.
func (b *Bridge) CheckArguments(ctx context.Context, t *catalog.Tool, arguments []byte) *errmap.Error {
	return b.parts.encoder.check(ctx, t, arguments)
}

// Catalog returns the current snapshot of the tools, with what the caller in ctx may
// see. Before the first load it waits, for a bounded time; after that the error is
// UNAVAILABLE.
func (b *Bridge) Catalog(ctx context.Context) (*catalog.Catalog, *errmap.Error) {
	return b.parts.directory.catalog(ctx)
}

// CatalogFor returns the current snapshot of the tools, with what the caller in ctx may
// see; nil before the first load.
func (b *Bridge) CatalogFor(ctx context.Context) *catalog.Catalog {
	return b.parts.directory.loaded(ctx)
}

// ListedFor returns the current snapshot of the tools as an OpList of the caller in ctx lists it; nil before the first load.
func (b *Bridge) ListedFor(ctx context.Context, form compact.List) *catalog.Catalog {
	return b.parts.directory.listedFor(ctx, form)
}

// Rendered caches what an edge has rendered for a catalog, such as the list of tools,
// and calls fresh to make it. The value lives as long as the caller's view of the
// catalog; catalogs that are not views share one value.
func (b *Bridge) Rendered(cat *catalog.Catalog, fresh func() any) any {
	return b.parts.directory.views.Rendered(cat, fresh)
}

// MayRun returns nil if the caller in ctx may run an operation, else PERMISSION_DENIED.
// It is for what belongs to an operation and is no separate [Request], such as a stream
// of a session.
func (b *Bridge) MayRun(ctx context.Context, op Op) *errmap.Error {
	return b.parts.directory.permits(ctx, op, nil)
}

// ResultsKey identifies what the caller in ctx sees of results now, in this process; empty where that is everything. What is kept of
// several tools is made for it.
func (b *Bridge) ResultsKey(ctx context.Context) string {
	if rules := b.parts.rulebook.rules; rules != nil {
		return rules.ResultsKey(identity.FromContext(ctx))
	}
	return ""
}

// MayUseAll reports whether the caller in ctx may use every tool.
func (b *Bridge) MayUseAll(ctx context.Context) bool { return b.parts.directory.mayUseAll(ctx) }

// NotForAll returns PERMISSION_DENIED for what only callers of every tool may do, with a
// text that says what that is. A [policy.Authorizer] says what the caller
// lacks.
func (b *Bridge) NotForAll(ctx context.Context, text string) *errmap.Error {
	return b.parts.directory.notForAll(ctx, text)
}

// OpenStream takes one of the places for long-lived streams (changes, GET streams,
// exchanges, subscriptions), or returns why there is none. For operators, what says what it
// is, in a few words, and tool is its canonical name; empty for none. The function that it
// returns gives the place back and must be called once.
func (b *Bridge) OpenStream(caller, what, tool string) (release func(), err *errmap.Error) {
	return b.parts.admission.openStream(caller, what, tool)
}

// Streams returns the streams that have a place, in no order. They must not be changed.
func (b *Bridge) Streams() []*adminv1.LongLived {
	a := b.parts.admission
	a.openMu.Lock()
	defer a.openMu.Unlock()
	return slices.Collect(maps.Values(a.open))
}

// Refused counts and logs a message that an edge refused before it became a request.
func (b *Bridge) Refused(r *Refusal) {
	b.parts.counter.refused(r)
	b.lines.refused(r)
}

// CountRefused counts a request that its edge refused before it began, by its method, beside
// what [Bridge.Refused] counts of messages.
func (b *Bridge) CountRefused(req *Request, err *errmap.Error) {
	b.parts.counter.countRefused(req, err)
}

// AuditRefused writes the line of a message that an edge refused before it became a
// request, if it asked for what leaves a line: req says as much of it as is known. A
// caller without valid credentials leaves no line, so that no stranger can fill a disk.
func (b *Bridge) AuditRefused(ctx context.Context, req *Request, err *errmap.Error) {
	if req.Op.isAudited() {
		b.parts.auditor.refused(ctx, req, req.audited(), err)
	}
}

// AuditUnread is AuditRefused for a message that could not be read, so that it may have
// asked for anything.
func (b *Bridge) AuditUnread(ctx context.Context, req *Request, err *errmap.Error) {
	b.parts.auditor.refused(ctx, req, operationUnknown, err)
}

// AuditDenied writes the line of an operation that an edge denied to a caller and that is no
// request, such as a stream; req says as much of it as is known. The name of the operation
// is that of an [Op], if there is one. Errors other than PERMISSION_DENIED leave no
// line.
func (b *Bridge) AuditDenied(ctx context.Context, req *Request, operation string, err *errmap.Error) {
	b.parts.auditor.denied(ctx, req, operation, err)
}

// Panicked logs a recovered panic with its stack and returns INTERNAL_ERROR for the
// caller concerned. Edges call it where they recover; the pipeline recovers by itself.
func (b *Bridge) Panicked(p any, fields ...zap.Field) *errmap.Error {
	return b.panics.recovered(p, fields...)
}

// ResumeTask makes the work of a task that another replica began, for
// [task.Manager.Run]. The tool must be the same RPC, and still idempotent.
func (b *Bridge) ResumeTask(r task.Record) (task.Run, task.Spec, error) {
	return b.parts.tasks.resume(r)
}

// Handle runs one request and returns its outcome. It never panics and never returns nil. It combines [Bridge.Begin]
// and [Flight.Run].
func (b *Bridge) Handle(ctx context.Context, req *Request) *Response {
	return b.Begin(ctx, req).Run()
}

// Flight is a request that [Bridge.Begin] has registered and that has not run yet.
type Flight struct {
	bridge *Bridge
	call   *correlate.Call
	err    *errmap.Error
	id     uint64 // in this process
	start  time.Time
	// end is what will be known of its end.
	end finished
}

// Begin registers a request and returns at once. Edges that read many messages from one stream call it in reading order
// and run the flights concurrently. So of two equal ids the second is rejected, and a cancellation finds the requests
// before it. Every Flight must be run exactly once.
func (b *Bridge) Begin(ctx context.Context, req *Request) *Flight {
	f := &Flight{bridge: b, id: b.begun.Add(1), start: time.Now(), end: finished{req: req}}
	if b.parts.directory.isCompact {
		b.parts.compacts.readThrough(req)
	}
	if req.console = identity.ConsoleOf(ctx); req.console != nil {
		req.items = &shownItems{}
		req.console.Began(f.id)
	}
	b.measure(ctx, f)
	id := req.ID
	if req.Op == OpOpen {
		id = jsonrpc.ID{} // initialize cannot be cancelled (MCP 2025-11-25, cancellation)
	}
	var err error
	f.call, err = b.flights.RegisterNamed(ctx, req.Origin, id, req.name())
	if err != nil {
		f.err = registerError(err)
		return f
	}
	f.call.Own(f)
	return f
}

// measure begins what is measured of a flight. From here on its request does not change.
func (b *Bridge) measure(ctx context.Context, f *Flight) {
	req, meter := f.end.req, &f.end.meter
	if b.records {
		f.end.who = identity.FromContext(ctx)
		b.record(req, meter, f.end.who)
	}
	if b.isWatched() {
		meter.stages = newStages(f.start)
	}
	req.meter = meter
}

// runPart runs a call that another one makes, which waits for it. It is a call like any other: only its id is not its own, so that it
// cannot be cancelled by that.
func (b *Bridge) runPart(ctx context.Context, req *Request) *Response {
	f := &Flight{bridge: b, id: b.begun.Add(1), start: time.Now(), end: finished{req: req}}
	b.measure(ctx, f)
	var err error
	if f.call, err = b.flights.RegisterPart(ctx, req.Origin, req.name()); err != nil {
		f.err = registerError(err)
		return f.Run()
	}
	f.call.Own(f)
	return f.Run()
}

// isWatched reports whether somebody watches the calls.
func (b *Bridge) isWatched() bool { return b.watched.watchers.Load() > 0 }

// record begins what is recorded of a request.
func (b *Bridge) record(req *Request, m *meter, who *identity.Identity) {
	if most := b.recorded(req); most >= 0 {
		m.input = newInput(req, most)
	}
	if b.opts.Documents != nil && req.Op == OpCall {
		m.document = b.opts.Documents.BeginCall(b.documents.payloads, req.ID.Raw(), m.input)
	}
	if b.opts.Audit.IsOn() && req.Op.isAudited() {
		m.invoked = b.parts.auditor.newInvocation(req, who, m.input)
	}
}

// recorded is how many bytes of arguments are kept of a request for what records them; negative where nothing does.
func (b *Bridge) recorded(req *Request) int {
	most := -1
	if n, ok := b.opts.Audit.HasPayloads(); ok && req.Op.isAudited() {
		most = n
	}
	if req.Op != OpCall {
		return most
	}
	if n, ok := req.Span.Payloads(); ok {
		most = max(most, n)
	}
	if b.opts.Documents != nil {
		most = max(most, b.opts.Documents.MaxPayloadBytes())
	}
	return most
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
	if f.end.req.Paced {
		f.end.meter.upstream += time.Since(f.start) // in its edge's queue
	}
	resp := f.notRun()
	if resp == nil {
		resp = f.bridge.run(f.call, f.end.req)
	}
	if rules := f.bridge.parts.rulebook; rules.rules != nil {
		rules.decided(resp)
	}
	f.end.req.enter(stageFinish)
	resp = finishFlight(f.call, resp)
	if resp.Err != nil && f.bridge.opts.StructuredDenials {
		resp.Err = disclosed(resp.Err)
	}
	resp.Err = resp.Err.Redacted() // once, for whatever shows it
	f.ended(resp)
	return resp
}

// ended notes the end of the request and tells all observers.
func (f *Flight) ended(resp *Response) {
	end := &f.end
	end.resp, end.code, end.at = resp, outcomeCode(resp), time.Now()
	end.edge, end.took = telemetry.EdgeOf(end.req.Transport, end.req.Route, end.req.Procedure != ""), end.at.Sub(f.start)
	if end.code != "" || f.bridge.isWatched() {
		f.bridge.watched.keep(f) // first, because the table does not have it any more
	}
	for _, o := range f.bridge.observers {
		o.ended(end)
	}
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

// finishFlight takes the request out of the table before anything is written. A
// cancellation that came first leaves nothing to write; a call that the end of
// a drain cut off is answered as what it is, not as the caller's own doing.
func finishFlight(flight *correlate.Call, resp *Response) *Response {
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
	if req.Op == OpCall {
		return b.runCall(call, req)
	}
	req.enter(stageRun)
	if resp := b.turnedAway(call, req); resp != nil {
		return resp
	}
	return b.operation(call.Context(), req)
}

// recovered answers a request that panicked.
func (b *Bridge) recovered(req *Request, resp **Response) {
	if p := recover(); p != nil {
		*resp = &Response{Err: b.panics.recovered(p, append(TraceFields(req.Span, req.Header), zap.String(logkey.CanonicalTool, req.Tool), RequestID(req.ID))...)}
	}
}

// runCall runs a call, with what was found out when it was not turned away.
//
//go:noinline
func (b *Bridge) runCall(call *correlate.Call, req *Request) *Response {
	checked, resp := b.calls.rejected(call.Parent(), req)
	if resp == nil {
		resp = b.mayRun(call.Context(), req)
	}
	if resp != nil {
		return resp
	}
	return b.calls.call(call.Context(), req, checked)
}

// turnedAway is the response to a request other than a call that may not run; nil for the others.
//
//go:noinline
func (b *Bridge) turnedAway(call *correlate.Call, req *Request) *Response {
	if !req.Op.isFree() {
		if err := b.parts.rates.check(req.Caller, ""); err != nil {
			return &Response{Err: err}
		}
	}
	return b.mayRun(call.Context(), req)
}

// mayRun is nil for what the caller may run within the share of all callers.
func (b *Bridge) mayRun(ctx context.Context, req *Request) *Response {
	err := b.parts.directory.mayRun(ctx, req)
	if err == nil && !req.Op.isFree() {
		err = b.parts.rates.shared(ctx, req, "", false)
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
	case OpPing:
		return &Response{}
	case OpGet:
		return b.parts.directory.get(ctx, req)
	case OpOpen:
		cat, _ := b.parts.directory.catalog(ctx)
		return &Response{Catalog: cat}
	case OpServer:
		cat, err := b.parts.directory.catalog(ctx)
		return &Response{Catalog: cat, Err: err, who: identity.FromContext(ctx)}
	case OpGetTask, OpUpdateTask, OpCancelTask:
		return b.parts.tasks.answer(ctx, req)
	case OpReadResource, OpGetPrompt:
		return dialogue(ctx, req, b.answer)
	case OpList, OpListResources, OpListTemplates, OpListSkills, OpGetSkill, OpReadDirectory, OpListPrompts, OpComplete, OpListen:
		return b.answer(ctx, req)
	}
	return &Response{Err: &errmap.Error{Code: errmap.MethodNotFound}}
}

// EndListens ends all requests of OpListen well, as closing the feed would. The feed
// stays open for its other subscribers. It may be called more than once.
func (b *Bridge) EndListens() { b.endListens() }

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

// AuditUnfinished writes the lines of the invocations that have not ended although the grace
// period of a drain has, whatever they are doing. What becomes of them later leaves no line.
func (b *Bridge) AuditUnfinished() {
	for _, owner := range b.flights.Owners() {
		if f, ok := owner.(*Flight); ok {
			b.parts.auditor.unfinished(f.end.meter.invoked, f.start)
		}
	}
}

// Offers answers the requests about what a sidecar offers besides calls: lists, resources, prompts, completion, skills and
// streams of changes. It is safe for concurrent use.
type Offers interface {
	// Answer runs a request of such an operation. It never returns nil.
	Answer(ctx context.Context, req *Request) *Response
	// HasResources reports whether callers can read resources of a catalog.
	HasResources(cat *catalog.Catalog) bool
}

// SetOffers has a bridge answer with offers. Without, these operations are METHOD_NOT_FOUND. Call it before the first request.
func (b *Bridge) SetOffers(o Offers) { b.offers = o }

// Host returns what the bridge does for its offers.
func (b *Bridge) Host() *Host {
	return &Host{parts: b.parts, draining: b.draining, log: b.opts.Log}
}

// answer has the offers answer a request.
func (b *Bridge) answer(ctx context.Context, req *Request) *Response {
	if b.offers == nil {
		return &Response{Err: &errmap.Error{Code: errmap.MethodNotFound}}
	}
	resp := b.offers.Answer(ctx, req)
	resp.who = identity.FromContext(ctx)
	return resp
}
