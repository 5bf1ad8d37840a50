// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
)

// callers is a set of callers. Until callers have identities, one is the address
// that it calls from, or a word for the transport that has no addresses.
type callers struct {
	networks []netip.Prefix
	words    []string
}

// callerWords are the callers that are no address.
func callerWords() []string { return []string{"stdio"} }

// parseCallers reads addresses, networks and words.
func parseCallers(names []string) (callers, error) {
	var out callers
	for _, name := range names {
		if slices.Contains(callerWords(), name) {
			out.words = append(out.words, name)
			continue
		}
		network, err := netip.ParsePrefix(name)
		if err != nil {
			addr, addrErr := netip.ParseAddr(name)
			if addrErr != nil {
				return callers{}, fmt.Errorf("caller %q: want an address, a network such as 10.1.0.0/16, or stdio", name)
			}
			network = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		out.networks = append(out.networks, network.Masked())
	}
	return out, nil
}

// include reports whether a caller is one of the set.
func (c callers) include(caller string) bool {
	if slices.Contains(c.words, caller) {
		return true
	}
	if len(c.networks) == 0 {
		return false
	}
	addr, err := netip.ParseAddr(caller)
	if err != nil {
		return false
	}
	addr = addr.Unmap().WithZone("")
	return slices.ContainsFunc(c.networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}
