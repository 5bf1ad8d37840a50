// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http2"
)

// leavePing is the payload of the PING behind the first GOAWAY.
const leavePing = "outrigr!"

// maxSettings is how many settings one frame may have. Nine are known.
const maxSettings = 100

// greet appends the server's settings, which are its first frame.
func (c *Conn) greet() {
	const settings = 3
	c.out = appendFrameHeader(c.out, settings*6, http2.FrameSettings, 0, 0)
	c.out = appendSetting(c.out, http2.SettingMaxConcurrentStreams, uint32(c.opts.MaxStreams))
	c.out = appendSetting(c.out, http2.SettingMaxHeaderListSize, c.maxHeaderList())
	c.out = appendSetting(c.out, http2.SettingInitialWindowSize, streamWindow)
	c.out = appendWindowUpdate(c.out, 0, connWindow-initialWindow)
	c.unacked++
	c.startWriting()
}

// await gives the client a time for its settings, and for its first request.
func (c *Conn) await() {
	if d := c.opts.Server.ReadHeaderTimeout; d > 0 {
		_ = c.nc.SetReadDeadline(time.Now().Add(d))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.startIdleTimer()
}

// settings takes the peer's settings, or its word that it has ours.
func (c *Conn) settings(f *http2.SettingsFrame) error {
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
func (c *Conn) set(s http2.Setting) error {
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
func (c *Conn) ping(f *http2.PingFrame) error {
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
func (c *Conn) windowUpdate(f *http2.WindowUpdateFrame) error {
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
func (c *Conn) resume() {
	for s := range c.blocked {
		s.writing.wake()
	}
}

// owe sends what the peer is owed.
func (c *Conn) owe(answer []byte) error {
	if c.owed += len(answer); c.owed > maxOwed {
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
func (c *Conn) Leave() {
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
func (c *Conn) Left() (told, confirmed time.Time) {
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
func (c *Conn) Shutdown() {
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
func (c *Conn) closeSoon() { time.AfterFunc(goodbyeTime, c.Close) }

// startIdleTimer has the connection closed when it has been idle for too long.
func (c *Conn) startIdleTimer() {
	limit := c.opts.Server.IdleTimeout
	if limit <= 0 || c.idleTimer != nil {
		return
	}
	c.restedAt = time.Now()
	c.idleTimer = time.AfterFunc(limit, c.checkIdle)
}

// checkIdle ends a connection that is idle, or looks again when it may be.
func (c *Conn) checkIdle() {
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
func (c *Conn) farewell(cause error) {
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
	_, _ = io.Copy(io.Discard, io.LimitReader(c.nc, connWindow))
	c.Close()
}

// codeOf is what the client is told of an error; false where it is not to blame.
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
