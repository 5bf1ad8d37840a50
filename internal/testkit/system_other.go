// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package testkit

import (
	"net"
	"os/exec"
	"syscall"
	"testing"
)

// hold returns an address that was free a moment ago. Elsewhere than on Unix, a port is not held: the tests build, and one may
// fail where another process takes its port.
func hold(tb testing.TB, _ bool) string {
	tb.Helper()
	l, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// SmallWindow changes nothing here.
func SmallWindow(string, string, syscall.RawConn) error { return nil }

// Pipe skips the test: there are no named pipes in the file system.
func Pipe(tb testing.TB) string {
	tb.Helper()
	tb.Skip("needs a named pipe")
	return ""
}

// Group ends a command without the processes that it starts.
func Group(cmd *exec.Cmd) (end func()) {
	return func() { _ = cmd.Process.Kill() }
}
