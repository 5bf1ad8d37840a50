// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What a connection allows its peer, and itself.
const (
	// streamWindow and connWindow are how much of bodies may wait for handlers, of one
	// request and of all together, as in net/http.
	streamWindow = 1 << 20
	connWindow   = 1 << 20
	// highWater is where bodies of answers stop being copied to what is about to be
	// written; they follow when that has left.
	highWater = 64 << 10
	// maxFrame is the largest frame that is written: a larger one would delay other calls.
	maxFrame = 16 << 10
	// maxOwed bounds the answers to pings, settings and wrong frames that wait to be
	// written. A peer that asks for so many and reads none is up to no good.
	maxOwed = 128 << 10
	// queuedPerStream is how many requests may wait for a handler, for each that may run.
	// They come from clients that reset streams faster than handlers return.
	queuedPerStream = 4
	// lingerTime is how long a client may take to end a body after the response that did not wait
	// for it, as on HTTP/1 (internal/httpbody).
	lingerTime = 400 * time.Millisecond
	// goodbyeTime is how long a client has to read GOAWAY before its connection closes.
	goodbyeTime = time.Second
	// initialWindow holds until the peer says otherwise (RFC 9113, section 6.9.2).
	initialWindow = 65535
	maxWindow     = 1<<31 - 1
	maxStreamID   = 1<<31 - 1
)

// Options configure a Conn. All but State, TLS and Base are required.
type Options struct {
	// Handler serves the requests.
	Handler http.Handler
	// Server provides the timeouts, the header limit and the log, with the meaning of
	// net/http.
	Server *http.Server
	// MaxStreams is the maximum number of requests in flight.
	MaxStreams int
	// Base is the base context of all requests. Nil means the background context.
	Base context.Context //nolint:containedctx // as in http.Server.BaseContext
	// TLS is the TLS state of requests. It is nil for a plaintext connection.
	TLS *tls.ConnectionState
	// State is called when the connection becomes idle or active.
	State func(http.ConnState)
	// Refused is called for each request that the handler does not see, because its headers are too large or malformed.
	// It may be nil.
	Refused func(tooLarge bool)
}

// Conn is one connection. Make one with [New].
type Conn struct {
	nc     net.Conn
	opts   Options
	base   context.Context //nolint:containedctx // its end is the connection's
	cancel context.CancelFunc
	remote string
	in     *input
	framer *http2.Framer
	// canonical has the names of headers that came, as net/http writes them.
	canonical map[string]string
	pending   []*stream // whose handlers start when nothing more is there to read
	lastPath  string
	lastURL   url.URL

	closed chan struct{} // closed when the connection has failed
	wake   chan struct{} // of the writer
	work   chan *stream  // of idle workers

	// leftAt is when the first GOAWAY was written, ackedAt when the client confirmed it,
	// in nanoseconds of Unix time.
	leftAt, ackedAt atomic.Int64

	mu       sync.Mutex
	failed   bool
	ending   bool // the last GOAWAY is written: no stream is opened
	streams  map[uint32]*stream
	lastID   uint32
	unacked  int // SETTINGS of ours
	settled  bool
	running  int // handlers
	idle     int // workers
	queue    []*stream
	blocked  map[*stream]struct{} // streams that wait for room to write
	peer     peerSettings
	window   int64 // what may be sent
	credit   int64 // what the peer may send
	consumed int64 // what was taken in and not told the peer
	encoder  *hpack.Encoder
	block    bytes.Buffer // what encoder writes to
	names    map[string]string
	date     dateCache

	out, spare []byte
	writing    bool // the writer is at work, or has been woken
	owed       int  // bytes of out that answer the peer
	active     bool // as State was told
	restedAt   time.Time
	idleTimer  *time.Timer
}

// peerSettings are the peer's.
type peerSettings struct {
	window    int64
	frameSize int
}

// New makes a connection. The client's preface must have been read from nc.
func New(nc net.Conn, o Options) *Conn {
	if o.Base == nil {
		o.Base = context.Background()
	}
	if o.State == nil {
		o.State = func(http.ConnState) {}
	}
	c := &Conn{
		nc: nc, opts: o, remote: nc.RemoteAddr().String(),
		in:        newInput(nc),
		canonical: map[string]string{}, names: map[string]string{},
		closed: make(chan struct{}), wake: make(chan struct{}, 1), work: make(chan *stream, maxIdleWorkers),
		streams: map[uint32]*stream{}, blocked: map[*stream]struct{}{},
		peer:   peerSettings{window: initialWindow, frameSize: maxFrame},
		window: initialWindow, credit: connWindow,
	}
	c.base, c.cancel = context.WithCancel(o.Base)
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer = http2.NewFramer(nil, c.in)
	c.framer.SetReuseFrames()
	c.framer.SetMaxReadFrameSize(maxFrame)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil) // the default size of the table, RFC 9113, section 6.5.2
	c.framer.MaxHeaderListSize = c.maxHeaderList()
	c.greet()
	return c
}

// maxHeaderList is the limit of header fields as HTTP/2 counts them, which is with 32
// bytes for each. As in net/http, ten of them cost nothing.
func (c *Conn) maxHeaderList() uint32 {
	limit := c.opts.Server.MaxHeaderBytes
	if limit <= 0 {
		limit = http.DefaultMaxHeaderBytes
	}
	return uint32(min(limit, 1<<30) + 10*32)
}

// Serve reads until the connection ends. Handlers may run longer than Serve, but their
// contexts are cancelled by then.
func (c *Conn) Serve() {
	c.opts.State(http.StateActive) // as net/http begins
	c.opts.State(http.StateIdle)
	c.await()
	go c.writeLoop()
	c.farewell(c.readLoop())
}

// fail ends everything. The lock is held, as in all methods that do not say otherwise.
func (c *Conn) fail() {
	if c.failed {
		return
	}
	c.failed = true
	for _, s := range c.streams {
		c.end(s, errGone)
	}
	c.cancel()
	for ; c.idle > 0; c.idle-- {
		c.work <- nil
	}
	if c.idleTimer != nil {
		c.idleTimer.Stop()
	}
	close(c.closed)
	_ = c.nc.Close()
}

// Close closes the connection and ends the requests in flight. It may be called twice.
func (c *Conn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail()
}

// settle notes whether the connection is idle: no stream is open, and nothing waits to
// be written.
func (c *Conn) settle() {
	isActive := len(c.streams) > 0 || len(c.out) > 0 || c.writing
	switch {
	case c.failed:
	case isActive == c.active:
	case isActive:
		c.active = true
		c.opts.State(http.StateActive)
	default:
		c.active = false
		c.restedAt = time.Now()
		c.opts.State(http.StateIdle)
		c.startIdleTimer()
		if c.ending {
			c.closeSoon()
		}
	}
}
