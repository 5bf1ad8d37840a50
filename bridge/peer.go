// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net"
	"net/netip"
)

// CallerStdio is the one caller of a conversation over standard input.
const CallerStdio = "stdio"

// CallerAddress is the caller behind a connection who did not have to say who
// they are: the peer's address without its port, an IPv4 address that came in
// through an IPv6 socket as IPv4. What is no address stays as it is. Headers that
// name another address (X-Forwarded-For) are not looked at: anyone can send them.
func CallerAddress(peer string) string {
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
