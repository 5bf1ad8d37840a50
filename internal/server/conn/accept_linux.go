// SPDX-License-Identifier: Apache-2.0

package conn

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// refuseNew makes the kernel drop what would begin a connection to a listener, while
// handshakes that have begun complete. A client repeats its SYN after a second, and
// finds the listener closed then. Where the kernel does not take the filter, nothing
// changes.
func refuseNew(l net.Listener) {
	const (
		flags    = 13 // offset in the TCP header
		syn      = 0x02
		synOrAck = 0x12
	)
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: synOrAck},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 0, Jf: 1, K: syn},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},          // drop
		{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff}, // keep all of it
	}
	control(l, func(fd int) {
		_ = unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	})
}

// queued is how many connections wait to be accepted.
func queued(l net.Listener) int {
	waiting := 0
	control(l, func(fd int) {
		// On a listener, the kernel reports the length of its queue as Unacked.
		if info, err := unix.GetsockoptTCPInfo(fd, unix.SOL_TCP, unix.TCP_INFO); err == nil {
			waiting = int(info.Unacked)
		}
	})
	return waiting
}

// receiveNow reads what is there already, also after the read deadline.
func receiveNow(conn net.Conn, p []byte) int {
	got := 0
	control(conn, func(fd int) {
		if n, _, err := unix.Recvfrom(fd, p, unix.MSG_DONTWAIT); err == nil {
			got = n
		}
	})
	return got
}

// control runs f on the file descriptor of a listener or connection that has one.
func control(of any, f func(fd int)) {
	has, ok := of.(syscall.Conn)
	if !ok {
		return
	}
	if raw, err := has.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { f(int(fd)) })
	}
}
