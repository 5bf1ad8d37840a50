// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"encoding/binary"
	"math"
)

// The frames about the connection as a whole: settings, pings, farewells and windows.

// settings takes the peer's settings.
func (r *reader) settings(f frame, payload []byte) error {
	switch {
	case f.stream != 0:
		return broken(codeProtocol, "settings on a stream")
	case f.flags&flagAck != 0 && len(payload) == 0:
		return nil
	case f.flags&flagAck != 0 || len(payload)%6 != 0:
		return broken(codeFrameSize, "settings of %d bytes", len(payload))
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; len(payload) > 0; payload = payload[6:] {
		if err := c.set(binary.BigEndian.Uint16(payload), int64(binary.BigEndian.Uint32(payload[2:]))); err != nil {
			return err
		}
	}
	r.settled, c.peer.known = true, true
	c.recount()
	if err := c.owe(appendFrameHeader(nil, 0, frameSettings, flagAck, 0)); err != nil {
		return err
	}
	c.told.Do(func() { close(c.ready) })
	if c.opts.Changed != nil {
		c.opts.Changed()
	}
	return nil
}

// set takes one setting.
func (c *Conn) set(id uint16, value int64) error {
	switch id {
	case settingTableSize:
		c.encoder.SetMaxDynamicTableSizeLimit(uint32(min(value, 4096)))
	case settingStreams:
		c.peer.streams = min(value, math.MaxInt32)
	case settingHeaderListMax:
		c.peer.headerList = value
	case settingFrameSize:
		if value < defaultFrameSize || value > maxFrameSize {
			return broken(codeProtocol, "a frame size of %d", value)
		}
		c.peer.frameSize = min(value, highWater) // larger ones would delay other calls
	case settingWindow:
		if value > maxWindow {
			return broken(codeFlowControl, "a window of %d", value)
		}
		change := value - c.peer.window
		c.peer.window = value
		for _, s := range c.streams {
			if s.window += change; s.window > maxWindow {
				return broken(codeFlowControl, "a window of more than 2^31-1")
			}
			c.resume(s)
		}
	}
	return nil
}

// resume goes on with a stream whose window may have opened.
func (c *Conn) resume(s *stream) {
	if s.window > 0 && !s.ended && !s.over {
		c.waiting.add(s)
		c.startWriting()
	}
}

// owe sends what the peer is owed.
func (c *Conn) owe(answer []byte) error {
	if c.owed += len(answer); c.owed > maxOwed {
		return broken(codeCalm, "too much asked at once")
	}
	c.out = append(c.out, answer...)
	c.startWriting()
	return nil
}

// ping answers a ping, or takes the answer to ours.
func (r *reader) ping(f frame, payload []byte) error {
	switch {
	case f.stream != 0:
		return broken(codeProtocol, "a ping on a stream")
	case len(payload) != 8:
		return broken(codeFrameSize, "a ping of %d bytes", len(payload))
	}
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.flags&flagAck != 0 {
		return nil // to have been read is all that was asked of it
	}
	return c.owe(append(appendFrameHeader(nil, 8, framePing, flagAck, 0), payload...))
}

// goAway takes no further calls, and ends those that the peer did not process.
func (r *reader) goAway(f frame, payload []byte) error {
	switch {
	case f.stream != 0:
		return broken(codeProtocol, "a GOAWAY on a stream")
	case len(payload) < 8:
		return broken(codeFrameSize, "a GOAWAY of %d bytes", len(payload))
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
		return broken(codeFrameSize, "a window update of %d bytes", len(payload))
	}
	n := int64(binary.BigEndian.Uint32(payload) & maxWindow)
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.stream == 0 {
		if c.window += n; n == 0 || c.window > maxWindow {
			return broken(codeFlowControl, "an invalid window update")
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
	c.cut(s, broken(codeFlowControl, "an invalid window update on a stream"), codeFlowControl)
	return nil
}
