// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// errGone is why a stream ended whose connection did.
var errGone = errors.New("client disconnected")

// serverStream is one request and its answer. The connection's lock guards it, except what is
// said to belong to the handler.
type serverStream struct {
	conn *ServerConn
	id   uint32
	// over: nothing is read or written for it any more. It stays in Conn.streams while it lingers.
	over bool
	err  error // why it ended badly
	// started: a handler has it, or will when there is room.
	started bool
	// refusal answers it instead of the handler.
	refusal http.HandlerFunc

	// The body.
	halfClosed    bool  // all of it has come
	declared, got int64 // Content-Length, -1 for none, and what has come
	credit        int64 // what the peer may send
	consumed      int64 // what was taken in and not told the peer
	expects       bool  // 100 Continue
	deaf          bool  // no one reads it any more
	parts         [][]byte
	offset        int // of what was read of the first part
	lateTrailer   []hpack.HeaderField
	reading       gate
	// linger ends a stream that was answered before its body ended; nil for others.
	linger *time.Timer

	// The answer.
	window  int64 // what may be sent
	writing gate
	ended   bool // END_STREAM is written
	handled bool // the handler has returned

	// The handler's.
	req    *http.Request
	url    url.URL
	cancel context.CancelFunc // of the request's context
	res    response
}

// end takes a stream out of the connection, with an error where it ended badly.
func (c *ServerConn) end(s *serverStream, err error) {
	delete(c.streams, s.id)
	if s.linger != nil {
		s.linger.Stop()
	}
	c.release(s, err)
}

// release lets go of what waits for a stream, and of what it holds. Only the first call has an
// effect.
func (c *ServerConn) release(s *serverStream, err error) {
	if s.over {
		return
	}
	s.over, s.err = true, err
	unread := -int64(s.offset)
	for _, part := range s.parts {
		unread += int64(len(part))
		recycle(part)
	}
	s.parts, s.offset, s.deaf = nil, 0, true
	s.reading.wake()
	s.writing.wake()
	if err != nil {
		s.cancel()
	}
	if !c.failed {
		c.giveBack(nil, unread)
	}
}

// cutOff ends a stream and tells the peer.
func (c *ServerConn) cutOff(s *serverStream, err error, code http2.ErrCode) {
	if s.over {
		return
	}
	c.end(s, err)
	c.out = appendReset(c.out, s.id, code)
	c.startWriting()
}

// gate is where a goroutine waits for the peer. The connection's lock guards it.
type gate struct {
	ch       chan struct{} // closed by wake; nil while no one waits
	deadline time.Time
}

// wake lets every waiter go on.
func (g *gate) wake() {
	if g.ch != nil {
		close(g.ch)
		g.ch = nil
	}
}

// expired reports whether the deadline has passed.
func (g *gate) expired() bool { return !g.deadline.IsZero() && !time.Now().Before(g.deadline) }

// wait waits until wake is called, or for the deadline. It gives up the lock meanwhile.
func (g *gate) wait(c *ServerConn) error {
	if g.expired() {
		return os.ErrDeadlineExceeded
	}
	if g.ch == nil {
		g.ch = make(chan struct{})
	}
	ch := g.ch
	var timeout <-chan time.Time
	if !g.deadline.IsZero() {
		timer := time.NewTimer(time.Until(g.deadline))
		defer timer.Stop()
		timeout = timer.C
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-ch:
	case <-timeout:
	}
	return nil // who waits looks again, at the deadline too
}

// maxNames bounds how many names of headers a connection remembers, maxNameSize how long
// they are.
const (
	maxNames    = 128
	maxNameSize = 64
)

// headers takes the head of a request, or its trailers.
func (c *ServerConn) headers(f *http2.MetaHeadersFrame) error {
	if f.StreamID%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.streams[f.StreamID]; s != nil {
		return c.trailers(s, f)
	}
	switch {
	case f.StreamID <= c.lastID:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	case c.ending:
		return nil // RFC 9113, section 6.8: it is above the stream that GOAWAY names
	}
	c.lastID = f.StreamID
	if len(c.streams) >= c.opts.MaxStreams {
		code := http2.ErrCodeProtocol
		if c.unacked > 0 {
			code = http2.ErrCodeRefusedStream
		}
		return http2.StreamError{StreamID: f.StreamID, Code: code}
	}
	s, err := c.newStream(f)
	if err != nil {
		return err
	}
	c.streams[s.id] = s
	c.settle()
	if s.halfClosed {
		return c.start(s)
	}
	c.pending = append(c.pending, s)
	return nil
}

