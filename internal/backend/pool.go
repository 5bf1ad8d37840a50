// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/h2"
	"github.com/outrigger-mcp/outrigger/internal/peer"
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
func newPools(t Target, o Options, tlsConfig *tls.Config, conns *connSet) (h1, h *pool, wires *h2Pool) {
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true) // TLS is below it, in the dialer

	h1 = &pool{h1: baseTransport(o, one)}
	plain := dialer(t, o, nil, conns)
	h1.h1.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := plain(ctx)
		if err != nil {
			return nil, err
		}
		return c, nil
	}
	h1.h1.TLSClientConfig = tlsConfig.Clone()
	h1.h1.TLSHandshakeTimeout = o.dialTimeout
	h1.h1.IdleConnTimeout = o.IdleTimeout
	h1.h1.MaxConnsPerHost = o.MaxConns
	h1.h1.MaxIdleConnsPerHost = o.MaxConns // fewer would close and reopen connections under load

	transport := baseTransport(o, two)
	transport.HTTP2 = &http.HTTP2Config{
		SendPingTimeout:  pingAfter,
		PingTimeout:      o.PingTimeout,
		WriteByteTimeout: writeTimeout,

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
	wires = newH2Pool(wireHTTP2(dial, h2.ClientOptions{
		MaxHeaderBytes: o.MaxHeaderBytes, PingAfter: pingAfter, PingTimeout: o.PingTimeout,
		QuietAfter: o.QuietAfter, SuspectAfter: suspectAfter,
		WriteTimeout: writeTimeout,
	}), o)
	return h1, &pool{h2: newH2Pool(netHTTP2(dial, transport), o)}, wires
}

func baseTransport(o Options, p *http.Protocols) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // a backend is never reached through the environment's proxy
		MaxResponseHeaderBytes: int64(o.MaxHeaderBytes),
		DisableCompression:     true, // the protocols compress by themselves, within limits
		Protocols:              p,
	}
}

