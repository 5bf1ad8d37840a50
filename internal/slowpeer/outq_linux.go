// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unacknowledged is how many bytes the kernel holds that the peer has not taken
// (tcp(7), SIOCOUTQ); negative where that is unknown.
func unacknowledged(c net.Conn) int {
	raw, ok := c.(syscall.Conn)
	if !ok {
		return -1
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return -1
	}
	n := -1
	err = control.Control(func(fd uintptr) {
		if n, err = unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err != nil {
			n = -1
		}
	})
	if err != nil {
		return -1
	}
	return n
}
