// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// shownRunes is the most of a peer's name that an error repeats, so that a peer cannot fill our log.
	shownRunes = 200
	// shownItems is the most items of a list that an error repeats.
	shownItems = 8
)

// clip makes a peer's text fit for an error: short, on one line and printable.
func clip(s string) string {
	out := make([]rune, 0, min(len(s), shownRunes))
	for _, r := range s {
		if len(out) == shownRunes {
			return string(out) + "..."
		}
		if isUnprintable(r) || r == '\n' || r == '\t' {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}

// clipList joins the first items of a list for an error.
func clipList(items []string) string {
	shown := make([]string, 0, shownItems+1)
	for _, s := range items[:min(len(items), shownItems)] {
		shown = append(shown, clip(s))
	}
	if more := len(items) - shownItems; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, ", ")
}

// plural chooses the word for one or for any other number.
func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// sortedKeys are a map's keys in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
