// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a listener whose connections a test brings.
type queue struct{ conns chan net.Conn }

func newQueue() *queue { return &queue{make(chan net.Conn, 100)} }

// Accept implements [net.Listener].
func (q *queue) Accept() (net.Conn, error) {
	if conn := <-q.conns; conn != nil {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (q *queue) Close() error { return nil }

// Addr implements [net.Listener].
func (q *queue) Addr() net.Addr { return &net.TCPAddr{} }

// conn is a connection of an address, which knows whether it is open.
type conn struct {
	net.Conn

	from   net.Addr
	mu     sync.Mutex
	closed bool
}

func from(address string) *conn {
	return &conn{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address))}
}

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return c.from }

// Close implements [net.Conn].
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return nil
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// bench is a gate with connections before it.
type bench struct {
	t       *testing.T
	gate    *peer.Gate
	queue   *queue
	on      net.Listener
	refused []peer.Reason
}

func newBench(t *testing.T, o peer.GateOptions) *bench {
	t.Helper()
	b := &bench{t: t, queue: newQueue()}
	o.Refused = func(why peer.Reason, _ net.Addr) { b.refused = append(b.refused, why) }
	b.gate = peer.NewGate(o)
	b.on = b.gate.Listen(b.queue)
	return b
}

// come brings connections, and returns those that were let in.
func (b *bench) come(conns ...*conn) []*peer.Conn {
	b.t.Helper()
	for _, c := range conns {
		b.queue.conns <- c
	}
	b.queue.conns <- nil
	var in []*peer.Conn
	for {
		c, err := b.on.Accept()
		if err != nil {
			return in
		}
		in = append(in, limited(c))
	}
}

// limited is a connection as its gate made it.
func limited(c net.Conn) *peer.Conn {
	l, _ := c.(*peer.Conn)
	return l
}

func TestInTotal(t *testing.T) {
	t.Parallel()
	b := newBench(t, peer.GateOptions{Most: 2, IdleAfter: time.Hour})
	last := from("192.0.2.3:1")
	in := b.come(from("192.0.2.1:1"), from("192.0.2.2:1"), last)
	if len(in) != 2 || !last.isClosed() || !slices.Equal(b.refused, []peer.Reason{peer.Full}) {
		t.Fatalf("%d are in, the last is closed: %v, refused %v", len(in), last.isClosed(), b.refused)
	}
	if s := b.gate.Stats(); s.Open != 2 || s.Full != 1 || s.PeerFull != 0 {
		t.Errorf("%+v", s)
	}
	_ = in[0].Close()
	_ = in[0].Close() // as servers do
	if got := b.come(from("192.0.2.4:1"), from("192.0.2.5:1")); len(got) != 1 {
		t.Errorf("%d came for one that went", len(got))
	}
}

func TestPerPeer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		loop   bool
		conns  []string
		wantIn int
	}{
		{"one address", false, []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3"}, 2},
		{"three addresses", false, []string{"192.0.2.1:1", "192.0.2.2:1", "192.0.2.3:1"}, 3},
		{"one host of IPv6", false, []string{"[2001:db8::1]:1", "[2001:db8::2]:1", "[2001:db8::3]:1"}, 2},
		{"three hosts of IPv6", false, []string{"[2001:db8:0:1::1]:1", "[2001:db8:0:2::1]:1", "[2001:db8:0:3::1]:1"}, 3},
		{"IPv4 in IPv6", false, []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.1]:2"}, 2},
		{"loopback", false, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, 2},
		{"loopback that is exempt", true, []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"}, 3},
	} {
		b := newBench(t, peer.GateOptions{Most: 10, PerPeer: 2, ExemptLoopback: tc.loop, IdleAfter: time.Hour})
		var conns []*conn
		for _, c := range tc.conns {
			conns = append(conns, from(c))
		}
		in := b.come(conns...)
		if len(in) != tc.wantIn || len(b.refused) != len(tc.conns)-tc.wantIn {
			t.Errorf("%s: %d are in, refused %v", tc.name, len(in), b.refused)
		}
		for _, c := range in {
			_ = c.Close()
		}
		if s := b.gate.Stats(); s.Open != 0 || s.MostOfPeer != 0 {
			t.Errorf("%s: what is left: %+v", tc.name, s)
		}
	}
	b := newBench(t, peer.GateOptions{PerPeer: 1})
	if in := b.come(&conn{from: &net.UnixAddr{}}, &conn{from: &net.UnixAddr{}}); len(in) != 2 {
		t.Errorf("%d of two come in over a Unix socket", len(in))
	}
}

// TestIdleConnectionsMakeRoom, the longest idle one first, and never one at work.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, peer.GateOptions{Most: 3, IdleAfter: time.Second})
		silent, works, rests := from("192.0.2.1:1"), from("192.0.2.2:1"), from("192.0.2.3:1")
		in := b.come(silent, works, rests)
		time.Sleep(time.Second)
		in[1].Begin()
		in[2].Begin()
		in[2].End()
		if got := b.come(from("192.0.2.4:1")); len(got) != 1 || !silent.isClosed() {
			t.Fatalf("%d came, the silent one is closed: %v", len(got), silent.isClosed())
		}
		// One works, one has rested for no time, one is new.
		if got := b.come(from("192.0.2.5:1")); len(got) != 0 || works.isClosed() || rests.isClosed() {
			t.Errorf("%d came, at work: closed %v, just rested: closed %v", len(got), works.isClosed(), rests.isClosed())
		}
		time.Sleep(time.Second)
		if got := b.come(from("192.0.2.6:1")); len(got) != 1 || works.isClosed() {
			t.Errorf("%d came, at work: closed %v", len(got), works.isClosed())
		}
		if s := b.gate.Stats(); s.Open != 3 || s.Replaced != 2 || s.Full != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestAPeersOwnIdleConnectionsMakeRoom, not those of others.
func TestAPeersOwnIdleConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, peer.GateOptions{Most: 3, PerPeer: 1, IdleAfter: time.Second})
		other, own := from("192.0.2.1:1"), from("192.0.2.2:1")
		b.come(other)
		time.Sleep(time.Second)
		b.come(own)
		time.Sleep(time.Second)
		if got := b.come(from("192.0.2.2:2")); len(got) != 1 || !own.isClosed() || other.isClosed() {
			t.Errorf("%d came; its own is closed: %v, another's: %v", len(got), own.isClosed(), other.isClosed())
		}
	})
}

