// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/source"
)

// Client calls one backend. It is safe for concurrent use. Close it.
type Client struct {
	target Target
	opts   Options
	tls    *tls.Config
	files  *keys.Client // what tls is made of; nil without TLS
	conns  connSet
	h1, h2 *pool
	wires  *h2Pool // of unary gRPC calls
	scheme string  // of URLs
	// credentials are sent with every request; nil holds none.
	credentials *credentials

	link        atomic.Pointer[link] // nil while the protocol is not known
	many        *balancer            // of a target with many addresses, whose clients make the calls; else nil
	described   atomic.Pointer[func() []string]
	asked       atomic.Bool // the latest TLS handshake requested a client certificate
	sendBuffers sync.Pool   // of open streams
	methods     sync.Map    // procedure -> *method, at most opts.MaxMethods
	kept        atomic.Int64

	mu     sync.Mutex
	search *search // the probe under way, if any
	closed bool
	base   context.Context // ends with Close; what probes run under
	stop   context.CancelFunc
	probes sync.WaitGroup
}

// link is the protocol and the connections to use, once they are known. It is immutable.
type link struct {
	// many makes the calls of a target with many addresses, each over a link of its address; nothing else is set then.
	many     *balancer
	protocol Protocol
	pool     *pool
	probed   bool // found out, not said by the target
	late     bool // the backend did not answer in time to what would be better
	// again is when to look for what would be better, and pause what it was put off by.
	again time.Time
	pause time.Duration
}

// putOff says when to look again for something better than a late link: at once after the first one, and then after pauses that double,
// because a server may ignore HTTP/2 for good, and each stream would wait for that.
func (l *link) putOff(before *link, now time.Time) {
	const first, most = time.Second, 10 * time.Minute
	if l.late && before != nil && before.late {
		l.pause = min(max(first, 2*before.pause), most)
	}
	l.again = now.Add(l.pause)
}

// New makes a client. It opens no connections. It returns an error for an invalid target
// or TLS options (ErrTLSUnused, unreadable files), or invalid credentials
// (ErrPlaintextCredentials, unreadable files).
func New(target Target, o Options) (*Client, error) {
	if target.IsZero() {
		return nil, errors.New("backend: the target is empty; ParseTarget makes one")
	}
	c := &Client{target: target, opts: o.withDefaults()}
	if !target.spread && !isDefault(o.Config.GetBalance()) {
		return nil, fmt.Errorf("backend %s: %w", target, errBalanceUnused)
	}
	if c.opts.Dial == nil {
		c.opts.Dial = new(net.Dialer).DialContext
	}
	switch tls := o.Config.GetTls(); {
	case target.tls:
		host, _, _ := net.SplitHostPort(target.host) // ParseTarget joined them
		files, err := keys.NewClient(keys.ClientOptions{
			CAFile: tls.GetCaFile(), CertFile: tls.GetCertFile(), KeyFile: tls.GetKeyFile(),
			ServerName: cmp.Or(tls.GetServerName(), host), ServerURIs: tls.GetServerUris(),
		})
		if err != nil {
			return nil, fmt.Errorf("backend %s: %w", target, err)
		}
		c.files, c.tls = files, files.Config()
		c.watchRequests()
	case proto.Size(tls) > 0:
		return nil, fmt.Errorf("backend %s: %w", target, ErrTLSUnused)
	}
	var err error
	if c.credentials, err = newCredentials(o.Config, target); err != nil {
		return nil, fmt.Errorf("backend %s: %w", target, err)
	}
	if target.spread {
		c.many = newBalancer(c)
		c.opts.Dial = c.many.dialAny
	}
	c.ready()
	return c, nil
}

// ready makes what the client has beside its settings.
func (c *Client) ready() {
	c.conns.lost = make(chan struct{}, 1)
	c.h1, c.h2, c.wires = newPools(c.target, c.opts, c.tls, &c.conns)
	c.scheme, _, _ = strings.Cut(c.target.BaseURL(), ":")
	c.sendBuffers.New = func() any { return new([sendBuffer]byte) }
	c.base, c.stop = context.WithCancel(context.Background())
	c.link.Store(c.declared())
}

// at returns the client of one address of a target with many, with so many connections over HTTP/1.1 at most. Names that are sent or verified stay those of the target.
func (c *Client) at(dial func(ctx context.Context, network, address string) (net.Conn, error), maxConns int) *Client {
	one := &Client{target: c.target, opts: c.opts, tls: c.tls, files: c.files, credentials: c.credentials}
	one.opts.Dial, one.opts.MaxConns = dial, min(one.opts.MaxConns, maxConns)
	one.Describe(func() []string {
		if described := c.described.Load(); described != nil {
			return (*described)()
		}
		return nil
	})
	one.ready()
	return one
}

