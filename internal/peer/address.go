// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"net"
	"net/netip"
)

// Address returns the name of an unauthenticated caller: the address of its
// connection without the port. An IPv4 address in its IPv6 form is returned as IPv4,
// and what is no address is returned unchanged. X-Forwarded-For and similar headers are
// ignored, because anyone can send them.
func Address(peer string) string {
	host, _, err := net.SplitHostPort(peer)
	if err != nil {
		host = peer
	}
	if isPlainIPv4(host) {
		return host // as it is written, without a copy
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return addr.Unmap().String()
}

// isPlainIPv4 holds for IPv4 addresses in their usual form.
func isPlainIPv4(host string) bool {
	const longest = len("255.255.255.255")
	if len(host) > longest {
		return false
	}
	for i := range len(host) {
		if c := host[i]; c != '.' && (c < '0' || c > '9') {
			return false
		}
	}
	addr, err := netip.ParseAddr(host) // refuses leading zeros, so that there is one form
	return err == nil && addr.Is4()
}
