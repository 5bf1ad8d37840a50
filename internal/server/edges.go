// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpcompress"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/auth"
	"github.com/outrigger-mcp/outrigger/internal/server/listen"
	"github.com/outrigger-mcp/outrigger/internal/server/pressure"
	"github.com/outrigger-mcp/outrigger/internal/server/route"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// Prepare builds the handlers for callers and operators, without opening a port.
// drain starts the shutdown of the process when an operator requests a drain.
func (a *App) Prepare(drain func()) error {
	var err error
	a.authn, err = auth.Open(auth.Options{
		Config: a.cfg, Refuse: a.refuse, Keep: a.behalf.keep(), Scope: a.firstScopes, Authenticator: a.opts.Authenticator, Catalog: a.live.Current,
		Watcher: a.watcher, Log: a.log,
	})
	if err != nil {
		return err
	}
	operators, err := auth.OpenOperators(auth.Options{Config: a.cfg, Watcher: a.watcher, Log: a.log})
	if err != nil {
		return err
	}
	a.files().WatchTLS("backend_tls", "backend")
	a.listeners = listen.New(listen.Options{
		Config: a.cfg, Log: a.log, Milestones: a.milestones(), TLS: a.authn.TLS(), AdminTLS: operators.TLS(), Stats: a.stats, Slow: &a.slow,
		Tracer: a.opts.Tracer,
	})
	if a.metrics, err = a.newMetrics(); err != nil {
		return err
	}
	if err := a.exportMetrics(); err != nil {
		return err
	}
	if wanted := a.cfg.GetLimits().GetMaxMemoryBytes(); wanted > 0 || !a.opts.Embedded {
		a.memory.Open(wanted, a.log)
	}
	a.slow.Open(a.cfg.GetLimits(), &a.memory)
	a.pages = httpcompress.New(int(a.cfg.GetListeners().GetCompressAboveBytes()))
	a.probes = admin.New(admin.Options{
		Ready: a.ready, Drain: drainer{app: a, end: drain}, Trust: trustSwitch{gate: a.gate, log: a.log, trail: a.trail, shared: a.shared.trust},
		Describe: a.describe,
		Metrics:  a.metrics.Handler(),
		Refresh:  a.operatorRefresh,
		Keys:     a.behalf.keys(),
		Handlers: a.operators(),

		Operators: operators.Roles(),
	})
	a.openEdges()
	return nil
}

// Listen opens the configured listeners. Call [App.Prepare] before, and
// [App.CloseListeners] after, even if Listen fails.
func (a *App) Listen(ctx context.Context) error {
	l := a.cfg.GetListeners()
	operators := listen.Place{Edge: route.Is(telemetry.EdgeAdmin)}
	return errors.Join(
		a.listeners.Open(ctx, listen.Main, l.GetListen(), a.callers(), listen.Place{Edge: a.table.Name, Public: a.isOpen, Route: a.place, Streams: a.isStream}),
		a.listeners.Open(ctx, listen.Admin, l.GetAdmin(), a.Operators(), operators),
		a.listeners.Open(ctx, listen.Health, l.GetHealth(), a.pages.WrapPages(a.probes.HealthHandler()), operators),
	)
}

// CloseListeners closes the listeners and waits for them.
func (a *App) CloseListeners() {
	if a.listeners != nil {
		a.listeners.Close()
	}
}

// Sockets returns the open listeners.
func (a *App) Sockets() []*peer.Socket { return a.listeners.All() }

// Handler returns the handler of the main listener, with all outer handlers, for
// another server. Call [App.Prepare] before.
func (a *App) Handler(at listen.Place) (http.Handler, error) {
	at.Edge, at.Public, at.Route, at.Streams = a.table.Name, a.isOpen, a.place, a.isStream
	return a.listeners.Front(a.callers(), at)
}

// Operators returns the handler of the admin listener, for another server. Call
// [App.Prepare] before.
func (a *App) Operators() http.Handler { return a.pages.WrapPages(a.probes.Handler()) }

// callers is what callers meet behind the guard. What is open needs no authentication,
// and is answered while calls are not: it tells clients how to authenticate.
func (a *App) callers() http.Handler {
	others := a.answering.wrap(pressure.Sparing(a.authn.Wrap(a.slow.Named(a.table)), a.shed))
	return &entrance{table: a.table, others: others}
}

// entrance lets in what needs no authentication. It is no http.HandlerFunc, which would be a frame more below each stream that
// waits.
type entrance struct {
	table  *route.Table
	others http.Handler
}

func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.next(r).ServeHTTP(w, r)
}