// dialer returns a function that connects to the target. With a TLS
// configuration, the connection is one over TLS on which the peer chose HTTP/2.
func dialer(t Target, o Options, tlsConfig *tls.Config, conns *connSet) func(context.Context) (*conn, error) {
	network, addr := t.address()
	return func(ctx context.Context) (*conn, error) {
		ctx, cancel := peer.WithTimeout(ctx, o.dialTimeout)
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

// h2Pool shares a few HTTP/2 connections among any number of calls. A connection
// counts as made once the peer's SETTINGS are there: until then nothing is sent
// on it, so whatever is wrong shows before a request is at stake, and the peer's
// limit of streams is known. There is at most one dial at a time. A call that
// finds neither a free stream nor room for a connection waits.
//
// A connection that is under suspicion gets no calls as long as it is. It does not
// count among those that there may be, so that one more can be made in its place,
// and never more than one beyond.
//
// The pool counts its calls itself, and closes what is idle itself: a connection that a timer
// below the pool closes could be one that a call has just got. The reservations of http.ClientConn are lost
// where a context ends at the wrong moment, and a lost one is never returned.
type h2Pool struct {
	dial    establish
	most    int
	timeout time.Duration // for all of a dial: TCP, TLS, SETTINGS
	idle    time.Duration // after which a connection without calls is closed

	mu      sync.Mutex
	conns   []*h2Conn
	dialing *dialing
	closed  bool
	dials   sync.WaitGroup
	base    context.Context // ends with close; what dials run under
	stop    context.CancelFunc

	queue turnQueue
}

// establish makes an HTTP/2 connection whose peer has said its settings. It wakes
// those who wait when the connection has room for more calls, or closes.
type establish func(ctx context.Context, waiting *turnQueue) (*h2Conn, error)

// h2State is what the pool asks a connection.
type h2State interface {
	// Err is why it takes no more requests, nil while it does.
	Err() error
	Available() int
	InFlight() int
	Close() error
}

// h2Conn is one connection. Its numbers belong to the pool's lock. One of http
// and wire is set, and state is the same.
type h2Conn struct {
	http    *http.ClientConn
	wire    *h2.ClientConn
	state   h2State
	conn    *conn
	active  int       // calls that hold a stream
	limit   int       // the peer's limit of streams when the connection was made
	dropped bool      // out of the pool; closed when its last call ends
	since   time.Time // when it was made, or its last call ended
	expiry  *time.Timer
}

// isSuspect reports whether the peer owes a byte on the connection.
func (c *h2Conn) isSuspect() bool { return c.wire != nil && c.wire.Suspect() }

// dialing is a dial under way.
type dialing struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newH2Pool(dial establish, o Options) *h2Pool {
	p := &h2Pool{dial: dial, most: o.MaxHTTP2Conns, timeout: o.dialTimeout, idle: o.IdleTimeout}
	p.base, p.stop = context.WithCancel(context.Background())
	return p
}

// acquire returns a connection with room for one more stream; release must
// follow. It fails with the context's error, or with that of a dial where there
// is no connection that could be used and the peer refuses, or there is none at
// all.
func (p *h2Pool) acquire(ctx context.Context) (*h2Conn, error) {
	if c, _, err := p.findOrDial(false); c != nil || err != nil {
		return c, err
	}
	turn, woken := newTurn(), false
	defer p.queue.leave(turn)
	for mayDial := true; ; {
		// Before the look, so that nothing is missed after it. A call that comes later may
		// have taken what this one was woken for: it keeps its place then.
		p.queue.join(turn, woken)
		c, d, err := p.findOrDial(mayDial)
		if c != nil || err != nil {
			return c, err
		}
		var dialled <-chan struct{}
		if d != nil {
			dialled = d.done
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-turn:
			mayDial, woken = true, true
		case <-dialled:
			trusted, suspects := p.count()
			switch {
			case d.err == nil, trusted == 0 && suspects > 0 && isTimeout(d.err):
				mayDial = true // all of the peer is stopped: what comes first, a new connection or an old one
			case trusted == 0:
				return nil, d.err
			default:
				mayDial = false // other connections work; wait for those
			}
		}
	}
}

// findOrDial finds a connection with room. Where there is none, it returns the dial
// under way, and begins one where it may and there is room for a connection.
func (p *h2Pool) findOrDial(mayDial bool) (*h2Conn, *dialing, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	p.conns = slices.DeleteFunc(p.conns, (*h2Conn).drop)
	trusted := 0
	for _, c := range p.conns {
		if c.isSuspect() {
			continue
		}
		trusted++
		if c.active < c.limit && c.state.Available() > 0 {
			c.active++
			return c, nil, nil
		}
	}
	if mayDial && p.dialing == nil && trusted < p.most && len(p.conns) <= p.most {
		d := &dialing{done: make(chan struct{})}
		p.dialing = d
		p.dials.Go(func() { p.connect(d) })
	}
	return nil, p.dialing, nil
}

// drop reports whether the connection takes no more requests, and marks it: it
// is closed, or has no free stream although it is below its limit, which is how
// a GOAWAY shows. The numbers are read one after the other, so a busy connection
// may very rarely look like that; then it serves out its calls, and another one
// takes its place.
func (c *h2Conn) drop() bool {
	c.dropped = c.state.Err() != nil ||
		c.active < c.limit && c.state.Available() == 0 && c.state.InFlight() < c.limit && c.state.Available() == 0
	if c.dropped {
		c.expiry.Stop()
	}
	if c.dropped && c.active == 0 {
		_ = c.state.Close()
	}
	return c.dropped
}

// release gives back what acquire gave.
func (p *h2Pool) release(c *h2Conn) {
	p.mu.Lock()
	c.active--
	isFree := c.active == 0
	if isFree {
		c.since = time.Now()
	}
	last := c.dropped && isFree
	p.mu.Unlock()
	if last {
		_ = c.state.Close()
	}
	p.queue.wakeOne()
}

// count tells connections that calls go to from those under suspicion.
func (p *h2Pool) count() (trusted, suspects int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		if c.isSuspect() {
			suspects++
		}
	}
	return len(p.conns) - suspects, suspects
}

// isTimeout reports whether a peer did not answer, rather than refuse.
func isTimeout(err error) bool {
	late := net.Error(nil)
	return errors.As(err, &late) && late.Timeout()
}

// connect makes a connection and puts it into the pool.
func (p *h2Pool) connect(d *dialing) {
	ctx, cancel := peer.WithTimeout(p.base, p.timeout)
	defer cancel()
	c, err := p.dial(ctx, &p.queue)
	p.mu.Lock()
	p.dialing = nil
	switch {
	case p.closed:
		err = errClosed // the connection, if there is one, is closed from below
	case err == nil:
		for _, old := range p.conns {
			if old.isSuspect() {
				old.wire.Replaced()
			}
		}
		c.since, c.expiry = time.Now(), time.AfterFunc(p.idle, func() { p.expire(c) })
		p.conns = append(p.conns, c)
	}
	d.err = err
	close(d.done)
	p.mu.Unlock()
	p.queue.wakeAll()
}

// expire closes a connection that has had no call for the idle timeout, and else looks again
// when that can be.
func (p *h2Pool) expire(c *h2Conn) {
	p.mu.Lock()
	left := p.idle - time.Since(c.since)
	if c.active > 0 {
		left = p.idle
	}
	switch {
	case c.dropped || p.closed:
	case left > 0:
		c.expiry.Reset(left)
	default:
		c.dropped = true
		p.conns = slices.DeleteFunc(p.conns, func(other *h2Conn) bool { return other == c })
		c.conn.spare.Store(true)
		defer func() { _ = c.state.Close() }()
	}
	p.mu.Unlock()
}

// closeIdle closes the connections without calls.
func (p *h2Pool) closeIdle() {
	p.mu.Lock()
	var unused []*h2Conn
	p.conns = slices.DeleteFunc(p.conns, func(c *h2Conn) bool {
		if c.active > 0 {
			return false
		}
		c.dropped = true
		c.expiry.Stop()
		unused = append(unused, c)
		return true
	})
	p.mu.Unlock()
	for _, c := range unused {
		c.conn.spare.Store(true)
		_ = c.state.Close()
	}
}

// close ends dials and refuses further calls. The connections themselves are
// closed from below.
func (p *h2Pool) close() {
	p.mu.Lock()
	p.closed = true
	for _, c := range p.conns {
		c.expiry.Stop()
	}
	p.mu.Unlock()
	p.stop()
	p.dials.Wait()
	p.queue.wakeAll()
}

// turnQueue has the calls that wait for a free stream, in order. Its lock is never held together
// with another: connections wake them from within calls made under the pool's.
type turnQueue struct {
	mu    sync.Mutex
	turns []chan struct{}
}

func newTurn() chan struct{} { return make(chan struct{}, 1) }

// join puts turn at the end, or at the front, unless it is in the queue.
func (q *turnQueue) join(turn chan struct{}, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case slices.Contains(q.turns, turn):
	case first:
		q.turns = slices.Insert(q.turns, 0, turn)
	default:
		q.turns = append(q.turns, turn)
	}
}

