// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// rounds is how many times within the write timeout a connection is looked at on
// which a write waits.
const rounds = 4

// Listener wraps l. Its connections close themselves if something waits to be written
// and makes no progress for timeout. stuck counts them and may be nil.
func Listener(l net.Listener, timeout time.Duration, stuck *atomic.Uint64) net.Listener {
	defaults.Fill(&timeout, defaults.WriteTimeout)
	return &wrapped{l, func(c net.Conn) net.Conn {
		return &conn{carrier: carrier{c}, round: max(timeout/rounds, 1), stuck: stuck, reads: readPace{conn: c}}
	}}
}

// conn is a connection whose writes fail when they make no progress. It keeps a
// separate deadline under that of the server: both hold.
type conn struct {
	carrier

	round time.Duration
	stuck *atomic.Uint64
	reads readPace

	mu sync.Mutex
	// server is the deadline that the server has set, own the end of the present
	// round, set the one that the connection has.
	server, own, set time.Time
	// ended is set once a write has been given up. No later write is tried: TLS
	// would wait as long again for its closing alert, and it would count twice.
	ended bool
}

// Write implements [net.Conn]. Each round costs a call of the runtime, so a write begins
// a new round only if the last one is more than half over. On a connection with frequent
// writes, Write usually only reads the clock.
func (c *conn) Write(p []byte) (int, error) {
	written, still, waiting := 0, 0, -1
	for {
		if !c.beginRound() {
			return written, os.ErrDeadlineExceeded
		}
		n, err := c.Conn.Write(p[written:])
		written += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
		if c.isOver() {
			c.discard()
			return written, err
		}
		// The kernel wakes a writer late, when much of its buffer is free, so what
		// has been acknowledged counts too.
		before := waiting
		waiting = unacknowledged(c.Conn)
		if n > 0 || waiting >= 0 && before >= 0 && waiting < before {
			still = 0
			continue
		}
		if still++; still < rounds {
			continue
		}
		c.giveUp()
		return written, err
	}
}

// beginRound starts a round unless one is on. It reports false once a write has been given up.
func (c *conn) beginRound() bool {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	if c.own.Sub(now) < c.round/2 {
		c.own = now.Add(c.round)
		_ = c.apply() // a connection without deadlines does not block
	}
	return true
}

// giveUp ends the connection for all writes, and counts it once.
func (c *conn) giveUp() {
	c.mu.Lock()
	first := !c.ended
	c.ended = true
	c.mu.Unlock()
	if first && c.stuck != nil {
		c.stuck.Add(1)
	}
	c.discard()
}

// isOver reports whether the server's own deadline has passed.
func (c *conn) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.server.IsZero() && !time.Now().Before(c.server)
}

// discard drops what the kernel still holds for a peer that does not read: it
// would stay there for minutes after the connection is closed.
func (c *conn) discard() {
	if tcp, ok := c.Conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // it only saves memory
	}
}

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = t
	return c.apply()
}

// Read implements [net.Conn].
func (c *conn) Read(p []byte) (int, error) {
	if err := c.reads.beginRead(); err != nil {
		return 0, err
	}
	defer c.reads.endRead()
	return c.Conn.Read(p)
}

// SetReadDeadline implements [net.Conn].
func (c *conn) SetReadDeadline(t time.Time) error { return c.reads.setDeadline(t) }

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// apply gives the connection the earlier of both deadlines; c.mu is held.
func (c *conn) apply() error {
	first := c.own
	if !c.server.IsZero() && (first.IsZero() || c.server.Before(first)) {
		first = c.server
	}
	if first.Equal(c.set) {
		return nil
	}
	c.set = first
	return c.Conn.SetWriteDeadline(first)
}

// Body returns the body of a caller's request. The Budget counts the received bytes
// until the body is complete. Reading fails with the error of refuse once the caller
// exceeds its share, or all callers together exceed the maximum. The caller of Body must
// call Release at the end of the request to return the counted bytes.
func (b *Budget) Body(from io.ReadCloser, caller string, refuse func(Verdict) error) *Body {
	return &Body{ReadCloser: from, budget: b, caller: caller, refuse: refuse}
}

// Body is a request body whose bytes are counted. Only one goroutine may use it.
type Body struct {
	io.ReadCloser

	budget *Budget
	caller string
	refuse func(Verdict) error
	// read is how many bytes have come, held how many of them count.
	read, held int64
	done       bool
}

