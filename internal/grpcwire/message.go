// SPDX-License-Identifier: Apache-2.0

package grpcwire

import "encoding/binary"

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

// take takes in a piece of the body.
func (m *messageReader) take(p []byte) error {
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
