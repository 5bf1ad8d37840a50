// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// wire is a TCP connection to a server that a test can cut and mend.
type wire struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	isCut bool
	conns map[net.Conn]bool
	all   sync.WaitGroup
}

// newWire returns a wire to the server of a nats:// URL, and the URL of its other end.
func newWire(t testing.TB, url string) (*wire, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: strings.TrimPrefix(url, "nats://"), conns: map[net.Conn]bool{}}
	w.all.Go(w.accept)
	t.Cleanup(func() {
		_ = l.Close()
		w.cut()
		w.all.Wait()
	})
	return w, "nats://" + l.Addr().String()
}

func (w *wire) accept() {
	for {
		in, err := w.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", w.to)
		if err != nil || !w.add(in, out) {
			_ = in.Close()
			if out != nil {
				_ = out.Close()
			}
			continue
		}
		for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
			w.all.Go(func() {
				_, _ = io.Copy(pair[0], pair[1])
				_ = pair[0].Close()
				_ = pair[1].Close()
			})
		}
	}
}

func (w *wire) add(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range conns {
		w.conns[c] = true
	}
	return !w.isCut
}

// cut ends every connection and lets no other through.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = true
	for c := range w.conns {
		_ = c.Close()
	}
	clear(w.conns)
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = false
}
