// SPDX-License-Identifier: Apache-2.0

package abuse_test

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2 is one HTTP/2 connection, frame by frame.
type h2 struct {
	conn   net.Conn
	framer *http2.Framer
	next   uint32
	seen   map[uint32]*h2stream
	goAway bool
}

// h2stream is what came for one request.
type h2stream struct {
	status string
	ended  bool
	reset  *http2.ErrCode
}

// dialH2 begins an HTTP/2 connection, with prior knowledge on a plain listener.
func dialH2(t *testing.T, at listener) *h2 {
	t.Helper()
	conn := at.dial(t, "h2")
	c := &h2{conn: conn, framer: http2.NewFramer(conn, conn), next: 1, seen: map[uint32]*h2stream{}}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// open sends the head of a request and leaves its body open, or ends it.
func (c *h2) open(t *testing.T, end bool, fields ...string) uint32 {
	t.Helper()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := 0; i+1 < len(fields); i += 2 {
		if err := encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}); err != nil {
			t.Fatal(err)
		}
	}
	id := c.next
	c.next += 2
	c.seen[id] = &h2stream{}
	if err := c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: end}); err != nil {
		t.Fatal(err)
	}
	return id
}

// await reads until a stream has ended as it should: with its answer, and where its
// body is open, with RST_STREAM.
func (c *h2) await(id uint32, wantsReset bool) (*h2stream, error) {
	for {
		s := c.seen[id]
		if s.reset != nil || s.ended && !wantsReset {
			return s, nil
		}
		frame, err := c.framer.ReadFrame()
		if err != nil {
			return s, fmt.Errorf("status %q, ended %v: %w", s.status, s.ended, err)
		}
		if err := c.take(frame); err != nil {
			return s, err
		}
	}
}

func (c *h2) take(frame http2.Frame) error {
	s := c.seen[frame.Header().StreamID]
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			return c.framer.WriteSettingsAck()
		}
	case *http2.GoAwayFrame:
		c.goAway = true
	case *http2.MetaHeadersFrame:
		if s.status == "" {
			s.status = f.PseudoValue("status")
		}
		s.ended = s.ended || f.StreamEnded()
	case *http2.DataFrame:
		s.ended = s.ended || f.StreamEnded()
	case *http2.RSTStreamFrame:
		s.reset = &f.ErrCode
	}
	return nil
}

// head are the fields of a request.
func head(at listener, method, path string, more ...string) []string {
	scheme := "http"
	if at.tls != nil {
		scheme = "https"
	}
	return append([]string{":method", method, ":scheme", scheme, ":authority", at.addr, ":path", path}, more...)
}

// TestARefusalOnHTTP2EndsItsStreamAlone: the answer comes while the body is open,
// then RST_STREAM(NO_ERROR), and the connection serves others.
func TestARefusalOnHTTP2EndsItsStreamAlone(t *testing.T) {
	t.Parallel()
	for _, at := range listeners(t) {
		t.Run(at.name, func(t *testing.T) {
			t.Parallel()
			c := dialH2(t, at)
			for _, path := range at.paths {
				rows := map[string][]string{
					"foreign Origin": head(at, "POST", path, "origin", "http://evil.example", "content-type", "application/json"),
					"foreign Host":   {":method", "POST", ":scheme", head(at, "", "")[3], ":authority", "evil.example", ":path", path, "content-length", "200000"},
					"no such path":   head(at, "POST", "/a/b/c", "content-type", "application/json", "expect", "100-continue"),
					"wrong method":   head(at, "PATCH", path, "content-type", "application/json"),
				}
				if at.guarded {
					rows["no token"] = head(at, "POST", path, "content-type", "application/json", "content-length", "200000")
				}
				for name, fields := range rows {
					s, err := c.await(c.open(t, false, fields...), true)
					if err != nil {
						t.Fatalf("%s, %s: %v", name, path, err)
					}
					if s.status < "400" || !s.ended || *s.reset != http2.ErrCodeNo {
						t.Errorf("%s, %s: status %s, ended %v, reset %v; want an answer and NO_ERROR", name, path, s.status, s.ended, *s.reset)
					}
				}
			}
			if s, err := c.await(c.open(t, true, head(at, "GET", "/livez")...), false); err != nil || s.status == "" || c.goAway {
				t.Errorf("the connection does not go on: %v, GOAWAY %v", err, c.goAway)
			}
		})
	}
}
