// SPDX-License-Identifier: Apache-2.0

package h2_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/internal/h2"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestIdleConnectionsEnd: with GOAWAY, after the idle time and not before.
func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	server := quiet(laboratory())
	server.IdleTimeout = 300 * time.Millisecond
	p := dial(t, own(t, server, 10).addr)
	p.open(1, true, head("GET", "/nothing")...)
	began := time.Now()
	if said := p.heard(until("closed")); !slices.Equal(said, []string{"1: 200 end", "GOAWAY NO_ERROR", "closed"}) {
		t.Errorf("the server says %q", said)
	}
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("after %v", took)
	}
}

// TestAClientWithoutSettingsIsNotWaitedFor.
func TestAClientWithoutSettingsIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	server := quiet(laboratory())
	server.ReadHeaderTimeout = 100 * time.Millisecond
	p := connect(t, own(t, server, 10).addr)
	if said := p.heard(until("closed")); !until("closed")(said) {
		t.Errorf("the server says %q", said)
	}
	p = connect(t, own(t, quiet(laboratory()), 10).addr)
	p.open(1, true, head("GET", "/nothing")...)
	if said := p.heard(until("GOAWAY")); !until("GOAWAY PROTOCOL_ERROR")(said) {
		t.Errorf("a request before the settings: %q", said)
	}
}

// TestLeaveAndShutdown: the first GOAWAY admits every stream, the second names the last
// one, what is in flight is answered, and what comes later is not.
func TestLeaveAndShutdown(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := own(t, quiet(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = io.WriteString(w, "answer")
	})), 10)
	p := dial(t, s.addr)
	p.open(1, true, head("GET", "/")...)
	c := s.last(t)
	if told, _ := c.Left(); !told.IsZero() {
		t.Error("it has left before")
	}
	c.Leave()
	c.Leave()
	if said := p.heard(until("GOAWAY")); !slices.Equal(said, []string{"GOAWAY NO_ERROR"}) {
		t.Errorf("the server says %q", said)
	}
	p.must(p.framer.WritePing(true, [8]byte([]byte("outrigr!"))))
	p.open(3, true, head("GET", "/")...)
	testkit.Until(t, "the client has confirmed", func() bool {
		_, confirmed := c.Left()
		return !confirmed.IsZero()
	})
	p.must(p.framer.WritePing(false, [8]byte{}))
	awaitPong(p)
	c.Shutdown()
	if said := p.heard(until("GOAWAY")); !slices.Equal(said, []string{"GOAWAY NO_ERROR"}) {
		t.Errorf("the server says %q", said)
	}
	p.open(5, false, head("POST", "/")...)
	p.must(p.framer.WriteData(5, true, []byte("lost")))
	close(release)
	said := p.heard(until("closed"))
	if !slices.Contains(said, "1: 6 bytes end") || !slices.Contains(said, "3: 6 bytes end") || until("5:")(said) || !slices.Contains(said, "closed") {
		t.Errorf("the server says %q", said)
	}
}

// awaitPong reads up to the answer to a ping, behind which all has been taken that was sent
// before.
func awaitPong(p *peer) {
	for {
		frame, err := p.framer.ReadFrame()
		p.must(err)
		if f, ok := frame.(*http2.PingFrame); ok && f.IsAck() {
			return
		}
	}
}

// TestTheClientMayLeave: GOAWAY of a client ends the connection when its streams have.
func TestTheClientMayLeave(t *testing.T) {
	t.Parallel()
	p := dial(t, own(t, quiet(laboratory()), 10).addr)
	p.open(1, true, head("GET", "/late")...)
	p.must(p.framer.WriteGoAway(0, http2.ErrCodeNo, nil))
	if said := p.heard(until("closed")); !slices.Contains(said, "1: 1 bytes end") || !slices.Contains(said, "closed") {
		t.Errorf("the server says %q", said)
	}
}

// TestAnAnswerMayEndItsConnection says Connection: close.
func TestAnAnswerMayEndItsConnection(t *testing.T) {
	t.Parallel()
	p := dial(t, own(t, quiet(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		_, _ = io.WriteString(w, "bye")
	})), 10).addr)
	p.open(1, true, head("GET", "/")...)
	if said := p.heard(until("closed")); !slices.Equal(said, []string{"1: 200", "1: 3 bytes end", "GOAWAY NO_ERROR", "closed"}) {
		t.Errorf("the server says %q", said)
	}
}

// TestContinue: 100 is said to a client that waits for it.
func TestContinue(t *testing.T) {
	t.Parallel()
	p := dial(t, own(t, quiet(laboratory()), 10).addr)
	p.open(1, false, head("POST", "/echo", "expect", "100-continue")...)
	if said := p.heard(until("1:")); !slices.Equal(said, []string{"1: 100"}) {
		t.Fatalf("the server says %q", said)
	}
	p.must(p.framer.WriteData(1, true, []byte("body")))
	if said := p.heard(until("end")); !slices.Equal(said, []string{"1: 200", "1: 4 bytes end"}) {
		t.Errorf("the server says %q", said)
	}
}

