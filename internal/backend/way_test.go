// SPDX-License-Identifier: Apache-2.0

package backend

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// way is the way to a server, through which every connection goes. It can fall
// silent without a word, as a firewall that forgets connections does, and stand
// still, as a process that is stopped does.
type way struct {
	*peer
	server string

	mu    sync.Mutex
	lines []*line
	goes  chan struct{} // closed while bytes pass
}

// line is one connection on the path.
type line struct{ dead atomic.Bool }

// wayTo makes a way to a server.
func wayTo(tb testing.TB, upstream *peer) *way {
	tb.Helper()
	p := &way{server: upstream.as("")[len("://"):], goes: make(chan struct{})}
	close(p.goes)
	ended := make(chan struct{})
	p.peer = rawPeer(tb, func(nc net.Conn) { p.carry(nc, ended) })
	tb.Cleanup(func() { close(ended) })
	return p
}

// carry passes bytes between a connection and the server until either ends.
func (p *way) carry(near net.Conn, ended <-chan struct{}) {
	l := &line{}
	p.mu.Lock()
	p.lines = append(p.lines, l)
	p.mu.Unlock()
	p.wait(ended)
	far, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = near.Close()
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		p.pass(near, far, l, ended)
	}()
	p.pass(far, near, l, ended)
	<-back
}

// pass copies one way. A line that is dead swallows what comes, and the end too.
func (p *way) pass(to, from net.Conn, l *line, ended <-chan struct{}) {
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		p.wait(ended)
		switch {
		case err != nil:
			_ = to.Close()
			return
		case l.dead.Load():
		default:
			_, _ = to.Write(piece[:n])
		}
	}
}

// wait waits while the path stands still.
func (p *way) wait(ended <-chan struct{}) {
	p.mu.Lock()
	goes := p.goes
	p.mu.Unlock()
	select {
	case <-goes:
	case <-ended:
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
