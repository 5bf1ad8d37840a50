// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/glob"
)

// Unmatched is a glob in a book that grants nothing because it matches no tool. Most
// often it is a misspelled name.
type Unmatched struct {
	// Caller is the name of the entry, Pattern the glob in its tools.
	Caller, Pattern string
}

// Unmatched returns the tool globs that match none of the given canonical names, in the
// order of the book.
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
