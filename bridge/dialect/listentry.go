// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"
	"sync/atomic"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// listing is the tools of a catalog as one dialect lists them. Immutable.
type listing struct {
	catalog *catalog.Catalog
	tools   []*catalog.Tool
	// text holds the tools, compact, each with a comma before it, and ends where
	// each of them ends there.
	text []byte
	ends []int
}

// entry is one tool, with its comma.
func (l *listing) entry(i int) []byte { return l.text[l.start(i):l.ends[i]] }

func (l *listing) start(i int) int {
	if i == 0 {
		return 0
	}
	return l.ends[i-1]
}

// listed returns the listing of a snapshot, rendering it on first use; one is
// how a tool looks. Tools that look as they did in the newest listing before are
// copied from it, so that a change costs what has changed. Two callers that come
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
	l := &listing{
		catalog: cat, tools: tools, ends: make([]int, 0, len(tools)),
		text: make([]byte, 0, len(before.text)+len(before.text)/grownBy),
	}
	var raw []byte
	at := 0 // both lists are sorted by name
	for _, t := range tools {
		for at < len(before.tools) && before.tools[at] != t && before.tools[at].Name < t.Name {
			at++
		}
		if at < len(before.tools) && before.tools[at].IsSame(t) {
			l.text = append(l.text, before.entry(at)...)
		} else {
			raw = one(append(raw[:0], ','), t)
			l.text = jsonrpc.Compact(l.text, raw)
		}
		l.ends = append(l.ends, len(l.text))
	}
	if cap(l.text)-len(l.text) > 2*len(l.text)/grownBy {
		l.text = bytes.Clone(l.text) // it is kept
	}
	slot.Store(l)
	return l
}

// grownBy is the part of a listing that is left free for what may have come since
// the one before: most changes are of one tool among many.
const grownBy = 16

// listPage is one page of a listing: what stands between the head and the tail of a
// result, and the tail, from its bracket on; nil where there is no page.
type listPage struct{ entries, tail []byte }

// pageHead is how a result that lists tools begins.
const pageHead = `{"tools":[`

// page is the tools from first to before next. Its entries are the listing's own.
func (l *listing) page(first, next int, tail []byte) listPage {
	p := listPage{tail: jsonrpc.Compact(nil, tail)}
	if first < next {
		p.entries = l.text[l.start(first)+1 : l.ends[next-1]] // no comma before the first
	}
	return p
}

// list leaves the page of a listing to be put into the reply.
func (c *exchange) list(l *listing, tail []byte) ([]byte, *errmap.Error) {
	c.page = l.page(c.resp.First, c.resp.Next, tail)
	return nil, nil
}
