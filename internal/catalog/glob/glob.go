// SPDX-License-Identifier: Apache-2.0

// Package glob compares names with patterns that people write: for tools, header
// names and URIs. It has one special sign and no state.
package glob

import "strings"

// Anything is the pattern that everything fits.
const Anything = "*"

// Match reports whether name fits a pattern in which "*" represents any run of
// characters, none included, and every other character for itself. Each part
// takes the leftmost place that it finds, which leaves most to the rest, so no
// step has to be taken back.
func Match(pattern, name string) bool {
	head, rest, wild := strings.Cut(pattern, Anything)
	if !wild {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		part, more, wild := strings.Cut(rest, Anything)
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

// MatchAny reports whether name fits one of the patterns.
func MatchAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if Match(p, name) {
			return true
		}
	}
	return false
}
