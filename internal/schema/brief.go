// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"
	"unicode"
)

// A model reads advertised schemas with every request, so that they say nothing twice: not in a keyword and in words, and
// not in two keywords. The canonical schema keeps both, because its fingerprint should not change with the wording, and so
// do inputs of ProfileStrict, where words stand for most keywords.

// isBrief reports whether the schema says each fact once.
func (d *deriver) isBrief() bool {
	return d.shown && (d.dir == Output || d.opts.Profile != ProfileStrict)
}

// inBrief is the first text where the schema says each fact once, else the second.
func (d *deriver) inBrief(short, long string) string {
	if d.isBrief() {
		return short
	}
	return long
}

// shownPattern matches the decimal form of an integer that comes in a string. Arguments are held to the number of digits.
// Who reads an answer only has to know that it is an integer.
func (d *deriver) shownPattern(t integerType) string {
	switch {
	case !d.isBrief():
		return plainPattern(t)
	case d.dir == Input:
		return strings.ReplaceAll(plainPattern(t), "[0-9]", `\d`)
	case t.least[0] == '-':
		return `-?\d+`
	default:
		return `\d+`
	}
}

// repeats reports whether a text only has the words that a name ends in: "Active." of STATE_ACTIVE.
func repeats(text, name string) bool {
	words := lettersOf(text)
	return words != "" && strings.HasSuffix(lettersOf(name), words)
}

// lettersOf are the letters and digits of a text in lower case.
func lettersOf(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, text)
}
