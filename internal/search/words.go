// SPDX-License-Identifier: Apache-2.0

package search

import (
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is the maximum size of a word in bytes. The rest of a longer one is a word by itself.
const maxWord = 48

// words returns the words of a text in lower case. They end where letters and digits end, and where camel case begins a
// new one: "ListTables2", "list_tables2" and "list tables 2" are the same words.
func words(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(text) > 0 {
			start := strings.IndexFunc(text, isWordRune)
			if start < 0 {
				return
			}
			text = text[start:]
			n := wordEnd(text)
			if !yield(strings.ToLower(text[:n])) {
				return
			}
			text = text[n:]
		}
	}
}

func isWordRune(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// wordEnd returns where the word ends that text begins with.
func wordEnd(text string) int {
	before, size := utf8.DecodeRuneInString(text)
	for at := size; at < len(text); {
		r, n := utf8.DecodeRuneInString(text[at:])
		switch {
		case !isWordRune(r), at+n > maxWord, unicode.IsUpper(r) && !unicode.IsUpper(before), unicode.IsDigit(r) != unicode.IsDigit(before):
			return at
		case unicode.IsUpper(r):
			// The last capital of "JSONWeb" begins a word; that of "SLOs" does not.
			next, _ := utf8.DecodeRuneInString(text[at+n:])
			if unicode.IsLower(next) && !isPlural(text[at+n:]) {
				return at
			}
		}
		before, at = r, at+n
	}
	return len(text)
}

// isPlural reports whether all that is left of a word is an "s".
func isPlural(rest string) bool {
	if !strings.HasPrefix(rest, "s") {
		return false
	}
	r, _ := utf8.DecodeRuneInString(rest[1:])
	return !isWordRune(r)
}
