// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"net"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// Defaults of Options, with reasons.
const (
	// DefaultMaxHeaderBytes bounds the headers and trailers of a response. It leaves room
	// for rich error details, which travel there, and is far below net/http's 10 MiB.
	DefaultMaxHeaderBytes = 1 << 20
	// DefaultMaxMetadataBytes bounds the metadata of a request. gRPC peers are
	// advised to accept 8 KiB; common proxies stop near 60 KiB.
	DefaultMaxMetadataBytes = 32 << 10
	// DefaultMaxConns bounds the HTTP/1.1 connections to one backend. Each carries one
	// call at a time, and excess calls wait.
	DefaultMaxConns = 512
	// DefaultMaxHTTP2Conns bounds the HTTP/2 connections to one backend. The client opens
	// another one when all reach the peer's stream limit (250 in Go's HTTP server). With
	// that limit, the lowest common one, 8 connections carry 2,000 calls.
	DefaultMaxHTTP2Conns = 8
	// DefaultIdleTimeout is how long an unused connection is kept. It is below the 2 to 5
	// minutes after which common servers and firewalls silently drop one.
	DefaultIdleTimeout = 90 * time.Second
	// DefaultPingAfter is the silence on an HTTP/2 connection after which the client
	// pings. gRPC servers treat pings more often than every 5 minutes as abuse and close
	// the connection, including calls in flight. Dead connections are detected earlier:
	// see DefaultQuietAfter, and net/http also pings when it cancels a stream.
	DefaultPingAfter = 5*time.Minute + 10*time.Second
	// DefaultPingTimeout is the timeout of a ping (net/http's own default).
	DefaultPingTimeout = 15 * time.Second
	// DefaultQuietAfter is the silence after a call on a connection of unary gRPC calls
	// before the client pings the peer. Most calls are answered sooner, and servers
	// tolerate one ping for each response and two more.
	DefaultQuietAfter = time.Second
	// DefaultSuspectAfter is how long that ping may be unanswered before new calls use
	// another connection. Servers answer pings at once, whatever their methods do. 1 s is
	// two round trips of a satellite.
	DefaultSuspectAfter = time.Second
	// DefaultWriteTimeout is how long a write may make no progress on an HTTP/2
	// connection before the client closes it: the peer is stopped or gone.
	DefaultWriteTimeout = 20 * time.Second
	// DefaultAttemptTimeout bounds one attempt of a probe, so that a server that delays
	// its response does not use up the time for the other protocols.
	DefaultAttemptTimeout = 2 * time.Second
	// DefaultMaxMethods bounds the number of methods that Client.Call caches. A catalog
	// is far smaller. Beyond the limit, each call builds its method.
	DefaultMaxMethods = 10_000
)

// Options configure a Client. The zero value is ready to use. A value that is not
// positive means the default of the same name.
type Options struct {
	// TLS applies to targets with TLS. Options for any other target are an error.
	TLS TLSOptions

	// Credentials are sent with every request.
	Credentials CredentialOptions

	// MaxRequestBytes bounds an encoded request, MaxResponseBytes an encoded response
	// after decompression.
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

	// Gzip asks the backend to compress its responses. It is off by default, because next
	// to the backend bandwidth is cheaper than CPU. The client always accepts compressed
	// responses.
	Gzip bool

	// Dial, if set, makes the connections instead of the network dialer, for example to a
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
