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
	best, least := "", len(folded)/3+1
	for name := range known {
		d := distance(folded, fold(name))
		if d < least || (d == least && best == "") {
			best, least = name, d
		}
	}
	return best
}

func fold(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s))
}

// distance is the Levenshtein distance in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