// next is apart so that its temporaries are not in the frame of ServeHTTP.
//
//go:noinline
func (e *entrance) next(r *http.Request) http.Handler {
	if open := e.table.Open(r); open != nil {
		return open
	}
	return e.others
}

// isOpen reports whether a request needs no authentication.
func (a *App) isOpen(r *http.Request) bool { return a.table.Open(r) != nil }

// isStream reports whether the body of a request lasts as long as its stream: of an RPC, for which the table has no path.
func (a *App) isStream(r *http.Request) bool { return a.table.Path(r) == "" && a.api.IsStream(r) }

// place is where a request goes, for its span.
func (a *App) place(r *http.Request) telemetry.Route {
	if path := a.table.Path(r); path != "" {
		return telemetry.Route{Path: path}
	}
	path := a.api.Route(r)
	return telemetry.Route{Path: path, IsRPC: path != ""}
}

// JSONLimits bound the JSON that edges read.
func (a *App) JSONLimits() jsonrpc.Limits {
	l := a.cfg.GetLimits()
	return jsonrpc.Limits{MaxBytes: int(l.GetMaxMessageBytes()), MaxDepth: int(l.GetMaxJsonDepth()), MaxIDBytes: int(l.GetMaxIdBytes())}
}

// supportedScopes are all scopes that tools and operations need now.
func (a *App) supportedScopes() []string { return a.scopes.Supported(a.live.Current()) }

// firstScopes are the scopes that a client should ask for before it has a token.
func (a *App) firstScopes() string { return a.scopes.First(a.live.Current()) }

// shed rejects what is large while memory is short, or the queue is full.
func (a *App) shed() *errmap.Error {
	if err := a.memory.Shed(); err != nil {
		return err
	}
	return a.slots.Full()
}

// openEdges registers every dialect and protocol. This is the one place that says
// which edge is where, what its name is, and how it refuses a request.
func (a *App) openEdges() {
	limits, read := a.cfg.GetLimits(), a.JSONLimits()
	mcp := mcphttp.New(a.rpc, mcphttp.Options{
		Limits: read, KeepAlive: limits.GetKeepAliveInterval().AsDuration(), WriteTimeout: limits.GetWriteTimeout().AsDuration(),
		MaxBatch: int(limits.GetMaxBatchEntries()),
	})
	rpc := rpchttp.New(a.rpc, rpchttp.Options{
		Limits: read, MaxBatch: int(limits.GetMaxBatchEntries()), AnyID: a.cfg.GetCanonicalIds() == "any",
		UUIDs: a.cfg.GetDeterministic(),
	})
	a.api = connectapi.New(a.bridge, a.rpc, connectapi.Options{
		Limits: read, Events: a.bus, MaxStreams: int(limits.GetMaxStreams()),
		MaxConcurrent: int(limits.GetMaxPipelinedRequests()),
		WriteTimeout:  limits.GetWriteTimeout().AsDuration(), RedactTyped: a.cfg.GetRedactBackendStatus(),
	})
	compress := httpcompress.New(int(a.cfg.GetListeners().GetCompressAboveBytes()))
	paths := map[string]http.Handler{mcphttp.Path: compress.Wrap(mcp)}
	for _, path := range mcphttp.RetiredPaths() {
		paths[path] = mcp.Retired()
	}
	typed := a.api.Root(a.api.PassThrough(a.api.NotFound()))
	a.table = route.NewTable()
	a.table.Register(&route.Edge{Name: route.Is(telemetry.EdgeMCP), Paths: paths, Refuse: mcp.Refuse})
	a.table.Register(&route.Edge{Name: route.Is(telemetry.EdgeRPC), Paths: map[string]http.Handler{rpchttp.Path: compress.Wrap(rpc)}, Refuse: rpc.Refuse})
	a.table.Register(&route.Edge{
		Name: route.Is(telemetry.EdgeOther), Refuse: rpc.Refuse,
		Open:   identity.NewMetadataHandler(a.cfg.GetAccess().GetOauth(), cmp.Or(a.cfg.GetServer().GetTitle(), a.cfg.GetServer().GetName()), a.supportedScopes),
		IsOpen: func(r *http.Request) bool { return identity.IsMetadataPath(r.URL.Path) }, Prefix: identity.MetadataPrefix,
	})
	a.table.Register(&route.Edge{
		Name: route.Is(telemetry.EdgeOther), Refuse: rpc.Refuse, Open: http.HandlerFunc(identity.NoAuthorizationServer),
		IsOpen: func(r *http.Request) bool { return identity.IsOfAuthorizationServer(r.URL.Path) },
	})
	a.table.Register(&route.Edge{Name: a.api.EdgeOf, Rest: typed, Refuse: a.api.Refuse})
}

