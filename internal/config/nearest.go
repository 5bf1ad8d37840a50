// SPDX-License-Identifier: Apache-2.0

package config

import (
	"iter"
	"strings"
)

// nearest returns the known name that a wrong one was probably meant to be, or
// "" if none is close. Case, dashes and underscores do not count.
func nearest(wrong string, known iter.Seq[string]) string {
	const longest = 64 // no name of ours is longer, and the distance is quadratic
	if len(wrong) > longest {
		return ""
	}
	folded := fold(wrong)
	best, least := "", len(folded)/3+2
	for name := range known {
		if d := distance(folded, fold(name)); d < least {
			best, least = name, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}

// distance is the number of bytes to insert, drop, replace or swap with their
// neighbour (optimal string alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, row[j]+1, last[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