// Read implements [io.Reader]. It does not count small bodies.
func (r *Body) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.read += int64(n)
	if err != nil {
		r.Release()
		return n, err
	}
	if r.done || r.read <= LeastCounted {
		return n, nil
	}
	if verdict := r.grow(r.read - r.held); verdict != Granted {
		r.Release()
		return 0, r.refuse(verdict)
	}
	return n, nil
}

// grow counts more bytes. One body of a caller that holds nothing else may have
// any size that a message may have.
func (r *Body) grow(bytes int64) Verdict {
	b := r.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.held == 0 {
		b.hold(r.caller, "", bytes)
	} else {
		b.bytes += bytes
		b.callers[r.caller].bytes += bytes
	}
	r.held += bytes
	c := b.callers[r.caller]
	switch {
	case c.parts == 1:
		return Granted
	case c.bytes > b.most():
		b.over++
		return Over
	case b.bytes > b.opts.MaxBytes:
		b.full++
		return ShareFull
	}
	return Granted
}

// Release returns the counted bytes to the Budget. It may be called again.
func (r *Body) Release() {
	r.done = true
	if r.held == 0 {
		return
	}
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	r.budget.drop(r.caller, "", r.held)
	r.held = 0
}

// Close implements [io.Closer].
func (r *Body) Close() error {
	r.Release()
	return r.ReadCloser.Close()
}

// readPace is the read deadline of a connection. net/http sets it eight times for each request, and most of these
// deadlines are replaced before anything is read. Each costs a timer of the runtime, so readPace keeps a deadline until
// a read begins. While a read waits, a deadline applies at once.
type readPace struct {
	conn net.Conn

	mu sync.Mutex
	// wanted was set last, and applied is what the connection has.
	wanted, applied time.Time
	// reading is the number of reads that wait.
	reading int
}

// beginRead applies the deadline for a read that begins. The error is that of a deadline that has passed.
func (r *readPace) beginRead() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.wanted.IsZero() && !r.wanted.After(longPast) {
		return os.ErrDeadlineExceeded
	}
	r.reading++
	_ = r.apply() // the read has the error of a closed connection itself
	return nil
}

// longPast is later than the deadlines with which a read is ended, and earlier than the others.
var longPast = time.Unix(1<<20, 0)

// endRead notes that a read has ended.
func (r *readPace) endRead() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reading--
}

// setDeadline sets the deadline of the reads that wait and of those to come.
func (r *readPace) setDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = t
	if r.reading == 0 {
		return nil
	}
	return r.apply()
}

// apply gives the connection the deadline, unless it has it; r.mu is held.
func (r *readPace) apply() error {
	if r.wanted.Equal(r.applied) {
		return nil
	}
	if err := r.conn.SetReadDeadline(r.wanted); err != nil {
		return err
	}
	r.applied = r.wanted
	return nil
}

// LeastCounted is the size up to which a response is not counted: net/http keeps as much of
// it before it writes anything.
const LeastCounted = 2 << 10

// What is written at a time: progress is seen once for each piece.
const (
	// pieceHTTP2 is one frame of HTTP/2 by default (RFC 9113, section 4.2).
	pieceHTTP2 = 16 << 10
	// pieceHTTP1 is larger: its connection sees progress by itself, and each piece is a system call of about 5 µs.
	pieceHTTP1 = 64 << 10
)

// Handler wraps next so that the Budget counts and bounds its responses. A caller is
// identified by the result of address until [Writer.SetCaller] sets its name.
func (b *Budget) Handler(next http.Handler, address func(remote string) string) http.Handler {
	if b == nil {
		return next
	}
	return &handler{budget: b, next: next, address: address}
}

// handler has a small frame, because a stream waits on top of it for hours.
type handler struct {
	budget  *Budget
	next    http.Handler
	address func(remote string) string
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	own := &Writer{ResponseWriter: w, handler: h, remote: r.RemoteAddr, isHTTP2: r.ProtoMajor >= 2}
	h.next.ServeHTTP(own, r)
	own.leave()
}

