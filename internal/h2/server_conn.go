// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

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
func (c *ServerConn) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail()
}

// settle notes whether the connection is idle: no stream is open, and nothing waits to
// be written.
func (c *ServerConn) settle() {
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
		c.end(s, cause)
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
	w.begin(s)
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
