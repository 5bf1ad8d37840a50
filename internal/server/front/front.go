// SPDX-License-Identifier: Apache-2.0

// Package front is what a caller meets before the pipeline: the listeners with their connection limits, the guard against
// foreign web pages, authentication, load shedding, and the edges with their paths. Operators have listeners of the same kind.
package front

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpcompress"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpguard"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// maxStreams is how many requests one HTTP/2 connection may have in flight. A
// gRPC client puts all its calls on one connection, so Go's default of 250
// would hold back callers that the table of calls has room for.
const maxStreams = 4096

// Options are the parts of a sidecar that a [Front] leads to.
type Options struct {
	Config *configv1.Config
	Log    *zap.Logger
	// Milestones is Log, or a quieter logger if a Narrator reports the same.
	Milestones *zap.Logger
	Watcher    *reload.Watcher
	// Tracer makes the spans of requests; nil makes none.
	Tracer *telemetry.Tracer
	// Stats counts requests that are rejected before an edge.
	Stats *telemetry.Stats
	// Bridge and RPC are the pipeline, as Protobuf and JSON-RPC reach it, and Events what is published and subscribed to.
	Bridge *bridge.Bridge
	RPC    *dialect.Handler
	Events connectapi.EventBus
	// Catalog returns the current catalog, nil before the first one is loaded.
	Catalog func() *catalog.Catalog
	// Authenticator, if set, replaces the authenticator that the configuration describes.
	Authenticator identity.Authenticator
	// Keep, if set, keeps the token of a request for what exchanges it.
	Keep func(ctx context.Context, token string) context.Context
	// Changed hears of operators who sign in and out.
	Changed func(trail.Change)
	// Scopes are those that tools need; nil without OAuth.
	Scopes *policy.Authorizer
	// Memory and Slow shed load, and Full returns the error for new work while the queue of calls is full.
	Memory *Memory
	Slow   *Slow
	Full   func() *errmap.Error
}

// Front is what callers meet. Make one with [New], and then [Front.Open] its listeners, or serve its [Front.Handler].
type Front struct {
	peer.Sockets

	opts      Options
	authn     *authenticator
	operators *operators
	gates     *Gates
	failed    chan error
	refused   *peer.Refused
	table     *table
	api       *connectapi.Service
	answering *answering
	pages     *httpcompress.Compressor // of the admin and the health listener
}

// New builds the handlers for callers, without opening a port. It reads the files of callers, operators and certificates,
// watches them for changes, and divides the file descriptors of the process.
func New(o Options) (*Front, error) {
	f := &Front{
		opts: o, failed: make(chan error, 4), table: newTable(), answering: newAnswering(),
		refused: peer.NewRefused(int(o.Config.GetLimits().GetMaxHeaderBytes()), func() {
			o.Stats.HTTPRefused(telemetry.EdgeOther, errmap.InvalidEnvelope)
		}),
		pages: httpcompress.New(int(o.Config.GetListeners().GetCompressAboveBytes())),
	}
	var err error
	if f.authn, err = openAuthenticator(o, f.table.refuse); err != nil {
		return nil, err
	}
	if f.operators, err = openOperators(o); err != nil {
		return nil, err
	}
	f.gates = newGates(o.Config, o.Log)
	f.openEdges()
	return f, nil
}

// Failed returns a channel with the error of a server that failed.
func (f *Front) Failed() <-chan error { return f.failed }

// Refused returns the counters of requests that no handler sees.
func (f *Front) Refused() *peer.Refused { return f.refused }

// Certificates returns when the certificates of the listeners end, by what they are for.
func (f *Front) Certificates() map[string]time.Time {
	out := map[string]time.Time{}
	for name, of := range map[string]*keys.Server{"main listener": f.authn.tls, "admin listener": f.operators.tls} {
		if of != nil {
			out[name] = of.Expires()
		}
	}
	return out
}

// Authenticates reports whether callers need credentials.
func (f *Front) Authenticates() bool {
	return f.authn.auth.IsOn()
}

// Gates returns the connection limits.
func (f *Front) Gates() *Gates { return f.gates }

// Names of listeners: the first is that of the flag and the configuration, the second
// how logs call it.
const (
	flagMain = "listen"
	Main     = "main"
	Admin    = "admin"
	health   = "health"
)

// Open opens the configured listeners: for callers, and with other handlers for operators and for probes. Close them after,
// even if Open fails.
func (f *Front) Open(ctx context.Context, operators, probes http.Handler) error {
	l := f.opts.Config.GetListeners()
	return errors.Join(
		f.open(ctx, Main, l.GetListen(), f.callers()),
		f.open(ctx, Admin, l.GetAdmin(), operators),
		f.open(ctx, health, l.GetHealth(), probes),
	)
}