// newStream reads the head of a request.
func (c *ServerConn) newStream(f *http2.MetaHeadersFrame) (*serverStream, error) {
	p := pseudo(f.PseudoFields())
	header := c.header(f.RegularFields())
	if p.authority == "" {
		p.authority = first(header, "Host")
	}
	s := &serverStream{conn: c, id: f.StreamID, window: c.peer.window, credit: serverStreamWindow, declared: -1}
	declared, ok := declaredLength(header["Content-Length"])
	if !ok || f.StreamEnded() && declared > 0 || isOfConnection(header) || f.HasPriority() && f.Priority.StreamDep == f.StreamID || !c.target(&s.url, &p) {
		if c.opts.Refused != nil {
			c.opts.Refused(false)
		}
		return nil, http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
	}
	ctx, cancel := context.WithCancel(c.base)
	r := new(http.Request).WithContext(ctx)
	s.req, s.cancel = r, cancel
	r.Method, r.URL, r.Host, r.RequestURI = p.method, &s.url, p.authority, p.path
	r.Proto, r.ProtoMajor = "HTTP/2.0", 2
	r.Header, r.RemoteAddr, r.TLS = header, c.remote, c.opts.TLS
	s.readHeader(header)
	s.openBody(f.StreamEnded(), declared)
	if f.Truncated {
		s.refusal = tooLarge
		if c.opts.Refused != nil {
			c.opts.Refused(true)
		}
	}
	return s, nil
}

// target reads what a request asks for; false where that is malformed.
func (c *ServerConn) target(u *url.URL, p *pseudoFields) bool {
	switch {
	case p.protocol != "", strings.IndexByte(p.authority, '@') >= 0:
		return false
	case p.method == http.MethodConnect:
		if p.path != "" || p.scheme != "" || p.authority == "" {
			return false
		}
		*u, p.path = url.URL{Host: p.authority}, p.authority
		return true
	case p.method == "" || p.path == "" || p.scheme != "http" && p.scheme != "https":
		return false
	case p.path != c.lastPath: // most requests have the path of the one before
		parsed, err := url.ParseRequestURI(p.path)
		if err != nil {
			return false
		}
		c.lastPath, c.lastURL = p.path, *parsed
	}
	*u = c.lastURL
	return true
}

// pseudoFields are the fields of HTTP itself. The Framer has seen that there is one of
// each at most.
type pseudoFields struct{ method, scheme, authority, path, protocol string }

func pseudo(fields []hpack.HeaderField) (p pseudoFields) {
	for _, f := range fields {
		switch f.Name {
		case ":method":
			p.method = f.Value
		case ":scheme":
			p.scheme = f.Value
		case ":authority":
			p.authority = f.Value
		case ":path":
			p.path = f.Value
		case ":protocol":
			p.protocol = f.Value
		}
	}
	return p
}

// header is the header of a request. All values share one array.
func (c *ServerConn) header(fields []hpack.HeaderField) http.Header {
	h := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		name := c.canonicalName(f.Name)
		if have, ok := h[name]; ok {
			h[name] = append(have, f.Value)
			continue
		}
		values[i] = f.Value
		h[name] = values[i : i+1 : i+1]
	}
	if cookies := h["Cookie"]; len(cookies) > 1 {
		h["Cookie"] = []string{strings.Join(cookies, "; ")} // RFC 9113, section 8.2.3
	}
	return h
}

// canonicalName is the name of a header as net/http writes it.
func (c *ServerConn) canonicalName(name string) string {
	if canonical, ok := c.canonical[name]; ok {
		return canonical
	}
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	if len(name) <= maxNameSize && len(c.canonical) < maxNames {
		c.canonical[name] = canonical
	}
	return canonical
}

// readHeader takes what concerns the server out of a header.
func (s *serverStream) readHeader(h http.Header) {
	if httpguts.HeaderValuesContainsToken(h["Expect"], "100-continue") {
		s.expects = true
		delete(h, "Expect")
	}
	for _, line := range h["Trailer"] {
		for name := range strings.SplitSeq(line, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			if !httpguts.ValidTrailerHeader(name) {
				continue
			}
			if s.req.Trailer == nil {
				s.req.Trailer = http.Header{}
			}
			s.req.Trailer[name] = nil
		}
	}
	delete(h, "Trailer")
}

// declaredLength reads the values of Content-Length, -1 for none. It returns false where there is
// no one length (RFC 9110, section 8.6).
func declaredLength(values []string) (int64, bool) {
	if len(values) == 0 {
		return -1, true
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	for _, other := range values[1:] {
		if other != values[0] {
			return 0, false
		}
	}
	return int64(n), err == nil
}

// openBody begins the body of a request.
func (s *serverStream) openBody(ended bool, declared int64) {
	if ended {
		s.halfClosed, s.req.Body = true, http.NoBody
		return
	}
	s.req.Body, s.req.ContentLength, s.declared = (*body)(s), declared, declared
}

// trailers takes the trailers of a request. Only those that were announced are kept.
func (c *ServerConn) trailers(s *serverStream, f *http2.MetaHeadersFrame) error {
	if s.halfClosed {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	}
	if !f.StreamEnded() || len(f.PseudoFields()) > 0 {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	for _, field := range f.RegularFields() {
		name := c.canonicalName(field.Name)
		if !httpguts.ValidTrailerHeader(name) {
			return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
		}
		if _, announced := s.req.Trailer[name]; announced {
			s.lateTrailer = append(s.lateTrailer, hpack.HeaderField{Name: name, Value: field.Value})
		}
	}
	return c.endBody(s)
}

// tooLarge answers a request whose headers are too large.
func tooLarge(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "Request header fields too large", http.StatusRequestHeaderFieldsTooLarge)
}

// isOfConnection reports whether a header has fields that concern one HTTP/1 connection, which
// makes a request malformed (RFC 9113, section 8.2.2).
func isOfConnection(h http.Header) bool {
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive"} {
		if _, ok := h[name]; ok {
			return true
		}
	}
	te := h["Te"]
	return len(te) > 1 || len(te) == 1 && te[0] != "trailers" && te[0] != ""
}

