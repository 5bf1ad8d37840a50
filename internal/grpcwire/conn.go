// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"bytes"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
)

// What a Conn allows its peer.
const (
	// streamWindow is how much of one answer may be on its way. As much as the Go
	// HTTP/2 client allows: a network with 100 ms of latency still carries 40 MB/s.
	streamWindow = 4 << 20
	// connWindow is the same for all answers together. Each answer is bounded by
	// itself, so that this only has to be out of the way.
	connWindow = 1 << 30
	// connRefill is how much is taken before the connection's window is opened
	// again; far below the window, far above what a small answer has.
	connRefill = 1 << 20
	// highWater is where bytes of messages stop being copied to what is about to
	// be written; they follow when that has left.
	highWater = 64 << 10
	// maxOwed bounds the answers to pings and settings that wait to be written. A
	// peer that sends so many and reads none is up to no good.
	maxOwed = 1 << 20
)

// Options configure a Conn. All are required.
type Options struct {
	// MaxHeaderBytes bounds the header fields of a response, and its trailers, each
	// counted as in RFC 9113, section 6.5.2.
	MaxHeaderBytes int
	// PingAfter is how long a peer with outstanding responses may be silent before the
	// client pings it. PingTimeout is the timeout of that ping.
	PingAfter, PingTimeout time.Duration
	// QuietAfter is how long the peer may be silent after a call before the client pings
	// it, as often as servers allow. SuspectAfter is how long that ping may be unanswered
	// before the connection becomes suspect.
	QuietAfter, SuspectAfter time.Duration
	// WriteTimeout bounds one write, of about 64 KiB.
	WriteTimeout time.Duration
	// IdleTimeout closes a connection that has no calls.
	IdleTimeout time.Duration
	// Changed is called when another call may fit although none ended, when the
	// connection becomes suspect or is no longer, and when it has failed. It must not
	// call the Conn.
	Changed func()
}

// Conn is one connection. Make one with [New].
type Conn struct {
	nc     net.Conn
	opts   Options
	ready  chan struct{} // closed once the peer's settings are known, or the connection failed
	told   sync.Once     // of ready
	closed chan struct{} // closed when the connection failed
	wake   chan struct{} // of the writer
	watch  *time.Timer
	free   atomic.Int64 // calls that may be added; none once the connection takes no more
	doubt  atomic.Bool  // the connection is under suspicion
	parked atomic.Bool  // the reader waits for the peer, or for its turn to read

	mu       sync.Mutex
	err      error // why no further call is taken; set once
	failed   bool  // calls in flight have ended too
	streams  map[uint32]*stream
	nextID   uint32
	peer     peerSettings
	waiting  streamList // streams with something to send, in turn
	encoder  *hpack.Encoder
	block    bytes.Buffer // what encoder writes to
	window   int64        // what may be sent
	consumed int64        // what was taken in and not told the peer
	lastRead time.Time
	lastUsed time.Time
	pulse    pulse

	// Bytes are counted from the beginning of the connection: handed were given to
	// the socket, sent were taken by it.
	out          []byte
	spare        []byte
	handed, sent int64
	writing      bool // the writer is at work, or has been woken
	writeBegan   time.Time
	stuck        time.Duration // how long one write has taken, in looks
	owed         int           // bytes of out that answer the peer
}

// peerSettings are the peer's.
type peerSettings struct {
	known      bool
	streams    int64
	window     int64
	frameSize  int64
	headerList int64
}

// New starts HTTP/2 on a connection. It does not wait for the peer.
func New(nc net.Conn, o Options) *Conn {
	now := time.Now()
	c := &Conn{
		nc: nc, opts: o,
		ready: make(chan struct{}), closed: make(chan struct{}), wake: make(chan struct{}, 1),
		streams: map[uint32]*stream{}, nextID: 1,
		peer:     peerSettings{streams: math.MaxInt32, window: defaultWindow, frameSize: defaultFrameSize, headerList: math.MaxInt64},
		window:   defaultWindow,
		lastRead: now, lastUsed: now,
		pulse: pulse{left: maxPings},
	}
	c.encoder = hpack.NewEncoder(&c.block)
	c.out = append(c.out, preface...)
	const settings = 3
	c.out = appendFrameHeader(c.out, settings*6, frameSettings, 0, 0)
	c.out = appendSetting(c.out, settingPush, 0)
	c.out = appendSetting(c.out, settingWindow, streamWindow)
	c.out = appendSetting(c.out, settingHeaderListMax, uint32(min(o.MaxHeaderBytes, math.MaxUint32)))
	c.out = appendWindowUpdate(c.out, 0, connWindow-defaultWindow)
	c.mu.Lock()
	c.recount()
	c.startWriting()
	c.watch = time.AfterFunc(c.watchInterval(), c.check) // which may look before this returns
	c.mu.Unlock()
	go c.writeLoop()
	go c.readLoop()
	return c
}

// Ready returns a channel that is closed once the peer has sent its settings, or the
// connection has failed.
func (c *Conn) Ready() <-chan struct{} { return c.ready }

// Err returns the reason why the connection accepts no more calls, or nil while it does.
// Calls in flight may still succeed.
func (c *Conn) Err() error {
	if c.free.Load() >= 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Available returns the number of calls that can be added.
func (c *Conn) Available() int { return int(max(c.free.Load(), 0)) }

// InFlight returns the number of calls on the connection.
func (c *Conn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

// Close closes the connection and ends the calls on it. It may be called twice.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(ErrClosed)
	return nil
}

// recount sets how many calls may be added; below zero for a connection that
// takes no more at all. The lock is held, as in all methods that do not say
// otherwise.
func (c *Conn) recount() {
	if c.err != nil {
		c.free.Store(-1)
		return
	}
	c.free.Store(max(c.peer.streams-int64(len(c.streams)), 0))
}

// retire keeps further calls away.
func (c *Conn) retire(err error) {
	if c.err == nil {
		c.err = err
	}
	c.recount()
}

// fail ends everything. Only the first error counts.
func (c *Conn) fail(err error) {
	if c.failed {
		return
	}
	c.failed = true
	c.retire(err)
	for _, s := range c.streams {
		c.end(s, err)
	}
	c.waiting = streamList{}
	c.told.Do(func() { close(c.ready) })
	close(c.closed)
	if c.watch != nil {
		c.watch.Stop()
	}
	_ = c.nc.Close()
	if c.opts.Changed != nil {
		c.opts.Changed()
	}
}
