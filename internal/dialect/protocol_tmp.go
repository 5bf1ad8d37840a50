// SPDX-License-Identifier: Apache-2.0

package dialect

import "github.com/outrigger-mcp/outrigger/errmap"

// protocol is how the message's dialect shows errors.
func (in *Inbound) protocol() errmap.Protocol {
	switch in.Dialect {
	case Modern:
		return errmap.ModernMCP
	case Legacy:
		return errmap.LegacyMCP
	case Canonical:
	}
	return errmap.CanonicalJSONRPC
}
