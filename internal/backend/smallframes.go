// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"encoding/binary"
	"net"
)

// smallFrames is a connection whose peer seems to take frames of HTTP/2 of 16 KiB only.
// Peers may allow larger ones, and net/http then keeps a buffer of that size, up to
// 512 KiB, for each open request body. Smaller frames than allowed are always valid.
//
// It follows the frames that come and replaces the value of SETTINGS_MAX_FRAME_SIZE.
//
// Where much comes at a time, it also reads more at a time than net/http does, which asks
// for 4 KiB and then for the rest of a frame.
type smallFrames struct {
	net.Conn

	buffer []byte // nil until a read has been filled
	ready  []byte // part of buffer

	header   [9]byte // of a frame
	have     int     // bytes of the header that were seen
	left     uint32  // bytes of the frame that were not
	settings bool    // it is a SETTINGS frame
	at       int     // place in a setting of 6 bytes
	id       uint16  // of that setting
}

const (
	settingsFrame    = 0x4 // RFC 9113, section 6.5
	maxFrameSizeID   = 0x5
	settingBytes     = 6
	smallestMaxFrame = 1 << 14
	// busyRead is how much a connection reads at a time on which much comes.
	busyRead = 32 << 10
)

// Read implements io.Reader.
func (c *smallFrames) Read(p []byte) (int, error) {
	if len(c.ready) == 0 && (c.buffer == nil || len(p) >= len(c.buffer)) {
		n, err := c.Conn.Read(p)
		c.follow(p[:n])
		if n == len(p) && n > len(c.header) && c.buffer == nil {
			c.buffer = make([]byte, busyRead)
		}
		return n, err
	}
	if len(c.ready) == 0 {
		n, err := c.Conn.Read(c.buffer)
		if n == 0 {
			return 0, err
		}
		c.ready = c.buffer[:n] // an error that came with it comes again
		c.follow(c.ready)
	}
	n := copy(p, c.ready)
	c.ready = c.ready[n:]
	return n, nil
}

func (c *smallFrames) follow(p []byte) {
	for len(p) > 0 {
		if c.left == 0 {
			n := copy(c.header[c.have:], p)
			c.have += n
			p = p[n:]
			if c.have < len(c.header) {
				return
			}
			c.have, c.at = 0, 0
			c.left = binary.BigEndian.Uint32(c.header[:]) >> 8
			c.settings = c.header[3] == settingsFrame
			continue
		}
		n := min(uint64(len(p)), uint64(c.left))
		if c.settings {
			c.limit(p[:n])
		}
		c.left -= uint32(n)
		p = p[n:]
	}
}

// limit replaces the value in a piece of a SETTINGS frame, byte by byte.
func (c *smallFrames) limit(p []byte) {
	for i := range p {
		switch c.at {
		case 0:
			c.id = uint16(p[i]) << 8
		case 1:
			c.id |= uint16(p[i])
		default:
			if c.id == maxFrameSizeID {
				var value [4]byte
				binary.BigEndian.PutUint32(value[:], smallestMaxFrame)
				p[i] = value[c.at-2]
			}
		}
		c.at = (c.at + 1) % settingBytes
	}
}
