// SPDX-License-Identifier: Apache-2.0

package peer_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"192.0.2.7:4711":          "192.0.2.7",
		"[2001:db8::7]:4711":      "2001:db8::7",
		"[::ffff:192.0.2.7]:4711": "192.0.2.7",
		"[fe80::1%eth0]:80":       "fe80::1%eth0",
		"192.0.2.7":               "192.0.2.7",
		"2001:DB8:0::7":           "2001:db8::7",
		"@":                       "@", // the peer of a Unix socket
		"pipe":                    "pipe",
		"unix:uid=1000,pid=7":     "unix:uid=1000",
		"":                        "",
	} {
		if got := peer.Address(address); got != want {
			t.Errorf("%q is %q, want %q", address, got, want)
		}
	}
}

func TestPlainAddressesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"127.0.0.1:80": "127.0.0.1", "[::ffff:10.0.0.1]:80": "10.0.0.1", "010.0.0.1:80": "010.0.0.1", "1.2.3:80": "1.2.3", "[::1]:80": "::1", "@": "@", "": "",
	} {
		if got := peer.Address(address); got != want {
			t.Errorf("%q: got %q, want %q", address, got, want)
		}
	}
}
