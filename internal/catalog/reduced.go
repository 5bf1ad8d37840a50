// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/catalog/source"
)

// IsStale reports whether a load would change the catalog for what became known about the backend since the last one: see
// BuildOptions.LacksHTTP2.
func (l *Live) IsStale() bool {
	return l.Current() != nil && l.plan.Load().build.lacksHTTP2() != l.isReduced.Load()
}

func (o BuildOptions) lacksHTTP2() bool { return o.LacksHTTP2 != nil && o.LacksHTTP2() }

// overHTTP1 is a fresh catalog without the tools that a backend without HTTP/2 can never run, and with a warning for each.
// Typed callers still find them, and get the reason from the call.
func (c *Catalog) overHTTP1() (*Catalog, error) {
	var lost []source.Warning
	isDuplex := func(t *Tool) bool { return !t.Native && t.Method.ClientStreaming && t.Method.ServerStreaming }
	out := c.Only(func(t *Tool) bool { return !isDuplex(t) })
	for _, t := range c.Tools() {
		if isDuplex(t) {
			lost = append(lost, source.Warning{Subject: t.Subject(), Text: "left out of the lists: a bidirectional stream needs HTTP/2, and the backend " +
				"offers HTTP/1.1 only; serve HTTP/2 (h2c without TLS), or leave the method out with --exclude"})
		}
	}
	if len(out.Tools()) == 0 && len(lost) > 0 {
		return nil, &emptyError{cause: fmt.Errorf("%w: the backend offers HTTP/1.1 only, and every method is a bidirectional stream, which needs HTTP/2", ErrEmpty)}
	}
	out.derived = c.derived
	out.warnings = slices.Concat(c.warnings, lost)
	slices.SortStableFunc(out.warnings, bySubject)
	return out, nil
}
