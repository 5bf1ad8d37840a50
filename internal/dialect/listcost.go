// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/listcost"
)

// mcpList is listed for MCP clients, whose models read the list. What it costs is told when it is rendered.
func (h *Handler) mcpList(slot *atomic.Pointer[listing], cat *catalog.Catalog, one entryForm) *listing {
	before := slot.Load()
	l := listed(slot, cat, one)
	if l != before && h.opts.Listed != nil {
		h.opts.Listed(l.cost())
	}
	return l
}

// cost is what the listing costs.
func (l *listing) cost() listcost.List {
	return listcost.Measure(l.catalog.Fingerprint(), len(l.tools), func(i int) (string, int, int) {
		entry := l.entry(i)
		object := bytes.TrimPrefix(entry, []byte(","))
		read := len(object)
		for name, value := range jsontext.Members(object) {
			if name == "_meta" || name == "icons" {
				read -= len(`,"":`) + len(name) + len(value)
			}
		}
		return l.tools[i].Name, len(entry), read
	})
}

// ListCost returns what the list of a catalog costs an MCP client of the modern era. It renders the list, and keeps nothing.
func ListCost(cat *catalog.Catalog) listcost.List {
	return listed(&atomic.Pointer[listing]{}, cat, appendMCPTool).cost()
}
