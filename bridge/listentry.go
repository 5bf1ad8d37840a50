// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// listing is the tools of a catalog as one dialect lists them. Immutable.
type listing struct {
	catalog *catalog.Catalog
	tools   []*catalog.Tool
	// entries are the tools, compact, each with a comma before it.
	entries [][]byte
}

// listed returns the listing of a snapshot, rendering it on first use; one is
// how a tool looks. Tools that look as they did in the newest listing before are
// taken from it, so that a change costs what has changed. Two callers that come
// at once may both render; either result is right.
func listed(slot *atomic.Pointer[listing], cat *catalog.Catalog, one func([]byte, *catalog.Tool) []byte) *listing {
	before := slot.Load()
	if before != nil && before.catalog == cat {
		return before
	}
	if before == nil {
		before = &listing{}
	}
	tools := cat.Tools()
	l := &listing{catalog: cat, tools: tools, entries: make([][]byte, 0, len(tools))}
	var raw []byte
	at := 0 // both lists are sorted by name
	for _, t := range tools {
		for at < len(before.tools) && before.tools[at] != t && before.tools[at].Name < t.Name {
			at++
		}
		if at < len(before.tools) && before.tools[at].IsSame(t) {
			l.entries = append(l.entries, before.entries[at])
			continue
		}
		raw = one(append(raw[:0], ','), t)
		l.entries = append(l.entries, jsonrpc.Compact(make([]byte, 0, len(raw)), raw))
	}
	slot.Store(l)
	return l
}

// page is a result that lists the tools from first to before next, in pieces;
// tail is what stands behind the last one, from its bracket on.
func (l *listing) page(first, next int, tail []byte) [][]byte {
	out := make([][]byte, 0, next-first+2)
	out = append(out, []byte(`{"tools":[`))
	out = append(out, l.entries[first:next]...)
	if first < next {
		out[1] = out[1][1:] // no comma before the first
	}
	return append(out, jsonrpc.Compact(nil, tail))
}

// list leaves the page of a listing to be put into the reply.
func (c *exchange) list(l *listing, tail []byte) ([]byte, *errmap.Error) {
	c.pieces = l.page(c.resp.First, c.resp.Next, tail)
	return nil, nil
}

// success is the reply's envelope around the result, or around its pieces.
func (c *exchange) success(result []byte) []byte {
	if c.whole != nil {
		return c.whole
	}
	pieces := c.pieces
	if pieces == nil {
		pieces = [][]byte{result}
	}
	size := len(c.in.Message.ID.Raw()) + envelopeBytes
	for _, piece := range pieces {
		size += len(piece)
	}
	return jsonrpc.AppendCompactResult(make([]byte, 0, size), c.in.Message.ID, pieces...)
}