// Writer is a response writer that bounds the time without progress: each write has the
// whole timeout. Only one goroutine may write at a time.
type Writer struct {
	http.ResponseWriter

	handler *handler
	remote  string
	caller  string
	tool    string
	naming  sync.Once // the replies of an exchange ask at once
	isHTTP2 bool
	// kept is what net/http has of the answer and may not have written.
	kept int
	// isLong is set where the next write may wait, however small it is: the buffer of HTTP/2 is larger than what is not counted, so
	// that a long answer in small pieces fills it at any of them.
	isLong bool

	// wait is the present write of a long answer, and nil before the first.
	wait *wait

	// mu guards left: once the handler has returned, nothing may touch the response.
	mu   sync.Mutex
	left bool
}

// WriterOf returns the Writer below w, or nil if there is none.
func WriterOf(w http.ResponseWriter) *Writer {
	for {
		switch at := w.(type) {
		case *Writer:
			return at
		case interface{ Unwrap() http.ResponseWriter }:
			w = at.Unwrap()
		default:
			return nil
		}
	}
}

// SetCaller sets the caller of the response. Call it before anything of the response is
// written or held.
func (w *Writer) SetCaller(name string) {
	if w != nil {
		w.caller = name
	}
}

// SetTool sets the tool whose result the response has. Call it before the result is
// written, from the goroutine that writes it.
func (w *Writer) SetTool(name string) {
	if w != nil {
		w.tool = name
	}
}

// Hold is [Budget.Hold] for the caller of this answer.
func (w *Writer) Hold(tool string, bytes int) (release func()) {
	if w == nil {
		return func() {}
	}
	return w.handler.budget.Hold(w.name(), tool, bytes)
}

func (w *Writer) name() string {
	w.naming.Do(func() {
		if w.caller == "" {
			w.caller = w.handler.address(w.remote)
		}
	})
	return w.caller
}

// Write implements [http.ResponseWriter].
func (w *Writer) Write(p []byte) (int, error) {
	if w.kept += len(p); w.kept <= LeastCounted && !w.isLong {
		return w.ResponseWriter.Write(p)
	}
	w.kept, w.isLong = 0, w.isHTTP2
	b, piece := w.handler.budget, pieceHTTP1
	if w.isHTTP2 {
		piece = pieceHTTP2
	}
	one := w.beginWrite(len(p))
	defer b.unwatch(one)
	written := 0
	for {
		n, err := w.ResponseWriter.Write(p[written:min(len(p), written+piece)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
		b.noteProgress(one)
	}
}

// FlushError implements the flush of [http.ResponseController].
func (w *Writer) FlushError() error {
	control := http.NewResponseController(w.ResponseWriter)
	if !w.isHTTP2 {
		w.kept = 0
		return control.Flush() // its connection has the timeout
	}
	one := w.beginWrite(w.kept)
	w.kept, w.isLong = 0, false
	defer w.handler.budget.unwatch(one)
	return control.Flush()
}

// beginWrite has the Budget watch a write of some bytes.
func (w *Writer) beginWrite(bytes int) *wait {
	if w.wait == nil {
		w.wait = &wait{end: w.breakOff}
	}
	one := w.wait
	one.caller, one.tool, one.bytes, one.timed = w.name(), w.tool, int64(bytes), w.isHTTP2
	w.handler.budget.watch(one)
	return one
}

// Flush implements [http.Flusher].
func (w *Writer) Flush() { _ = w.FlushError() }

// SetWriteDeadline implements the write deadline of [http.ResponseController]. A
// deadline that has passed ends the current write. The Writer ignores a later one,
// because it already bounds the time without progress, which is the purpose of such
// deadlines.
func (w *Writer) SetWriteDeadline(t time.Time) error {
	if !t.IsZero() && !time.Now().Before(t) {
		w.breakOff()
	}
	return nil
}

// Unwrap returns the underlying writer, for [http.ResponseController].
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// breakOff breaks off what is being written.
func (w *Writer) breakOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.left {
		// A transport without deadlines does not block.
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	}
}

// leave ends the use of the response. On HTTP/2 net/http writes what is left of it
// afterwards, for which the peer has to leave room.
func (w *Writer) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left = true
	if w.isHTTP2 {
		_ = http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.handler.budget.opts.Timeout))
	}
}

const (
	// every is how often a Clock looks: rarely enough to cost nothing, often enough
	// for a time that is read without asking the system.
	every = 250 * time.Millisecond
	// tolerated is how late a look may be: the garbage collector and a busy machine
	// delay some by less.
	tolerated = 200 * time.Millisecond
)

