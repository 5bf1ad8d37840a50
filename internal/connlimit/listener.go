// SPDX-License-Identifier: Apache-2.0

package connlimit

import (
	"net"
	"syscall"
)

// Listen returns a listener for the connections that the gate admits.
func (g *Gate) Listen(on net.Listener) net.Listener { return &listener{Listener: on, gate: g} }

type listener struct {
	net.Listener

	gate *Gate
}

// Accept implements [net.Listener]. It accepts and closes connections over a limit. In
// the kernel's queue they would block the connections behind them.
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

// SyscallConn implements [syscall.Conn] if the underlying listener does.
func (l *listener) SyscallConn() (syscall.RawConn, error) { return rawOf(l.Listener) }