func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// Bodies are kept in parts of a frame each: small ones have their own size, the others
// use the same memory again.
const smallPart = 2 << 10

// body is a request's body.
type body serverStream

// Read implements [io.Reader]. It returns the received data before it returns an error.
func (b *body) Read(p []byte) (int, error) {
	s := (*serverStream)(b)
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case s.over && s.err != nil:
			return 0, s.err
		case s.deaf:
			return 0, http.ErrBodyReadAfterClose
		case !s.halfClosed && s.reading.expired():
			return 0, os.ErrDeadlineExceeded
		case len(s.parts) > 0:
			return s.read(p), nil
		case s.halfClosed:
			s.addTrailers()
			return 0, io.EOF
		case len(p) == 0:
			return 0, nil
		}
		if s.expects {
			s.expects = false
			c.appendInterim(s, http.StatusContinue, nil)
		}
		if err := s.reading.wait(c); err != nil {
			return 0, err
		}
	}
}

// read takes what fits out of the first part.
func (s *serverStream) read(p []byte) int {
	part := s.parts[0]
	n := copy(p, part[s.offset:])
	if s.offset += n; s.offset == len(part) {
		recycle(part)
		s.parts, s.offset = s.parts[1:], 0
		if len(s.parts) == 0 {
			s.parts = nil
		}
	}
	s.conn.giveBack(s, int64(n))
	return n
}

// Close implements [io.Closer]. It discards unread data.
func (b *body) Close() error {
	s := (*serverStream)(b)
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.ignoreBody()
	return nil
}

// ignoreBody drops what has come, and what comes.
func (s *serverStream) ignoreBody() {
	if s.deaf {
		return
	}
	s.deaf = true
	unread := -int64(s.offset)
	for _, part := range s.parts {
		unread += int64(len(part))
		recycle(part)
	}
	s.parts, s.offset = nil, 0
	s.conn.giveBack(s, unread)
	s.reading.wake()
}

// keep copies a piece of the body.
func (s *serverStream) keep(p []byte) {
	if len(p) == 0 {
		return
	}
	var part []byte
	if len(p) <= smallPart {
		part = make([]byte, len(p))
	} else {
		part = chunk()[:len(p)]
	}
	copy(part, p)
	s.parts = append(s.parts, part)
}

// chunks has memory for frames, for all connections.
var chunks = sync.Pool{New: func() any { return new([maxFrame]byte) }} //nolint:gochecknoglobals // a pool

// chunk is memory for a frame.
func chunk() []byte { return chunks.Get().(*[maxFrame]byte)[:] } //nolint:forcetypeassert // of one type

// recycle keeps the memory of a part for another.
func recycle(part []byte) {
	if cap(part) == maxFrame {
		chunks.Put((*[maxFrame]byte)(part[:maxFrame]))
	}
}

// endBody notes that all of the body has come. A body that is shorter than its Content-Length
// is malformed (RFC 9113, section 8.1.1).
func (c *ServerConn) endBody(s *serverStream) error {
	if s.declared >= 0 && s.got != s.declared {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	s.halfClosed = true
	if s.over { // it was answered before
		c.end(s, nil)
		c.settle()
		return nil
	}
	s.reading.wake()
	return c.start(s)
}

// addTrailers gives the request its trailers, when its body has been read.
func (s *serverStream) addTrailers() {
	for _, f := range s.lateTrailer {
		s.req.Trailer[f.Name] = append(s.req.Trailer[f.Name], f.Value)
	}
	s.lateTrailer = nil
}

// answered ends a stream whose response has been written. If the body has not ended, the client
// may take lingerTime to read the response and to end the body. Then RST_STREAM(NO_ERROR) asks it
// to stop (RFC 9113, section 8.1). With the reset in the same write as the response, many clients
// report the reset and lose the response.
//
// What arrives meanwhile is discarded. It counts against the stream's window, which is not
// extended: that bounds it.
func (c *ServerConn) answered(s *serverStream) {
	if s.halfClosed {
		c.end(s, nil)
		return
	}
	c.release(s, nil)
	s.linger = time.AfterFunc(lingerTime, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.streams[s.id] == s {
			c.end(s, nil)
			c.out = appendReset(c.out, s.id, http2.ErrCodeNo)
			c.startWriting()
		}
	})
}
