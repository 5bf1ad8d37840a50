// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net"
	"syscall"
)

// Listen returns a listener whose connections the gate has let in.
func (g *Gate) Listen(on net.Listener) net.Listener { return &listener{Listener: on, gate: g} }

type listener struct {
	net.Listener

	gate *Gate
}

// Accept implements [net.Listener]. What is over a bound is accepted and closed:
// left in the kernel's queue it would keep out those who come after.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.gate.admit(conn); c != nil {
			return c, nil
		}
		_ = conn.Close()
	}
}

// SyscallConn implements [syscall.Conn] where the listener underneath does.
func (l *listener) SyscallConn() (syscall.RawConn, error) { return rawOf(l.Listener) }
