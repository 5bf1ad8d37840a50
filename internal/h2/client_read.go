// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
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
		if err := s.reading.take(piece); err != nil {
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
		r.c.end(s, nil)
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
	r.c.end(s, &ResetError{Code: http2.ErrCode(binary.BigEndian.Uint32(payload))})
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
