// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/outrigger-mcp/outrigger/internal/grpcwire"
)

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
// The pool counts its calls itself. The reservations of http.ClientConn are lost
// where a context ends at the wrong moment, and a lost one is never returned.
type h2Pool struct {
	dial establisher
	most int

	mu      sync.Mutex
	conns   []*h2Conn
	dialing *dialing
	closed  bool
	dials   sync.WaitGroup
	base    context.Context // ends with close; what dials run under
	stop    context.CancelFunc

	queue turnQueue
}

// establisher makes HTTP/2 connections whose peer has said its settings. It wakes
// those who wait when a connection has room for more calls, or closes.
type establisher interface {
	establish(ctx context.Context, waiting *turnQueue) (*h2Conn, error)
}

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
	wire    *grpcwire.Conn
	state   h2State
	conn    *conn
	active  int  // calls that hold a stream
	limit   int  // the peer's limit of streams when the connection was made
	dropped bool // out of the pool; closed when its last call ends
}

// isSuspect reports whether the peer owes a byte on the connection.
func (c *h2Conn) isSuspect() bool { return c.wire != nil && c.wire.Suspect() }

// dialing is a dial under way.
type dialing struct {
	done chan struct{}
	err  error // valid once done is closed
}

func newH2Pool(dial establisher, most int) *h2Pool {
	p := &h2Pool{dial: dial, most: most}
	p.base, p.stop = context.WithCancel(context.Background())
	return p
}

// acquire returns a connection with room for one more stream; release must
// follow. It fails with the context's error, or with that of a dial where there
// is no connection that could be used and the peer refuses, or there is none at
// all.
func (p *h2Pool) acquire(ctx context.Context) (*h2Conn, error) {
	if c, _, err := p.take(false); c != nil || err != nil {
		return c, err
	}
	turn, woken := newTurn(), false
	defer p.queue.leave(turn)
	for mayDial := true; ; {
		// Before the look, so that nothing is missed after it. A call that comes later may
		// have taken what this one was woken for: it keeps its place then.
		p.queue.join(turn, woken)
		c, d, err := p.take(mayDial)
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
				mayDial = true // all of the peer stands still: what comes first, a new connection or an old one
			case trusted == 0:
				return nil, d.err
			default:
				mayDial = false // other connections work; wait for those
			}
		}
	}
}

// take finds a connection with room. Where there is none, it returns the dial
// under way, and begins one where it may and there is room for a connection.
func (p *h2Pool) take(mayDial bool) (*h2Conn, *dialing, error) {
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
	if c.dropped && c.active == 0 {
		_ = c.state.Close()
	}
	return c.dropped
}

// release gives back what acquire gave.
func (p *h2Pool) release(c *h2Conn) {
	p.mu.Lock()
	c.active--
	last := c.dropped && c.active == 0
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
	c, err := p.dial.establish(p.base, &p.queue)
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
		p.conns = append(p.conns, c)
	}
	d.err = err
	close(d.done)
	p.mu.Unlock()
	p.queue.wakeAll()
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
	p.mu.Unlock()
	p.stop()
	p.dials.Wait()
	p.queue.wakeAll()
}

// turnQueue holds those who wait for a free stream, in order. Its lock is never
// held together with another: connections wake from within calls made under the
// pool's.
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

// netDial is the signature of http.Transport.DialContext.
type netDial func(ctx context.Context, network, addr string) (net.Conn, error)
