// SPDX-License-Identifier: Apache-2.0

package testkit_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestDead: connections are refused, and no one can listen there.
func TestDead(t *testing.T) {
	t.Parallel()
	address := testkit.Dead(t)
	refused(t, address)
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			_ = l.Close()
		}
		t.Errorf("listening: %v", err)
	}
}

// refused reports it when a connection can be made.
func refused(t *testing.T, address string) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting: %v", err)
	}
}