// Clock measures the time in which the process did not run. Make one with [NewClock], and
// end it with Stop.
type Clock struct {
	last       atomic.Pointer[glance]
	stop, done chan struct{}
	once       sync.Once
}

// glance is one look of a Clock: when it was, and how long the process had been stalled by then.
type glance struct {
	at     time.Time
	coarse int64 // at, in nanoseconds
	lost   time.Duration
}

// NewClock returns a running Clock.
func NewClock() *Clock {
	c := &Clock{stop: make(chan struct{}), done: make(chan struct{})}
	now := time.Now()
	c.last.Store(&glance{at: now, coarse: now.UnixNano()})
	go c.run()
	return c
}

// Stop ends the Clock and waits for its end. It may be called twice, and on nil.
func (c *Clock) Stop() {
	if c == nil {
		return
	}
	c.once.Do(func() { close(c.stop) })
	<-c.done
}

func (c *Clock) run() {
	defer close(c.done)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C:
		}
		c.look()
	}
}

// look notes how late it is. A goroutine that a timer wakes goes to the front; what
// the others wait for shows once it has gone to the end of the queue.
func (c *Clock) look() {
	runtime.Gosched()
	now, last := time.Now(), c.last.Load()
	c.last.Store(&glance{at: now, coarse: now.UnixNano(), lost: last.lostBy(now)})
}

// lostBy is how long the process had been stalled by now, with the time by which the next look is late beyond what is tolerated.
func (g *glance) lostBy(now time.Time) time.Duration {
	if late := now.Sub(g.at) - every; late > tolerated {
		return g.lost + late
	}
	return g.lost
}

// Now returns Unix time in nanoseconds, as of the Clock's last tick. A nil Clock reads the system clock.
func (c *Clock) Now() int64 {
	if c == nil {
		return time.Now().UnixNano()
	}
	return c.last.Load().coarse
}

// Mark returns a reference point for Since.
func (c *Clock) Mark() int64 {
	if c == nil {
		return 0
	}
	return int64(c.last.Load().lost)
}

// Since returns how long the process was stalled since mark. It includes a stall that
// the Clock has not noticed yet: after a stop, timers fire before the Clock ticks.
func (c *Clock) Since(mark int64) time.Duration {
	if c == nil {
		return 0
	}
	return c.last.Load().lostBy(time.Now()) - time.Duration(mark)
}

// Running returns a time without the time in which the process was stalled before it, for differences of such times.
func (c *Clock) Running(now time.Time) time.Time {
	if c == nil {
		return now
	}
	return now.Add(-c.last.Load().lostBy(now))
}

// steps is in how many parts a timeout is counted.
const steps = 10

// WithTimeout is like context.WithTimeout, but counts only time in which this process
// ran. It counts the timeout in ten steps, and a stall of any length costs at most one
// step. What the peer did during the stall can therefore be processed before the
// timeout. The context has no deadline other than its parent's.
func WithTimeout(parent context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	c := &patient{Context: parent, done: make(chan struct{}), left: steps}
	step := max(timeout/steps, 1)
	c.mu.Lock()
	c.timer = time.AfterFunc(step, func() { c.step(step) })
	c.mu.Unlock()
	// After the timer, which end stops: the parent may be over already.
	stop := context.AfterFunc(parent, func() { c.endContext(parent.Err()) })
	return c, func() {
		stop()
		c.endContext(context.Canceled)
	}
}

// patient is a context whose deadline counts steps: a stall of the process takes one of them, and not all.
type patient struct {
	context.Context //nolint:containedctx // it is one

	done chan struct{}

	mu    sync.Mutex
	err   error
	left  int
	timer *time.Timer
}

func (c *patient) step(step time.Duration) {
	c.mu.Lock()
	c.left--
	isOver := c.left <= 0
	if !isOver && c.err == nil {
		c.timer.Reset(step)
	}
	c.mu.Unlock()
	if isOver {
		c.endContext(context.DeadlineExceeded)
	}
}

// endContext ends the context; only the first error counts.
func (c *patient) endContext(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.timer.Stop()
	close(c.done)
}

// Done implements [context.Context].
func (c *patient) Done() <-chan struct{} { return c.done }

// Err implements [context.Context].
func (c *patient) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}