// deadlines answers with what its deadlines brought.
type deadlines struct {
	read, write, server time.Duration
	got                 chan error
}

func (d *deadlines) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	if d.read != 0 {
		_ = control.SetReadDeadline(time.Now().Add(d.read))
	}
	if d.write != 0 {
		_ = control.SetWriteDeadline(time.Now().Add(d.write))
		_, err := w.Write(make([]byte, 1<<20))
		d.got <- err
		return
	}
	_, err := io.Copy(io.Discard, r.Body)
	d.got <- err
}

// TestDeadlines: of a handler that reads a body that does not come, and of one that writes
// to a client that leaves no room; those that have passed are kept too.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]*deadlines{
		"read":               {read: 50 * time.Millisecond},
		"read, passed":       {read: -time.Second},
		"read, the server's": {server: 50 * time.Millisecond},
		"write":              {write: 50 * time.Millisecond},
		"write, passed":      {write: -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d.got = make(chan error, 1)
			server := quiet(d)
			server.ReadTimeout = d.server
			p := dial(t, own(t, server, 10).addr)
			p.open(1, false, head("POST", "/")...)
			if err := <-d.got; !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the handler gets %v", err)
			}
			last := "1: NO_ERROR" // its body is not wanted any more
			if d.write != 0 {
				last = "1: INTERNAL_ERROR"
			}
			if said := p.heard(until(last)); !until(last)(said) {
				t.Errorf("the server says %q", said)
			}
		})
	}
}

// TestAClientThatGoesAway ends what its handlers wait for: reading, writing, and their
// contexts.
func TestAClientThatGoesAway(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*peer){
		"reset": func(p *peer) { p.must(p.framer.WriteRSTStream(1, http2.ErrCodeCancel)) },
		"close": func(p *peer) { _ = p.conn.Close() },
		"error": func(p *peer) { p.must(p.framer.WriteRawFrame(http2.FramePing, 0, 0, nil)) },
	} {
		for what, wait := range map[string]func(http.ResponseWriter, *http.Request) error{
			"reading": func(_ http.ResponseWriter, r *http.Request) error {
				_, err := io.Copy(io.Discard, r.Body)
				return err
			},
			"writing": func(w http.ResponseWriter, _ *http.Request) error {
				_, err := w.Write(make([]byte, 1<<20))
				return err
			},
			"its context": func(_ http.ResponseWriter, r *http.Request) error {
				<-r.Context().Done()
				return context.Cause(r.Context())
			},
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				t.Parallel()
				began, got := make(chan struct{}), make(chan error, 1)
				p := dial(t, own(t, quiet(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					close(began)
					got <- wait(w, r)
				})), 10).addr)
				p.open(1, false, head("POST", "/")...)
				<-began
				leave(p)
				select {
				case err := <-got:
					if err == nil {
						t.Error("it ends well")
					}
				case <-time.After(testkit.Limit()):
					t.Error("it does not end")
				}
			})
		}
	}
}

// TestAnswersWaitForWindows: of a stream, of the connection, and for settings that change
// the first.
func TestAnswersWaitForWindows(t *testing.T) {
	t.Parallel()
	p := dial(t, own(t, quiet(laboratory()), 10).addr)
	p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10}))
	p.open(1, true, head("GET", "/large")...)
	if said := p.heard(until("10 bytes")); !slices.Equal(said, []string{"1: 200", "1: 10 bytes"}) {
		t.Fatalf("the server says %q", said)
	}
	p.must(p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 15}))
	if said := p.heard(until("bytes")); !slices.Equal(said, []string{"1: 5 bytes"}) {
		t.Fatalf("the server says %q", said)
	}
	p.must(p.framer.WriteWindowUpdate(1, 1<<21))
	sum := 0
	for _, word := range p.heard(func(said []string) bool { return sumOf(said) == 65535-15 }) {
		sum += sumOf([]string{word})
	}
	if sum != 65535-15 {
		t.Fatalf("%d bytes within the connection's window", sum)
	}
	p.must(p.framer.WriteWindowUpdate(0, 1<<21))
	if said := p.heard(until("end")); sumOf(said) != 40*32<<10-65535 {
		t.Errorf("%d bytes follow", sumOf(said))
	}
}

func sumOf(said []string) (sum int) {
	for _, word := range said {
		_, rest, _ := strings.Cut(word, ": ")
		digits, _, isData := strings.Cut(rest, " bytes")
		if !isData {
			continue
		}
		n := 0
		for _, c := range digits {
			n = n*10 + int(c-'0')
		}
		sum += n
	}
	return sum
}

// TestTheFirstFrameIsOfSettings also where the drain comes before the connection is served.
func TestTheFirstFrameIsOfSettings(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	server := quiet(laboratory())
	c := h2.NewServer(near, h2.ServerOptions{Handler: server.Handler, Server: server, MaxStreams: 1})
	c.Leave()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Serve()
	}()
	first := make([]byte, 9)
	if _, err := io.ReadFull(far, first); err != nil || http2.FrameType(first[3]) != http2.FrameSettings {
		t.Errorf("the first frame is %x, %v", first, err)
	}
	_ = far.Close()
	<-done
}