// open listens on an address and serves a handler there, behind [Front.wrap]. "off" and "" open nothing.
func (f *Front) open(ctx context.Context, name, address string, handler http.Handler) error {
	if address == "" || address == "off" {
		return nil
	}
	mode := f.opts.Config.GetListeners().GetAdminSocketMode()
	if name == Main {
		mode = f.opts.Config.GetListeners().GetSocketMode()
	}
	listener, err := listen(ctx, address, mode)
	if err != nil {
		if name == Main {
			name = flagMain
		}
		return fmt.Errorf("--%s: %w", name, err)
	}
	options := peer.SocketOptions{Name: name, Main: name == Main, Refused: f.refused}
	switch {
	case options.Main && f.authn.tls != nil:
		options.TLS = f.authn.tls.Config()
	case name == Admin && f.operators.tls != nil:
		options.TLS = f.operators.tls.Config()
	}
	front, err := f.wrap(handler, Place{Name: name, Loopback: isLoopback(listener.Addr()), TLS: options.TLS != nil}, options.Main)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	f.opts.Milestones.Info("listening", zap.String("listener", name), zap.Stringer("addr", listener.Addr()), zap.Bool("tls", options.TLS != nil))
	listener = peer.Listener(listener, f.opts.Config.GetLimits().GetWriteTimeout().AsDuration(), &f.opts.Slow.stuck)
	f.Add(peer.NewSocket(f.gates.of(name).Listen(listener), options), f.server(front), func(err error) {
		f.failed <- fmt.Errorf("serve %s: %w", name, err)
	})
	return nil
}

// listen opens the socket of an address. mode are the file permissions of a Unix socket.
func listen(ctx context.Context, address, mode string) (net.Listener, error) {
	if path, ok := UnixPath(address); ok {
		return listenUnix(ctx, path, mode)
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // such a listener takes no filter (refuseNew)
	return lc.Listen(ctx, "tcp", address)
}

// Place describes where a handler is served, for its guard.
type Place struct {
	// Name is the listener's name in logs.
	Name string
	// Loopback enables the check of Host. TLS means that the scheme is https.
	Loopback, TLS bool
}

// Handler returns the handler of the main listener, with all outer handlers, for another server.
func (f *Front) Handler(at Place) (http.Handler, error) { return f.wrap(f.callers(), at, true) }

// wrap wraps a handler with the outer handlers: the guard against foreign web pages, a
// timeout for bodies that do not arrive, and limits for slow peers.
func (f *Front) wrap(handler http.Handler, at Place, isForCallers bool) (http.Handler, error) {
	c, edge := f.opts.Config, is(telemetry.EdgeAdmin)
	guard := httpguard.Options{
		Log:            f.opts.Log.Named("guard").With(zap.String("listener", at.Name)),
		TLS:            at.TLS,
		Loopback:       at.Loopback,
		AllowedHosts:   c.GetListeners().GetAllowedHosts(),
		AllowedOrigins: c.GetListeners().GetAllowedOrigins(),
	}
	if isForCallers {
		edge, guard.AnyOrigin = f.table.name, f.table.isOpen
	}
	if at.Name == Admin {
		guard.AllowedOrigins = nil // pages that may call tools are not operators
		guard.AnyOrigin, guard.OwnHost = admin.IsVisit, f.operators.ownNames()
	}
	guard.Refused = func(r *http.Request, code errmap.Code) { f.opts.Stats.HTTPRefused(edge(r), code) }
	guarded, err := httpguard.New(guard)
	if err != nil {
		return nil, err
	}
	bounded := httpbody.Timeout(guarded.Wrap(handler), c.GetLimits().GetReadBodyTimeout().AsDuration(),
		isStream, func() { f.opts.Stats.Over(errmap.LimitBodyTime) })
	if !isForCallers {
		return f.opts.Slow.handler(bounded), nil
	}
	front := f.opts.Slow.handler(&marking{next: bounded, is: f.isStream})
	if f.opts.Tracer.IsOn() {
		front = telemetry.HTTPHandler(front, telemetry.HTTPOptions{Tracer: f.opts.Tracer, Route: f.route, Edge: edge})
	}
	return front, nil
}

// server returns a server with the bounds of the configuration.
func (f *Front) server(handler http.Handler) *http.Server {
	limits := f.opts.Config.GetLimits()
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: limits.GetReadHeaderTimeout().AsDuration(),
		// For what net/http refuses without asking a handler, such as an Expect that
		// it does not know. It ends with the body, so it cuts no answer.
		ReadTimeout:    limits.GetReadBodyTimeout().AsDuration(),
		IdleTimeout:    limits.GetIdleTimeout().AsDuration(),
		MaxHeaderBytes: int(limits.GetMaxHeaderBytes()),
		// Its answer to OPTIONS * would go out before the guard has looked.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     zap.NewStdLog(loglimit.New(f.opts.Log.Named("http"))),
		Protocols:                    new(http.Protocols),
		HTTP2:                        &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
