// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"net"
	"time"
)

// Defaults of Options, each with its reason.
const (
	// DefaultMaxRequestBytes is the largest request: what a stock gRPC server
	// accepts (4 MiB), so a larger one would be refused at the other end anyway.
	DefaultMaxRequestBytes = 4 << 20
	// DefaultMaxResponseBytes is the largest answer: four times what a stock gRPC
	// client accepts (4 MiB), so no ordinary backend is cut off.
	DefaultMaxResponseBytes = 16 << 20
	// DefaultMaxHeaderBytes bounds the headers and trailers of an answer; room for
	// rich error details, which travel there, and far below net/http's 10 MiB.
	DefaultMaxHeaderBytes = 1 << 20
	// DefaultMaxMetadataBytes bounds the metadata of a request. gRPC peers are
	// advised to accept 8 KiB; common proxies stop near 60 KiB.
	DefaultMaxMetadataBytes = 32 << 10
	// DefaultMaxConns bounds the HTTP/1.1 connections to one backend; each carries
	// one call at a time, and calls beyond it wait.
	DefaultMaxConns = 512
	// DefaultMaxHTTP2Conns bounds the HTTP/2 connections to one backend. One is used
	// until the peer's limit of streams is reached (Go's HTTP server: 250), then
	// the next is opened: 8 carry 2,000 calls at the least favourable common limit.
	DefaultMaxHTTP2Conns = 8
	// DefaultDialTimeout bounds the making of a connection: TCP, TLS, and the
	// peer's HTTP/2 settings. A backend on the same machine or network answers in
	// milliseconds; one retransmitted SYN takes 1 s, two take 3 s.
	DefaultDialTimeout = 5 * time.Second
	// DefaultIdleTimeout is how long an unused connection is kept. Below the 2 to
	// 5 minutes after which common servers and firewalls drop one silently.
	DefaultIdleTimeout = 90 * time.Second
	// DefaultPingAfter is the silence on an HTTP/2 connection after which it is
	// pinged. gRPC servers count pings that come more often than every 5 minutes
	// as abuse and close the connection, calls in flight included. A dead
	// connection is found earlier: see DefaultQuietAfter, and net/http also pings
	// when it cancels a stream.
	DefaultPingAfter = 5*time.Minute + 10*time.Second
	// DefaultPingTimeout is how long the answer to a ping may take (net/http's own
	// default).
	DefaultPingTimeout = 15 * time.Second
	// DefaultQuietAfter is how long nothing may come back on a connection of unary
	// gRPC calls after a call was made before the peer is pinged. Most calls are
	// answered sooner, and servers tolerate one ping for each answer and two more.
	DefaultQuietAfter = time.Second
	// DefaultSuspectAfter is how long that ping may have no answer before new calls
	// go to another connection. Servers answer pings at once, whatever their methods
	// do; 1 s is two round trips of a satellite.
	DefaultSuspectAfter = time.Second
	// DefaultWriteTimeout closes an HTTP/2 connection on which not one byte could
	// be written for so long: the peer is stopped or gone.
	DefaultWriteTimeout = 20 * time.Second
	// DefaultProbeTimeout bounds one search for the protocol, whatever the number
	// of attempts.
	DefaultProbeTimeout = 10 * time.Second
	// DefaultAttemptTimeout bounds one attempt of a search: a server that holds
	// back its answer must not use up the time of the other protocols.
	DefaultAttemptTimeout = 2 * time.Second
	// DefaultMaxMethods bounds how many methods Client.Call remembers. A catalog
	// is far smaller; beyond it a method is built anew for each call.
	DefaultMaxMethods = 10_000
)

// Options tune a Client. The zero value is ready to use; a value that is not
// positive means the default of the same name.
type Options struct {
	// TLS is for targets with TLS; anything set with another target is an error.
	TLS TLSOptions

	// Credentials are sent with every request.
	Credentials CredentialOptions

	// MaxRequestBytes bounds an encoded request, MaxResponseBytes an encoded
	// answer, counted after decompression.
	MaxRequestBytes  int
	MaxResponseBytes int
	MaxHeaderBytes   int
	MaxMetadataBytes int
	MaxConns         int
	MaxHTTP2Conns    int
	MaxMethods       int

	DialTimeout    time.Duration
	IdleTimeout    time.Duration
	PingAfter      time.Duration
	PingTimeout    time.Duration
	QuietAfter     time.Duration
	SuspectAfter   time.Duration
	WriteTimeout   time.Duration
	ProbeTimeout   time.Duration
	AttemptTimeout time.Duration

	// Gzip asks the backend to compress its answers. Off by default: beside the
	// backend, bandwidth is cheaper than CPU. Compressed answers are read anyway.
	Gzip bool

	// Dial, where set, makes the connections in place of the network, such as to a
	// service in the same process.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// UserAgent replaces the User-Agent of the RPC library.
	UserAgent string
}

func (o Options) withDefaults() Options {
	o.MaxRequestBytes = orDefault(o.MaxRequestBytes, DefaultMaxRequestBytes)
	o.MaxResponseBytes = orDefault(o.MaxResponseBytes, DefaultMaxResponseBytes)
	o.MaxHeaderBytes = orDefault(o.MaxHeaderBytes, DefaultMaxHeaderBytes)
	o.MaxMetadataBytes = orDefault(o.MaxMetadataBytes, DefaultMaxMetadataBytes)
	o.MaxConns = orDefault(o.MaxConns, DefaultMaxConns)
	o.MaxHTTP2Conns = orDefault(o.MaxHTTP2Conns, DefaultMaxHTTP2Conns)
	o.MaxMethods = orDefault(o.MaxMethods, DefaultMaxMethods)
	o.DialTimeout = orDefault(o.DialTimeout, DefaultDialTimeout)
	o.IdleTimeout = orDefault(o.IdleTimeout, DefaultIdleTimeout)
	o.PingAfter = orDefault(o.PingAfter, DefaultPingAfter)
	o.PingTimeout = orDefault(o.PingTimeout, DefaultPingTimeout)
	o.QuietAfter = orDefault(o.QuietAfter, DefaultQuietAfter)
	o.SuspectAfter = orDefault(o.SuspectAfter, DefaultSuspectAfter)
	o.WriteTimeout = orDefault(o.WriteTimeout, DefaultWriteTimeout)
	o.ProbeTimeout = orDefault(o.ProbeTimeout, DefaultProbeTimeout)
	o.AttemptTimeout = orDefault(o.AttemptTimeout, DefaultAttemptTimeout)
	return o
}

func orDefault[T int | time.Duration](value, def T) T {
	if value > 0 {
		return value
	}
	return def
}
