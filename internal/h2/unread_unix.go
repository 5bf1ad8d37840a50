// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h2

import (
	"net"
	"syscall"
)

// hasUnread reports whether the kernel holds something from the peer, its farewell
// included, that is unread. It never waits, and takes nothing away. Go's
// sockets do not block. A connection may answer for itself; of any other that is no
// socket nothing is known.
func hasUnread(nc net.Conn) bool {
	if told, ok := nc.(interface{ Unread() bool }); ok {
		return told.Unread()
	}
	sock, ok := socketOf(nc).(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sock.SyscallConn()
	if err != nil {
		return false
	}
	has := false
	_ = raw.Control(func(fd uintptr) {
		var piece [1]byte
		_, _, err := syscall.Recvfrom(int(fd), piece[:], syscall.MSG_PEEK)
		has = err == nil
	})
	return has
}

// socketOf is the connection below TLS and wrappers.
func socketOf(nc net.Conn) net.Conn {
	for {
		wrapped, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = wrapped.NetConn()
	}
}
