// SPDX-License-Identifier: Apache-2.0

package shown

import (
	"strings"
	"unicode/utf8"
)

// Clean makes a peer's text safe to show: valid UTF-8, one kind of line end, and no invisible characters (controls,
// direction marks, invisible tags). Text that people cannot see should not reach a model.
func Clean(raw string) string {
	raw = strings.ReplaceAll(strings.ToValidUTF8(raw, "\uFFFD"), "\r\n", "\n")
	return strings.Map(func(r rune) rune {
		if IsUnprintable(r) {
			return -1
		}
		return r
	}, raw)
}

// OneSpaced returns the cleaned text on one line, with single spaces.
func OneSpaced(text string) string { return strings.Join(strings.Fields(Clean(text)), " ") }

// CutBytes shortens a text to the limit, between two characters, and marks the cut.
func CutBytes(text string, most int) (cut string, wasCut bool) {
	const mark = "…"
	if len(text) <= most {
		return text, false
	}
	end := max(0, most-len(mark))
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return strings.TrimRight(text[:end], " \n\t") + mark, true
}