// TestRequestsAndAge of a connection: the answer to the last request says goodbye,
// and after the grace the connection ends.
func TestRequestsAndAge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, peer.GateOptions{Requests: 3, Age: time.Hour, Grace: time.Minute})
		raw := from("192.0.2.1:1")
		c := b.come(raw)[0]
		for i, last := range []bool{false, false, true, true} {
			if c.Begin() != last {
				t.Errorf("request %d of 3: want it to be the last: %v", i+1, last)
			}
		}
		old := from("192.0.2.1:2")
		c = b.come(old)[0]
		time.Sleep(53 * time.Minute)
		if c.Begin() {
			t.Error("it is old after 53 of 60 minutes; at most a tenth is taken off")
		}
		time.Sleep(7*time.Minute + time.Second)
		if !c.Begin() {
			t.Error("it is not old after an hour")
		}
		if s := b.gate.Stats(); s.Used != 1 || s.Aged != 2 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Minute)
		if s := b.gate.Stats(); !raw.isClosed() || !old.isClosed() || s.Cut != 2 || s.Open != 0 {
			t.Errorf("after the grace: closed %v and %v, %+v", raw.isClosed(), old.isClosed(), s)
		}
		b = newBench(t, peer.GateOptions{})
		if c := b.come(from("192.0.2.1:3"))[0]; c.Begin() {
			t.Error("without bounds it ends")
		}
		if (*peer.Conn)(nil).Begin() {
			t.Error("what no gate has seen ends")
		}
	})
}

// TestRequestsAtOnce on one connection: it is idle when the last of them ends.
func TestRequestsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, peer.GateOptions{Most: 1})
		raw := from("192.0.2.1:1")
		c := b.come(raw)[0]
		c.Begin()
		c.Begin()
		c.End()
		time.Sleep(time.Minute)
		if got := b.come(from("192.0.2.2:1")); len(got) != 0 || raw.isClosed() {
			t.Errorf("%d came, the one at work is closed: %v", len(got), raw.isClosed())
		}
		c.End()
		if got := b.come(from("192.0.2.2:2")); len(got) != 1 || !raw.isClosed() {
			t.Errorf("%d came, the idle one is closed: %v", len(got), raw.isClosed())
		}
		(*peer.Conn)(nil).End()
	})
}

func TestFit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		files                    uint64
		want, callers, operators int
	}{
		{0, 10000, 10000, 64},
		{1 << 63, 10000, 10000, 64},
		{1048576, 10000, 10000, 64},
		{65536, 10000, 10000, 64},
		{4096, 10000, 2912, 64},
		{1024, 10000, 608, 64},
		{256, 10000, 128, 16},
		{256, 20, 20, 16},
		{64, 10000, 8, 8},
	} {
		if callers, operators := peer.FitFiles(tc.files, tc.want); callers != tc.callers || operators != tc.operators {
			t.Errorf("FitFiles(%d, %d): %d and %d, want %d and %d", tc.files, tc.want, callers, operators, tc.callers, tc.operators)
		}
	}
	if peer.Files() == 0 {
		t.Log("the limit on open files is not known here")
	}
}
