// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
)

// errClosed is the cause of every failure after Close.
var errClosed = errors.New("the client is closed")

// pool holds the connections of one HTTP version. The versions are apart because
// a transport that may use HTTP/1.1 never speaks HTTP/2 in the clear, and because
// their rules for repeating a request differ (see doer).
type pool struct {
	transport *http.Transport
	http2     bool
}

// newPools builds the HTTP/1.1 and the HTTP/2 pool of a target.
func newPools(t Target, o Options, tlsConfig *tls.Config, conns *connSet) (h1, h2 *pool) {
	dial := dialer(t, o, conns)
	build := func(p *http.Protocols) *http.Transport {
		return &http.Transport{
			Proxy:                  nil, // a backend is never reached through the environment's proxy
			DialContext:            dial,
			TLSClientConfig:        tlsConfig.Clone(),
			TLSHandshakeTimeout:    o.DialTimeout,
			IdleConnTimeout:        o.IdleTimeout,
			MaxIdleConnsPerHost:    o.MaxConns, // fewer would close and reopen connections under load
			MaxConnsPerHost:        0,
			MaxResponseHeaderBytes: int64(o.MaxHeaderBytes),
			DisableCompression:     true, // the protocols compress by themselves, within limits
			Protocols:              p,
			HTTP2: &http.HTTP2Config{
				SendPingTimeout:  o.PingAfter,
				PingTimeout:      o.PingTimeout,
				WriteByteTimeout: o.WriteTimeout,
			},
		}
	}
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetHTTP2(t.tls)
	two.SetUnencryptedHTTP2(!t.tls)
	h1 = &pool{transport: build(one)}
	h1.transport.MaxConnsPerHost = o.MaxConns
	return h1, &pool{transport: build(two), http2: true}
}

func dialer(t Target, o Options, conns *connSet) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{Timeout: o.DialTimeout}
	network, addr := t.address()
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		nc, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := conns.adopt(nc, t.tls)
		if c == nil {
			return nil, errClosed
		}
		return c, nil
	}
}

// negotiate opens a TLS connection only to learn whether the peer chooses
// HTTP/2, and closes it.
func negotiate(ctx context.Context, t Target, o Options, cfg *tls.Config, conns *connSet) (http2 bool, err error) {
	nc, err := dialer(t, o, conns)(ctx, "", "")
	if err != nil {
		return false, err
	}
	defer func() { _ = nc.Close() }()
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"h2", "http/1.1"}
	if cfg.ServerName == "" {
		host, _, err := net.SplitHostPort(t.host)
		if err != nil {
			return false, err
		}
		cfg.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		return false, err
	}
	return tc.ConnectionState().NegotiatedProtocol == "h2", nil
}
