// SPDX-License-Identifier: Apache-2.0

//go:build unix

package testkit

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// hold binds a socket, which does not listen. If it is shared, servers can listen there.
func hold(tb testing.TB, shared bool) string {
	tb.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	unix.CloseOnExec(fd)
	tb.Cleanup(func() { _ = unix.Close(fd) })
	if shared {
		for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	v4, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		tb.Fatalf("bound to %T", bound)
	}
	return fmt.Sprintf("127.0.0.1:%d", v4.Port)
}

// SmallWindow is the Control of a dialer whose connections take little that is not read: a window that is small from the start
// stays small.
func SmallWindow(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
	return errors.Join(err, failed)
}

// Pipe makes a named pipe, which goes with the test.
func Pipe(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Group has a command, once it is started, be a group with the processes that it starts; end ends the group.
func Group(cmd *exec.Cmd) (end func()) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
}
