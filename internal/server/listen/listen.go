// SPDX-License-Identifier: Apache-2.0

// Package listen opens the listeners of a sidecar, each with its outer handlers:
// connection limits, the guard against foreign web pages, body and write timeouts.
package listen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/edge/httpguard"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/server/pressure"
	"github.com/outrigger-mcp/outrigger/internal/server/route"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// maxStreams is how many requests one HTTP/2 connection may have in flight. A
// gRPC client puts all its calls on one connection, so Go's default of 250
// would hold back callers that the table of calls has room for.
const maxStreams = 4096

// Options are the common options of [Listeners].
type Options struct {
	Config *configv1.Config
	Log    *zap.Logger
	// Milestones is Log, or a quieter logger if a Narrator reports the same.
	Milestones *zap.Logger
	// TLS has the TLS settings of the main listener, AdminTLS those of the admin listener;
	// nil if it is plain.
	TLS, AdminTLS *keys.Server
	// Stats counts requests that are rejected before an edge; nil does not.
	Stats *telemetry.Stats
	// Slow limits the data that waits for slow peers.
	Slow *pressure.Slow
	// Tracer makes the spans of requests; nil makes none.
	Tracer *telemetry.Tracer
}

// Listeners are the listeners of one process. Make them with [New]; Open is not safe
// for concurrent use.
type Listeners struct {
	peer.Sockets

	opts    Options
	gates   *Gates
	failed  chan error
	refused *peer.Refused
}

// New returns Listeners without a listener. It divides the file descriptors of the
// process.
func New(o Options) *Listeners {
	return &Listeners{
		opts: o, failed: make(chan error, 4),
		refused: peer.NewRefused(int(o.Config.GetLimits().GetMaxHeaderBytes()), func() {
			o.Stats.HTTPRefused(telemetry.EdgeOther, errmap.InvalidEnvelope)
		}),
		gates: newGates(o.Config, o.Log),
	}
}

// Failed returns a channel with the error of a server that failed.
func (s *Listeners) Failed() <-chan error { return s.failed }

// Refused returns the counters of requests that no handler sees.
func (s *Listeners) Refused() *peer.Refused { return s.refused }

// Gates returns the connection limits.
func (s *Listeners) Gates() *Gates { return s.gates }

// Names of listeners: the first is that of the flag and the configuration, the second
// how logs call it.
const (
	flagMain = "listen"
	Main     = "main"
	Admin    = "admin"
	Health   = "health"
)

// Open listens on an address and serves a handler there, behind [Listeners.Front].
// "off" and "" open nothing. The name, Loopback and TLS of the place come from the listener.
func (s *Listeners) Open(ctx context.Context, name, address string, handler http.Handler, at Place) error {
	if address == "" || address == "off" {
		return nil
	}
	listener, err := s.listen(ctx, address)
	if err != nil {
		if name == Main {
			name = flagMain
		}
		return fmt.Errorf("--%s: %w", name, err)
	}
	options := peer.SocketOptions{Name: name, Main: name == Main, Refused: s.refused}
	switch {
	case options.Main && s.opts.TLS != nil:
		options.TLS = s.opts.TLS.Config()
	case name == Admin && s.opts.AdminTLS != nil:
		options.TLS = s.opts.AdminTLS.Config()
	}
	at.Name, at.Loopback, at.TLS = name, isLoopback(listener.Addr()), options.TLS != nil
	front, err := s.Front(handler, at)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.opts.Milestones.Info("listening", zap.String("listener", name), zap.Stringer("addr", listener.Addr()), zap.Bool("tls", options.TLS != nil))
	listener = peer.Listener(listener, s.opts.Config.GetLimits().GetWriteTimeout().AsDuration(), s.opts.Slow.StuckCount())
	s.Add(peer.NewSocket(s.gates.of(name).Listen(listener), options), s.server(front), func(err error) {
		s.failed <- fmt.Errorf("serve %s: %w", name, err)
	})
	return nil
}

// listen opens the socket of an address.
func (s *Listeners) listen(ctx context.Context, address string) (net.Listener, error) {
	if path, ok := UnixPath(address); ok {
		return listenUnix(ctx, path, s.opts.Config.GetListeners().GetAdminSocketMode())
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // such a listener takes no filter (refuseNew)
	return lc.Listen(ctx, "tcp", address)
}

// Place describes where a handler is served, for its guard.
type Place struct {
	// Name is the listener's name in logs.
	Name string
	// Edge returns the edge of a request that is rejected before the handler.
	Edge func(*http.Request) telemetry.Edge
	// Route returns where a request goes, for its span; nil makes no spans of requests.
	Route func(*http.Request) telemetry.Route
	// Public reports whether a page of any origin may read what a request asks for; nil
	// for none.
	Public func(*http.Request) bool
	// Streams reports whether the body of a request lasts as long as its stream, besides the
	// streams of the tool API; nil for none.
	Streams func(*http.Request) bool
	// Loopback enables the check of Host. TLS means that the scheme is https.
	Loopback, TLS bool
}

// Front wraps a handler with the outer handlers: the guard against foreign web pages, a
// timeout for bodies that do not arrive, and limits for slow peers.
func (s *Listeners) Front(handler http.Handler, at Place) (http.Handler, error) {
	origins := s.opts.Config.GetListeners().GetAllowedOrigins()
	if at.Name == Admin {
		origins = nil // pages that may call tools are not operators
	}
	guard, err := httpguard.New(httpguard.Options{
		Refused:        func(r *http.Request, code errmap.Code) { s.opts.Stats.HTTPRefused(at.Edge(r), code) },
		Log:            s.opts.Log.Named("guard").With(zap.String("listener", at.Name)),
		TLS:            at.TLS,
		Loopback:       at.Loopback,
		AllowedHosts:   s.opts.Config.GetListeners().GetAllowedHosts(),
		AllowedOrigins: origins,
		AnyOrigin:      at.Public,
	})
	if err != nil {
		return nil, err
	}
	bounded := httpbody.Timeout(guard.Wrap(handler), s.opts.Config.GetLimits().GetReadBodyTimeout().AsDuration(),
		route.IsStream, func() { s.opts.Stats.Over(errmap.LimitBodyTime) })
	if at.Streams != nil {
		bounded = route.Streaming(bounded, at.Streams)
	}
	front := s.opts.Slow.Handler(bounded)
	if s.opts.Tracer.IsOn() && at.Route != nil {
		front = telemetry.HTTPHandler(front, telemetry.HTTPOptions{Tracer: s.opts.Tracer, Route: at.Route, Edge: at.Edge})
	}
	return front, nil
}

// server returns a server with the bounds of the configuration.
func (s *Listeners) server(handler http.Handler) *http.Server {
	limits := s.opts.Config.GetLimits()
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
		ErrorLog:                     zap.NewStdLog(loglimit.New(s.opts.Log.Named("http"))),
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