// declared is the link that the target itself determines, nil where something
// has to be found out: the protocol, or which versions of HTTP the peer offers.
func (c *Client) declared() *link {
	switch {
	case c.many != nil:
		return &link{many: c.many}
	case c.target.protocol == ProtocolGRPC:
		return &link{protocol: ProtocolGRPC, pool: c.h2}
	}
	return nil
}

// LacksHTTP2 reports whether the backend is known to offer HTTP/1.1 only. It then cannot
// run bidirectional streams, reflection among them.
func (c *Client) LacksHTTP2() bool {
	l := c.link.Load()
	if c.many != nil {
		return c.many.any((*Client).LacksHTTP2)
	}
	return l != nil && !l.pool.http2()
}

// Rediscover forgets that the backend offers HTTP/1.1 only, after it may have been
// replaced: the next call or probe looks again. Another change shows in the first call.
func (c *Client) Rediscover() {
	if c.many != nil {
		c.many.any(func(one *Client) bool { one.Rediscover(); return false })
		return
	}
	if l := c.link.Load(); l != nil && !l.pool.http2() {
		c.link.CompareAndSwap(l, nil)
	}
}

// Describe names procedures that the backend should have, for probes: a backend without
// health check and reflection shows its protocol there only. Probes ask which content
// types they accept, and run none of them. procedures is called when a probe begins.
func (c *Client) Describe(procedures func() []string) { c.described.Store(&procedures) }

// hints are the procedures that a probe may ask, besides those that it was begun with.
func (c *Client) hints() []string {
	var out []string
	if described := c.described.Load(); described != nil {
		out = (*described)()
	}
	return append(slices.DeleteFunc(out, func(p string) bool { return !validProcedure(p) }), reflectionProcedures()...)
}

// Target returns the target of the client.
func (c *Client) Target() Target { return c.target }

// Lost returns a channel that receives a value after a connection to the backend is
// lost: the backend closed it, as at a restart, or it broke. Connections closed because
// they were idle do not count. One value may stand for several losses. The channel has
// one reader. Of a target with many addresses it tells that none can be reached any more,
// and that servers have come, which may be of another version.
func (c *Client) Lost() <-chan struct{} { return c.conns.lost }

// Protocol returns the protocol in use, or ProtocolUnknown until it is detected.
func (c *Client) Protocol() Protocol {
	if l := c.link.Load(); l != nil && l.many == nil {
		return l.protocol
	}
	found := c.target.protocol
	if c.many != nil && found == ProtocolUnknown {
		c.many.any(func(one *Client) bool { found = one.Protocol(); return found != ProtocolUnknown })
	}
	return found
}

// Streams returns the endpoint for streaming RPCs, for a generic client. The size limit applies to each message. gRPC and Connect use HTTP/2, because
// bidirectional streams require it. gRPC-Web has no bidirectional streams and uses the
// same transport as unary calls. Streams probes for the protocol if it is not known yet, and
// probes again if the backend was too slow to show the best one.
// The error is an *Error.
func (c *Client) Streams(ctx context.Context) (source.Endpoint, error) {
	l, err := c.findBest(ctx)
	switch {
	case err != nil:
		return source.Endpoint{}, err
	case l.many != nil:
		return l.many.streams(ctx)
	}
	p := c.h2
	if l.protocol == ProtocolGRPCWeb {
		p = l.pool
	}
	return source.Endpoint{
		HTTPClient: &doer{pool: p, gzip: c.opts.Gzip, userAgent: c.opts.UserAgent, credentials: c.credentials},
		BaseURL:    c.target.BaseURL(),
		Options:    c.clientOptions(l.protocol),
	}, nil
}

func (c *Client) clientOptions(p Protocol) []connect.ClientOption {
	opts := []connect.ClientOption{
		withGzip(c.opts.maxReceive),
		connect.WithReadMaxBytes(c.opts.maxReceive),
		connect.WithSendMaxBytes(c.opts.maxSend),
	}
	switch p {
	case ProtocolGRPC:
		return append(opts, connect.WithGRPC())
	case ProtocolGRPCWeb:
		return append(opts, connect.WithGRPCWeb())
	default:
		return opts
	}
}

// Close stops probes and closes every connection. A call in flight fails with
// KindTransport, a later one with KindUnreachable. Close may be called twice.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	if c.many != nil {
		c.many.close()
	}
	c.probes.Wait()
	c.h2.h2.close()
	c.wires.close()
	c.conns.closeAll()
	c.h1.h1.CloseIdleConnections()
	return nil
}

