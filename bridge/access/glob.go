// SPDX-License-Identifier: Apache-2.0

package access

import (
	"slices"
	"strings"
)

// anything is the glob that everything fits.
const anything = "*"

// globs are patterns of which one has to fit.
type globs []string

func (g globs) match(name string) bool {
	return slices.ContainsFunc(g, func(pattern string) bool { return Match(pattern, name) })
}

// Match reports whether name fits a pattern in which "*" stands for any run of
// characters, none included, and every other character for itself. Each part
// takes the leftmost place that it finds, which leaves most to the rest, so no
// step has to be taken back: the time is that of reading both.
func Match(pattern, name string) bool {
	head, rest, wild := strings.Cut(pattern, anything)
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		part, more, wild := strings.Cut(rest, anything)
		if !wild {
			return strings.HasSuffix(name, part)
		}
		at := strings.Index(name, part)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(part):], more
	}
}
