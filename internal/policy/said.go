// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// CheckAs is Check for a caller with its own trust state: the gate's state and its
// list of callers are ignored.
func (g *Gate) CheckAs(tool *catalog.Tool, said Trust) *errmap.Error {
	if said == Trusted || !g.current().scope.Holds(tool) {
		return nil
	}
	g.refused.add(tool.Name)
	return errmap.New(errmap.DestructiveBlocked, errmap.Tool(tool.Name), errmap.Message(
		"Destructive tool blocked: "+tool.Name+" is blocked for this caller; an operator can trust it in the callers file (--tokens)"))
}
