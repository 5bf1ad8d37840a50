// SPDX-License-Identifier: Apache-2.0

// Package shown sanitizes text from peers so that it is safe to show to people and models and to repeat in errors, and
// formats lists and numbers as words.
package shown

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

const (
	// shownRunes is the most of a peer's name that an error repeats, so that a peer cannot fill our log.
	shownRunes = 200
	// shownItems is the most items of a list that an error repeats.
	shownItems = 8
)

// Clip makes a peer's text suitable for an error: short, on one line and printable.
func Clip(s string) string {
	out := make([]rune, 0, min(len(s), shownRunes))
	for _, r := range s {
		if len(out) == shownRunes {
			return string(out) + "..."
		}
		if IsUnprintable(r) || r == '\n' || r == '\t' {
			r = '?'
		}
		out = append(out, r)
	}
	return string(out)
}

// ClipList joins the first items of a list for an error.
func ClipList(items []string) string {
	shown := make([]string, 0, shownItems+1)
	for _, s := range items[:min(len(items), shownItems)] {
		shown = append(shown, Clip(s))
	}
	if more := len(items) - shownItems; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
	}
	return strings.Join(shown, ", ")
}

// Plural returns the word for one or the word for any other number.
func Plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// SortedKeys returns the keys of a map in sorted order.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// IsUnprintable reports whether the character is invisible and neither a line end nor a tab. The joiners U+200C and
// U+200D count as printable: Persian, Indic scripts and emoji need them.
func IsUnprintable(r rune) bool {
	switch r {
	case '\n', '\t', '\u200c', '\u200d':
		return false
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}
