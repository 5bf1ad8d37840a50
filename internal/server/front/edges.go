// SPDX-License-Identifier: Apache-2.0

package front

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpcompress"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// JSONLimits bound the JSON that edges read.
func JSONLimits(cfg *configv1.Config) jsonrpc.Limits {
	l := cfg.GetLimits()
	return jsonrpc.Limits{MaxBytes: int(l.GetMaxMessageBytes()), MaxDepth: int(l.GetMaxJsonDepth()), MaxIDBytes: int(l.GetMaxIdBytes())}
}

// StdioOptions configure the edge on standard input, which counts its queue at queued.
func StdioOptions(c *configv1.Config, mode stdio.Mode, queued *atomic.Int64) stdio.Options {
	limits := c.GetLimits()
	return stdio.Options{
		Mode: mode, Limits: JSONLimits(c), AnyID: c.GetCanonicalIds() == "any", UUIDs: c.GetDeterministic(),
		Grace: limits.GetDrainGrace().AsDuration(), MaxBatch: int(limits.GetMaxBatchEntries()),
		MaxConcurrent: int(limits.GetMaxPipelinedRequests()), MaxQueueBytes: int(limits.GetMaxStdioQueueBytes()), QueueBytes: queued,
	}
}

// openEdges registers every dialect and protocol. This is the one place that says
// which edge is where, what its name is, and how it refuses a request.
func (f *Front) openEdges() {
	c := f.opts.Config
	limits, read := c.GetLimits(), JSONLimits(c)
	mcp := mcphttp.New(f.opts.RPC, mcphttp.Options{
		Limits: read, KeepAlive: limits.GetKeepAliveInterval().AsDuration(), WriteTimeout: limits.GetWriteTimeout().AsDuration(),
		MaxBatch: int(limits.GetMaxBatchEntries()),
	})
	rpc := rpchttp.New(f.opts.RPC, rpchttp.Options{
		Limits: read, MaxBatch: int(limits.GetMaxBatchEntries()), AnyID: c.GetCanonicalIds() == "any",
		UUIDs: c.GetDeterministic(),
	})
	f.api = connectapi.New(f.opts.Bridge, f.opts.RPC, connectapi.Options{
		Limits: read, Events: f.opts.Events, MaxStreams: int(limits.GetMaxStreams()),
		MaxConcurrent: int(limits.GetMaxPipelinedRequests()),
		WriteTimeout:  limits.GetWriteTimeout().AsDuration(), RedactTyped: c.GetRedactBackendStatus(),
	})
	compress := httpcompress.New(int(c.GetListeners().GetCompressAboveBytes()))
	paths := map[string]http.Handler{mcphttp.Path: compress.Wrap(mcp)}
	for _, path := range mcphttp.RetiredPaths() {
		paths[path] = mcp.Retired()
	}
	card := config.HasExperiment(c, config.ServerCard)
	if !card {
		paths[mcphttp.CardPath] = mcp.NoCard()
	}
	supported := func() []string { return f.opts.Scopes.Supported(f.opts.Catalog()) }
	f.table.register(&edge{name: is(telemetry.EdgeMCP), paths: paths, refuse: mcp.Refuse})
	f.table.register(&edge{name: is(telemetry.EdgeRPC), paths: map[string]http.Handler{rpchttp.Path: compress.Wrap(rpc)}, refuse: rpc.Refuse})
	metadata := identity.NewMetadataHandler(c.GetAccess().GetOauth(), cmp.Or(c.GetServer().GetTitle(), c.GetServer().GetName()), supported)
	f.table.register(&edge{
		name: is(telemetry.EdgeOther), refuse: rpc.Refuse,
		open:   metadata,
		isOpen: func(r *http.Request) bool { return identity.IsMetadataPath(r.URL.Path) }, prefix: identity.MetadataPrefix,
	})
	f.table.register(&edge{
		name: is(telemetry.EdgeOther), refuse: rpc.Refuse, open: http.HandlerFunc(identity.NoAuthorizationServer),
		isOpen: func(r *http.Request) bool { return identity.IsOfAuthorizationServer(r.URL.Path) },
	})
	if card {
		f.table.register(&edge{
			name: is(telemetry.EdgeMCP), refuse: mcp.Refuse, prefix: mcphttp.CardPath,
			open:   &mcphttp.Card{Resource: metadata.Resource(), Server: f.opts.Bridge.Server, Versions: dialect.Versions()},
			isOpen: func(r *http.Request) bool { return r.URL.Path == mcphttp.CardPath },
		})
	}
	f.table.register(&edge{name: f.api.EdgeOf, rest: f.api.Root(f.api.PassThrough(f.api.NotFound())), refuse: f.api.Refuse})
}