// refuse answers a request that may not come in.
func (a *App) refuse(w http.ResponseWriter, r *http.Request, err *errmap.Error) {
	a.table.Refuse(w, r, err)
}

// Stdio serves standard input until it ends or ctx does.
func (a *App) Stdio(ctx context.Context, mode stdio.Mode, in io.Reader, out io.Writer) error {
	limits := a.cfg.GetLimits()
	return stdio.Serve(ctx, a.rpc, in, out, stdio.Options{
		Mode: mode, Limits: a.JSONLimits(), AnyID: a.cfg.GetCanonicalIds() == "any", UUIDs: a.cfg.GetDeterministic(),
		Grace: limits.GetDrainGrace().AsDuration(), MaxBatch: int(limits.GetMaxBatchEntries()),
		MaxConcurrent: int(limits.GetMaxPipelinedRequests()),
		MaxQueueBytes: int(limits.GetMaxStdioQueueBytes()), QueueBytes: &a.stdioQueue,
	})
}

// operators is what the admin listener serves besides its own pages: the
// registration of tools.
func (a *App) operators() map[string]http.Handler {
	limits := a.cfg.GetLimits()
	api := connectapi.New(a.bridge, a.rpc, connectapi.Options{Limits: a.JSONLimits()})
	path, handler := api.AdminHandler(a.registrar(), connectapi.AdminOptions{
		Wait: limits.GetCatalogWait().AsDuration(), Log: a.log.Named("audit"), Who: func(ctx context.Context, peer string) string { return a.probes.Operator(ctx, peer) },
		MayChange: func(ctx context.Context) bool { return a.probes.May(ctx, admin.RoleOperate) },
		Changed:   a.trail.Change,
	})
	return map[string]http.Handler{path: handler}
}

// describe is what /describe of the admin listener answers.
func (a *App) describe(ctx context.Context) ([]byte, error) {
	text, err := a.rpc.Description(ctx)
	if err != nil {
		return nil, err
	}
	return text, nil
}

// operatorRefresh is POST /refresh.
func (a *App) operatorRefresh(ctx context.Context, who string) (out admin.Refreshed) {
	defer func() { a.auditRefresh(who, out) }()
	run, err := a.refresher.Now(ctx, "POST /refresh")
	if err != nil {
		d := a.diagnose.Diagnose(ctx, err)
		return admin.Refreshed{Error: err.Error(), Cause: d.Cause, Fix: d.Fix}
	}
	now := a.live.Current()
	return admin.Refreshed{
		OK: true, Changed: run.Changed, Tools: len(now.Tools()), Fingerprint: now.Fingerprint(),
		TookMS: float64(run.Took.Microseconds()) / 1e3,
	}
}

// files are those of the backend's credentials and certificates.
func (a *App) files() *upstream.Files {
	return &upstream.Files{Client: a.backend.client, Watcher: a.watcher, Refresher: a.refresher, Log: a.log}
}

// answering counts the HTTP requests whose answers are being made or written. The
// table of calls forgets a call before its reply is written, so that a drain that
// looked there alone could end a stream under a reply.
//
// Requests that come after a drain has begun to wait are not counted: they are
// refused, and callers that come again and again would keep it waiting.
type answering struct {
	now      atomic.Int64
	watching atomic.Bool
	idle     chan struct{}
}

func newAnswering() *answering { return &answering{idle: make(chan struct{}, 1)} }

// wrap counts the requests of a handler, except those that last as long as their
// readers like.
func (a *answering) wrap(next http.Handler) http.Handler { return &counted{by: a, next: next} }

// counted is a handler whose requests are counted. Its frame is small, because a
// stream waits on top of it for hours.
type counted struct {
	by   *answering
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if route.IsLasting(r) || h.by.watching.Load() {
		h.next.ServeHTTP(w, r)
		return
	}
	h.by.now.Add(1)
	defer h.by.done()
	h.next.ServeHTTP(w, r)
}

func (a *answering) done() {
	if a.now.Add(-1) == 0 && a.watching.Load() {
		select {
		case a.idle <- struct{}{}:
		default:
		}
	}
}

// wait returns once no request that came before it is being answered, or when ctx
// ends.
func (a *answering) wait(ctx context.Context) {
	a.watching.Store(true)
	for a.now.Load() > 0 {
		select {
		case <-a.idle:
		case <-ctx.Done():
			return
		}
	}
}
