// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"net"
	"testing"
)

// Dead returns an address of the loopback interface that refuses connections: nothing can listen there. A port that was
// closed may be given to another test, or to a connection, at once; this one is held by a socket until the test ends.
func Dead(tb testing.TB) string {
	tb.Helper()
	return hold(tb, false)
}

// Reserved returns an address of the loopback interface that refuses connections while the servers of the test do not listen there. They can listen,
// end, and listen again, in this process or another. No one is given the port who asks for any. The servers must set
// SO_REUSEADDR, as those of Go do, or SO_REUSEPORT, and Linux must be the system: see socket(7) for what the options do there.
func Reserved(tb testing.TB) string {
	tb.Helper()
	return hold(tb, true)
}

// Listen listens at an address of [Reserved], also where a server listened there a moment ago: a process that another test has
// started holds the closed listener, too, until it runs its program.
func Listen(tb testing.TB, address string) (l net.Listener) {
	tb.Helper()
	Try(tb, "it listens", func() (err error) {
		l, err = net.Listen("tcp", address)
		return err
	})
	return l
}
