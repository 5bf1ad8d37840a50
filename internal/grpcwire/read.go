// SPDX-License-Identifier: Apache-2.0

package grpcwire

import (
	"encoding/binary"
	"errors"
	"io"
	"time"

	"golang.org/x/net/http2/hpack"
)

// readBuffer holds at least one frame of the size that we admit, which is the
// default one.
const readBuffer = frameHeaderBytes + 2*defaultFrameSize

// maxPieces bounds the frames of one header block, which may be empty: far more
// than a block of the largest size has, with frames of the size that peers use.
const maxPieces = 1024

// reader is the reading half of a connection; one goroutine has it.
type reader struct {
	c          *Conn
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
	kind   byte
	flags  byte
	stream uint32
}

// readLoop reads frames until the connection ends.
func (c *Conn) readLoop() {
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
		kind:   head[3], flags: head[4], stream: binary.BigEndian.Uint32(head[5:]) & maxStreamID,
	}
	switch {
	case f.length > defaultFrameSize:
		return broken(codeFrameSize, "a frame of %d bytes, %d are allowed", f.length, defaultFrameSize)
	case !r.settled && (f.kind != frameSettings || f.flags&flagAck != 0):
		return broken(codeProtocol, "the first frame is not SETTINGS")
	case r.blockOf != 0 && (f.kind != frameContinuation || f.stream != r.blockOf):
		return broken(codeProtocol, "a header block is interrupted")
	}
	r.start += frameHeaderBytes
	if f.kind == frameData {
		return r.data(f)
	}
	payload, err := r.need(f.length)
	if err != nil {
		return err
	}
	r.start += f.length
	switch f.kind {
	case frameHeaders:
		return r.headers(f, payload)
	case frameContinuation:
		return r.continuation(f, payload)
	case frameReset:
		return r.reset(f, payload)
	case frameSettings:
		return r.settings(f, payload)
	case framePing:
		return r.ping(f, payload)
	case frameGoAway:
		return r.goAway(f, payload)
	case frameWindowUpdate:
		return r.windowUpdate(f, payload)
	case framePush:
		return broken(codeProtocol, "a push, which was not allowed")
	}
	return nil // unknown kinds are ignored (RFC 9113, section 4.1)
}

// find returns the stream of a frame, nil where it has ended.
func (r *reader) find(f frame) (*stream, error) {
	if f.stream == 0 || f.stream%2 == 0 || f.stream >= r.c.nextID {
		return nil, broken(codeProtocol, "a frame on stream %d, which does not exist", f.stream)
	}
	return r.c.streams[f.stream], nil
}

