// SPDX-License-Identifier: Apache-2.0

package h2server

import (
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// maxNames bounds how many names of headers a connection remembers, maxNameSize how long
// they are.
const (
	maxNames    = 128
	maxNameSize = 64
)

// headers takes the head of a request, or its trailers.
func (c *Conn) headers(f *http2.MetaHeadersFrame) error {
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
func (c *Conn) newStream(f *http2.MetaHeadersFrame) (*stream, error) {
	p := pseudo(f.PseudoFields())
	header := c.header(f.RegularFields())
	if p.authority == "" {
		p.authority = first(header, "Host")
	}
	s := &stream{conn: c, id: f.StreamID, window: c.peer.window, credit: streamWindow, declared: -1}
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
func (c *Conn) target(u *url.URL, p *pseudoFields) bool {
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
func (c *Conn) header(fields []hpack.HeaderField) http.Header {
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
func (c *Conn) canonicalName(name string) string {
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
func (s *stream) readHeader(h http.Header) {
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
func (s *stream) openBody(ended bool, declared int64) {
	if ended {
		s.halfClosed, s.req.Body = true, http.NoBody
		return
	}
	s.req.Body, s.req.ContentLength, s.declared = (*body)(s), declared, declared
}

// trailers takes the trailers of a request. Only those that were announced are kept.
func (c *Conn) trailers(s *stream, f *http2.MetaHeadersFrame) error {
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
