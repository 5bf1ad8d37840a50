// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// way is the way to a server in memory, through which every connection goes. It can fall silent without a word, as a firewall
// that forgets connections does, and stand still, as a process that is stopped does. It works in a bubble.
type way struct {
	conns  atomic.Int64  // how many were made
	accept chan net.Conn // by the server
	ended  chan struct{}
	end    sync.Once

	mu    sync.Mutex
	lines []*line
	goes  chan struct{} // closed while bytes pass
}

// line is one connection on the path.
type line struct{ dead atomic.Bool }

// newWay makes a way whose end is the listener of a server.
func newWay(tb testing.TB) *way {
	tb.Helper()
	p := &way{goes: make(chan struct{}), accept: make(chan net.Conn), ended: make(chan struct{})}
	close(p.goes)
	tb.Cleanup(func() { _ = p.Close() })
	return p
}

// Dial makes a connection, as that of [Options].
func (p *way) Dial(context.Context, string, string) (net.Conn, error) {
	near, mine := net.Pipe()
	p.conns.Add(1)
	go p.carry(mine)
	return near, nil
}

// Accept implements [net.Listener].
func (p *way) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accept:
		return conn, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (p *way) Close() error {
	p.end.Do(func() { close(p.ended) })
	return nil
}

// Addr implements [net.Listener].
func (p *way) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// carry passes bytes between a connection and the server until either ends.
func (p *way) carry(near net.Conn) {
	l := &line{}
	p.mu.Lock()
	p.lines = append(p.lines, l)
	p.mu.Unlock()
	p.wait()
	far, served := net.Pipe()
	select {
	case p.accept <- served:
	case <-p.ended:
		_ = near.Close()
		return
	}
	go p.pass(near, far, l)
	p.pass(far, near, l)
}

// pass copies one way. A line that is dead swallows what comes.
func (p *way) pass(to, from net.Conn, l *line) {
	pieces := make(chan []byte, 1<<12) // as the kernel does, it takes what the other end does not read yet
	go func() {
		defer close(pieces)
		for {
			piece := make([]byte, 16<<10)
			n, err := from.Read(piece)
			if err != nil {
				return
			}
			pieces <- piece[:n]
		}
	}()
	for piece := range pieces {
		p.wait()
		if !l.dead.Load() {
			_, _ = to.Write(piece)
		}
	}
	p.wait()
	_ = to.Close()
}

// wait waits while the path is stopped.
func (p *way) wait() {
	p.mu.Lock()
	goes := p.goes
	p.mu.Unlock()
	select {
	case <-goes:
	case <-p.ended:
	}
}

// silence makes the connections that there are carry nothing any more. New ones
// work.
func (p *way) silence() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		l.dead.Store(true)
	}
}

// stop lets nothing pass, and loses nothing.
func (p *way) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.goes = make(chan struct{})
}

// goOn lets everything pass that was held back.
func (p *way) goOn() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.goes:
	default:
		close(p.goes)
	}
}
