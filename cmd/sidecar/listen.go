// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/bridge/edge/httpbody"
	"github.com/outrigger-mcp/outrigger/bridge/edge/httpguard"
	"github.com/outrigger-mcp/outrigger/bridge/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/bridge/edge/rpchttp"
	"github.com/outrigger-mcp/outrigger/bridge/tally"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
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
	})
	a.api, a.door.api = api, api
	mux := http.NewServeMux()
	mcp := mcphttp.New(a.bridge, mcphttp.Options{
		Limits: a.limits, KeepAlive: limits.GetKeepAliveInterval().AsDuration(),
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
	return a.door.auth.Wrap(httpbody.Timeout(mux, limits.GetReadBodyTimeout().AsDuration(), isStream, a.lateBody))
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
	// tls is what callers see on the main listener; nil where it is plain.
	tls *tlsfiles.Server
	// sockets are open until the end; running are the servers on them, of which
	// one that drains has two.
	sockets []*socket
	running []*http.Server
	group   sync.WaitGroup
	failed  chan error
	// refused counts what no handler hears of, counts what is refused before an
	// edge; nil counts nothing.
	refused refusedConns
	counts  *tally.Tally
	// parted ends the wait for the connections that turnAway has said goodbye to.
	parted context.Context
	part   context.CancelFunc
	// former are the listeners as those servers have them that turnAway replaced.
	former []*listenerView
}

// socket is a listener and what is served there.
type socket struct {
	name     string
	listener *sharedListener
	tls      *tls.Config // nil for a plain one
	handler  http.Handler
	server   *http.Server
	view     *listenerView // of server
}

func newServers(cfg *configv1.Config, log *zap.Logger) *servers {
	s := &servers{cfg: cfg, log: log, failed: make(chan error, 4)}
	s.refused.maxHeader = int64(cfg.GetLimits().GetMaxHeaderBytes())
	s.parted, s.part = context.WithCancel(context.Background())
	return s
}

// open listens on an address and serves a handler there, behind the guard that
// keeps foreign pages out. "off" and "" open nothing.
func (s *servers) open(ctx context.Context, name, address string, handler http.Handler) error {
	if address == "" || address == "off" {
		return nil
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	guard, err := httpguard.New(httpguard.Options{
		Refused:        func(r *http.Request) { s.counts.HTTPRefused(guardedEdge(name, r), errmap.OriginForbidden) },
		Loopback:       isLoopback(listener.Addr()),
		AllowedHosts:   s.cfg.GetListeners().GetAllowedHosts(),
		AllowedOrigins: s.cfg.GetListeners().GetAllowedOrigins(),
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	shown := name
	if name == "listen" {
		shown = mainListener
	}
	s.log.Info("listening", zap.String("listener", shown), zap.Stringer("addr", listener.Addr()),
		zap.Bool("tls", shown == mainListener && s.tls != nil))
	one := &socket{name: shown, listener: share(listener, &s.refused), handler: guard.Wrap(handler)}
	if shown == mainListener && s.tls != nil {
		one.tls = s.tls.Config()
	}
	s.sockets = append(s.sockets, one)
	s.serve(one, one.handler)
	return nil
}

// guardedEdge is the edge that a request was for which the guard of a listener
// kept out.
func guardedEdge(listener string, r *http.Request) tally.Edge {
	if listener != "listen" {
		return tally.EdgeAdmin
	}
	kind := r.Header.Get("Content-Type")
	switch path := r.URL.Path; {
	case path == rpchttp.Path:
		return tally.EdgeRPC
	case path == mcphttp.Path, slices.Contains(mcphttp.RetiredPaths(), path):
		return tally.EdgeMCP
	case strings.HasPrefix(kind, "application/grpc-web"):
		return tally.EdgeGRPCWeb
	case strings.HasPrefix(kind, "application/grpc"):
		return tally.EdgeGRPC
	case strings.HasPrefix(path, "/"+outriggerv1connect.ToolServiceName+"/"):
		return tally.EdgeConnect
	}
	return tally.EdgeOther
}

// mainListener is the name of the listener for callers in logs.
const mainListener = "main"

// serve puts a server on a socket.
func (s *servers) serve(one *socket, handler http.Handler) {
	server, view := s.server(handler), one.listener.view()
	view.watch(server)
	one.server, one.view = server, view
	s.running = append(s.running, server)
	serve := func() error { return server.Serve(view) }
	if one.tls != nil {
		server.TLSConfig = one.tls.Clone() // net/http writes to it, and a drain has two servers
		server.Protocols.SetUnencryptedHTTP2(false)
		server.Protocols.SetHTTP2(true)
		serve = func() error { return server.ServeTLS(view, "", "") }
	}
	s.group.Go(func() {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			s.failed <- fmt.Errorf("serve %s: %w", one.name, err)
		}
	})
}

// turnAway says goodbye to callers and keeps answering them: connections without
// a request are closed, HTTP/2 connections get GOAWAY, what is in flight goes on,
// and whoever comes is served on a connection of its own, for one answer.
func (s *servers) turnAway() {
	for _, one := range s.sockets {
		if one.name != mainListener {
			continue
		}
		old, view := one.server, one.view
		s.former = append(s.former, view)
		_ = view.Close() // from here on nobody new comes to the old server
		s.serve(one, parting(one.handler))
		s.group.Go(func() {
			view.settle(firstRequestPatience)
			view.rest(firstRequestPatience)
			_ = old.Shutdown(s.parted)
		})
	}
}

// restAtTheEnd is how long the end waits for a moment without somebody who has just
// been answered and is about to ask again.
const restAtTheEnd = 200 * time.Millisecond

// firstRequestPatience is how long a connection that was made before turnAway may
// take to send its first request. It is far above the time between the two of a
// client that has something to ask, and delays the goodbyes.
const firstRequestPatience = time.Second

func (s *servers) server(handler http.Handler) *http.Server {
	limits := s.cfg.GetLimits()
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: limits.GetReadHeaderTimeout().AsDuration(),
		IdleTimeout:       limits.GetIdleTimeout().AsDuration(),
		MaxHeaderBytes:    int(limits.GetMaxHeaderBytes()),
		ErrorLog:          zap.NewStdLog(boundedLog(s.log.Named("http"))),
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	return server
}

// shutdownTimeout bounds the end of connections after the last call has been
// answered: writing what is left, and HTTP/2's goodbye, which takes a second.
const shutdownTimeout = 3 * time.Second

// close stops accepting, lets connections finish writing and waits for every
// server to end.
func (s *servers) close() {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	for _, view := range s.former {
		view.rest(restAtTheEnd) // the drain may be over before the goodbyes
	}
	var closing sync.WaitGroup
	for _, server := range s.running {
		closing.Go(func() {
			if err := server.Shutdown(ctx); err != nil {
				_ = server.Close()
			}
		})
	}
	closing.Wait()
	s.part()
	for _, one := range s.sockets {
		logError(s.log, "close "+one.name, one.listener.Close())
	}
	s.group.Wait()
}

func isLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
