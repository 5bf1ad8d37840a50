// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestReserved: a server can listen, end and listen again; meanwhile connections are refused, and the port is not given to
// anybody who asks for any, to listen or to connect.
func TestReserved(t *testing.T) {
	t.Parallel()
	address := testkit.Reserved(t)
	for range 3 {
		refused(t, address)
		notGiven(t, address)
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		notGiven(t, address)
		// The side that closes first keeps the port for a while (TIME_WAIT).
		if err := errors.Join(l.Close(), conn.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// notGiven lets the kernel choose a port from this one alone.
func notGiven(t *testing.T, address string) {
	t.Helper()
	only := onlyPort(netip.MustParseAddrPort(address).Port())
	l, err := (&net.ListenConfig{Control: only}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err == nil {
		_ = l.Close()
	}
	if errors.Is(err, syscall.ENOPROTOOPT) {
		t.Skip("IP_LOCAL_PORT_RANGE needs Linux 6.3")
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("to listen on any port: %v", err)
	}
	other, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	conn, err := (&net.Dialer{Control: only}).DialContext(t.Context(), "tcp", other.Addr().String())
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("to connect from any port: %v", err)
	}
}

// onlyPort sets IP_LOCAL_PORT_RANGE (ip(7)): the first port in the lower half, the last in the upper.
func onlyPort(port uint16) func(network, address string, c syscall.RawConn) error {
	const ipLocalPortRange = 51
	return func(_, _ string, c syscall.RawConn) error {
		var set error
		err := c.Control(func(fd uintptr) {
			set = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, ipLocalPortRange, int(port)<<16|int(port))
		})
		return errors.Join(err, set)
	}
}
