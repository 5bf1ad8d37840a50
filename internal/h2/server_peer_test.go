// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/outrigger-mcp/outrigger/internal/h2"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// served is a server of ours on loopback.
type served struct {
	addr  string
	mu    sync.Mutex
	conns []*h2.ServerConn
}

// last is the connection that was made last.
func (s *served) last(t *testing.T) *h2.ServerConn {
	t.Helper()
	var last *h2.ServerConn
	testkit.Until(t, "a connection is accepted", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		if n := len(s.conns); n > 0 {
			last = s.conns[n-1]
		}
		return last != nil
	})
	return last
}

// own serves a handler with the package under test until the test is over.
func own(t testing.TB, server *http.Server, streams int) *served {
	t.Helper()
	s := &served{}
	listener := listen(t)
	s.addr = listener.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { s.serve(conn, server, streams) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		running.Wait()
	})
	return s
}

func (s *served) serve(conn net.Conn, server *http.Server, streams int) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		_ = conn.Close()
		return
	}
	c := h2.NewServer(conn, h2.ServerOptions{Handler: server.Handler, Server: server, MaxStreams: streams})
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	c.Serve()
}

// theirs serves the same with net/http.
func theirs(t testing.TB, server *http.Server) string {
	t.Helper()
	listener := listen(t)
	server.Protocols = new(http.Protocols)
	server.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	var open sync.WaitGroup
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		case http.StateActive, http.StateIdle:
		}
	}
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
		_ = server.Close() // a connection may have been accepted meanwhile
		open.Wait()
	})
	return listener.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// client is net/http's.
func client(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: testkit.Limit()}
}

// peer is a client that says whatever a test has it say.
type peer struct {
	t      testing.TB
	conn   net.Conn
	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder
	quiet  time.Duration // how long the server says nothing before it is silent
}

// dial connects, and says what every client says first.
func dial(t testing.TB, addr string) *peer {
	t.Helper()
	p := connect(t, addr)
	p.must(p.framer.WriteSettings())
	return p
}

// connect sends the preface alone.
func connect(t testing.TB, addr string) *peer {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	p := newPeer(t, conn)
	_, err = io.WriteString(conn, http2.ClientPreface)
	p.must(err)
	return p
}

func newPeer(t testing.TB, conn net.Conn) *peer {
	p := &peer{t: t, conn: conn, quiet: testkit.Limit(), framer: http2.NewFramer(conn, conn)}
	p.framer.AllowIllegalWrites = true
	p.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	p.enc = hpack.NewEncoder(&p.block)
	return p
}

// piped serves a handler on a pipe, which has no kernel between its ends: a test with synctest
// sees when a frame is sent.
func piped(t *testing.T, server *http.Server) (*peer, *h2.ServerConn) {
	t.Helper()
	near, far := net.Pipe()
	c := h2.NewServer(near, h2.ServerOptions{Handler: server.Handler, Server: server, MaxStreams: 10})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Serve()
	}()
	t.Cleanup(func() {
		_ = far.Close()
		<-ended
	})
	p := newPeer(t, far)
	p.quiet = 3 * time.Second
	p.must(p.framer.WriteSettings())
	return p, c
}

// must fails the test, except where the server has closed the connection.
func (p *peer) must(err error) {
	p.t.Helper()
	if err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
		p.t.Fatal(err)
	}
}

// encode is a header block.
func (p *peer) encode(fields ...string) []byte {
	p.block.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		p.must(p.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return bytes.Clone(p.block.Bytes())
}

// open sends the head of a request.
func (p *peer) open(id uint32, end bool, fields ...string) {
	p.must(p.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: p.encode(fields...), EndHeaders: true, EndStream: end}))
}

// head are the fields of a request.
func head(method, path string, more ...string) []string {
	return append([]string{":method", method, ":scheme", "http", ":authority", "test", ":path", path}, more...)
}

// heard is what a server says until it has said all of want, closes the connection, or is
// silent for a while. Settings, windows and answers to pings are left out.
func (p *peer) heard(want func(said []string) bool) []string {
	var said []string
	for !want(said) {
		_ = p.conn.SetReadDeadline(time.Now().Add(p.quiet))
		frame, err := p.framer.ReadFrame()
		if err != nil {
			if isTimeout(err) {
				return append(said, "silence")
			}
			return append(said, "closed")
		}
		if word := p.word(frame); word != "" {
			said = append(said, word)
		}
	}
	return said
}

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error) //nolint:errorlint // as the socket returns it
	return ok && timeout.Timeout()
}

func (p *peer) word(frame http2.Frame) string {
	id := frame.Header().StreamID
	end := ""
	if frame.Header().Flags.Has(http2.FlagDataEndStream) {
		end = " end"
	}
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		if status := f.PseudoValue("status"); status != "" {
			return fmt.Sprintf("%d: %s%s", id, status, end)
		}
		return fmt.Sprintf("%d: trailers%s", id, end)
	case *http2.DataFrame:
		return fmt.Sprintf("%d: %d bytes%s", id, len(f.Data()), end)
	case *http2.RSTStreamFrame:
		return fmt.Sprintf("%d: %v", id, f.ErrCode)
	case *http2.GoAwayFrame:
		return fmt.Sprintf("GOAWAY %v", f.ErrCode)
	case *http2.SettingsFrame:
		if !f.IsAck() {
			p.must(p.framer.WriteSettingsAck())
		}
	}
	return ""
}

// until holds once something was said.
func until(last string) func([]string) bool {
	return func(said []string) bool {
		for _, word := range said {
			if strings.Contains(word, last) {
				return true
			}
		}
		return false
	}
}
