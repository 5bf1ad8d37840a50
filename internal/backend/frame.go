// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"encoding/binary"
	"io"
)

// frameLimits are the most bytes that one frame of a stream may announce.
type frameLimits struct {
	message int64
	end     int64 // trailers of gRPC-Web, end-of-stream message of Connect
}

func (c *Client) frameLimits() frameLimits {
	return frameLimits{message: int64(c.opts.MaxResponseBytes), end: int64(c.opts.MaxHeaderBytes)}
}

// framedBody is the body of a stream. It follows the frames, which have the same
// shape in all protocols, and ends the body where one announces more than its
// limit. The RPC library has a limit too, but reads and discards such a frame to
// its end, which may be 4 GiB away.
type framedBody struct {
	io.ReadCloser
	limits frameLimits
	facts  *facts

	prefix [5]byte // flags, then the length, big-endian
	have   int     // bytes of the prefix that were seen
	left   int64   // bytes of the frame's content that were not
	over   bool
}

func newFramedBody(body io.ReadCloser, limits frameLimits, f *facts) *framedBody {
	return &framedBody{ReadCloser: body, limits: limits, facts: f}
}

// Read implements io.Reader. It passes on the data before a frame that is too large.
func (b *framedBody) Read(p []byte) (int, error) {
	if b.over {
		b.facts.overLimit = true
		return 0, errOverLimit
	}
	n, err := b.ReadCloser.Read(p)
	if good := b.follow(p[:n]); b.over {
		return good, nil
	}
	return n, err
}

// follow takes in what was read and returns how much of it may be passed on.
func (b *framedBody) follow(p []byte) int {
	for at := 0; at < len(p); {
		if b.left > 0 {
			step := min(b.left, int64(len(p)-at))
			b.left -= step
			if flags := b.prefix[0]; flags == flagWebTrailer || flags == flagConnectEnd {
				b.facts.said.tail = append(b.facts.said.tail, p[at:at+int(step)]...)
			}
			at += int(step)
			continue
		}
		step := copy(b.prefix[b.have:], p[at:])
		b.have += step
		at += step
		if b.have < len(b.prefix) {
			break
		}
		b.have = 0
		b.left = int64(binary.BigEndian.Uint32(b.prefix[1:]))
		b.facts.said.tail, b.facts.said.flags = nil, b.prefix[0]
		if b.left > b.limit() {
			b.over = true
			return at
		}
	}
	return len(p)
}

// limit is that of the frame whose prefix is complete.
func (b *framedBody) limit() int64 {
	const compressed = 1 // the one flag that a message can have
	if b.prefix[0]&^compressed != 0 {
		return b.limits.end
	}
	return b.limits.message
}
