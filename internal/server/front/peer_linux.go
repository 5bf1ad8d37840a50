// SPDX-License-Identifier: Apache-2.0

package front

import (
	"net"
	"syscall"
)

// peerOf returns the user and the process at the other end of a Unix socket, as the
// kernel knows them (unix(7), SO_PEERCRED).
func peerOf(conn *net.UnixConn) unixPeer {
	raw, err := conn.SyscallConn()
	if err != nil {
		return unixPeer{}
	}
	var peer unixPeer
	_ = raw.Control(func(fd uintptr) {
		if c, err := syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED); err == nil {
			peer = unixPeer{uid: c.Uid, gid: c.Gid, pid: c.Pid, isKnown: true}
		}
	})
	return peer
}
