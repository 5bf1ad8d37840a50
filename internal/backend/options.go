// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"net"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Defaults of Options, each with its reason.
const (
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
	defaults.Fill(&o.MaxRequestBytes, defaults.MaxSendBytes)
	defaults.Fill(&o.MaxResponseBytes, defaults.MaxReceiveBytes)
	defaults.Fill(&o.MaxHeaderBytes, DefaultMaxHeaderBytes)
	defaults.Fill(&o.MaxMetadataBytes, DefaultMaxMetadataBytes)
	defaults.Fill(&o.MaxConns, DefaultMaxConns)
	defaults.Fill(&o.MaxHTTP2Conns, DefaultMaxHTTP2Conns)
	defaults.Fill(&o.MaxMethods, DefaultMaxMethods)
	defaults.Fill(&o.DialTimeout, defaults.ConnectTimeout)
	defaults.Fill(&o.IdleTimeout, DefaultIdleTimeout)
	defaults.Fill(&o.PingAfter, DefaultPingAfter)
	defaults.Fill(&o.PingTimeout, DefaultPingTimeout)
	defaults.Fill(&o.QuietAfter, DefaultQuietAfter)
	defaults.Fill(&o.SuspectAfter, DefaultSuspectAfter)
	defaults.Fill(&o.WriteTimeout, DefaultWriteTimeout)
	defaults.Fill(&o.ProbeTimeout, defaults.ProbeTimeout)
	defaults.Fill(&o.AttemptTimeout, DefaultAttemptTimeout)
	return o
}
