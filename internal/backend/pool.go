// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"

	"github.com/outrigger-mcp/outrigger/internal/grpcwire"
	"github.com/outrigger-mcp/outrigger/internal/stall"
)

// errClosed is the cause of every failure after Close.
var errClosed = errors.New("the client is closed")

// pool holds the connections of one HTTP version; one of the two is set. The
// versions are apart because net/http never speaks HTTP/2 in the clear where it
// may use HTTP/1.1, and because its own pool of HTTP/2 connections dials once for
// each of many first callers, gets stuck or fails at the peer's limit of
// streams, and repeats requests that may have been processed.
type pool struct {
	h1 *http.Transport
	h2 *h2Pool
}

func (p *pool) http2() bool { return p.h2 != nil }

func (p *pool) version() string {
	if p.http2() {
		return "HTTP/2"
	}
	return "HTTP/1.1"
}

// streamWindow is how much of a stream's response the backend may send before it is
// read. net/http's own is 4 MiB, which each stream with a slow reader would hold.
const streamWindow = 64 << 10

// newPools builds the pools of a target: HTTP/1.1, HTTP/2, and the HTTP/2 of unary
// gRPC calls.
func newPools(t Target, o Options, tlsConfig *tls.Config, conns *connSet) (h1, h2 *pool, wires *h2Pool) {
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true) // TLS is below it, in the dialer

	h1 = &pool{h1: baseTransport(o, one)}
	h1.h1.DialContext = dialer(t, o, nil, conns)
	h1.h1.TLSClientConfig = tlsConfig.Clone()
	h1.h1.TLSHandshakeTimeout = o.DialTimeout
	h1.h1.MaxConnsPerHost = o.MaxConns
	h1.h1.MaxIdleConnsPerHost = o.MaxConns // fewer would close and reopen connections under load

	transport := baseTransport(o, two)
	transport.HTTP2 = &http.HTTP2Config{
		SendPingTimeout:  o.PingAfter,
		PingTimeout:      o.PingTimeout,
		WriteByteTimeout: o.WriteTimeout,

		MaxReceiveBufferPerStream: streamWindow,
	}
	if t.tls {
		tlsConfig = tlsConfig.Clone()
		tlsConfig.NextProtos = []string{"h2", "http/1.1"} // a server without HTTP/2 can say so
		if tlsConfig.ServerName == "" {
			tlsConfig.ServerName, _, _ = net.SplitHostPort(t.host) // ParseTarget joined them
		}
	}
	dial := dialer(t, o, tlsConfig, conns)
	wires = newH2Pool(&wireDialer{dial: dial, timeout: o.DialTimeout, opts: grpcwire.Options{
		MaxHeaderBytes: o.MaxHeaderBytes, PingAfter: o.PingAfter, PingTimeout: o.PingTimeout,
		QuietAfter: o.QuietAfter, SuspectAfter: o.SuspectAfter,
		WriteTimeout: o.WriteTimeout, IdleTimeout: o.IdleTimeout,
	}}, o.MaxHTTP2Conns)
	return h1, &pool{h2: newH2Pool(newH2Dialer(transport, dial, o.DialTimeout), o.MaxHTTP2Conns)}, wires
}

func baseTransport(o Options, p *http.Protocols) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // a backend is never reached through the environment's proxy
		IdleConnTimeout:        o.IdleTimeout,
		MaxResponseHeaderBytes: int64(o.MaxHeaderBytes),
		DisableCompression:     true, // the protocols compress by themselves, within limits
		Protocols:              p,
	}
}

// dialer connects to the target, whatever address is asked for. With a TLS
// configuration, the connection is one over TLS on which the peer chose HTTP/2.
func dialer(t Target, o Options, tlsConfig *tls.Config, conns *connSet) netDial {
	network, addr := t.address()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		ctx, cancel := stall.WithTimeout(ctx, o.DialTimeout)
		defer cancel()
		nc, err := o.Dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if tlsConfig != nil {
			if nc, err = handshake(ctx, nc, tlsConfig); err != nil {
				return nil, err
			}
		}
		c := conns.adopt(nc)
		if c == nil {
			return nil, errClosed
		}
		return c, nil
	}
}

func handshake(ctx context.Context, nc net.Conn, cfg *tls.Config) (net.Conn, error) {
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		_ = nc.Close()
		return nil, err
	}
	if tc.ConnectionState().NegotiatedProtocol != "h2" {
		_ = nc.Close()
		return nil, errNoHTTP2
	}
	return tc, nil
}
