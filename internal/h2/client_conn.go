// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
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
			c.end(s, ErrGoAway)
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

// owes notes that a call was made, or, with none left, that nothing is owed.
func (c *ClientConn) owes(now time.Time) {
	if len(c.streams) == 0 {
		c.pulse.owed = time.Time{}
	} else if c.pulse.owed.IsZero() {
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
