// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"encoding/binary"
	"io"
	"sync"
)

// sendBuffer is how much of a stream's messages waits for the transport at most. One
// frame of HTTP/2 carries as much, so that small messages leave together and no stream
// holds more.
const sendBuffer = 16 << 10

// sendBody is the request body of an open stream. The sender appends framed messages and
// waits while the buffer is full; the transport reads. It holds memory only while
// something waits in it.
type sendBody struct {
	buffers *sync.Pool // of *[sendBuffer]byte

	mu     sync.Mutex
	change sync.Cond // of any field below
	memory *[sendBuffer]byte
	queued []byte // what waits, a part of memory
	ended  bool   // the sender has said everything
	closed bool   // the transport reads no more
}

func newSendBody(buffers *sync.Pool) *sendBody {
	b := &sendBody{buffers: buffers}
	b.change.L = &b.mu
	return b
}

// send appends a message with its prefix, which is the same in all protocols. It
// returns io.EOF once the transport reads no more.
func (b *sendBody) send(message []byte) error {
	var prefix [5]byte // no flags, then the length
	binary.BigEndian.PutUint32(prefix[1:], uint32(len(message)))
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.append(prefix[:]); err != nil {
		return err
	}
	return b.append(message)
}

// append copies p into the buffer, piece by piece where it does not fit.
func (b *sendBody) append(p []byte) error {
	for len(p) > 0 {
		switch {
		case b.closed || b.ended:
			return io.EOF
		case len(b.queued) == sendBuffer:
			b.change.Wait()
			continue
		case b.memory == nil:
			b.memory = b.buffers.Get().(*[sendBuffer]byte) //nolint:forcetypeassert // of one type
			b.queued = b.memory[:0]
		}
		room := cap(b.queued) - len(b.queued)
		if room == 0 { // at the end of the memory, and not full
			b.queued = append(b.memory[:0], b.queued...)
			continue
		}
		n := min(room, len(p))
		b.queued = append(b.queued, p[:n]...)
		p = p[n:]
		b.change.Broadcast()
	}
	return nil
}

// Read implements io.Reader. It waits for something to send.
func (b *sendBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.queued) == 0 {
		switch {
		case b.closed:
			return 0, io.ErrClosedPipe
		case b.ended:
			return 0, io.EOF
		}
		b.change.Wait()
	}
	n := copy(p, b.queued)
	if b.queued = b.queued[n:]; len(b.queued) == 0 {
		b.release()
	}
	b.change.Broadcast()
	return n, nil
}

// end says that no message follows.
func (b *sendBody) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.change.Broadcast()
}

// Close implements io.Closer: the transport reads no more.
func (b *sendBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.release()
	b.change.Broadcast()
	return nil
}

func (b *sendBody) release() {
	if b.memory != nil {
		b.buffers.Put(b.memory)
		b.memory, b.queued = nil, nil
	}
}
