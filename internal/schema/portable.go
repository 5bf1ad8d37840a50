// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// unicodeEscapes are the characters that ECMA 262 lets a backslash precede in Unicode mode, where it refuses all
	// others: its own classes and controls, and the characters of its syntax.
	unicodeEscapes = `dDwWsSbBtnvfrxu^$\.*+?()[]{}|/`
	// setEscapes stand for sets of characters, which cannot be an end of a range.
	setEscapes       = "dDwWsS"
	repetitionDigits = "0123456789,"
)

// isUnicodePattern reports whether a pattern that RE2 reads is also one in ECMA 262's Unicode mode, which validators in
// JavaScript use, and which refuses escapes and brackets that RE2 takes for plain characters. Such a validator refuses
// the whole schema for one such pattern.
func isUnicodePattern(pattern string) bool {
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
			if i == len(pattern) || !isUnicodeEscape(pattern[i:], inClass) || inClass && isEndOfRange(pattern, i) {
				return false
			}
		case inClass:
			inClass = c != ']'
		case c == '[':
			inClass = true
			if rest := strings.TrimPrefix(pattern[i+1:], "^"); strings.HasPrefix(rest, "]") {
				return false // RE2 takes the bracket for a member, ECMA 262 for the end
			}
		case c == ']', c == '}':
			return false
		case c == '{':
			end := strings.IndexByte(pattern[i:], '}')
			if end < 2 || strings.Trim(pattern[i+1:i+end], repetitionDigits) != "" || pattern[i+1] == ',' ||
				strings.Count(pattern[i:i+end], ",") > 1 {
				return false
			}
			i += end
		}
	}
	return true
}

// isUnicodeEscape reads the character behind a backslash, and what has to follow it.
func isUnicodeEscape(rest string, inClass bool) bool {
	switch c := rest[0]; {
	case c == '-':
		return inClass
	case inClass && (c == 'b' || c == 'B'):
		return false
	case c == 'x':
		return len(rest) > 2 && jsontext.HexValue(rest[1]) >= 0 && jsontext.HexValue(rest[2]) >= 0
	case c == 'u':
		return false // RE2 has no such escape
	default:
		return strings.IndexByte(unicodeEscapes, c) >= 0
	}
}

// isEndOfRange reports whether the escape at i, within brackets, is a set of characters with a hyphen on one side that
// is not the last of the brackets. RE2 takes such a hyphen for itself.
func isEndOfRange(pattern string, i int) bool {
	if strings.IndexByte(setEscapes, pattern[i]) < 0 {
		return false
	}
	before, after := pattern[:i-1], pattern[i+1:]
	return strings.HasPrefix(after, "-") && !strings.HasPrefix(after, "-]") ||
		strings.HasSuffix(before, "-") && !strings.HasSuffix(before, "[-") && !strings.HasSuffix(before, "[^-")
}
