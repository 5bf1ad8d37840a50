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
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return addr.Unmap().String()
}