// Registration returns what the admin listener serves besides its own pages: the
// registration of tools. pages returns that listener's own.
func (f *Front) Registration(registrar connectapi.Registrar, pages func() *admin.Admin, changed func(trail.Change)) map[string]http.Handler {
	api := connectapi.New(f.opts.Bridge, f.opts.RPC, connectapi.Options{Limits: JSONLimits(f.opts.Config)})
	path, handler := api.AdminHandler(registrar, connectapi.AdminOptions{
		Wait: f.opts.Config.GetLimits().GetCatalogWait().AsDuration(), Log: f.opts.Log.Named("audit"), Changed: changed,
		Who:       func(ctx context.Context, peer string) string { return pages().Operator(ctx, peer) },
		MayChange: func(ctx context.Context) bool { return pages().May(ctx, admin.RoleOperate) },
	})
	return map[string]http.Handler{path: handler}
}

// Pages compresses the pages of a listener for operators.
func (f *Front) Pages(next http.Handler) http.Handler { return f.pages.WrapPages(next) }

// callers is what callers meet behind the guard. What is open needs no authentication,
// and is answered while calls are not: it tells clients how to authenticate.
func (f *Front) callers() http.Handler {
	others := f.answering.wrap(sparing(f.authn.auth.Wrap(f.opts.Slow.named(f.table)), f.shed))
	return &entrance{table: f.table, others: others}
}

// entrance lets in what needs no authentication. It is no http.HandlerFunc, which would be a frame more below each stream that
// waits.
type entrance struct {
	table  *table
	others http.Handler
}

func (e *entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.next(r).ServeHTTP(w, r)
}

// next is apart so that its temporaries are not in the frame of ServeHTTP.
//
//go:noinline
func (e *entrance) next(r *http.Request) http.Handler {
	if open := e.table.openEdge(r); open != nil {
		return open.open
	}
	return e.others
}

// shed rejects what is large while memory is short, or the queue is full.
func (f *Front) shed() *errmap.Error {
	if err := f.opts.Memory.Shed(); err != nil {
		return err
	}
	return f.opts.Full()
}

// isStream reports whether the body of a request lasts as long as its stream: of an RPC, for which the table has no path.
func (f *Front) isStream(r *http.Request) bool { return f.table.path(r) == "" && f.api.IsStream(r) }

// route is where a request goes, for its span.
func (f *Front) route(r *http.Request) telemetry.Route {
	if path := f.table.path(r); path != "" {
		return telemetry.Route{Path: path}
	}
	path := f.api.Route(r)
	return telemetry.Route{Path: path, IsRPC: path != ""}
}

// EndStreams ends the streams of the tool API that would otherwise last for as long as their readers like.
func (f *Front) EndStreams() { f.api.Close() }

// StreamsRefused is how many more streams of the tool API there would be without their limit.
func (f *Front) StreamsRefused() uint64 {
	_, refused := f.api.Streams()
	return refused
}

// IsAnswering reports whether an HTTP request is being answered.
func (f *Front) IsAnswering() bool { return f.answering.now.Load() > 0 }

// AwaitAnswers returns once no HTTP request that came before it is being answered, or when ctx ends.
func (f *Front) AwaitAnswers(ctx context.Context) { f.answering.wait(ctx) }

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
	if isLasting(r) || h.by.watching.Load() {
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