// Defaults of Options, and what is not an option, with reasons.
const (
	// defaultMaxHeaderBytes bounds the headers and trailers of a response. It leaves room
	// for rich error details, which travel there, and is far below net/http's 10 MiB.
	defaultMaxHeaderBytes = 1 << 20
	// defaultMaxMetadataBytes bounds the metadata of a request. gRPC peers are
	// advised to accept 8 KiB; common proxies stop near 60 KiB.
	defaultMaxMetadataBytes = 32 << 10
	// defaultMaxConns bounds the HTTP/1.1 connections to one backend. Each carries one
	// call at a time, and excess calls wait.
	defaultMaxConns = 512
	// defaultMaxHTTP2Conns bounds the HTTP/2 connections to one backend. The client opens
	// another one when all reach the peer's stream limit (250 in Go's HTTP server). With
	// that limit, the lowest common one, 8 connections carry 2,000 calls.
	defaultMaxHTTP2Conns = 8
	// defaultIdleTimeout is how long an unused connection is kept. It is below the 2 to 5
	// minutes after which common servers and firewalls silently drop one.
	defaultIdleTimeout = 90 * time.Second
	// pingAfter is the silence on an HTTP/2 connection after which the client
	// pings. gRPC servers treat pings more often than every 5 minutes as abuse and close
	// the connection, including calls in flight. Dead connections are detected earlier:
	// see defaultQuietAfter, and net/http also pings when it cancels a stream.
	pingAfter = 5*time.Minute + 10*time.Second
	// defaultPingTimeout is the timeout of a ping (net/http's own default).
	defaultPingTimeout = 15 * time.Second
	// defaultQuietAfter is the silence after a call on a connection of unary gRPC calls
	// before the client pings the peer. Most calls are answered sooner, and servers
	// tolerate one ping for each response and two more.
	defaultQuietAfter = time.Second
	// suspectAfter is how long that ping may be unanswered before new calls use
	// another connection. Servers answer pings at once, whatever their methods do. 1 s is
	// two round trips of a satellite.
	suspectAfter = time.Second
	// writeTimeout is how long a write may make no progress on an HTTP/2
	// connection before the client closes it: the peer is stopped or gone.
	writeTimeout = 20 * time.Second
	// defaultAttemptTimeout bounds one attempt of a probe, so that a server that delays
	// its response does not use up the time for the other protocols.
	defaultAttemptTimeout = 2 * time.Second
	// defaultMaxMethods bounds the number of methods that Client.Call caches. A catalog
	// is far smaller. Beyond the limit, each call builds its method.
	defaultMaxMethods = 10_000
)

// Options configure a Client. The zero value is ready to use. A value that is not
// positive means the default of the same name.
type Options struct {
	// Config has the TLS files, which [Client.ReloadTLS] reads again, and the credentials. Those of TLS for a target without it are
	// an error. Its values that are not positive mean the defaults.
	Config *configv1.Backend

	MaxHeaderBytes   int
	MaxMetadataBytes int
	MaxConns         int
	MaxHTTP2Conns    int
	MaxMethods       int

	IdleTimeout    time.Duration
	PingTimeout    time.Duration
	QuietAfter     time.Duration
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

	// Resolver finds the addresses of a target with many (dns:///HOST:PORT); nil means the system's.
	Resolver Resolver
	// Log gets what happens to these addresses. It may be nil.
	Log *zap.Logger
	// Clock detects stalls of this process, during which timeouts say nothing of an address. Nil detects none.
	Clock *peer.Clock

	// maxSend bounds an encoded request, maxReceive an encoded response after decompression.
	maxSend, maxReceive       int
	dialTimeout, probeTimeout time.Duration
}

// String returns a mask, so that formatted output never contains values of headers.
func (o Options) String() string { return masked }

// GoString returns a mask for %#v.
func (o Options) GoString() string { return masked }

func (o Options) withDefaults() Options {
	o.maxSend, o.maxReceive = int(o.Config.GetMaxSendBytes()), int(o.Config.GetMaxReceiveBytes())
	o.dialTimeout, o.probeTimeout = o.Config.GetConnectTimeout().AsDuration(), o.Config.GetProbeTimeout().AsDuration()
	defaults.Fill(&o.maxSend, defaults.BackendMaxSendBytes)
	defaults.Fill(&o.maxReceive, defaults.BackendMaxReceiveBytes)
	defaults.Fill(&o.MaxHeaderBytes, defaultMaxHeaderBytes)
	defaults.Fill(&o.MaxMetadataBytes, defaultMaxMetadataBytes)
	defaults.Fill(&o.MaxConns, defaultMaxConns)
	defaults.Fill(&o.MaxHTTP2Conns, defaultMaxHTTP2Conns)
	defaults.Fill(&o.MaxMethods, defaultMaxMethods)
	defaults.Fill(&o.dialTimeout, defaults.BackendConnectTimeout)
	defaults.Fill(&o.IdleTimeout, defaultIdleTimeout)
	defaults.Fill(&o.PingTimeout, defaultPingTimeout)
	defaults.Fill(&o.QuietAfter, defaultQuietAfter)
	defaults.Fill(&o.probeTimeout, defaults.BackendProbeTimeout)
	defaults.Fill(&o.AttemptTimeout, defaultAttemptTimeout)
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	return o
}
