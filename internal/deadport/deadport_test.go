// SPDX-License-Identifier: Apache-2.0

package deadport_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/deadport"
)

// TestAddress: connections are refused, and nobody else can listen there.
func TestAddress(t *testing.T) {
	t.Parallel()
	address := deadport.Address(t)
	if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = conn.Close()
		}
		t.Errorf("connecting: %v", err)
	}
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address); !errors.Is(err, syscall.EADDRINUSE) {
		if err == nil {
			_ = l.Close()
		}
		t.Errorf("listening: %v", err)
	}
}
