// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// stoppable is a peer that can stand still: it reads what comes and answers when it
// goes on.
type stoppable struct {
	goes    chan struct{} // holds a value, except while the peer is stopped
	pings   atomic.Int64
	resets  chan uint32
	answers func(n int) bool // whether it answers its n-th request
}

func (p *stoppable) stop() { <-p.goes }
func (p *stoppable) goOn() { p.goes <- struct{}{} }

// talk is for [serve].
func (p *stoppable) talk() func(fr *http2.Framer, f http2.Frame) bool {
	n := 0
	return func(fr *http2.Framer, f http2.Frame) bool {
		p.stop()
		defer p.goOn()
		switch f := f.(type) {
		case *http2.PingFrame:
			p.pings.Add(1)
			return fr.WritePing(true, f.Data) == nil
		case *http2.RSTStreamFrame:
			p.resets <- f.StreamID
		case *http2.DataFrame:
			n++
			return p.answers == nil || !p.answers(n) || answer(fr, f.StreamID, "here")
		}
		return true
	}
}

// inTime runs a test with a connection to a stoppable peer and no real clock. The
// connection has the times that calls of the sidecar have.
func inTime(t *testing.T, answers func(n int) bool, test func(t *testing.T, c *ClientConn, p *stoppable)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		p := &stoppable{goes: make(chan struct{}, 1), resets: make(chan uint32, 1000), answers: answers}
		p.goOn()
		go func() {
			defer func() { _ = far.Close() }()
			socket := buffered(far)
			_, _ = io.ReadFull(socket, make([]byte, len(http2.ClientPreface)))
			serve(p.talk())(http2.NewFramer(far, socket), far)
		}()
		o := options()
		o.QuietAfter, o.SuspectAfter, o.PingTimeout, o.PingAfter = time.Second, time.Second, 15*time.Second, 310*time.Second
		c := NewClient(near, o)
		defer func() { _ = c.Close() }()
		<-c.Ready()
		test(t, c, p)
	})
}

// buffered reads what there is, as the kernel does for a process that is stopped.
func buffered(nc net.Conn) io.Reader {
	pieces := make(chan []byte, 10_000)
	go func() {
		defer close(pieces)
		for {
			piece := make([]byte, 4096)
			n, err := nc.Read(piece)
			if err != nil {
				return
			}
			pieces <- piece[:n]
		}
	}()
	return &kernel{pieces: pieces}
}

type kernel struct {
	pieces <-chan []byte
	left   []byte
}

// Read implements io.Reader.
func (k *kernel) Read(b []byte) (int, error) {
	for len(k.left) == 0 {
		piece, ok := <-k.pieces
		if !ok {
			return 0, io.EOF
		}
		k.left = piece
	}
	n := copy(b, k.left)
	k.left = k.left[n:]
	return n, nil
}

// always grants every claim.
type always struct{}

func (always) Claim() bool { return true }

func (always) answers(int) bool { return true }

// send makes a call whose outcome comes on the channel.
func send(ctx context.Context, c *ClientConn, repeatable bool) <-chan error {
	over := make(chan error, 1)
	go func() {
		req := call([]byte("x"))
		if repeatable {
			req.Again = always{}
		}
		over <- c.Do(ctx, req, &Answer{})
	}()
	synctest.Wait()
	return over
}

// since says how long something took, to the next quarter of a second, which is how
// often a connection is looked at.
func since(began time.Time) time.Duration { return time.Since(began).Round(250 * time.Millisecond) }

// A peer that is stopped for a while is under suspicion for as long, and answers
// what it has when it goes on.
func TestSuspicionComesAndGoes(t *testing.T) {
	t.Parallel()
	inTime(t, func(int) bool { return true }, func(t *testing.T, c *ClientConn, p *stoppable) {
		time.Sleep(time.Minute) // silence alone is nothing
		p.stop()
		began := time.Now()
		first, second := send(t.Context(), c, false), send(t.Context(), c, true)
		for !c.Suspect() {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(began); took < 2*time.Second || took > 2500*time.Millisecond {
			t.Errorf("suspect after %v", took)
		}
		time.Sleep(5*time.Second - time.Since(began))
		if c.Err() != nil || c.InFlight() != 2 {
			t.Errorf("%d calls are left, %v", c.InFlight(), c.Err())
		}
		p.goOn()
		for _, over := range []<-chan error{first, second} {
			if err := <-over; err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if c.Suspect() || p.pings.Load() != 1 {
			t.Errorf("suspect %v after %d pings", c.Suspect(), p.pings.Load())
		}
	})
}

// What becomes of calls on a connection that is dead.
func TestADeadConnection(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		replaced, repeatable bool
		after                time.Duration
	}{
		"replaced, may be repeated":     {true, true, 2750 * time.Millisecond},
		"replaced, may not":             {true, false, 16250 * time.Millisecond},
		"not replaced, may be repeated": {false, true, 310250 * time.Millisecond},
		"not replaced, may not":         {false, false, 310250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, nil, func(t *testing.T, c *ClientConn, p *stoppable) {
				p.stop()
				began := time.Now()
				over := send(t.Context(), c, tc.repeatable)
				c.Replaced() // says nothing yet
				for !c.Suspect() {
					time.Sleep(10 * time.Millisecond)
				}
				if tc.replaced {
					c.Replaced()
				}
				err := <-over
				failed := new(Failure)
				if took := since(began); !errors.As(err, &failed) || !errors.Is(err, errSilent) || took != tc.after {
					t.Errorf("%v after %v, want %v", err, took, tc.after)
				}
				if failed == nil || !failed.Complete || failed.Unprocessed() {
					t.Errorf("got %+v", failed)
				}
				synctest.Wait()
				if !errors.Is(c.Err(), errSilent) { // it has no calls left
					t.Errorf("the connection's error is %v", c.Err())
				}
				p.goOn()
			})
		})
	}
}

