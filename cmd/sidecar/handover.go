// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"net"
	"net/http"
	"sync"
)

// sharedListener lets one server take a socket over from another: net/http's
// server closes its listener when it begins to shut down, and only then says
// goodbye to its HTTP/2 connections and closes idle ones. A sidecar that drains
// has to do the latter and still answer who comes, to say where it stands.
type sharedListener struct {
	net.Listener

	accepted chan acceptance
	closed   chan struct{}
	once     sync.Once
	pumping  sync.WaitGroup
}

// acceptance is what Accept returned.
type acceptance struct {
	conn net.Conn
	err  error
}

// share begins to accept; Close ends that.
func share(l net.Listener) *sharedListener {
	s := &sharedListener{Listener: l, accepted: make(chan acceptance), closed: make(chan struct{})}
	s.pumping.Go(s.pump)
	return s
}

func (s *sharedListener) pump() {
	for {
		conn, err := s.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		// Other errors, such as no more files, are for the server: it waits a while.
		select {
		case s.accepted <- acceptance{conn, err}:
		case <-s.closed:
			if conn != nil {
				_ = conn.Close() // nobody is left to serve it
			}
			return
		}
	}
}

// Close closes the socket and all views of it.
func (s *sharedListener) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		close(s.closed)
		err = s.Listener.Close()
		s.pumping.Wait()
	})
	return err
}

// view is the listener as one server has it: its end is that server's alone.
func (s *sharedListener) view() net.Listener {
	return &listenerView{shared: s, closed: make(chan struct{})}
}

type listenerView struct {
	shared *sharedListener
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (v *listenerView) Accept() (net.Conn, error) {
	select {
	case <-v.closed: // checked first, so that nothing is taken that another could
		return nil, net.ErrClosed
	default:
	}
	select {
	case a := <-v.shared.accepted:
		return a.conn, a.err
	case <-v.closed:
	case <-v.shared.closed:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (v *listenerView) Close() error {
	v.once.Do(func() { close(v.closed) })
	return nil
}

// Addr implements net.Listener.
func (v *listenerView) Addr() net.Addr { return v.shared.Addr() }

// parting ends every connection after one answer: with Connection: close on
// HTTP/1.1, which net/http turns into GOAWAY on HTTP/2.
func parting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		next.ServeHTTP(w, r)
	})
}
