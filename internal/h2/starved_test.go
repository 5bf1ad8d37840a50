// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// starved is a connection of a process that gets no processor: what the peer sends
// arrives, and is not read while the process does not run.
type starved struct {
	net.Conn // what is written goes here

	in   io.Reader // the kernel's buffer
	have *atomic.Int64

	runs chan struct{} // holds a value, except while the process does not run
	left []byte
}

// Read implements net.Conn: it waits for bytes, and then for a processor.
func (s *starved) Read(p []byte) (int, error) {
	if len(s.left) == 0 {
		piece := make([]byte, 4096)
		n, err := s.in.Read(piece)
		if err != nil {
			return 0, err
		}
		s.left = piece[:n]
		s.have.Add(int64(n))
	}
	<-s.runs
	defer func() { s.runs <- struct{}{} }()
	n := copy(p, s.left)
	s.left = s.left[n:]
	s.have.Add(-int64(n))
	return n, nil
}

// Unread is what hasUnread asks.
func (s *starved) Unread() bool { return s.have.Load() > 0 }

// TestUnreadBytesAreNoSilence: an answer that waits in our own buffer, because this
// process gets no processor, is no silence of the peer. Neither suspicion nor a
// younger connection takes any call away, however long it takes.
func TestUnreadBytesAreNoSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		go func() {
			defer func() { _ = far.Close() }()
			socket := buffered(far)
			_, _ = io.ReadFull(socket, make([]byte, len(http2.ClientPreface)))
			p := &stoppable{goes: make(chan struct{}, 1), resets: make(chan uint32, 10), answers: always{}.answers}
			p.goOn()
			serve(p.talk())(http2.NewFramer(far, socket), far)
		}()
		nc := &starved{Conn: near, in: near, have: new(atomic.Int64), runs: make(chan struct{}, 1)}
		nc.runs <- struct{}{}
		o := options()
		o.QuietAfter, o.SuspectAfter, o.PingTimeout, o.PingAfter, o.WriteTimeout = time.Second, time.Second, 15*time.Second, 310*time.Second, 20*time.Second
		c := NewClient(nc, o)
		defer func() { _ = c.Close() }()
		<-c.Ready()
		<-nc.runs // from here on the reader does not run
		calls := []<-chan error{send(t.Context(), c, true), send(t.Context(), c, false)}
		for range 60 {
			time.Sleep(time.Second)
			if c.Suspect() {
				t.Fatal("a peer that has answered is under suspicion")
			}
			c.Replaced()
		}
		nc.runs <- struct{}{}
		for i, over := range calls {
			if err := <-over; err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
}

// TestACallIsGivenUpOnlyForAnother: on a silent connection that was replaced, a call
// stays that would not be made again, such as one whose budget is used up.
func TestACallIsGivenUpOnlyForAnother(t *testing.T) {
	t.Parallel()
	inTime(t, always{}.answers, func(t *testing.T, c *ClientConn, p *stoppable) {
		p.stop()
		claimed, refused := &claims{grants: true}, &claims{}
		var over [2]chan error
		for i, again := range []*claims{claimed, refused} {
			over[i] = make(chan error, 1)
			go func() {
				req := call([]byte("x"))
				req.Again = again
				over[i] <- c.Do(t.Context(), req, &Answer{})
			}()
		}
		time.Sleep(3 * time.Second)
		c.Replaced()
		time.Sleep(2 * time.Second)
		select {
		case err := <-over[0]:
			if !errors.Is(err, errSilent) {
				t.Errorf("the claimed one: %v", err)
			}
		default:
			t.Error("the claimed one still waits")
		}
		if refused.asked.Load() == 0 {
			t.Error("the other was never asked")
		}
		p.goOn()
		if err := <-over[1]; err != nil {
			t.Errorf("the other: %v", err)
		}
	})
}

// claims counts who asks.
type claims struct {
	grants bool
	asked  atomic.Int64
}

func (c *claims) Claim() bool {
	c.asked.Add(1)
	return c.grants
}

// TestUnreadOfASocket asks the kernel.
func TestUnreadOfASocket(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = near.Close() }()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if hasUnread(near) {
		t.Error("something is unread, and nothing was sent")
	}
	_, _ = far.Write([]byte("x"))
	testkit.Until(t, "it has arrived", func() bool { return hasUnread(near) })
	if n, err := near.Read(make([]byte, 2)); n != 1 || err != nil || hasUnread(near) {
		t.Errorf("%d, %v, then unread %v", n, err, hasUnread(near))
	}
	_ = far.Close()
	testkit.Until(t, "the end counts too", func() bool { return hasUnread(near) })
}