// data reads a piece of an answer's body.
func (r *reader) data(f frame) error {
	body, padding := f.length, 0
	if f.flags&flagPadded != 0 {
		pad, err := r.need(1)
		if err != nil {
			return err
		}
		r.start++
		padding = int(pad[0])
		body -= 1 + padding
		if body < 0 {
			return broken(codeProtocol, "more padding than frame")
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
	if s != nil && f.flags&flagEndStream != 0 {
		r.complete(s, true)
	}
	return nil
}

// admit counts a frame of data against the windows. It returns the stream, nil
// for data that is not awaited.
func (r *reader) admit(f frame) (*stream, error) {
	c := r.c
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := r.find(f)
	if err != nil {
		return nil, err
	}
	c.progress()
	c.consumed += int64(f.length)
	if c.consumed > connWindow {
		return nil, broken(codeFlowControl, "more data than the window has")
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
		c.cut(s, broken(codeProtocol, "data before the headers"), codeProtocol)
		return nil, nil
	}
	s.credit -= int64(f.length)
	s.consumed += int64(f.length)
	if s.credit < 0 {
		return nil, broken(codeFlowControl, "more data than the stream's window has")
	}
	if s.consumed >= streamWindow/2 && f.flags&flagEndStream == 0 {
		c.out = appendWindowUpdate(c.out, s.id, uint32(s.consumed))
		s.credit += s.consumed
		s.consumed = 0
		c.startWriting()
	}
	return s, nil
}

// body reads n bytes for a stream, straight into its message where that is what
// comes; for nil it drops them.
func (r *reader) body(s *stream, n int) error {
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
		if err := s.reading.take(piece); err != nil {
			r.cut(s, err, codeCancel)
			s = nil
		}
	}
	return nil
}

// cut is Conn.cut for a reader that does not hold the lock.
func (r *reader) cut(s *stream, err error, code uint32) {
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	r.c.cut(s, err, code)
}

// complete ends a stream whose answer is there. It is cut where either side has
// not said all: a request that was answered too early, or the rest of a body that
// is none of gRPC.
func (r *reader) complete(s *stream, isWhole bool) {
	s.answer.Messages, s.answer.Flags, s.answer.Message = s.reading.count, s.reading.flags, s.reading.kept
	s.answer.Cut = s.reading.cut()
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if isWhole && s.ended {
		r.c.end(s, nil)
		return
	}
	r.c.cut(s, nil, codeCancel)
}

// headers begins a header block.
func (r *reader) headers(f frame, payload []byte) error {
	if f.flags&flagPadded != 0 {
		if len(payload) == 0 || int(payload[0]) >= len(payload) {
			return broken(codeProtocol, "more padding than frame")
		}
		payload = payload[1 : len(payload)-int(payload[0])]
	}
	if f.flags&flagPriority != 0 {
		if len(payload) < 5 {
			return broken(codeFrameSize, "headers of %d bytes cannot hold a priority", len(payload))
		}
		payload = payload[5:]
	}
	r.blockEnd = f.flags&flagEndStream != 0
	if f.flags&flagEndHeaders != 0 {
		return r.fieldBlock(f, payload)
	}
	r.blockOf, r.pieces = f.stream, 1
	r.block = append(r.block[:0], payload...)
	return nil
}

// continuation goes on with a header block.
func (r *reader) continuation(f frame, payload []byte) error {
	if r.blockOf == 0 {
		return broken(codeProtocol, "a continuation of nothing")
	}
	if len(r.block)+len(payload) > r.c.maxBlock() {
		return broken(codeCalm, "a header block of more than %d bytes", len(r.block))
	}
	if r.pieces++; r.pieces > maxPieces {
		return broken(codeCalm, "a header block in more than %d frames", maxPieces)
	}
	r.block = append(r.block, payload...)
	if f.flags&flagEndHeaders == 0 {
		return nil
	}
	block := r.block
	r.blockOf, r.block = 0, nil
	return r.fieldBlock(f, block)
}

// maxBlock bounds a header block as it comes. One that is within the limit of
// header fields is smaller; one that is over it costs its call, and one over this
// the connection.
func (c *Conn) maxBlock() int { return 2 * max(c.opts.MaxHeaderBytes, defaultFrameSize) }

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
		r.cut(s, r.fields.err, codeProtocol)
		return nil //nolint:nilerr // it is the call's error, and the connection goes on
	case isTrailer && !r.blockEnd:
		r.cut(s, broken(codeProtocol, "trailers that do not end the answer"), codeProtocol)
		return nil
	case !isTrailer && r.fields.status == 0:
		r.cut(s, broken(codeProtocol, "headers without a status"), codeProtocol)
		return nil
	case !isTrailer && r.fields.status < 200:
		if r.blockEnd {
			r.cut(s, broken(codeProtocol, "an interim answer that ends the stream"), codeProtocol)
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
func (r *reader) note(s *stream) {
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
		return broken(codeCompression, "a header block cannot be read: %v", err)
	}
	return nil
}

// reset ends a stream for the peer's reason.
func (r *reader) reset(f frame, payload []byte) error {
	if len(payload) != 4 {
		return broken(codeFrameSize, "a reset of %d bytes", len(payload))
	}
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	s, err := r.find(f)
	if err != nil || s == nil {
		return err
	}
	r.c.end(s, &ResetError{Code: binary.BigEndian.Uint32(payload)})
	return nil
}
