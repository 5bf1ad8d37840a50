// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Unmatched is something in a book that grants nothing: a glob that no
// tool's name matches, which is most often a name that was misspelt.
type Unmatched struct {
	// Caller is the name of the entry, Pattern the glob in its tools.
	Caller, Pattern string
}

// Unmatched returns the globs over tools that match none of these canonical
// names, in the order of the book.
func (b *Book) Unmatched(tools []string) []Unmatched {
	var out []Unmatched
	entries := b.page.Load().entries
	for i := range entries {
		e := &entries[i]
		for _, pattern := range e.Grant.Tools {
			if !slices.ContainsFunc(tools, func(name string) bool { return glob.Match(pattern, name) }) {
				out = append(out, Unmatched{Caller: e.Name, Pattern: pattern})
			}
		}
	}
	return out
}
