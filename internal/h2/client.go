// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// What a ClientConn allows its peer.
const (
	// clientStreamWindow is how much of one answer may be on its way. As much as the Go
	// HTTP/2 client allows: a network with 100 ms of latency still carries 40 MB/s.
	clientStreamWindow = 4 << 20
	// clientConnWindow is the same for all answers together. Each answer is bounded by
	// itself, so that this only has to be out of the way.
	clientConnWindow = 1 << 30
	// connRefill is how much is taken before the connection's window is opened
	// again; far below the window, far above what a small answer has.
	connRefill = 1 << 20
	// clientMaxOwed bounds the answers to pings and settings that wait to be written. A
	// peer that sends so many and reads none is up to no good.
	clientMaxOwed = 1 << 20
)

// ClientOptions configure a ClientConn. All are required.
type ClientOptions struct {
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
	// Changed is called when another call may fit although none ended, when the
	// connection becomes suspect or is no longer, and when it has failed. It must not
	// call the ClientConn.
	Changed func()
}

// ClientConn is one connection. Make one with [NewClient].
type ClientConn struct {
	nc     net.Conn
	opts   ClientOptions
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
	streams  map[uint32]*clientStream
	nextID   uint32
	peer     serverSettings
	waiting  streamList // streams with something to send, in turn
	encoder  *hpack.Encoder
	block    bytes.Buffer // what encoder writes to
	window   int64        // what may be sent
	consumed int64        // what was taken in and not told the peer
	lastRead time.Time
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

// serverSettings are the settings that the server has sent.
type serverSettings struct {
	known      bool
	streams    int64
	window     int64
	frameSize  int64
	headerList int64
}

// NewClient starts HTTP/2 on a connection. It does not wait for the peer.
func NewClient(nc net.Conn, o ClientOptions) *ClientConn {
	now := time.Now()
	c := &ClientConn{
		nc: nc, opts: o,
		ready: make(chan struct{}), closed: make(chan struct{}), wake: make(chan struct{}, 1),
		streams: map[uint32]*clientStream{}, nextID: 1,
		peer:     serverSettings{streams: math.MaxInt32, window: defaultWindow, frameSize: defaultFrameSize, headerList: math.MaxInt64},
		window:   defaultWindow,
		lastRead: now,
		pulse:    pulse{left: maxPings},
	}
	c.encoder = hpack.NewEncoder(&c.block)
	c.out = append(c.out, preface...)
	const settings = 3
	c.out = appendFrameHeader(c.out, settings*6, http2.FrameSettings, 0, 0)
	c.out = appendSetting(c.out, http2.SettingEnablePush, 0)
	c.out = appendSetting(c.out, http2.SettingInitialWindowSize, clientStreamWindow)
	c.out = appendSetting(c.out, http2.SettingMaxHeaderListSize, uint32(min(o.MaxHeaderBytes, math.MaxUint32)))
	c.out = appendWindowUpdate(c.out, 0, clientConnWindow-defaultWindow)
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
func (c *ClientConn) Ready() <-chan struct{} { return c.ready }

// Err returns the reason why the connection accepts no more calls, or nil while it does.
// Calls in flight may still succeed.
func (c *ClientConn) Err() error {
	if c.free.Load() >= 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Available returns the number of calls that can be added.
func (c *ClientConn) Available() int { return int(max(c.free.Load(), 0)) }

// InFlight returns the number of calls on the connection.
func (c *ClientConn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams)
}

// Close closes the connection and ends the calls on it. It may be called twice.
func (c *ClientConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(errClosed)
	return nil
}

// recount sets how many calls may be added; below zero for a connection that
// takes no more at all. The lock is held, as in all methods that do not say
// otherwise.
func (c *ClientConn) recount() {
	if c.err != nil {
		c.free.Store(-1)
		return
	}
	c.free.Store(max(c.peer.streams-int64(len(c.streams)), 0))
}

// retire keeps further calls away.
func (c *ClientConn) retire(err error) {
	if c.err == nil {
		c.err = err
	}
	c.recount()
}

// fail ends everything. Only the first error counts.
func (c *ClientConn) fail(err error) {
	if c.failed {
		return
	}
	c.failed = true
	c.retire(err)
	for _, s := range c.streams {
		c.endStream(s, err)
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

// The frames about the connection as a whole: settings, pings, farewells and windows.

// settings takes the peer's settings.
func (r *reader) settings(f frame, payload []byte) error {
	switch {
	case f.stream != 0:
		return broken(http2.ErrCodeProtocol, "settings on a stream")
	case f.flags&http2.FlagSettingsAck != 0 && len(payload) == 0:
		return nil
	case f.flags&http2.FlagSettingsAck != 0 || len(payload)%6 != 0:
		return broken(http2.ErrCodeFrameSize, "settings of %d bytes", len(payload))
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; len(payload) > 0; payload = payload[6:] {
		if err := c.set(http2.SettingID(binary.BigEndian.Uint16(payload)), int64(binary.BigEndian.Uint32(payload[2:]))); err != nil {
			return err
		}
	}
	r.settled, c.peer.known = true, true
	c.recount()
	if err := c.owe(appendFrameHeader(nil, 0, http2.FrameSettings, http2.FlagSettingsAck, 0)); err != nil {
		return err
	}
	c.told.Do(func() { close(c.ready) })
	if c.opts.Changed != nil {
		c.opts.Changed()
	}
	return nil
}

// set takes one setting.
func (c *ClientConn) set(id http2.SettingID, value int64) error {
	switch id {
	case http2.SettingHeaderTableSize:
		c.encoder.SetMaxDynamicTableSizeLimit(uint32(min(value, 4096)))
	case http2.SettingMaxConcurrentStreams:
		c.peer.streams = min(value, math.MaxInt32)
	case http2.SettingMaxHeaderListSize:
		c.peer.headerList = value
	case http2.SettingMaxFrameSize:
		if value < defaultFrameSize || value > maxFrameSize {
			return broken(http2.ErrCodeProtocol, "a frame size of %d", value)
		}
		c.peer.frameSize = min(value, highWater) // larger ones would delay other calls
	case http2.SettingInitialWindowSize:
		if value > maxWindow {
			return broken(http2.ErrCodeFlowControl, "a window of %d", value)
		}
		change := value - c.peer.window
		c.peer.window = value
		for _, s := range c.streams {
			if s.window += change; s.window > maxWindow {
				return broken(http2.ErrCodeFlowControl, "a window of more than 2^31-1")
			}
			c.resume(s)
		}
	}
	return nil
}

// resume goes on with a stream whose window may have opened.
func (c *ClientConn) resume(s *clientStream) {
	if s.window > 0 && !s.ended && !s.over {
		c.waiting.add(s)
		c.startWriting()
	}
}

// owe sends what the peer is owed.
func (c *ClientConn) owe(answer []byte) error {
	if c.owed += len(answer); c.owed > clientMaxOwed {
		return broken(http2.ErrCodeEnhanceYourCalm, "too much asked at once")
	}
	c.out = append(c.out, answer...)
	c.startWriting()
	return nil
}

// ping answers a ping, or takes the answer to ours.
func (r *reader) ping(f frame, payload []byte) error {
	switch {
	case f.stream != 0:
		return broken(http2.ErrCodeProtocol, "a ping on a stream")
	case len(payload) != 8:
		return broken(http2.ErrCodeFrameSize, "a ping of %d bytes", len(payload))
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.flags&http2.FlagSettingsAck != 0 {
		return nil // to have been read is all that was asked of it
	}
	return c.owe(append(appendFrameHeader(nil, 8, http2.FramePing, http2.FlagSettingsAck, 0), payload...))
}

// goAway takes no further calls, and ends those that the peer did not process.
func (r *reader) goAway(f frame, payload []byte) error {
	switch {
	case f.stream != 0:
		return broken(http2.ErrCodeProtocol, "a GOAWAY on a stream")
	case len(payload) < 8:
		return broken(http2.ErrCodeFrameSize, "a GOAWAY of %d bytes", len(payload))
	}
	last := binary.BigEndian.Uint32(payload) & maxStreamID
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.retire(ErrGoAway)
	for id, s := range c.streams {
		if id > last {
			c.endStream(s, ErrGoAway)
		}
	}
	if len(c.streams) == 0 {
		c.fail(ErrGoAway)
	}
	if c.opts.Changed != nil {
		c.opts.Changed()
	}
	return nil
}

// windowUpdate lets more be sent.
func (r *reader) windowUpdate(f frame, payload []byte) error {
	if len(payload) != 4 {
		return broken(http2.ErrCodeFrameSize, "a window update of %d bytes", len(payload))
	}
	n := int64(binary.BigEndian.Uint32(payload) & maxWindow)
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.stream == 0 {
		if c.window += n; n == 0 || c.window > maxWindow {
			return broken(http2.ErrCodeFlowControl, "an invalid window update")
		}
		if c.waiting.first != nil {
			c.startWriting()
		}
		return nil
	}
	s, err := r.find(f)
	switch {
	case err != nil:
		return err
	case s == nil:
		return nil
	}
	if s.window += n; n > 0 && s.window <= maxWindow {
		c.resume(s)
		return nil
	}
	c.cut(s, broken(http2.ErrCodeFlowControl, "an invalid window update on a stream"), http2.ErrCodeFlowControl)
	return nil
}

// maxPings is how many pings a peer gets between two pieces of answers. Servers of
// gRPC take more than that for abuse and end the connection with all calls on it:
// the first ping behind a piece of an answer is free, two more within five minutes
// are tolerated. One stays in hand.
const maxPings = 2

// checksPerDoubt is how often a connection is looked at while it is becoming
// suspicious.
const checksPerDoubt = 4

// pulse tracks whether the peer is alive. Any byte that is read shows that it is.
type pulse struct {
	// owed is when a call was made since which nothing has been read; zero where
	// something has been, or no call is left.
	owed time.Time
	// pinged is whether a ping is out and nothing has been read since. The time that
	// has passed since then is counted in looks at the connection: while this process
	// itself is stopped, the peer is not to blame.
	pinged  bool
	silence time.Duration
	// leaves is where the ping ends among the connection's bytes.
	leaves int64
	// left are the pings that the peer still tolerates; last is when one was sent.
	left int
	last time.Time
	// replaced is set when a younger connection has reached the peer while this one
	// was under suspicion; looks are those since then.
	replaced bool
	looks    int
}

// Suspect reports whether the peer has failed to answer a ping within SuspectAfter while
// calls are in flight or were given up. One byte from the peer clears the suspicion.
// Calls on a suspect connection continue; new ones should use another connection.
func (c *ClientConn) Suspect() bool { return c.doubt.Load() }

// Replaced tells the connection that a newer one has reached the peer. A suspect
// connection then gives up the calls that are safe to retry if it stays silent for two
// more checks, and all calls when the ping has had no answer for PingTimeout. A
// connection that has not been replaced is kept: the whole peer is stalled, and its
// responses may still come.
func (c *ClientConn) Replaced() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubt.Load() {
		c.pulse.replaced = true
	}
}

// watchInterval is how often check looks: a part of the shortest time that it has
// to tell.
func (c *ClientConn) watchInterval() time.Duration {
	o := &c.opts
	shortest := min(o.PingTimeout, o.WriteTimeout, o.PingAfter) / 2
	return max(min(shortest, min(o.QuietAfter, o.SuspectAfter)/checksPerDoubt), time.Millisecond)
}

// check finds out what never happened.
func (c *ClientConn) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed {
		return
	}
	now, p := time.Now(), &c.pulse
	behind := (p.pinged || !p.owed.IsZero()) && c.behind()
	if p.pinged && !behind {
		p.silence += c.watchInterval()
	}
	if !c.writeBegan.IsZero() {
		c.stuck += c.watchInterval()
	}
	switch {
	case c.stuck > c.opts.WriteTimeout && !c.writeBegan.IsZero():
		c.fail(errStuck)
		return
	case p.silence >= c.opts.SuspectAfter && !c.doubt.Load():
		c.suspect(true)
	case !p.owed.IsZero() && now.Sub(p.owed) > c.opts.QuietAfter && c.mayPing(now) && !behind,
		len(c.streams) > 0 && now.Sub(c.lastRead) > c.opts.PingAfter:
		c.ping(now)
	}
	if p.pinged && !behind && c.isDead(now) {
		c.fail(errSilent)
		return
	}
	c.watch.Reset(c.watchInterval())
}

// behind reports whether the silence is ours: the reader is at work, bytes of the
// peer wait to be read, or our ping has not been given to the socket although that
// takes more. A process that gets too little of a processor would take each for the
// peer's death.
func (c *ClientConn) behind() bool {
	if c.pulse.pinged && c.handed < c.pulse.leaves && c.writeBegan.IsZero() {
		return true
	}
	return !c.parked.Load() || hasUnread(c.nc)
}

// isDead decides about a connection whose ping has no answer. Calls that may be
// repeated leave one that was replaced earlier than the others.
func (c *ClientConn) isDead(now time.Time) bool {
	p := &c.pulse
	if p.replaced {
		if p.looks++; p.looks > 1 {
			c.leave()
		}
		if len(c.streams) == 0 {
			return true // nothing is lost
		}
	}
	if p.silence < c.opts.PingTimeout {
		return false
	}
	quiet := c.lastRead
	if p.owed.After(quiet) {
		quiet = p.owed
	}
	return p.replaced || len(c.streams) == 0 || now.Sub(quiet) > c.opts.PingAfter
}

// leave ends the calls that will be made again elsewhere. Any other is better off
// here: its answer may still come.
func (c *ClientConn) leave() {
	for _, s := range c.streams {
		if s.req.Again != nil && s.req.Again.Claim() {
			c.cut(s, errSilent, http2.ErrCodeCancel)
		}
	}
}

// suspect begins or ends suspicion.
func (c *ClientConn) suspect(is bool) {
	c.doubt.Store(is)
	if c.opts.Changed != nil {
		c.opts.Changed()
	}
}

// alive notes that something was read.
func (c *ClientConn) alive(now time.Time) {
	c.lastRead = now
	p := &c.pulse
	p.owed, p.pinged, p.silence = time.Time{}, false, 0
	if c.doubt.Load() {
		p.replaced, p.looks = false, 0
		c.suspect(false)
	}
}

// progress notes a piece of an answer, behind which servers count pings anew.
func (c *ClientConn) progress() { c.pulse.left = maxPings }

// owes notes that a call was made, or, with none left, that nothing is owed. The zero time is the present.
func (c *ClientConn) owes(now time.Time) {
	switch {
	case len(c.streams) == 0:
		c.pulse.owed = time.Time{}
	case !c.pulse.owed.IsZero():
	case now.IsZero():
		c.pulse.owed = time.Now()
	default:
		c.pulse.owed = now
	}
}

// mayPing reports whether the peer tolerates a ping.
func (c *ClientConn) mayPing(now time.Time) bool {
	p := &c.pulse
	return !p.pinged && (p.left > 0 || now.Sub(p.last) > c.opts.PingAfter)
}

// gaveUp learns of a call without an answer. A peer from which nothing has come
// since the call was made is asked whether it is there, so that a connection that
// is dead is found out before the next caller waits for it. Where it would take
// offence, the connection takes no more calls instead.
func (c *ClientConn) gaveUp(s *clientStream) {
	now := time.Now()
	switch {
	case !c.lastRead.Before(s.made), c.pulse.pinged, c.behind():
	case c.mayPing(now):
		c.ping(now)
	case now.Sub(s.made) > c.opts.QuietAfter:
		c.retire(errSilent)
	}
}

// ping asks the peer for a sign of life, once at a time.
func (c *ClientConn) ping(now time.Time) {
	p := &c.pulse
	if p.pinged {
		return
	}
	p.pinged, p.silence, p.last = true, 0, now
	p.left = max(p.left-1, 0)
	c.out = appendFrameHeader(c.out, 8, http2.FramePing, 0, 0)
	c.out = append(c.out, "outrigge"...)
	p.leaves = c.place()
	c.startWriting()
}

// Request is one call. [ClientConn.Do] keeps nothing of it after it has returned.
type Request struct {
	Scheme, Authority, Path string
	UserAgent               string
	// Timeout is the timeout that is sent to the peer. Zero sends none.
	Timeout time.Duration
	// AcceptGzip allows a compressed response.
	AcceptGzip bool
	// Metadata has valid names and values, and none of the protocol's own.
	Metadata http.Header
	// TraceParent is the value of traceparent (W3C Trace Context), 55 bytes of visible ASCII; "" for none. It is metadata, but nearly every
	// call of a traced sidecar has it, and no other: it needs no map.
	TraceParent string
	// Message is sent unchanged, in one gRPC frame.
	Message []byte
	// MaxAnswer bounds the message of the response, compressed or not.
	MaxAnswer int
	// Again reserves a retry of a call that is safe to run twice, so that it need not
	// wait for a connection that is probably dead. Nil means no retry. It must not block.
	Again interface{ Claim() bool }
}

// Answer is the response. If it is not a gRPC response (by HTTP status or content type),
// only its headers are read. With an error of [ClientConn.Do] it holds what had arrived: at
// most the HTTP status.
type Answer struct {
	// HTTPStatus is zero if no headers came.
	HTTPStatus            int
	ContentType, Encoding string
	// Messages is the number of messages. Only the first is kept, with its flag byte.
	Messages int
	Flags    byte
	Message  []byte
	// Cut means that the response ended within a message.
	Cut bool
	// Status, StatusMessage and StatusDetails are the received values of grpc-status,
	// grpc-message and grpc-status-details-bin. HasStatus means that there was a
	// grpc-status, and HasTrailingStatus that it came behind the messages.
	HasStatus, HasTrailingStatus         bool
	Status, StatusMessage, StatusDetails string
	// Header and Trailer are the metadata in canonical form. They are nil if there is
	// none.
	Header, Trailer http.Header
}

// clientStream is one call in flight. The connection's lock guards it, except answer
// and reading, which belong to the reader until the stream has ended.
type clientStream struct {
	id   uint32
	req  *Request
	done chan struct{} // gets one value when the stream has ended
	over bool
	err  error // why it ended badly

	next, previous *clientStream // in the list of those that have something to send
	listed         bool
	from, to       int64 // where the request begins and ends among the connection's bytes
	begun          bool  // from is known
	ended          bool  // to is known: all is in the connection's buffer
	offset         int   // how much of prefix and message is
	window         int64 // what may be sent
	made           time.Time

	answer     Answer
	hasHeaders bool
	status     int // of HTTP; a copy for callers that give up
	reading    messageReader
	credit     int64 // what the peer may still send
	consumed   int64 // what was taken in and not told the peer
}

// Do makes one call and waits for it to end. The error is a *Failure. If the error is
// nil, into holds a complete HTTP response, which may still be invalid for gRPC. The
// caller owns the message.
func (c *ClientConn) Do(ctx context.Context, req *Request, into *Answer) error {
	*into = Answer{}
	s := &clientStream{req: req, done: make(chan struct{}, 1), credit: clientStreamWindow}
	s.reading.limit = req.MaxAnswer
	if err := c.enqueue(s); err != nil {
		return &Failure{Cause: err}
	}
	select {
	case <-s.done:
	case <-ctx.Done():
		if f := c.abandon(s, context.Cause(ctx), into); f != nil {
			return f
		}
	}
	if s.err != nil {
		return c.failure(s, into)
	}
	*into = s.answer // the reader is done with it
	return nil
}

// enqueue puts a stream among those that are to be sent.
func (c *ClientConn) enqueue(s *clientStream) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	if size := s.req.headerListSize(); size > c.peer.headerList {
		return ErrRequestHeader
	}
	if c.nextID > maxStreamID {
		c.retire(errStreamIDs)
		return errStreamIDs
	}
	s.id = c.nextID
	c.nextID += 2
	s.window = c.peer.window
	s.made = time.Now()
	c.streams[s.id] = s
	c.owes(s.made)
	c.recount()
	c.waiting.add(s)
	c.startWriting()
	return nil
}

// abandon gives up a stream; nil where it has ended in the meantime.
func (c *ClientConn) abandon(s *clientStream, cause error, into *Answer) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.over {
		return nil
	}
	into.HTTPStatus = s.status
	f := c.measured(s, cause)
	c.gaveUp(s)
	c.cut(s, cause, http2.ErrCodeCancel)
	return f
}

// remove takes a stream out of the connection.
func (c *ClientConn) remove(s *clientStream) {
	s.over = true
	c.waiting.remove(s)
	delete(c.streams, s.id)
	c.owes(time.Time{})
	c.recount()
	if c.err != nil && len(c.streams) == 0 {
		c.fail(c.err) // it was only kept for the calls on it
	}
}

// endStream ends a stream for its caller, with an error where it ended badly. Only the
// reader may end one well.
func (c *ClientConn) endStream(s *clientStream, err error) {
	if s.over {
		return
	}
	s.err = err
	c.remove(s)
	s.done <- struct{}{}
}

// cut ends a stream and tells the peer, because of an error or because what is
// left of the call is of no use.
func (c *ClientConn) cut(s *clientStream, err error, code http2.ErrCode) {
	if s.over {
		return
	}
	if s.begun {
		c.out = appendReset(c.out, s.id, code)
		c.startWriting()
	}
	c.endStream(s, err)
}

// failure is the Failure of a stream that has ended. It takes the lock.
func (c *ClientConn) failure(s *clientStream, into *Answer) *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	into.HTTPStatus = s.status
	return c.measured(s, s.err)
}

// measured says how much of the request left.
func (c *ClientConn) measured(s *clientStream, cause error) *Failure {
	taken := c.handed // bytes within a write may have left
	if c.writeBegan.IsZero() {
		taken = c.sent
	}
	return &Failure{Cause: cause, Began: s.begun && s.from < taken, Complete: s.ended && s.to <= taken}
}

// streamList is a queue that streams can be taken out of.
type streamList struct{ first, last *clientStream }

func (l *streamList) add(s *clientStream) {
	if s.listed {
		return
	}
	s.listed = true
	s.previous, s.next = l.last, nil
	if l.last != nil {
		l.last.next = s
	} else {
		l.first = s
	}
	l.last = s
}

func (l *streamList) remove(s *clientStream) {
	if !s.listed {
		return
	}
	s.listed = false
	if s.previous != nil {
		s.previous.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.previous = s.previous
	} else {
		l.last = s.previous
	}
	s.next, s.previous = nil, nil
}

const (
	// preallocated is the largest buffer that the peer's length prefix alone can
	// reserve. Beyond it, the buffer grows only as bytes arrive.
	preallocated = 1 << 20
	// growth is the factor by which the buffer then grows. A large message is copied
	// once or twice, where append would copy it a dozen times.
	growth = 4
)

// messageReader takes in the body of an answer: messages, each behind its
// prefix. It keeps the first and counts on.
type messageReader struct {
	limit  int // of each message
	prefix [prefixBytes]byte
	have   int // bytes of the prefix
	left   int // bytes of the message that have not come
	inside bool
	count  int
	kept   []byte
	flags  byte
}

// cut reports whether the body ended within a message.
func (m *messageReader) cut() bool { return m.inside || m.have > 0 }

// addPiece takes in a piece of the body.
func (m *messageReader) addPiece(p []byte) error {
	for len(p) > 0 {
		if !m.inside {
			n := copy(m.prefix[m.have:], p)
			m.have += n
			p = p[n:]
			if m.have < prefixBytes {
				return nil
			}
			if err := m.open(); err != nil {
				return err
			}
			continue
		}
		n := min(m.left, len(p))
		if m.count == 0 {
			m.grow(n)
			m.kept = append(m.kept, p[:n]...)
		}
		m.took(n)
		p = p[n:]
	}
	return nil
}

// open begins the message whose prefix is complete.
func (m *messageReader) open() error {
	m.have = 0
	size := binary.BigEndian.Uint32(m.prefix[1:])
	if int64(size) > int64(m.limit) {
		return ErrAnswerTooLarge
	}
	m.inside, m.left = true, int(size)
	if m.count == 0 {
		m.flags = m.prefix[0]
		m.kept = make([]byte, 0, min(m.left, preallocated))
	}
	m.took(0)
	return nil
}

// took counts bytes of the message, and closes it behind the last.
func (m *messageReader) took(n int) {
	m.left -= n
	if m.left == 0 {
		m.inside = false
		m.count++
	}
}

// grow makes room for n bytes, and for more of what was announced.
func (m *messageReader) grow(n int) {
	have := len(m.kept)
	if cap(m.kept)-have >= n {
		return
	}
	more := min(max(n, (growth-1)*have), m.left)
	m.kept = append(make([]byte, 0, have+more), m.kept...)
}

// room is where the next bytes of the first message may be read to, at most n;
// empty where something else comes next.
func (m *messageReader) room(n int) []byte {
	if !m.inside || m.count > 0 {
		return nil
	}
	at := len(m.kept)
	return m.kept[at:min(cap(m.kept), at+min(n, m.left))]
}

// filled tells that n bytes were read to there.
func (m *messageReader) filled(n int) {
	m.kept = m.kept[:len(m.kept)+n]
	m.took(n)
}

// Causes of a Failure, besides errors of the socket and [*ResetError].
var (
	// errClosed means that Close was called.
	errClosed = errors.New("the connection was closed")
	// ErrGoAway means that the peer is shutting the connection down and did not process
	// the request.
	ErrGoAway = errors.New("the server is shutting the connection down and did not process the request")
	// errHeaderTooLarge means that the header fields of the response exceed their limit.
	errHeaderTooLarge = errors.New("the headers of the response are too large")
	// ErrAnswerTooLarge means that the message of the response exceeds its limit.
	ErrAnswerTooLarge = errors.New("the response is too large")
	// ErrRequestHeader means that the request has more header fields than the peer
	// accepts.
	ErrRequestHeader = errors.New("the metadata exceeds the server's limit")
	// errSilent means that the peer did not answer a ping.
	errSilent = errors.New("the server does not answer pings")
	// errStuck means that a write made no progress for too long.
	errStuck = errors.New("the server does not read")
	// errStreamIDs means that the connection has used all its stream ids.
	errStreamIDs = errors.New("the connection has no stream ids left")
)

// ResetError means that the peer reset the stream of a call.
type ResetError struct {
	// Code is an error code of RFC 9113, section 7.
	Code http2.ErrCode
}

// Error implements error.
func (e *ResetError) Error() string {
	return fmt.Sprintf("the server reset the stream with code %d", e.Code)
}

// protocolError means that the peer violated HTTP/2, on one stream or on the connection.
type protocolError struct {
	// Code is an error code of RFC 9113, section 7.
	Code   http2.ErrCode
	Reason string
}

// Error implements error.
func (e *protocolError) Error() string { return "HTTP/2: " + e.Reason }

func broken(code http2.ErrCode, format string, args ...any) *protocolError {
	return &protocolError{Code: code, Reason: fmt.Sprintf(format, args...)}
}

// Failure is the type of every error of [ClientConn.Do].
type Failure struct {
	// Cause is an error of this package, of the socket, or of the context.
	Cause error
	// Began is false if certainly no byte of the request was sent, Complete if certainly
	// not all of them were. A method does not run on a partial request.
	Began, Complete bool
}

// Error implements error.
func (f *Failure) Error() string { return f.Cause.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Unprocessed reports whether the peer said that it did not process the request (RFC
// 9113, section 8.7), so that a retry is safe.
func (f *Failure) Unprocessed() bool {
	reset := new(ResetError)
	return errors.Is(f.Cause, ErrGoAway) || errors.As(f.Cause, &reset) && reset.Code == http2.ErrCodeRefusedStream
}

// startWriting wakes the writer. The lock is held.
func (c *ClientConn) startWriting() {
	if c.writing {
		return
	}
	c.writing = true
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// writeLoop writes what there is, as much as there is, until the connection
// fails.
func (c *ClientConn) writeLoop() {
	for {
		select {
		case <-c.wake:
		case <-c.closed:
			return
		}
		// Other senders share the write.
		runtime.Gosched()
		for c.writeOnce() {
		}
	}
}

// writeOnce writes one batch and reports whether there may be more.
func (c *ClientConn) writeOnce() bool {
	c.mu.Lock()
	c.fill()
	if len(c.out) == 0 || c.failed {
		c.writing = false
		c.mu.Unlock()
		return false
	}
	batch := c.out
	c.out, c.spare = c.spare[:0], nil
	c.owed = 0
	c.handed += int64(len(batch))
	c.writeBegan, c.stuck = time.Now(), 0
	c.mu.Unlock()

	n, err := c.nc.Write(batch)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent += int64(n)
	c.writeBegan = time.Time{}
	if cap(batch) <= 2*highWater {
		c.spare = batch[:0]
	}
	if err != nil {
		c.fail(err)
	}
	return true
}

// fill adds requests to what is written next, each stream one frame in turn, as
// far as the windows and the high-water mark admit.
func (c *ClientConn) fill() {
	for s := c.waiting.first; s != nil && len(c.out) < highWater; s = c.waiting.first {
		if !s.begun {
			c.appendHeaders(s)
		}
		room := min(c.window, s.window, c.peer.frameSize)
		if room <= 0 {
			if c.window <= 0 {
				return // all wait for the connection
			}
			c.waiting.remove(s) // until its window opens
			continue
		}
		c.appendData(s, int(room))
		c.waiting.remove(s)
		if !s.ended {
			c.waiting.add(s)
		}
	}
}

// place is where the next byte of out is in the connection.
func (c *ClientConn) place() int64 { return c.handed + int64(len(c.out)) }

// appendHeaders appends the request's header fields, in as many frames as the
// peer's frame size takes.
func (c *ClientConn) appendHeaders(s *clientStream) {
	s.begun, s.from = true, c.place()
	c.block.Reset()
	s.req.encode(c.encoder)
	if parent := s.req.TraceParent; parent != "" {
		appendLiteral(&c.block, traceParent, parent)
	}
	kind, block := http2.FrameHeaders, c.block.Bytes()
	for {
		piece := block[:min(len(block), int(c.peer.frameSize))]
		block = block[len(piece):]
		var flags http2.Flags
		if len(block) == 0 {
			flags = http2.FlagHeadersEndHeaders
		}
		c.out = appendFrameHeader(c.out, len(piece), kind, flags, s.id)
		c.out = append(c.out, piece...)
		if len(block) == 0 {
			return
		}
		kind = http2.FrameContinuation
	}
}

// appendData appends at most room bytes of the message and its prefix.
func (c *ClientConn) appendData(s *clientStream, room int) {
	message := s.req.Message
	n := min(room, prefixBytes+len(message)-s.offset)
	var flags http2.Flags
	if s.offset+n == prefixBytes+len(message) {
		flags = http2.FlagDataEndStream
	}
	c.out = appendFrameHeader(c.out, n, http2.FrameData, flags, s.id)
	left := n
	if s.offset < prefixBytes {
		var prefix [prefixBytes]byte // the first byte is zero: not compressed
		binary.BigEndian.PutUint32(prefix[1:], uint32(len(message)))
		part := prefix[s.offset:min(prefixBytes, s.offset+left)]
		c.out = append(c.out, part...)
		s.offset += len(part)
		left -= len(part)
	}
	at := s.offset - prefixBytes
	if left > 0 {
		c.out = append(c.out, message[at:at+left]...)
		s.offset += left
	}
	c.window -= int64(n)
	s.window -= int64(n)
	if flags != 0 {
		s.ended, s.to = true, c.place()
	}
}

// encode writes the header fields (gRPC over HTTP/2, requests).
func (r *Request) encode(enc *hpack.Encoder) {
	r.fields(func(f hpack.HeaderField) {
		_ = enc.WriteField(f) // to a buffer, which does not fail
	})
}

// traceParent is the header of W3C Trace Context.
const traceParent = "traceparent"

// appendLiteral writes a field that no table keeps, as plain bytes (RFC 7541, section 6.2.3). It is for fields whose value never
// repeats: the encoder would look for it in its table, and Huffman's code saves a fifth of an id and costs both sides more than the
// bytes. name and value are shorter than 127 bytes, so that a length is one byte.
func appendLiteral(block *bytes.Buffer, name, value string) {
	block.WriteByte(0x10)
	block.WriteByte(byte(len(name)))
	block.WriteString(name)
	block.WriteByte(byte(len(value)))
	block.WriteString(value)
}

// headerListSize is the size as the peer's limit counts it.
func (r *Request) headerListSize() int64 {
	if len(r.Metadata) == 0 {
		return 0 // what is left is far below any limit that a server could serve with
	}
	size := int64(0)
	if r.TraceParent != "" {
		size += int64(hpack.HeaderField{Name: traceParent, Value: r.TraceParent}.Size())
	}
	r.fields(func(f hpack.HeaderField) { size += int64(f.Size()) })
	return size
}

// fields yields the header fields in their order.
func (r *Request) fields(yield func(hpack.HeaderField)) {
	yield(hpack.HeaderField{Name: ":method", Value: "POST"})
	yield(hpack.HeaderField{Name: ":scheme", Value: r.Scheme})
	yield(hpack.HeaderField{Name: ":path", Value: r.Path})
	yield(hpack.HeaderField{Name: ":authority", Value: r.Authority})
	yield(hpack.HeaderField{Name: "content-type", Value: "application/grpc"})
	yield(hpack.HeaderField{Name: "user-agent", Value: r.UserAgent})
	yield(hpack.HeaderField{Name: "te", Value: "trailers"})
	if r.AcceptGzip {
		yield(hpack.HeaderField{Name: "grpc-accept-encoding", Value: "gzip"})
	}
	if r.Timeout != 0 {
		// Never the same twice, so that it would only push out of the table what is.
		yield(hpack.HeaderField{Name: "grpc-timeout", Value: encodeTimeout(r.Timeout), Sensitive: true})
	}
	for name, values := range r.Metadata {
		name = lower(name)
		for _, value := range values {
			yield(hpack.HeaderField{Name: name, Value: value, Sensitive: isOfOneCall(name)})
		}
	}
}

// lower is a name as HTTP/2 has it. With tracing, every call has the first one.
func lower(name string) string {
	if name == "Traceparent" {
		return "traceparent"
	}
	return strings.ToLower(name)
}

// isOfOneCall holds for metadata that differs from call to call. In the table of the connection it would only push out what repeats,
// such as the path, which each side then has to write and read in full.
func isOfOneCall(name string) bool {
	switch name {
	case "traceparent", "tracestate", "baggage", "b3", "x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "uber-trace-id", "x-amzn-trace-id",
		"x-request-id", "idempotency-key":
		return true
	}
	return false
}

// encodeTimeout writes a time in the finest unit in which it has at most eight
// digits, rounded down (gRPC over HTTP/2, requests).
func encodeTimeout(d time.Duration) string {
	const most = 99_999_999
	d = max(d, 0)
	for _, u := range [...]struct {
		size time.Duration
		name byte
	}{{time.Nanosecond, 'n'}, {time.Microsecond, 'u'}, {time.Millisecond, 'm'}, {time.Second, 'S'}, {time.Minute, 'M'}} {
		if d/u.size <= most {
			return string(append(strconv.AppendInt(make([]byte, 0, 9), int64(d/u.size), 10), u.name))
		}
	}
	return string(append(strconv.AppendInt(make([]byte, 0, 9), int64(d/time.Hour), 10), 'H'))
}

// readBuffer holds at least one frame of the size that we admit, which is the
// default one.
const readBuffer = frameHeaderBytes + 2*defaultFrameSize

// maxPieces bounds the frames of one header block, which may be empty: far more
// than a block of the largest size has, with frames of the size that peers use.
const maxPieces = 1024

// reader is the reading half of a connection; one goroutine has it.
type reader struct {
	c          *ClientConn
	buf        []byte
	start, end int // of what was read and not taken

	decoder *hpack.Decoder
	fields  fieldReader
	// block gathers a header block that comes in more than one frame, for stream
	// blockOf.
	block    []byte
	blockOf  uint32
	pieces   int  // frames of the block
	blockEnd bool // the block ends its stream
	settled  bool // the peer's settings have come
}

// frame is the header of a frame.
type frame struct {
	length int
	kind   http2.FrameType
	flags  http2.Flags
	stream uint32
}

// readLoop reads frames until the connection ends.
func (c *ClientConn) readLoop() {
	r := &reader{c: c, buf: make([]byte, readBuffer)}
	r.decoder = hpack.NewDecoder(4096, r.fields.field) // the default size of the table, RFC 9113, section 6.5.2
	r.decoder.SetMaxStringLength(4 * c.maxBlock())     // no code of the table is shorter than five bits
	for {
		if err := r.frame(); err != nil {
			r.give(err)
			return
		}
	}
}

// give up the connection. A peer that broke the rules is not told so: its next
// word could not be trusted either, and nothing should wait for a farewell.
func (r *reader) give(err error) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(err)
}

// more reads what there is, behind what has not been taken.
func (r *reader) more() error {
	if r.start > 0 {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	n, err := r.read(r.buf[r.end:])
	r.end += n
	if n > 0 {
		r.arrived()
		return nil
	}
	return err
}

// read reads from the socket, and says so.
func (r *reader) read(p []byte) (int, error) {
	r.c.parked.Store(true)
	n, err := r.c.nc.Read(p)
	r.c.parked.Store(false)
	return n, err
}

// arrived notes that the peer is alive.
func (r *reader) arrived() {
	now := time.Now()
	r.c.mu.Lock()
	r.c.alive(now)
	r.c.mu.Unlock()
}

// need waits until n bytes are there and returns them untaken; n is at most a
// frame.
func (r *reader) need(n int) ([]byte, error) {
	for r.end-r.start < n {
		if err := r.more(); err != nil {
			if errors.Is(err, io.EOF) && r.end > r.start {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return r.buf[r.start : r.start+n], nil
}

// frame reads one frame and acts on it.
func (r *reader) frame() error {
	head, err := r.need(frameHeaderBytes)
	if err != nil {
		return err
	}
	f := frame{
		length: int(head[0])<<16 | int(head[1])<<8 | int(head[2]),
		kind:   http2.FrameType(head[3]), flags: http2.Flags(head[4]), stream: binary.BigEndian.Uint32(head[5:]) & maxStreamID,
	}
	switch {
	case f.length > defaultFrameSize:
		return broken(http2.ErrCodeFrameSize, "a frame of %d bytes, %d are allowed", f.length, defaultFrameSize)
	case !r.settled && (f.kind != http2.FrameSettings || f.flags&http2.FlagSettingsAck != 0):
		return broken(http2.ErrCodeProtocol, "the first frame is not SETTINGS")
	case r.blockOf != 0 && (f.kind != http2.FrameContinuation || f.stream != r.blockOf):
		return broken(http2.ErrCodeProtocol, "a header block is interrupted")
	}
	r.start += frameHeaderBytes
	if f.kind == http2.FrameData {
		return r.data(f)
	}
	payload, err := r.need(f.length)
	if err != nil {
		return err
	}
	r.start += f.length
	switch f.kind {
	case http2.FrameHeaders:
		return r.headers(f, payload)
	case http2.FrameContinuation:
		return r.continuation(f, payload)
	case http2.FrameRSTStream:
		return r.reset(f, payload)
	case http2.FrameSettings:
		return r.settings(f, payload)
	case http2.FramePing:
		return r.ping(f, payload)
	case http2.FrameGoAway:
		return r.goAway(f, payload)
	case http2.FrameWindowUpdate:
		return r.windowUpdate(f, payload)
	case http2.FramePushPromise:
		return broken(http2.ErrCodeProtocol, "a push, which was not allowed")
	}
	return nil // unknown kinds are ignored (RFC 9113, section 4.1)
}

// find returns the stream of a frame, nil where it has ended.
func (r *reader) find(f frame) (*clientStream, error) {
	if f.stream == 0 || f.stream%2 == 0 || f.stream >= r.c.nextID {
		return nil, broken(http2.ErrCodeProtocol, "a frame on stream %d, which does not exist", f.stream)
	}
	return r.c.streams[f.stream], nil
}

// data reads a piece of an answer's body.
func (r *reader) data(f frame) error {
	body, padding := f.length, 0
	if f.flags&http2.FlagDataPadded != 0 {
		pad, err := r.need(1)
		if err != nil {
			return err
		}
		r.start++
		padding = int(pad[0])
		body -= 1 + padding
		if body < 0 {
			return broken(http2.ErrCodeProtocol, "more padding than frame")
		}
	}
	s, err := r.admit(f)
	if err != nil {
		return err
	}
	if err := r.body(s, body); err != nil {
		return err
	}
	if err := r.body(nil, padding); err != nil {
		return err
	}
	if s != nil && f.flags&http2.FlagDataEndStream != 0 {
		r.complete(s, true)
	}
	return nil
}

// admit counts a frame of data against the windows. It returns the stream, nil
// for data that is not awaited.
func (r *reader) admit(f frame) (*clientStream, error) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := r.find(f)
	if err != nil {
		return nil, err
	}
	c.progress()
	c.consumed += int64(f.length)
	if c.consumed > clientConnWindow {
		return nil, broken(http2.ErrCodeFlowControl, "more data than the window has")
	}
	if c.consumed >= connRefill {
		c.out = appendWindowUpdate(c.out, 0, uint32(c.consumed))
		c.consumed = 0
		c.startWriting()
	}
	switch {
	case s == nil:
		return nil, nil
	case !s.hasHeaders:
		c.cut(s, broken(http2.ErrCodeProtocol, "data before the headers"), http2.ErrCodeProtocol)
		return nil, nil
	}
	s.credit -= int64(f.length)
	s.consumed += int64(f.length)
	if s.credit < 0 {
		return nil, broken(http2.ErrCodeFlowControl, "more data than the stream's window has")
	}
	if s.consumed >= clientStreamWindow/2 && f.flags&http2.FlagDataEndStream == 0 {
		c.out = appendWindowUpdate(c.out, s.id, uint32(s.consumed))
		s.credit += s.consumed
		s.consumed = 0
		c.startWriting()
	}
	return s, nil
}

// body reads n bytes for a stream, straight into its message where that is what
// comes; for nil it drops them.
func (r *reader) body(s *clientStream, n int) error {
	for n > 0 {
		if r.end == r.start {
			if s != nil {
				if room := s.reading.room(n); len(room) > 0 {
					got, err := r.read(room)
					s.reading.filled(got)
					n -= got
					if got > 0 {
						r.arrived()
						continue
					}
					return err
				}
			}
			if err := r.more(); err != nil {
				return err
			}
		}
		piece := r.buf[r.start:min(r.end, r.start+n)]
		r.start += len(piece)
		n -= len(piece)
		if s == nil {
			continue
		}
		if err := s.reading.addPiece(piece); err != nil {
			r.cut(s, err, http2.ErrCodeCancel)
			s = nil
		}
	}
	return nil
}

// cut is Conn.cut for a reader that does not hold the lock.
func (r *reader) cut(s *clientStream, err error, code http2.ErrCode) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.cut(s, err, code)
}

// complete ends a stream whose answer is there. It is cut where either side has
// not said all: a request that was answered too early, or the rest of a body that
// is none of gRPC.
func (r *reader) complete(s *clientStream, isWhole bool) {
	s.answer.Messages, s.answer.Flags, s.answer.Message = s.reading.count, s.reading.flags, s.reading.kept
	s.answer.Cut = s.reading.cut()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if isWhole && s.ended {
		r.c.endStream(s, nil)
		return
	}
	r.c.cut(s, nil, http2.ErrCodeCancel)
}

// headers begins a header block.
func (r *reader) headers(f frame, payload []byte) error {
	if f.flags&http2.FlagDataPadded != 0 {
		if len(payload) == 0 || int(payload[0]) >= len(payload) {
			return broken(http2.ErrCodeProtocol, "more padding than frame")
		}
		payload = payload[1 : len(payload)-int(payload[0])]
	}
	if f.flags&http2.FlagHeadersPriority != 0 {
		if len(payload) < 5 {
			return broken(http2.ErrCodeFrameSize, "headers of %d bytes cannot hold a priority", len(payload))
		}
		payload = payload[5:]
	}
	r.blockEnd = f.flags&http2.FlagDataEndStream != 0
	if f.flags&http2.FlagHeadersEndHeaders != 0 {
		return r.fieldBlock(f, payload)
	}
	r.blockOf, r.pieces = f.stream, 1
	r.block = append(r.block[:0], payload...)
	return nil
}

// continuation goes on with a header block.
func (r *reader) continuation(f frame, payload []byte) error {
	if r.blockOf == 0 {
		return broken(http2.ErrCodeProtocol, "a continuation of nothing")
	}
	if len(r.block)+len(payload) > r.c.maxBlock() {
		return broken(http2.ErrCodeEnhanceYourCalm, "a header block of more than %d bytes", len(r.block))
	}
	if r.pieces++; r.pieces > maxPieces {
		return broken(http2.ErrCodeEnhanceYourCalm, "a header block in more than %d frames", maxPieces)
	}
	r.block = append(r.block, payload...)
	if f.flags&http2.FlagHeadersEndHeaders == 0 {
		return nil
	}
	block := r.block
	r.blockOf, r.block = 0, nil
	return r.fieldBlock(f, block)
}

// maxBlock bounds a header block as it comes. One that is within the limit of
// header fields is smaller; one that is over it costs its call, and one over this
// the connection.
func (c *ClientConn) maxBlock() int { return 2 * max(c.opts.MaxHeaderBytes, defaultFrameSize) }

// fieldBlock reads a whole header block: the headers of an answer, or its
// trailers.
func (r *reader) fieldBlock(f frame, block []byte) error {
	c := r.c
	c.mu.Lock()
	c.progress()
	s, err := r.find(f)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	var answer *Answer
	isTrailer := false
	if s != nil {
		answer, isTrailer = &s.answer, s.hasHeaders
	}
	r.fields.reset(answer, isTrailer, c.opts.MaxHeaderBytes)
	if err := r.decode(block); err != nil {
		return err
	}
	switch {
	case s == nil:
		return nil
	case r.fields.err != nil:
		r.note(s)
		r.cut(s, r.fields.err, http2.ErrCodeProtocol)
		return nil //nolint:nilerr // it is the call's error, and the connection goes on
	case isTrailer && !r.blockEnd:
		r.cut(s, broken(http2.ErrCodeProtocol, "trailers that do not end the answer"), http2.ErrCodeProtocol)
		return nil
	case !isTrailer && r.fields.status == 0:
		r.cut(s, broken(http2.ErrCodeProtocol, "headers without a status"), http2.ErrCodeProtocol)
		return nil
	case !isTrailer && r.fields.status < 200:
		if r.blockEnd {
			r.cut(s, broken(http2.ErrCodeProtocol, "an interim answer that ends the stream"), http2.ErrCodeProtocol)
		}
		*answer = Answer{} // more headers follow
		return nil
	}
	r.note(s)
	if r.blockEnd || !answer.isGRPC() {
		r.complete(s, r.blockEnd)
	}
	return nil
}

// note keeps the status where a caller that gives up finds it.
func (r *reader) note(s *clientStream) {
	if r.fields.status == 0 {
		return
	}
	s.answer.HTTPStatus = r.fields.status
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	s.status, s.hasHeaders = r.fields.status, true
}

// decode reads a block to its end.
func (r *reader) decode(block []byte) error {
	_, err := r.decoder.Write(block)
	if err == nil {
		err = r.decoder.Close()
	}
	if err != nil {
		return broken(http2.ErrCodeCompression, "a header block cannot be read: %v", err)
	}
	return nil
}

// reset ends a stream for the peer's reason.
func (r *reader) reset(f frame, payload []byte) error {
	if len(payload) != 4 {
		return broken(http2.ErrCodeFrameSize, "a reset of %d bytes", len(payload))
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	s, err := r.find(f)
	if err != nil || s == nil {
		return err
	}
	r.c.endStream(s, &ResetError{Code: http2.ErrCode(binary.BigEndian.Uint32(payload))})
	return nil
}

// fieldReader turns the fields of one header block into facts of an answer. A
// block without one, of a call that was given up, is read all the same, because
// the compression of the blocks after it builds on it.
type fieldReader struct {
	answer  *Answer
	trailer bool // the block is the trailers
	limit   int
	size    int
	status  int // of HTTP
	err     error
}

// isGRPC tells an answer of gRPC from one of an HTTP server in its place. The HTTP status
// says nothing about that: a proxy may set it beside the status of gRPC.
func (a *Answer) isGRPC() bool {
	kind, _, _ := strings.Cut(a.ContentType, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return kind == "application/grpc" || strings.HasPrefix(kind, "application/grpc+")
}

// reset begins a block.
func (r *fieldReader) reset(answer *Answer, trailer bool, limit int) {
	*r = fieldReader{answer: answer, trailer: trailer, limit: limit}
}

// field takes one field.
func (r *fieldReader) field(f hpack.HeaderField) {
	r.size += int(f.Size())
	switch {
	case r.answer == nil || r.err != nil:
		return
	case r.size > r.limit:
		r.err = errHeaderTooLarge
		return
	}
	if strings.HasPrefix(f.Name, ":") {
		r.pseudo(f)
		return
	}
	if !isFieldName(f.Name) || !isFieldValue(f.Value) {
		r.err = broken(http2.ErrCodeProtocol, "the response has a malformed header field")
		return
	}
	a := r.answer
	switch f.Name {
	case "content-type":
		if !r.trailer {
			a.ContentType = f.Value
		}
	case "grpc-encoding":
		a.Encoding = f.Value
	case "grpc-status":
		a.HasStatus, a.HasTrailingStatus, a.Status = true, r.trailer, f.Value
	case "grpc-message":
		a.StatusMessage = f.Value
	case "grpc-status-details-bin":
		a.StatusDetails = f.Value
	default:
		r.metadata(f)
	}
}

// pseudo takes a field of HTTP itself. An answer has one.
func (r *fieldReader) pseudo(f hpack.HeaderField) {
	status, err := strconv.Atoi(f.Value)
	if f.Name != ":status" || r.trailer || r.status != 0 || err != nil || len(f.Value) != 3 || status < 100 {
		r.err = broken(http2.ErrCodeProtocol, "the response has an invalid field %q", f.Name)
		return
	}
	r.status = status
}

func (r *fieldReader) metadata(f hpack.HeaderField) {
	key := textproto.CanonicalMIMEHeaderKey(f.Name)
	into := &r.answer.Header
	if r.trailer {
		into = &r.answer.Trailer
	}
	if *into == nil {
		*into = http.Header{}
	}
	(*into)[key] = append((*into)[key], f.Value)
}

// isFieldName holds for names as HTTP/2 sends them (RFC 9113, section 8.2.1).
func isFieldName(name string) bool {
	for i := range len(name) {
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return name != ""
}

// isFieldValue holds for values without control characters (RFC 9113, section
// 8.2.1, and RFC 9110, section 5.5).
func isFieldValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7F {
			return false
		}
	}
	return true
}

// preface opens a connection (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
