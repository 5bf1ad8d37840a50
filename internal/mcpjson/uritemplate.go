// SPDX-License-Identifier: Apache-2.0

package mcpjson

import "strings"

// isTemplate reports whether s is a URI template by the grammar of RFC 6570,
// section 2: literals, and expressions of names in braces.
func isTemplate(s string) bool {
	for {
		literal, rest, more := strings.Cut(s, "{")
		if !isLiteral(literal) {
			return false
		}
		if !more {
			return true
		}
		expression, after, closed := strings.Cut(rest, "}")
		if !closed || !isExpression(expression) {
			return false
		}
		s = after
	}
}

// isLiteral refuses what no URI could hold as it is (section 2.1). Letters
// beyond ASCII are encoded when the template is filled in.
func isLiteral(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c <= ' ', c == 0x7F, strings.IndexByte("\"'<>\\^`|}", c) >= 0:
			return false
		case c == '%' && (i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])):
			return false
		}
	}
	return true
}

// isExpression checks [operator] name ["," name ...], where a name may have a
// modifier (sections 2.2 to 2.4).
func isExpression(s string) bool {
	if s != "" && strings.IndexByte("+#./;?&", s[0]) >= 0 {
		s = s[1:]
	}
	for name := range strings.SplitSeq(s, ",") {
		if plain, ok := strings.CutSuffix(name, "*"); ok {
			name = plain
		} else if before, length, ok := strings.Cut(name, ":"); ok {
			if length == "" || length[0] == '0' || len(length) > 4 || !isDigits(length) {
				return false
			}
			name = before
		}
		for part := range strings.SplitSeq(name, ".") {
			if !isVariable(part) {
				return false
			}
		}
	}
	return true
}

// isVariable checks a name between dots (section 2.3).
func isVariable(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case isLetter(c), isDigit(c), c == '_':
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			i += 2
		default:
			return false
		}
	}
	return s != ""
}
