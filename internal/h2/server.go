// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What a connection allows its peer, and itself.
const (
	// serverStreamWindow and connWindow are how much of bodies may wait for handlers, of one
	// request and of all together, as in net/http.
	serverStreamWindow = 1 << 20
	serverConnWindow   = 1 << 20
	// maxFrame is the largest frame that is written: a larger one would delay other calls.
	maxFrame = 16 << 10
	// serverMaxOwed bounds the answers to pings, settings and wrong frames that wait to be
	// written. A peer that asks for so many and reads none is up to no good.
	serverMaxOwed = 128 << 10
	// queuedPerStream is how many requests may wait for a handler, for each that may run.
	// They come from clients that reset streams faster than handlers return.
	queuedPerStream = 4
	// lingerTime is how long a client may take to end a body after the response that did not wait
	// for it, as on HTTP/1 (internal/edge/httpbody).
	lingerTime = 400 * time.Millisecond
	// goodbyeTime is how long a client has to read GOAWAY before its connection closes.
	goodbyeTime = time.Second
)

// ServerOptions configure a ServerConn. All but State, TLS and Base are required.
type ServerOptions struct {
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

// ServerConn is one connection. Make one with [NewServer].
type ServerConn struct {
	nc     net.Conn
	opts   ServerOptions
	base   context.Context //nolint:containedctx // its end is the connection's
	cancel context.CancelFunc
	remote string
	in     *input
	framer *http2.Framer
	// canonical has the names of headers that came, as net/http writes them.
	canonical map[string]string
	pending   []*serverStream // whose handlers start when nothing more is there to read
	lastPath  string
	lastURL   url.URL

	closed chan struct{}      // closed when the connection has failed
	wake   chan struct{}      // of the writer
	work   chan *serverStream // of idle workers

	// leftAt is when the first GOAWAY was written, ackedAt when the client confirmed it,
	// in nanoseconds of Unix time.
	leftAt, ackedAt atomic.Int64

	mu       sync.Mutex
	failed   bool
	ending   bool // the last GOAWAY is written: no stream is opened
	streams  map[uint32]*serverStream
	lastID   uint32
	unacked  int // SETTINGS of ours
	settled  bool
	running  int // handlers
	idle     int // workers
	queue    []*serverStream
	blocked  map[*serverStream]struct{} // streams that wait for room to write
	peer     clientSettings
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

// clientSettings are the settings that the client has sent.
type clientSettings struct {
	window    int64
	frameSize int
}

// NewServer makes a connection. The client's preface must have been read from nc.
func NewServer(nc net.Conn, o ServerOptions) *ServerConn {
	if o.Base == nil {
		o.Base = context.Background()
	}
	if o.State == nil {
		o.State = func(http.ConnState) {}
	}
	c := &ServerConn{
		nc: nc, opts: o, remote: nc.RemoteAddr().String(),
		in:        newInput(nc),
		canonical: map[string]string{}, names: map[string]string{},
		closed: make(chan struct{}), wake: make(chan struct{}, 1), work: make(chan *serverStream, maxIdleWorkers),
		streams: map[uint32]*serverStream{}, blocked: map[*serverStream]struct{}{},
		peer:   clientSettings{window: defaultWindow, frameSize: maxFrame},
		window: defaultWindow, credit: serverConnWindow,
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
func (c *ServerConn) maxHeaderList() uint32 {
	limit := c.opts.Server.MaxHeaderBytes
	if limit <= 0 {
		limit = http.DefaultMaxHeaderBytes
	}
	return uint32(min(limit, 1<<30) + 10*32)
}

// Serve reads until the connection ends. Handlers may run longer than Serve, but their
// contexts are cancelled by then.
func (c *ServerConn) Serve() {
	c.opts.State(http.StateActive) // as net/http begins
	c.opts.State(http.StateIdle)
	c.await()
	go c.writeLoop()
	c.farewell(c.readLoop())
}

// fail ends everything. The lock is held, as in all methods that do not say otherwise.
func (c *ServerConn) fail() {
	if c.failed {
		return
	}
	c.failed = true
	for _, s := range c.streams {
		c.endStream(s, errGone)
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
func (c *ServerConn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail()
}

// noteIdle notes whether the connection is idle: no stream is open, and nothing waits to
// be written.
func (c *ServerConn) noteIdle() {
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

// leavePing is the payload of the PING behind the first GOAWAY.
const leavePing = "outrigr!"

// maxSettings is how many settings one frame may have. Nine are known.
const maxSettings = 100

// greet appends the server's settings, which are its first frame.
func (c *ServerConn) greet() {
	const settings = 3
	c.out = appendFrameHeader(c.out, settings*6, http2.FrameSettings, 0, 0)
	c.out = appendSetting(c.out, http2.SettingMaxConcurrentStreams, uint32(c.opts.MaxStreams))
	c.out = appendSetting(c.out, http2.SettingMaxHeaderListSize, c.maxHeaderList())
	c.out = appendSetting(c.out, http2.SettingInitialWindowSize, serverStreamWindow)
	c.out = appendWindowUpdate(c.out, 0, serverConnWindow-defaultWindow)
	c.unacked++
	c.startWriting()
}

// await gives the client a time for its settings, and for its first request.
func (c *ServerConn) await() {
	if d := c.opts.Server.ReadHeaderTimeout; d > 0 {
		_ = c.nc.SetReadDeadline(time.Now().Add(d))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startIdleTimer()
}

// settings takes the peer's settings, or its word that it has ours.
func (c *ServerConn) settings(f *http2.SettingsFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.IsAck() {
		if c.unacked--; c.unacked < 0 {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil
	}
	// One setting may come more than once: the last value counts (RFC 9113, section 6.5.3).
	if f.NumSettings() > maxSettings {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if err := f.ForeachSetting(c.set); err != nil {
		return err
	}
	return c.owe(appendFrameHeader(nil, 0, http2.FrameSettings, http2.FlagSettingsAck, 0))
}

// set takes one setting.
func (c *ServerConn) set(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		return err
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.encoder.SetMaxDynamicTableSize(s.Val)
	case http2.SettingMaxFrameSize:
		c.peer.frameSize = min(int(s.Val), maxFrame)
	case http2.SettingInitialWindowSize:
		change := int64(s.Val) - c.peer.window
		c.peer.window = int64(s.Val)
		for _, one := range c.streams {
			if one.window += change; one.window > maxWindow {
				return http2.ConnectionError(http2.ErrCodeFlowControl)
			}
		}
		c.resume()
	}
	return nil
}

// ping answers a ping, or takes the answer to ours.
func (c *ServerConn) ping(f *http2.PingFrame) error {
	if f.IsAck() {
		if string(f.Data[:]) == leavePing && c.leftAt.Load() != 0 {
			c.ackedAt.CompareAndSwap(0, time.Now().UnixNano())
		}
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.owe(append(appendFrameHeader(nil, 8, http2.FramePing, http2.FlagPingAck, 0), f.Data[:]...))
}

// windowUpdate lets more be sent.
func (c *ServerConn) windowUpdate(f *http2.WindowUpdateFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.StreamID == 0 {
		if c.window += int64(f.Increment); c.window > maxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.resume()
		return nil
	}
	if c.isIdle(f.StreamID) && !c.ending {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	s := c.streams[f.StreamID]
	if s == nil {
		return nil
	}
	if s.window += int64(f.Increment); s.window > maxWindow {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
	}
	s.writing.wake()
	return nil
}

// resume wakes the streams that wait for room to write.
func (c *ServerConn) resume() {
	for s := range c.blocked {
		s.writing.wake()
	}
}

// owe sends what the peer is owed.
func (c *ServerConn) owe(answer []byte) error {
	if c.owed += len(answer); c.owed > serverMaxOwed {
		return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
	}
	c.out = append(c.out, answer...)
	c.startWriting()
	return nil
}

// Leave asks the client to open no more streams. It sends a first GOAWAY and still
// admits streams that cross it in flight: RFC 9113, section 6.8, recommends this before
// the GOAWAY that names the last stream. The answer to a PING after the GOAWAY confirms
// that the client has read it.
func (c *ServerConn) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed || !c.leftAt.CompareAndSwap(0, time.Now().UnixNano()) {
		return
	}
	c.out = appendGoAway(c.out, maxStreamID, http2.ErrCodeNo)
	c.out = append(appendFrameHeader(c.out, 8, http2.FramePing, 0, 0), leavePing...)
	c.startWriting()
}

// Left returns when the client was asked to leave, and when it confirmed. Each time is
// zero if that has not happened.
func (c *ServerConn) Left() (told, confirmed time.Time) {
	at := func(nanos int64) (t time.Time) {
		if nanos != 0 {
			t = time.Unix(0, nanos)
		}
		return t
	}
	return at(c.leftAt.Load()), at(c.ackedAt.Load())
}

// Shutdown admits no more streams. It closes the connection when the open streams have
// ended and the client had time to read the GOAWAY.
func (c *ServerConn) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed || c.ending {
		return
	}
	c.ending = true
	c.out = appendGoAway(c.out, c.lastID, http2.ErrCodeNo)
	c.active = true // whatever was told: settle has to see the end of this
	c.startWriting()
}

// closeSoon closes the connection after the client had the time to read GOAWAY.
func (c *ServerConn) closeSoon() { time.AfterFunc(goodbyeTime, c.Close) }

// startIdleTimer has the connection closed when it has been idle for too long.
func (c *ServerConn) startIdleTimer() {
	limit := c.opts.Server.IdleTimeout
	if limit <= 0 || c.idleTimer != nil {
		return
	}
	c.restedAt = time.Now()
	c.idleTimer = time.AfterFunc(limit, c.checkIdle)
}

// checkIdle ends a connection that is idle, or looks again when it may be.
func (c *ServerConn) checkIdle() {
	c.mu.Lock()
	if c.failed || c.ending {
		c.mu.Unlock()
		return
	}
	limit := c.opts.Server.IdleTimeout
	left := limit - time.Since(c.restedAt)
	if c.active || left > 0 {
		if c.active {
			left = limit
		}
		c.idleTimer.Reset(left)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.Shutdown()
}

// farewell ends a connection that cannot go on, and tells the client why where it broke
// the rules.
func (c *ServerConn) farewell(cause error) {
	code, isOurs := codeOf(cause)
	if !isOurs {
		c.Close()
		return
	}
	c.mu.Lock()
	for _, s := range c.streams {
		c.endStream(s, cause)
	}
	if !c.failed {
		c.ending = true
		c.out = appendGoAway(c.out, c.lastID, code)
		c.startWriting()
	}
	c.mu.Unlock()
	// What the client still sends is read for a moment: closing with bytes unread would
	// reset the connection, and GOAWAY with it.
	ending := time.AfterFunc(goodbyeTime, c.Close)
	defer ending.Stop()
	_ = c.nc.SetReadDeadline(time.Now().Add(goodbyeTime))
	_, _ = io.Copy(io.Discard, io.LimitReader(c.nc, serverConnWindow))
	c.Close()
}

// codeOf is what the client learns of an error; false where it is not to blame.
func codeOf(err error) (http2.ErrCode, bool) {
	var broken http2.ConnectionError
	switch {
	case errors.As(err, &broken):
		return http2.ErrCode(broken), true
	case errors.Is(err, http2.ErrFrameTooLarge):
		return http2.ErrCodeFrameSize, true
	case errors.Is(err, errTooMuch):
		return http2.ErrCodeEnhanceYourCalm, true
	}
	return 0, false
}

// logf writes to the server's log.
func logf(server *http.Server, format string, args ...any) {
	if server.ErrorLog != nil {
		server.ErrorLog.Printf(format, args...) //nolint:forbidigo // the log that net/http was given, which is zap's
	}
}

// maxIdleWorkers is how many goroutines may wait for a request at most. Using one again
// saves its stack, which a handler makes grow.
const maxIdleWorkers = 64

// startPending starts the handlers of requests whose bodies have not ended: nothing more
// is there to read at the moment.
func (c *ServerConn) startPending() error {
	if len(c.pending) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.pending {
		c.pending[i] = nil
		if s.over {
			continue
		}
		if err := c.start(s); err != nil {
			return err
		}
	}
	c.pending = c.pending[:0]
	return nil
}

// start has a handler run for a stream, now or when there is room.
func (c *ServerConn) start(s *serverStream) error {
	if s.started {
		return nil
	}
	s.started = true
	if limit := c.opts.Server.ReadTimeout; limit > 0 && !s.halfClosed {
		s.reading.deadline = time.Now().Add(limit)
	}
	switch {
	case c.running >= c.opts.MaxStreams:
		if c.queue = append(c.queue, s); len(c.queue) > queuedPerStream*c.opts.MaxStreams {
			return http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)
		}
		return nil
	case c.idle > 0:
		c.idle--
		c.running++
		c.work <- s
	default:
		c.running++
		go c.worker(s)
	}
	return nil
}

// worker runs handlers until there are more workers than work.
func (c *ServerConn) worker(s *serverStream) {
	for s != nil {
		c.run(s)
		if s = c.next(); s == nil {
			return
		}
	}
}

// next is the stream whose handler runs next, nil where this goroutine is not needed.
func (c *ServerConn) next() *serverStream {
	c.mu.Lock()
	c.running--
	for len(c.queue) > 0 {
		s := c.queue[0]
		c.queue[0] = nil
		if c.queue = c.queue[1:]; len(c.queue) == 0 {
			c.queue = nil
		}
		if s.over {
			continue
		}
		c.running++
		c.mu.Unlock()
		return s
	}
	// As many may wait as there are requests, and one.
	wanted := min(c.running+1, maxIdleWorkers)
	if c.failed || c.idle >= wanted {
		if !c.failed && c.idle > wanted {
			c.idle--
			c.work <- nil
		}
		c.mu.Unlock()
		return nil
	}
	c.idle++
	c.mu.Unlock()
	return <-c.work
}

// run answers one request.
func (c *ServerConn) run(s *serverStream) {
	w := &s.res
	w.reset(s)
	handled := false
	defer func() {
		if !handled {
			c.panicked(s, recover())
		}
		s.cancel()
	}()
	if s.refusal != nil {
		s.refusal(w, s.req)
	} else {
		c.opts.Handler.ServeHTTP(w, s.req)
	}
	handled = true
	w.finish()
}

// panicked ends the stream of a handler that did not return.
func (c *ServerConn) panicked(s *serverStream, p any) {
	if p != nil && p != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		logf(c.opts.Server, "http2: panic serving %v: %v\n%s", c.remote, p, debug.Stack())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cutOff(s, http.ErrAbortHandler, http2.ErrCodeInternal)
}

// errGone is why a stream ended whose connection did.
var errGone = errors.New("client disconnected")

// serverStream is one request and its answer. The connection's lock guards it, except what is
// said to belong to the handler.
type serverStream struct {
	conn *ServerConn
	id   uint32
	// over: nothing is read or written for it any more. It stays in Conn.streams while it lingers.
	over bool
	err  error // why it ended badly
	// started: a handler has it, or will when there is room.
	started bool
	// refusal answers it instead of the handler.
	refusal http.HandlerFunc

	// The body.
	halfClosed    bool  // all of it has come
	declared, got int64 // Content-Length, -1 for none, and what has come
	credit        int64 // what the peer may send
	consumed      int64 // what was taken in and not told the peer
	expects       bool  // 100 Continue
	deaf          bool  // no one reads it any more
	parts         [][]byte
	offset        int // of what was read of the first part
	lateTrailer   []hpack.HeaderField
	reading       gate
	// linger ends a stream that was answered before its body ended; nil for others.
	linger *time.Timer

	// The answer.
	window  int64 // what may be sent
	writing gate
	ended   bool // END_STREAM is written
	handled bool // the handler has returned

	// The handler's.
	req    *http.Request
	url    url.URL
	cancel context.CancelFunc // of the request's context
	res    response
}

// endStream takes a stream out of the connection, with an error where it ended badly.
func (c *ServerConn) endStream(s *serverStream, err error) {
	delete(c.streams, s.id)
	if s.linger != nil {
		s.linger.Stop()
	}
	c.release(s, err)
}

// release lets go of what waits for a stream, and of what it holds. Only the first call has an
// effect.
func (c *ServerConn) release(s *serverStream, err error) {
	if s.over {
		return
	}
	s.over, s.err = true, err
	unread := -int64(s.offset)
	for _, part := range s.parts {
		unread += int64(len(part))
		recycle(part)
	}
	s.parts, s.offset, s.deaf = nil, 0, true
	s.reading.wake()
	s.writing.wake()
	if err != nil {
		s.cancel()
	}
	if !c.failed {
		c.giveBack(nil, unread)
	}
}

// cutOff ends a stream and tells the peer.
func (c *ServerConn) cutOff(s *serverStream, err error, code http2.ErrCode) {
	if s.over {
		return
	}
	c.endStream(s, err)
	c.out = appendReset(c.out, s.id, code)
	c.startWriting()
}

// gate is where a goroutine waits for the peer. The connection's lock guards it.
type gate struct {
	ch       chan struct{} // closed by wake; nil while no one waits
	deadline time.Time
}

// wake lets every waiter go on.
func (g *gate) wake() {
	if g.ch != nil {
		close(g.ch)
		g.ch = nil
	}
}

// expired reports whether the deadline has passed.
func (g *gate) expired() bool { return !g.deadline.IsZero() && !time.Now().Before(g.deadline) }

// wait waits until wake is called, or for the deadline. It gives up the lock meanwhile.
func (g *gate) wait(c *ServerConn) error {
	if g.expired() {
		return os.ErrDeadlineExceeded
	}
	if g.ch == nil {
		g.ch = make(chan struct{})
	}
	ch := g.ch
	var timeout <-chan time.Time
	if !g.deadline.IsZero() {
		timer := time.NewTimer(time.Until(g.deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-ch:
	case <-timeout:
	}
	return nil // who waits looks again, at the deadline too
}

// maxNames bounds how many names of headers a connection remembers, maxNameSize how long
// they are.
const (
	maxNames    = 128
	maxNameSize = 64
)

// headers takes the head of a request, or its trailers.
func (c *ServerConn) headers(f *http2.MetaHeadersFrame) error {
	if f.StreamID%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[f.StreamID]; s != nil {
		return c.trailers(s, f)
	}
	switch {
	case f.StreamID <= c.lastID:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case c.ending:
		return nil // RFC 9113, section 6.8: it is above the stream that GOAWAY names
	}
	c.lastID = f.StreamID
	if len(c.streams) >= c.opts.MaxStreams {
		code := http2.ErrCodeProtocol
		if c.unacked > 0 {
			code = http2.ErrCodeRefusedStream
		}
		return http2.StreamError{StreamID: f.StreamID, Code: code}
	}
	s, err := c.newStream(f)
	if err != nil {
		return err
	}
	c.streams[s.id] = s
	c.noteIdle()
	if s.halfClosed {
		return c.start(s)
	}
	c.pending = append(c.pending, s)
	return nil
}

// newStream reads the head of a request.
func (c *ServerConn) newStream(f *http2.MetaHeadersFrame) (*serverStream, error) {
	p := pseudo(f.PseudoFields())
	header := c.header(f.RegularFields())
	if p.authority == "" {
		p.authority = first(header, "Host")
	}
	s := &serverStream{conn: c, id: f.StreamID, window: c.peer.window, credit: serverStreamWindow, declared: -1}
	declared, ok := declaredLength(header["Content-Length"])
	if !ok || f.StreamEnded() && declared > 0 || isOfConnection(header) || f.HasPriority() && f.Priority.StreamDep == f.StreamID || !c.target(&s.url, &p) {
		if c.opts.Refused != nil {
			c.opts.Refused(false)
		}
		return nil, http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
	}
	ctx, cancel := context.WithCancel(c.base)
	r := new(http.Request).WithContext(ctx)
	s.req, s.cancel = r, cancel
	r.Method, r.URL, r.Host, r.RequestURI = p.method, &s.url, p.authority, p.path
	r.Proto, r.ProtoMajor = "HTTP/2.0", 2
	r.Header, r.RemoteAddr, r.TLS = header, c.remote, c.opts.TLS
	s.readHeader(header)
	s.openBody(f.StreamEnded(), declared)
	if f.Truncated {
		s.refusal = tooLarge
		if c.opts.Refused != nil {
			c.opts.Refused(true)
		}
	}
	return s, nil
}

// target reads what a request asks for; false where that is malformed.
func (c *ServerConn) target(u *url.URL, p *pseudoFields) bool {
	switch {
	case p.protocol != "", strings.IndexByte(p.authority, '@') >= 0:
		return false
	case p.method == http.MethodConnect:
		if p.path != "" || p.scheme != "" || p.authority == "" {
			return false
		}
		*u, p.path = url.URL{Host: p.authority}, p.authority
		return true
	case p.method == "" || p.path == "" || p.scheme != "http" && p.scheme != "https":
		return false
	case p.path != c.lastPath: // most requests have the path of the one before
		parsed, err := url.ParseRequestURI(p.path)
		if err != nil {
			return false
		}
		c.lastPath, c.lastURL = p.path, *parsed
	}
	*u = c.lastURL
	return true
}

// pseudoFields are the fields of HTTP itself. The Framer has seen that there is one of
// each at most.
type pseudoFields struct{ method, scheme, authority, path, protocol string }

func pseudo(fields []hpack.HeaderField) (p pseudoFields) {
	for _, f := range fields {
		switch f.Name {
		case ":method":
			p.method = f.Value
		case ":scheme":
			p.scheme = f.Value
		case ":authority":
			p.authority = f.Value
		case ":path":
			p.path = f.Value
		case ":protocol":
			p.protocol = f.Value
		}
	}
	return p
}

// header is the header of a request. All values share one array.
func (c *ServerConn) header(fields []hpack.HeaderField) http.Header {
	h := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		name := c.canonicalName(f.Name)
		if have, ok := h[name]; ok {
			h[name] = append(have, f.Value)
			continue
		}
		values[i] = f.Value
		h[name] = values[i : i+1 : i+1]
	}
	if cookies := h["Cookie"]; len(cookies) > 1 {
		h["Cookie"] = []string{strings.Join(cookies, "; ")} // RFC 9113, section 8.2.3
	}
	return h
}

// canonicalName is the name of a header as net/http writes it.
func (c *ServerConn) canonicalName(name string) string {
	if canonical, ok := c.canonical[name]; ok {
		return canonical
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if len(name) <= maxNameSize && len(c.canonical) < maxNames {
		c.canonical[name] = canonical
	}
	return canonical
}

// readHeader takes what concerns the server out of a header.
func (s *serverStream) readHeader(h http.Header) {
	if httpguts.HeaderValuesContainsToken(h["Expect"], "100-continue") {
		s.expects = true
		delete(h, "Expect")
	}
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			if !httpguts.ValidTrailerHeader(name) {
				continue
			}
			if s.req.Trailer == nil {
				s.req.Trailer = http.Header{}
			}
			s.req.Trailer[name] = nil
		}
	}
	delete(h, "Trailer")
}

// declaredLength reads the values of Content-Length, -1 for none. It returns false where there is
// no one length (RFC 9110, section 8.6).
func declaredLength(values []string) (int64, bool) {
	if len(values) == 0 {
		return -1, true
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	for _, other := range values[1:] {
		if other != values[0] {
			return 0, false
		}
	}
	return int64(n), err == nil
}

// openBody begins the body of a request.
func (s *serverStream) openBody(ended bool, declared int64) {
	if ended {
		s.halfClosed, s.req.Body = true, http.NoBody
		return
	}
	s.req.Body, s.req.ContentLength, s.declared = (*body)(s), declared, declared
}

// trailers takes the trailers of a request. Only those that were announced are kept.
func (c *ServerConn) trailers(s *serverStream, f *http2.MetaHeadersFrame) error {
	if s.halfClosed {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	}
	if !f.StreamEnded() || len(f.PseudoFields()) > 0 {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	for _, field := range f.RegularFields() {
		name := c.canonicalName(field.Name)
		if !httpguts.ValidTrailerHeader(name) {
			return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
		}
		if _, announced := s.req.Trailer[name]; announced {
			s.lateTrailer = append(s.lateTrailer, hpack.HeaderField{Name: name, Value: field.Value})
		}
	}
	return c.endBody(s)
}

// tooLarge answers a request whose headers are too large.
func tooLarge(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "Request header fields too large", http.StatusRequestHeaderFieldsTooLarge)
}

// isOfConnection reports whether a header has fields that concern one HTTP/1 connection, which
// makes a request malformed (RFC 9113, section 8.2.2).
func isOfConnection(h http.Header) bool {
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive"} {
		if _, ok := h[name]; ok {
			return true
		}
	}
	te := h["Te"]
	return len(te) > 1 || len(te) == 1 && te[0] != "trailers" && te[0] != ""
}

func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Bodies are kept in parts of a frame each: small ones have their own size, the others
// use the same memory again.
const smallPart = 2 << 10

// body is a request's body.
type body serverStream

// Read implements [io.Reader]. It returns the received data before it returns an error.
func (b *body) Read(p []byte) (int, error) {
	s := (*serverStream)(b)
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case s.over && s.err != nil:
			return 0, s.err
		case s.deaf:
			return 0, http.ErrBodyReadAfterClose
		case !s.halfClosed && s.reading.expired():
			return 0, os.ErrDeadlineExceeded
		case len(s.parts) > 0:
			return s.read(p), nil
		case s.halfClosed:
			s.addTrailers()
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if s.expects {
			s.expects = false
			c.appendInterim(s, http.StatusContinue, nil)
		}
		if err := s.reading.wait(c); err != nil {
			return 0, err
		}
	}
}

// read takes what fits out of the first part.
func (s *serverStream) read(p []byte) int {
	part := s.parts[0]
	n := copy(p, part[s.offset:])
	if s.offset += n; s.offset == len(part) {
		recycle(part)
		s.parts, s.offset = s.parts[1:], 0
		if len(s.parts) == 0 {
			s.parts = nil
		}
	}
	s.conn.giveBack(s, int64(n))
	return n
}

// Close implements [io.Closer]. It discards unread data.
func (b *body) Close() error {
	s := (*serverStream)(b)
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.ignoreBody()
	return nil
}

// ignoreBody drops what has come, and what comes.
func (s *serverStream) ignoreBody() {
	if s.deaf {
		return
	}
	s.deaf = true
	unread := -int64(s.offset)
	for _, part := range s.parts {
		unread += int64(len(part))
		recycle(part)
	}
	s.parts, s.offset = nil, 0
	s.conn.giveBack(s, unread)
	s.reading.wake()
}

// keep copies a piece of the body.
func (s *serverStream) keep(p []byte) {
	if len(p) == 0 {
		return
	}
	var part []byte
	if len(p) <= smallPart {
		part = make([]byte, len(p))
	} else {
		part = chunk()[:len(p)]
	}
	copy(part, p)
	s.parts = append(s.parts, part)
}

// chunks has memory for frames, for all connections.
var chunks = sync.Pool{New: func() any { return new([maxFrame]byte) }} //nolint:gochecknoglobals // a pool

// chunk is memory for a frame.
func chunk() []byte { return chunks.Get().(*[maxFrame]byte)[:] } //nolint:forcetypeassert // of one type

// recycle keeps the memory of a part for another.
func recycle(part []byte) {
	if cap(part) == maxFrame {
		chunks.Put((*[maxFrame]byte)(part[:maxFrame]))
	}
}

// endBody notes that all of the body has come. A body that is shorter than its Content-Length
// is malformed (RFC 9113, section 8.1.1).
func (c *ServerConn) endBody(s *serverStream) error {
	if s.declared >= 0 && s.got != s.declared {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	s.halfClosed = true
	if s.over { // it was answered before
		c.endStream(s, nil)
		c.noteIdle()
		return nil
	}
	s.reading.wake()
	return c.start(s)
}

// addTrailers gives the request its trailers, when its body has been read.
func (s *serverStream) addTrailers() {
	for _, f := range s.lateTrailer {
		s.req.Trailer[f.Name] = append(s.req.Trailer[f.Name], f.Value)
	}
	s.lateTrailer = nil
}

// answered ends a stream whose response has been written. If the body has not ended, the client
// may take lingerTime to read the response and to end the body. Then RST_STREAM(NO_ERROR) asks it
// to stop (RFC 9113, section 8.1). With the reset in the same write as the response, many clients
// report the reset and lose the response.
//
// What arrives meanwhile is discarded. It counts against the stream's window, which is not
// extended: that bounds it.
func (c *ServerConn) answered(s *serverStream) {
	if s.halfClosed {
		c.endStream(s, nil)
		return
	}
	c.release(s, nil)
	s.linger = time.AfterFunc(lingerTime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.streams[s.id] == s {
			c.endStream(s, nil)
			c.out = appendReset(c.out, s.id, http2.ErrCodeNo)
			c.startWriting()
		}
	})
}

// maxBlockOverhead is what the frames of one header block may have beside its bytes: far
// more than a client of this world sends.
const maxBlockOverhead = 32 << 10

// readLoop takes frames until the connection ends, and returns why.
func (c *ServerConn) readLoop() error {
	most := maxFrame + 4*int(c.maxHeaderList()) + maxBlockOverhead
	for {
		if c.in.buffered() == 0 {
			if err := c.startPending(); err != nil {
				return err
			}
		}
		c.in.allow(most)
		frame, err := c.framer.ReadFrame()
		if err == nil {
			err = c.handleFrame(frame)
		}
		var wrong http2.StreamError
		if errors.As(err, &wrong) {
			err = c.refuse(wrong)
		}
		if err != nil {
			return err
		}
	}
}

// refuse ends a stream on which something is wrong.
func (c *ServerConn) refuse(wrong http2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wrong.StreamID%2 == 1 {
		c.lastID = max(c.lastID, wrong.StreamID)
	}
	if s := c.streams[wrong.StreamID]; s != nil {
		c.endStream(s, wrong)
	}
	return c.owe(appendReset(nil, wrong.StreamID, wrong.Code))
}

// handleFrame acts on a frame.
func (c *ServerConn) handleFrame(frame http2.Frame) error {
	if !c.settled {
		if f, ok := frame.(*http2.SettingsFrame); !ok || f.IsAck() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.settled = true
		_ = c.nc.SetReadDeadline(time.Time{})
	}
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		return c.headers(f)
	case *http2.DataFrame:
		return c.data(f)
	case *http2.WindowUpdateFrame:
		return c.windowUpdate(f)
	case *http2.SettingsFrame:
		return c.settings(f)
	case *http2.PingFrame:
		return c.ping(f)
	case *http2.RSTStreamFrame:
		return c.reset(f)
	case *http2.GoAwayFrame:
		c.Shutdown() // the client opens no more streams
		return nil
	case *http2.PriorityFrame:
		return c.priority(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // what is not known (RFC 9113, section 4.1)
}

// priority ignores the priority of a stream, except for one that depends on itself (RFC 7540,
// section 5.3.1). A stream that was never opened cannot be reset.
func (c *ServerConn) priority(f *http2.PriorityFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case f.StreamDep != f.StreamID:
		return nil
	case c.isIdle(f.StreamID):
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
}

// isIdle holds for streams that the client has not opened.
func (c *ServerConn) isIdle(id uint32) bool { return id%2 == 0 || id > c.lastID }

// data takes a piece of a body.
func (c *ServerConn) data(f *http2.DataFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, p := int64(f.Length), f.Data()
	if c.credit -= size; c.credit < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	s := c.streams[f.StreamID]
	if s == nil || s.halfClosed {
		if c.isIdle(f.StreamID) {
			if c.ending { // it crossed GOAWAY
				c.giveBack(nil, size)
				return nil
			}
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		c.giveBack(nil, size)
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
	}
	s.credit -= size
	s.got += int64(len(p))
	switch {
	case s.credit < 0:
		c.giveBack(nil, size)
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
	case s.declared >= 0 && s.got > s.declared:
		c.giveBack(nil, size)
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
	}
	switch {
	case s.over:
		c.giveBack(nil, size)
	case s.deaf:
		c.giveBack(s, size)
	default:
		c.giveBack(s, size-int64(len(p))) // the padding
		s.keep(p)
	}
	if f.StreamEnded() {
		return c.endBody(s)
	}
	s.reading.wake()
	return nil
}

// giveBack lets the peer send again what has been taken, on the connection and on a
// serverStream, which may be nil.
func (c *ServerConn) giveBack(s *serverStream, n int64) {
	if n <= 0 {
		return
	}
	if c.consumed += n; c.consumed >= serverConnWindow/4 {
		c.credit += c.consumed
		c.out = appendWindowUpdate(c.out, 0, uint32(c.consumed))
		c.consumed = 0
		c.startWriting()
	}
	if s == nil || s.halfClosed {
		return
	}
	if s.consumed += n; s.consumed >= serverStreamWindow/4 {
		s.credit += s.consumed
		c.out = appendWindowUpdate(c.out, s.id, uint32(s.consumed))
		s.consumed = 0
		c.startWriting()
	}
}

// reset takes the end of a stream that its client gave up.
func (c *ServerConn) reset(f *http2.RSTStreamFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isIdle(f.StreamID) && !c.ending {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if s := c.streams[f.StreamID]; s != nil {
		c.endStream(s, http2.StreamError{StreamID: s.id, Code: f.ErrCode})
		c.noteIdle()
	}
	return nil
}

const (
	// firstInput is how much a connection reads at a time until that was not enough,
	// fullInput from then on.
	firstInput = 4 << 10
	fullInput  = 32 << 10
)

// errTooMuch tells that one frame, or a header block with all its frames, is larger than
// any that is taken.
var errTooMuch = errors.New("too many bytes in one header block")

// input reads from a connection, as much as there is at a time. It is for one goroutine.
type input struct {
	nc         net.Conn
	buf        []byte
	start, end int
	// left is how many bytes may still be taken until allow is called.
	left int
}

func newInput(nc net.Conn) *input { return &input{nc: nc, buf: make([]byte, firstInput)} }

// allow bounds what is read until it is called again.
func (in *input) allow(n int) { in.left = n }

// buffered is how many bytes were read from the connection and not taken.
func (in *input) buffered() int { return in.end - in.start }

// Read implements [io.Reader].
func (in *input) Read(p []byte) (int, error) {
	if in.left <= 0 {
		return 0, errTooMuch
	}
	if in.start == in.end {
		if len(p) >= len(in.buf) {
			n, err := in.nc.Read(p)
			in.left -= n
			return n, err
		}
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.buf[in.start:in.end])
	in.start += n
	in.left -= n
	return n, nil
}

// fill reads what there is. A connection on which much comes at a time gets more room.
func (in *input) fill() error {
	if in.end == len(in.buf) && len(in.buf) < fullInput {
		in.buf = make([]byte, fullInput)
	}
	n, err := in.nc.Read(in.buf)
	in.start, in.end = 0, n
	if n > 0 {
		return nil
	}
	return err
}

// startWriting wakes the writer. The lock is held.
func (c *ServerConn) startWriting() {
	if c.writing || c.failed {
		return
	}
	c.writing = true
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes what there is, as much as there is, until the connection fails.
func (c *ServerConn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		runtime.Gosched() // other answers share the write
		for c.writeOnce() {
		}
	}
}

// writeOnce writes one batch and reports whether there may be more.
func (c *ServerConn) writeOnce() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.out) == 0 || c.failed {
		c.writing = false
		c.noteIdle()
		return false
	}
	batch := c.out
	c.out, c.spare = c.spare[:0], nil
	c.owed = 0
	c.resume()
	c.mu.Unlock()
	_, err := c.nc.Write(batch)
	c.mu.Lock()
	if cap(batch) <= 2*highWater {
		c.spare = batch[:0]
	}
	if err != nil {
		c.fail()
	}
	return true
}

// appendBlock appends a header block that was encoded, in as many frames as it takes.
func (c *ServerConn) appendBlock(s *serverStream, end bool) {
	kind, block := http2.FrameHeaders, c.block.Bytes()
	for {
		piece := block[:min(len(block), c.peer.frameSize)]
		block = block[len(piece):]
		var flags http2.Flags
		if len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		if end && kind == http2.FrameHeaders {
			flags |= http2.FlagHeadersEndStream
		}
		c.out = appendFrameHeader(c.out, len(piece), kind, flags, s.id)
		c.out = append(c.out, piece...)
		if len(block) == 0 {
			break
		}
		kind = http2.FrameContinuation
	}
	c.block.Reset()
	c.startWriting()
}

// appendInterim appends an answer before the answer.
func (c *ServerConn) appendInterim(s *serverStream, status int, fields []hpack.HeaderField) {
	c.field(":status", strconv.Itoa(status))
	c.fields(fields)
	c.appendBlock(s, false)
}

// field encodes one field.
func (c *ServerConn) field(name, value string) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value}) // to a buffer, which does not fail
}

// rare encodes a field whose value is seldom the same twice, so that it would only push
// out of the table what is.
func (c *ServerConn) rare(name, value string) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: true})
}

// fields encodes fields of a header. What HTTP does not admit is left out.
func (c *ServerConn) fields(fields []hpack.HeaderField) {
	for _, f := range fields {
		name, ok := c.wireName(f.Name)
		if !ok || !httpguts.ValidHeaderFieldValue(f.Value) || name == "transfer-encoding" && f.Value != "trailers" {
			continue
		}
		if strings.HasPrefix(name, "grpc-status-details") || name == "content-length" {
			c.rare(name, f.Value)
			continue
		}
		c.field(name, f.Value)
	}
}

// wireName is the name of a header as HTTP/2 sends it; false for one that is none.
func (c *ServerConn) wireName(name string) (string, bool) {
	if wire, ok := c.names[name]; ok {
		return wire, wire != ""
	}
	wire := strings.ToLower(name)
	if !httpguts.ValidHeaderFieldName(wire) {
		wire = ""
	}
	if len(name) <= maxNameSize && len(c.names) < maxNames {
		c.names[name] = wire
	}
	return wire, wire != ""
}

// dateCache is the value of a Date header, which changes once a second.
type dateCache struct {
	second int64
	text   string
}

func (d *dateCache) now() string {
	now := time.Now()
	if d.text == "" || now.Unix() != d.second {
		d.second, d.text = now.Unix(), now.UTC().Format(timeFormat)
	}
	return d.text
}

// send writes what is kept of the answer, and p behind it. It waits for windows and for
// room, and returns when all has been given to the connection's writer.
func (w *response) send(p []byte) error {
	c := w.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := w.dead(); err != nil {
		return err
	}
	if !w.sent {
		w.appendHeader(p, false, false)
	}
	if w.isHead {
		w.buf = w.buf[:0]
		return nil
	}
	kept := w.buf
	w.buf = w.buf[:0]
	if err := c.appendData(w.s, kept, false); err != nil {
		return err
	}
	return c.appendData(w.s, p, false)
}

// dead is why nothing can be written any more.
func (w *response) dead() error {
	switch {
	case w.s.over && w.s.err != nil:
		return w.s.err
	case w.s.over || w.s.ended:
		return http.ErrHandlerTimeout
	}
	return nil
}

// finish ends the answer: its handler has returned.
func (w *response) finish() {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	c := w.s.conn
	late := w.lateTrailers()
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.s.over {
		return
	}
	w.s.handled = true
	if err := w.appendRest(late); err != nil {
		c.cutOff(w.s, err, http2.ErrCodeInternal)
		return
	}
	c.answered(w.s)
	c.startWriting()
	if w.closes {
		go c.Shutdown() // as in net/http: when the streams have ended
	}
}

// appendRest appends what is left of an answer, with its end.
func (w *response) appendRest(late []hpack.HeaderField) error {
	c := w.s.conn
	for len(c.out) >= highWater {
		if err := c.awaitRoom(w.s); err != nil {
			return err
		}
	}
	hasBody := !w.isHead && len(w.buf) > 0
	if !w.sent {
		if w.appendHeader(nil, !hasBody && len(late) == 0, len(late) > 0); w.s.ended {
			return nil
		}
	}
	if hasBody || len(late) == 0 {
		if w.isHead {
			w.buf = nil
		}
		if err := c.appendData(w.s, w.buf, len(late) == 0); err != nil {
			return err
		}
	}
	if len(late) > 0 {
		c.fields(late)
		c.appendBlock(w.s, true)
		w.s.ended = true
	}
	return nil
}

// appendHeader appends the head of the answer; next is written behind what is kept. It has
// no length yet where more follows.
func (w *response) appendHeader(next []byte, end, trailed bool) {
	c, done := w.s.conn, w.s.handled
	w.sent = true
	w.s.expects = false
	c.field(":status", strconv.Itoa(w.status))
	c.fields(w.fields)
	if len(w.buf) > 0 {
		next = w.buf
	}
	if !w.hasType && !w.encoded && bodyAllowed(w.status) && len(next) > 0 {
		c.field("content-type", http.DetectContentType(next))
	}
	switch {
	case w.length >= 0:
		c.rare("content-length", strconv.FormatInt(w.length, 10))
	case done && !trailed && bodyAllowed(w.status) && (len(w.buf) > 0 || !w.isHead):
		c.rare("content-length", strconv.Itoa(len(w.buf)))
	}
	if !w.hasDate {
		c.field("date", c.date.now())
	}
	c.appendBlock(w.s, end || w.isHead)
	w.s.ended = end || w.isHead
}

// appendData appends a piece of a body, as the windows and the high-water mark admit.
func (c *ServerConn) appendData(s *serverStream, p []byte, end bool) error {
	for len(p) > 0 || end {
		room := min(int64(len(p)), s.window, c.window, int64(c.peer.frameSize))
		if len(p) > 0 && (room <= 0 || len(c.out) >= highWater) {
			if err := c.awaitRoom(s); err != nil {
				return err
			}
			continue
		}
		piece := p[:max(room, 0)]
		p = p[len(piece):]
		var flags http2.Flags
		if end && len(p) == 0 {
			flags, s.ended = http2.FlagDataEndStream, true
		}
		c.out = appendFrameHeader(c.out, len(piece), http2.FrameData, flags, s.id)
		c.out = append(c.out, piece...)
		s.window -= int64(len(piece))
		c.window -= int64(len(piece))
		c.startWriting()
		if s.ended {
			break
		}
	}
	return nil
}

// awaitRoom waits until there may be room to write.
func (c *ServerConn) awaitRoom(s *serverStream) error {
	c.blocked[s] = struct{}{}
	err := s.writing.wait(c)
	delete(c.blocked, s)
	switch {
	case s.over && s.err != nil:
		return s.err
	case err != nil:
		c.cutOff(s, err, http2.ErrCodeInternal)
		return err
	}
	return nil
}

// lateTrailers are the fields behind the body.
func (w *response) lateTrailers() []hpack.HeaderField {
	var out []hpack.HeaderField
	for name := range w.header {
		if late, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.declareTrailer(late)
			w.header[http.CanonicalHeaderKey(late)] = w.header[name]
		}
	}
	if len(w.trailer) > 1 {
		slices.Sort(w.trailer)
	}
	for _, name := range w.trailer {
		for _, value := range w.header[name] {
			out = append(out, hpack.HeaderField{Name: name, Value: value})
		}
	}
	return out
}

const (
	timeFormat = http.TimeFormat
	// bufferSize is how much of an answer is kept before anything of it is written, as in
	// net/http.
	bufferSize = 4 << 10
)

// response is a request's answer. It is for one goroutine at a time, but for the
// deadlines.
type response struct {
	s      *serverStream
	header http.Header
	// fields is the header as it was when it was decided, inline its first memory.
	fields  []hpack.HeaderField
	inline  [8]hpack.HeaderField
	status  int // 0 before the header is decided
	sent    bool
	isHead  bool
	written int64
	length  int64 // Content-Length, -1 for none
	hasType bool
	hasDate bool
	encoded bool // it has a Content-Encoding
	closes  bool // it said Connection: close
	trailer []string
	buf     []byte
}

func (w *response) reset(s *serverStream) {
	w.s, w.header, w.length, w.isHead = s, http.Header{}, -1, s.req.Method == http.MethodHead
	w.fields = w.inline[:0]
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *response) WriteHeader(status int) {
	switch {
	case status < 100 || status > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", status)) //nolint:forbidigo // as net/http: it is the handler's fault
	case w.status != 0:
		logf(w.s.conn.opts.Server, "http2: superfluous response.WriteHeader call")
		return
	case status < http.StatusOK:
		w.writeInterim(status)
		return
	}
	w.status = status
	for name, values := range w.header {
		w.keep(name, values)
	}
}

// keep notes a header of the answer.
func (w *response) keep(name string, values []string) {
	if strings.HasPrefix(name, http.TrailerPrefix) || len(values) == 0 {
		return
	}
	switch name {
	case "Connection":
		w.closes = values[0] == "close"
		return
	case "Content-Length":
		n, err := strconv.ParseUint(values[0], 10, 63)
		if err == nil {
			w.length = int64(n)
		}
		return
	case "Trailer":
		for _, line := range values {
			for one := range strings.SplitSeq(line, ",") {
				w.declareTrailer(textproto.TrimString(one))
			}
		}
	case "Content-Type":
		w.hasType = true
	case "Date":
		w.hasDate = true
	case "Content-Encoding":
		w.encoded = values[0] != ""
	}
	for _, value := range values {
		w.fields = append(w.fields, hpack.HeaderField{Name: name, Value: value})
	}
}

func (w *response) declareTrailer(name string) {
	name = http.CanonicalHeaderKey(name)
	if httpguts.ValidTrailerHeader(name) && !slices.Contains(w.trailer, name) {
		w.trailer = append(w.trailer, name)
	}
}

// writeInterim writes an answer before the answer.
func (w *response) writeInterim(status int) {
	var fields []hpack.HeaderField
	for name, values := range w.header {
		if name == "Content-Length" || name == "Transfer-Encoding" || name == "Connection" {
			continue
		}
		for _, value := range values {
			fields = append(fields, hpack.HeaderField{Name: name, Value: value})
		}
	}
	c := w.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.s.over {
		return
	}
	if status == http.StatusContinue {
		w.s.expects = false
	}
	c.appendInterim(w.s, status, fields)
}

// Write implements [http.ResponseWriter].
func (w *response) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !bodyAllowed(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if len(w.buf)+len(p) <= bufferSize {
		w.buf = append(w.buf, p...)
		return len(p), nil
	}
	if err := w.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements [io.StringWriter].
func (w *response) WriteString(p string) (int, error) { return w.Write([]byte(p)) }

// FlushError implements the flush of [http.ResponseController].
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.send(nil)
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() } // the next write tells

// SetReadDeadline implements the read deadline of [http.ResponseController].
func (w *response) SetReadDeadline(t time.Time) error {
	w.s.conn.mu.Lock()
	defer w.s.conn.mu.Unlock()
	w.s.reading.deadline = t
	w.s.reading.wake() // who waits looks at the new one
	return nil
}

// SetWriteDeadline implements the write deadline of [http.ResponseController]. As in
// net/http, a deadline that has passed ends the stream.
func (w *response) SetWriteDeadline(t time.Time) error {
	c := w.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	w.s.writing.deadline = t
	if w.s.writing.expired() {
		c.cutOff(w.s, os.ErrDeadlineExceeded, http2.ErrCodeInternal)
	}
	w.s.writing.wake()
	return nil
}

// EnableFullDuplex is for [http.ResponseController]. It does nothing, because HTTP/2 is
// always full duplex.
func (w *response) EnableFullDuplex() error { return nil }

// bodyAllowed holds for statuses whose answers may have a body (RFC 9110, section 6.4.1).
func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
