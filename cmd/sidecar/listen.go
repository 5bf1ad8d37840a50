// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/bridge/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/bridge/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/httpguard"
	"github.com/outrigger-mcp/outrigger/internal/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/server/conn"
	"github.com/outrigger-mcp/outrigger/internal/slowpeer"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tlsfiles"
)

// maxStreams is how many requests one HTTP/2 connection may have in flight. A
// gRPC client puts all its calls on one connection, so Go's default of 250
// would hold back callers that the table of calls has room for.
const maxStreams = 4096

// edges is the handler of the main listener: every dialect and protocol.
func (a *app) edges() http.Handler {
	limits := a.cfg.GetLimits()
	api := connectapi.New(a.bridge, connectapi.Options{
		Limits: a.limits, Events: a.events, MaxStreams: int(limits.GetMaxStreams()),
		MaxConcurrent: int(limits.GetMaxPipelinedRequests()),
		Patience:      limits.GetWriteTimeout().AsDuration(),
	})
	a.api, a.door.api = api, api
	mux := http.NewServeMux()
	mcp := mcphttp.New(a.bridge, mcphttp.Options{
		Limits: a.limits, KeepAlive: limits.GetKeepAliveInterval().AsDuration(), Patience: limits.GetWriteTimeout().AsDuration(),
		MaxBatch: int(limits.GetMaxBatchEntries()),
	})
	a.door.mcp = mcp
	mux.Handle(mcphttp.Path, mcp)
	for _, path := range mcphttp.RetiredPaths() {
		mux.Handle(path, mcp.Retired())
	}
	a.door.rpc = rpchttp.New(a.bridge, rpchttp.Options{
		Limits: a.limits, MaxBatch: int(limits.GetMaxBatchEntries()), AnyID: a.cfg.GetCanonicalIds() == "any",
		UUIDs: a.cfg.GetDeterministic(),
	})
	mux.Handle(rpchttp.Path, a.door.rpc)
	api.Mount(mux)
	mux.Handle("/", api.PassThrough(api.NotFound()))
	return a.door.auth.Wrap(a.named(mux))
}

// isStream reports whether a request's body lasts as long as its stream.
func isStream(r *http.Request) bool {
	switch r.URL.Path {
	case outriggerv1connect.ToolServiceExchangeProcedure,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo":
		return true
	}
	return false
}

// servers are the listeners of one process.
type servers struct {
	cfg *configv1.Config
	log *zap.Logger
	// milestones is log, or less where a person is told in other words.
	milestones *zap.Logger
	// tls is what callers see on the main listener; nil where it is plain.
	tls     *tlsfiles.Server
	sockets conn.Sockets
	gates   *connGates
	failed  chan error
	// refused counts what no handler hears of, counts what is refused before an
	// edge; nil counts nothing.
	refused *conn.Refused
	counts  *stats.Stats
	// slow bounds what waits for slow peers.
	slow *slowPeers
}

func newServers(cfg *configv1.Config, log *zap.Logger) *servers {
	return &servers{
		cfg: cfg, log: log, milestones: log, slow: &slowPeers{}, failed: make(chan error, 4),
		refused: conn.NewRefused(int(cfg.GetLimits().GetMaxHeaderBytes())), gates: newConnGates(cfg, log),
	}
}

// open listens on an address and serves a handler there, behind the guard that
// keeps foreign pages out. "off" and "" open nothing.
func (s *servers) open(ctx context.Context, name, address string, handler http.Handler) error {
	if address == "" || address == "off" {
		return nil
	}
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // such a listener takes no filter (refuseNew)
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	shown := name
	if name == "listen" {
		shown = mainListener
	}
	guard, err := httpguard.New(httpguard.Options{
		Refused:        func(r *http.Request, code errmap.Code) { s.counts.HTTPRefused(guardedEdge(name, r), code) },
		Log:            s.log.Named("guard").With(zap.String("listener", shown)),
		TLS:            shown == mainListener && s.tls != nil,
		Loopback:       isLoopback(listener.Addr()),
		AllowedHosts:   s.cfg.GetListeners().GetAllowedHosts(),
		AllowedOrigins: s.cfg.GetListeners().GetAllowedOrigins(),
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.milestones.Info("listening", zap.String("listener", shown), zap.Stringer("addr", listener.Addr()),
		zap.Bool("tls", shown == mainListener && s.tls != nil))
	listener = slowpeer.Listener(listener, s.cfg.GetLimits().GetWriteTimeout().AsDuration(), &s.slow.stuck)
	options := conn.Options{Name: shown, Main: shown == mainListener, Refused: s.refused}
	if options.Main && s.tls != nil {
		options.TLS = s.tls.Config()
	}
	server := s.server(s.slow.budget.Handler(s.bounded(guard.Wrap(handler)), bridge.CallerAddress))
	s.sockets.Add(conn.NewSocket(s.gates.of(shown).Listen(listener), options), server, func(err error) {
		s.failed <- fmt.Errorf("serve %s: %w", shown, err)
	})
	return nil
}

// bounded ends connections whose requests announce a body that does not come, on
// every listener and whatever refuses them.
func (s *servers) bounded(next http.Handler) http.Handler {
	return httpbody.Timeout(next, s.cfg.GetLimits().GetReadBodyTimeout().AsDuration(), isStream, func() { s.counts.Over(errmap.LimitBodyTime) })
}

// guardedEdge is the edge that a request was for which the guard of a listener
// kept out.
func guardedEdge(listener string, r *http.Request) stats.Edge {
	if listener != "listen" {
		return stats.EdgeAdmin
	}
	kind := r.Header.Get("Content-Type")
	switch path := r.URL.Path; {
	case path == rpchttp.Path:
		return stats.EdgeRPC
	case path == mcphttp.Path, slices.Contains(mcphttp.RetiredPaths(), path):
		return stats.EdgeMCP
	case strings.HasPrefix(kind, "application/grpc-web"):
		return stats.EdgeGRPCWeb
	case strings.HasPrefix(kind, "application/grpc"):
		return stats.EdgeGRPC
	case strings.HasPrefix(path, "/"+outriggerv1connect.ToolServiceName+"/"):
		return stats.EdgeConnect
	}
	return stats.EdgeOther
}

// mainListener is the name of the listener for callers in logs.
const mainListener = "main"

// server returns a server with the bounds of the configuration.
func (s *servers) server(handler http.Handler) *http.Server {
	limits := s.cfg.GetLimits()
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
		ErrorLog:                     zap.NewStdLog(loglimit.New(s.log.Named("http"))),
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
