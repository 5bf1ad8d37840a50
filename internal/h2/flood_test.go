// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestFloods: what a client can have a server do without end is bounded, and the connection
// ends with a word about it.
func TestFloods(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		flood func(*peer)
		times int
		last  string
	}{
		"continuations without end": {func(p *peer) { _ = p.framer.WriteContinuation(1, false, nil) }, 100_000, "GOAWAY ENHANCE_YOUR_CALM"},
		"a header block without end": {func(p *peer) {
			_ = p.framer.WriteContinuation(1, false, []byte("\x40\x01a\x7f\x81\x7e"+strings.Repeat("x", 10_000)))
		}, 40, "GOAWAY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := quiet(laboratory())
			server.MaxHeaderBytes = 16 << 10
			p := dial(t, own(t, server, 10).addr)
			p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: p.encode(head("GET", "/nothing")...)}))
			for range row.times {
				row.flood(p)
			}
			if said := p.heard(until(row.last)); !until(row.last)(said) {
				t.Errorf("the server says %q", said)
			}
		})
	}
	for name, flood := range map[string]func(*peer) error{
		"pings":                     func(p *peer) error { return p.framer.WritePing(false, [8]byte{1}) },
		"settings":                  func(p *peer) error { return p.framer.WriteSettings() },
		"data after a stream's end": func(p *peer) error { return p.framer.WriteData(1, false, nil) },
	} {
		t.Run(name+", whose answers are not read", func(t *testing.T) {
			t.Parallel()
			p := dial(t, own(t, quiet(laboratory()), 10).addr)
			p.open(1, true, head("GET", "/nothing")...)
			_ = p.conn.SetWriteDeadline(time.Now().Add(testkit.Limit()))
			for range 10_000_000 {
				if err := flood(p); err != nil {
					if isTimeout(err) {
						t.Error("the server neither reads on nor closes")
					}
					return
				}
			}
			t.Error("the server takes them all")
		})
	}
}

// TestHeadersAreBounded: a request with too large headers is answered, and the connection
// goes on.
func TestHeadersAreBounded(t *testing.T) {
	t.Parallel()
	server := quiet(laboratory())
	server.MaxHeaderBytes = 8 << 10
	p := dial(t, own(t, server, 10).addr)
	large := strings.Repeat("l", 3<<10)
	p.open(1, true, head("GET", "/nothing", "x-a", large, "x-b", large, "x-c", large)...)
	p.open(3, true, head("GET", "/nothing")...)
	said := p.heard(func(said []string) bool { return until("1: 32 bytes end")(said) && until("3: 200 end")(said) })
	if !slices.Contains(said, "1: 431") || !slices.Contains(said, "3: 200 end") {
		t.Errorf("the server says %q", said)
	}
}

// TestRapidReset: a client that gives up streams faster than their handlers return has no
// more of them run than it may have streams, and is cut off in the end.
func TestRapidReset(t *testing.T) {
	t.Parallel()
	const most = 10
	var running, peak atomic.Int32
	release := make(chan struct{})
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		peak.Store(max(peak.Load(), running.Add(1)))
		<-release
		running.Add(-1)
	})
	s := own(t, quiet(handler), most)
	p := dial(t, s.addr)
	for id := uint32(1); id < 400; id += 2 {
		p.open(id, true, head("GET", "/")...)
		_ = p.framer.WriteRSTStream(id, http2.ErrCodeCancel)
	}
	said := p.heard(until("GOAWAY"))
	close(release)
	if !until("GOAWAY ENHANCE_YOUR_CALM")(said) || peak.Load() > most {
		t.Errorf("the server says %q, with %d handlers at a time", said, peak.Load())
	}
}

// TestTooManyStreams: more requests at a time than are admitted are refused, each by itself.
func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := own(t, quiet(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release })), 2)
	p := dial(t, s.addr)
	for id := uint32(1); id <= 5; id += 2 {
		p.open(id, true, head("GET", "/")...)
	}
	if said := p.heard(until("5:")); !until("5: REFUSED_STREAM")(said) { // our settings were not confirmed then
		t.Errorf("the server says %q", said)
	}
	p.open(7, true, head("GET", "/")...) // by now they are
	if said := p.heard(until("7:")); !until("7: PROTOCOL_ERROR")(said) {
		t.Errorf("the server says %q", said)
	}
	close(release)
	if said := p.heard(until("3: 200")); !until("3: 200")(said) && !until("1: 200")(said) {
		t.Errorf("the others are not answered: %q", said)
	}
}

// TestABodyThatNobodyReadsIsBounded: the windows keep what waits for a handler within a
// mebibyte, and one that is given up gives its part back to the others.
func TestABodyThatNobodyReadsIsBounded(t *testing.T) {
	t.Parallel()
	s := own(t, quiet(laboratory()), 10)
	p := dial(t, s.addr)
	p.open(1, false, head("POST", "/stuck")...)
	flood(1, 64)(p) // all of the window
	p.must(p.framer.WriteRSTStream(1, http2.ErrCodeCancel))
	p.open(3, false, head("POST", "/echo")...)
	flood(3, 60)(p)
	p.must(p.framer.WriteData(3, true, nil))
	p.must(p.framer.WriteWindowUpdate(0, 1<<20))
	p.must(p.framer.WriteWindowUpdate(3, 1<<20))
	if said := p.heard(until("3: 200")); !until("3: 200")(said) {
		t.Errorf("the server says %q", said)
	}
}