// leave takes turn out. A waiter that was woken on its way out passes that on.
func (q *turnQueue) leave(turn chan struct{}) {
	q.mu.Lock()
	if i := slices.Index(q.turns, turn); i >= 0 {
		q.turns = slices.Delete(q.turns, i, i+1)
	}
	q.mu.Unlock()
	select {
	case <-turn:
		q.wakeOne()
	default:
	}
}

// wakeOne lets the first waiter look again.
func (q *turnQueue) wakeOne() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.turns) > 0 {
		q.wake(q.turns[0])
		q.turns = slices.Delete(q.turns, 0, 1)
	}
}

func (q *turnQueue) wakeAll() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, turn := range q.turns {
		q.wake(turn)
	}
	q.turns = nil
}

func (*turnQueue) wake(turn chan struct{}) {
	select {
	case turn <- struct{}{}:
	default: // woken already
	}
}

// madeKey is the context key of where the connection is put that a dial of net/http makes.
type madeKey struct{}

// netHTTP2 makes connections of net/http. One of those
// who wait is woken when a stream ends, the limit rises or the connection closes.
func netHTTP2(dial func(context.Context) (*conn, error), transport *http.Transport) establish {
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		if made, ok := ctx.Value(madeKey{}).(**conn); ok {
			*made = c
			c.forHTTP2.Store(true)
		}
		return &smallFrames{Conn: c}, nil
	}
	return func(ctx context.Context, waiting *turnQueue) (*h2Conn, error) {
		var c *conn
		cc, err := transport.NewClientConn(context.WithValue(ctx, madeKey{}, &c), "http", "backend:0") // the dialer knows the address
		if err != nil {
			return nil, err
		}
		if err := settled(ctx, cc, c.heard, c); err != nil {
			_ = cc.Close()
			_ = c.Close()
			return nil, err
		}
		cc.SetStateHook(func(*http.ClientConn) { waiting.wakeOne() })
		return &h2Conn{http: cc, state: cc, conn: c, limit: cc.Available()}, nil
	}
}

// wireHTTP2 makes the connections of unary gRPC calls. All who wait are woken: the connection tells
// only of changes that may concern all of them.
func wireHTTP2(dial func(context.Context) (*conn, error), o h2.ClientOptions) establish {
	return func(ctx context.Context, waiting *turnQueue) (*h2Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		c.forHTTP2.Store(true)
		o := o
		o.Changed = waiting.wakeAll
		wire := h2.NewClient(c, o)
		if err := settled(ctx, wire, wire.Ready(), c); err != nil {
			_ = wire.Close()
			return nil, err
		}
		return &h2Conn{wire: wire, state: wire, conn: c, limit: wire.Available()}, nil
	}
}

// settled waits for the peer's SETTINGS, which close heard.
func settled(ctx context.Context, cc h2State, heard <-chan struct{}, c *conn) error {
	select {
	case <-heard:
	case <-ctx.Done():
		return fmt.Errorf("no HTTP/2 settings from the server: %w", ctx.Err())
	}
	err := greetingError(c.greeted())
	if errors.Is(err, errHungUp) {
		if cause := c.readError(); cause != nil {
			return fmt.Errorf("%w: %w", err, cause)
		}
	}
	if err == nil {
		err = cc.Err()
	}
	return err
}
