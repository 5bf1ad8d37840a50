// SPDX-License-Identifier: Apache-2.0

// Package deadport has addresses for tests on which nothing listens, and on which nothing can begin to listen meanwhile.
package deadport

import (
	"fmt"
	"syscall"
	"testing"
)

// Address returns an address of the loopback interface that refuses connections until the test ends. A port that was closed
// may be given to another test at once; this one is held by a socket that does not listen.
func Address(tb testing.TB) string {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		tb.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	v4, ok := bound.(*syscall.SockaddrInet4)
	if !ok {
		tb.Fatalf("bound to %T", bound)
	}
	return fmt.Sprintf("127.0.0.1:%d", v4.Port)
}
