// SPDX-License-Identifier: Apache-2.0

package upstream_test

import (
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
)

// Probes and doctor say which addresses get no calls, and why.
func TestSayAddresses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		stats  backend.BalanceStats
		isWell bool
		want   string
	}{
		{backend.BalanceStats{}, false, "0 of 0 addresses get calls, over 0 connections; 0 ejections"},
		{
			backend.BalanceStats{Addresses: []backend.AddressStats{{Address: "10.0.0.1:1"}}, Connections: 2}, true,
			"1 of 1 addresses get calls, over 2 connections; 0 ejections",
		},
		{
			backend.BalanceStats{
				Addresses: []backend.AddressStats{
					{Address: "10.0.0.1:1"},
					{Address: "10.0.0.2:1", State: backend.AddressEjected, Left: 29400 * time.Millisecond},
					{Address: "10.0.0.3:1", State: backend.AddressUnreachable},
				},
				Connections: 3, Ejections: 4, Draining: 5, LeftOut: 6, LookupError: "no such host",
			}, false,
			"1 of 3 addresses get calls, over 3 connections; 4 ejections; not 10.0.0.2:1 (ejected for 29s: its calls failed), 10.0.0.3:1 (unreachable); " +
				"5 more are gone, and end their calls; 6 more are not used (backend.balance.max_addresses); the last look-up failed: no such host",
		},
	} {
		if got, isWell := upstream.SayAddresses(&tc.stats); got != tc.want || isWell != tc.isWell {
			t.Errorf("got %q, %v, want %q", got, isWell, tc.want)
		}
	}
}
