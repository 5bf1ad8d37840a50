// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/h2"
)

// Keys of [http.Server.TLSNextProto]. A handler for the second gets connections of
// which the preface has been read, in a tls.Conn that only carries them.
const (
	protoH2    = "h2"
	protoPlain = "unencrypted_http2"
)

// preface is what an HTTP/2 client sends first.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// h2Conns are the HTTP/2 connections of one server.
type h2Conns struct {
	server *http.Server
	book   *book
}

// serveH2 has the HTTP/2 connections of a server that does not serve yet served by
// package h2. net/http finds out that they are HTTP/2, and does the handshake.
func serveH2(server *http.Server, book *book) {
	// net/http sets HTTP/2 up when it begins to serve.
	_ = server.Serve(noListener{})
	if server.TLSNextProto[protoPlain] == nil || server.TLSNextProto[protoH2] == nil {
		return // HTTP/2 is off (GODEBUG=http2server=0)
	}
	all := &h2Conns{server, book}
	server.RegisterOnShutdown(all.shutdown)
	plain := server.TLSNextProto[protoPlain]
	server.TLSNextProto[protoPlain] = func(s *http.Server, carrier *tls.Conn, h http.Handler) {
		under, ok := carrier.NetConn().(interface{ UnencryptedNetConn() net.Conn })
		if !ok {
			plain(s, carrier, h)
			return
		}
		all.serve(under.UnencryptedNetConn(), h, nil)
	}
	server.TLSNextProto[protoH2] = func(s *http.Server, conn *tls.Conn, h http.Handler) {
		state := conn.ConnectionState()
		if !isStrong(&state) || readPreface(conn, s.ReadHeaderTimeout) != nil {
			_ = conn.Close()
			return
		}
		all.serve(conn, h, &state)
	}
}

// serve serves one connection until it ends.
func (a *h2Conns) serve(conn net.Conn, h http.Handler, state *tls.ConnectionState) {
	o := h2.ServerOptions{Handler: h, Server: a.server, MaxStreams: maxStreams(a.server), TLS: state}
	if with, ok := h.(interface{ BaseContext() context.Context }); ok { // as net/http's own looks for it
		o.Base = with.BaseContext()
	}
	under := watchedOf(conn)
	o.State, o.Refused = under.changed, under.to.add
	c := h2.NewServer(conn, o)
	under.h2.Store(c)
	if a.book.ending.Load() {
		c.Shutdown()
	}
	c.Serve()
}

// shutdown ends all connections when what is in flight on them has been answered.
func (a *h2Conns) shutdown() {
	a.book.ending.Store(true)
	for _, under := range a.book.conns() {
		if c := under.h2.Load(); c != nil {
			c.Shutdown()
		}
	}
}

// usualStreams is net/http's default for MaxConcurrentStreams.
const usualStreams = 250

func maxStreams(server *http.Server) int {
	if server.HTTP2 != nil && server.HTTP2.MaxConcurrentStreams > 0 {
		return server.HTTP2.MaxConcurrentStreams
	}
	return usualStreams
}

// isStrong reports whether RFC 9113, section 9.2, allows HTTP/2 on a connection.
func isStrong(state *tls.ConnectionState) bool {
	if state.Version >= tls.VersionTLS13 {
		return true
	}
	switch state.CipherSuite {
	case tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256:
		return state.Version == tls.VersionTLS12
	}
	return false
}

// released reports whether a client opens no more streams: it has confirmed GOAWAY, or had
// the time to.
func released(c *h2.ServerConn) bool {
	if _, confirmed := c.Left(); !confirmed.IsZero() {
		return time.Since(confirmed) > h2Settle
	}
	return overdue(c)
}

// overdue reports whether a client goes on although it was told long ago.
func overdue(c *h2.ServerConn) bool {
	told, _ := c.Left()
	return !told.IsZero() && time.Since(told) > goAwayTimeout
}

// readPreface reads what net/http would read of a connection before its
// first request.
func readPreface(conn net.Conn, within time.Duration) error {
	if within > 0 {
		if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
			return err
		}
	}
	got := make([]byte, len(preface))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != preface {
		return errors.New("no HTTP/2 preface")
	}
	return conn.SetReadDeadline(time.Time{})
}

// noListener accepts nothing: Serve sets the server up, and returns.
type noListener struct{}

// Accept implements [net.Listener].
func (noListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// Close implements [net.Listener].
func (noListener) Close() error { return nil }

// Addr implements [net.Listener].
func (noListener) Addr() net.Addr { return &net.TCPAddr{} }