// A connection that was replaced and comes back keeps the calls that it has.
func TestComingBackAfterAReplacement(t *testing.T) {
	t.Parallel()
	inTime(t, func(int) bool { return true }, func(t *testing.T, c *ClientConn, p *stoppable) {
		p.stop()
		kept, given := send(t.Context(), c, false), send(t.Context(), c, true)
		for !c.Suspect() {
			time.Sleep(10 * time.Millisecond)
		}
		c.Replaced()
		time.Sleep(10 * time.Second)
		p.goOn()
		if err := <-given; !errors.Is(err, errSilent) {
			t.Errorf("the call that may be repeated: %v", err)
		}
		if err := <-kept; err != nil {
			t.Errorf("the other one: %v", err)
		}
		time.Sleep(time.Minute)
		if c.Err() != nil || c.Suspect() {
			t.Errorf("suspect %v, %v", c.Suspect(), c.Err())
		}
		if id := <-p.resets; id != 3 {
			t.Errorf("the peer was told to leave stream %d", id)
		}
	})
}

// A peer that is slow gets no more pings between two answers than servers of gRPC
// tolerate, however many calls wait, and is never under suspicion.
func TestASlowPeerIsNotPestered(t *testing.T) {
	t.Parallel()
	inTime(t, func(n int) bool { return n == 100 }, func(t *testing.T, c *ClientConn, p *stoppable) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wait := func(calls int) {
			for range calls {
				send(ctx, c, true)
				time.Sleep(2 * time.Second)
				if c.Suspect() || c.Err() != nil {
					t.Errorf("suspect %v, %v", c.Suspect(), c.Err())
				}
			}
		}
		wait(99) // 198 s: less than pings are due again anyway
		if n := p.pings.Load(); n != maxPings {
			t.Errorf("%d pings before the first answer", n)
		}
		if err := <-send(ctx, c, true); err != nil {
			t.Error(err)
		}
		wait(50)
		if n := p.pings.Load(); n != 2*maxPings {
			t.Errorf("%d pings after the first answer", n)
		}
	})
}

// Callers that give up ask for a sign of life as often as the peer tolerates. Then
// one that has waited in vain keeps others away, and the calls on the connection
// still gets an answer.
func TestGivingUpOnASlowPeer(t *testing.T) {
	t.Parallel()
	inTime(t, func(n int) bool { return n == 10 }, func(t *testing.T, c *ClientConn, p *stoppable) {
		hurried := func(callTimeout time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
			defer cancel()
			if err := <-send(ctx, c, true); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			synctest.Wait()
		}
		for range 8 {
			hurried(100 * time.Millisecond)
		}
		if n := p.pings.Load(); n != maxPings || c.Err() != nil {
			t.Errorf("%d pings, %v", n, c.Err())
		}
		other, long := send(t.Context(), c, false), send(t.Context(), c, false)
		if err := <-long; err != nil { // the tenth
			t.Error(err)
		}
		hurried(5 * time.Second)        // a ping
		hurried(5 * time.Second)        // another
		hurried(500 * time.Millisecond) // too short to conclude anything
		if c.Err() != nil || p.pings.Load() != 2*maxPings {
			t.Errorf("%d pings, %v", p.pings.Load(), c.Err())
		}
		hurried(5 * time.Second)
		if !errors.Is(c.Err(), errSilent) || c.InFlight() != 1 {
			t.Errorf("%d in flight, %v", c.InFlight(), c.Err())
		}
		if _, err := do(t, c, "later"); !errors.Is(err, errSilent) {
			t.Errorf("a further call: %v", err)
		}
		select {
		case err := <-other:
			t.Errorf("the call that waits ended: %v", err)
		default:
		}
	})
}
