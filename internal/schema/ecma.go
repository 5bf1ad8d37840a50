// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// maxECMAPattern is the length above which a pattern is said in words, as those are with all letters of Unicode in them.
const maxECMAPattern = 512

// ecmaPattern returns a pattern for the texts that a pattern of RE2 matches, in the syntax that RE2 and ECMA 262 share and
// read alike, with the flag u and with the flag v. ok is false where there is none.
func ecmaPattern(pattern string) (out string, ok bool) {
	if !utf8.ValidString(pattern) {
		return "", false
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return "", false
	}
	if isPortable(pattern) && isAlike(pattern, true) {
		return pattern, true // in the words of its author
	}
	w := ecmaWriter{ok: true}
	w.write(tree)
	return w.String(), w.ok && w.Len() <= max(len(pattern), maxECMAPattern)
}

// notPortable are the parts of RE2's syntax that ECMA 262, which JSON Schema names, does not have or reads otherwise.
var notPortable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\(\?[a-zA-Z-]|\\[AzQECpP]|\\x\{|\[\[:|\[:|[*+?}]\+`) })

// isPortable says whether a pattern means the same in RE2 and in ECMA 262. The test is on the careful side.
func isPortable(pattern string) bool {
	if notPortable().MatchString(pattern) || !utf8.ValidString(pattern) {
		return false
	}
	_, err := regexp.Compile(pattern)
	return err == nil && isUnicodePattern(pattern)
}

// isAlike reports whether a portable pattern has none of what the engines read differently: a dot stops at more line ends in
// ECMA 262, white space has more members, and within brackets the flag v, if it may be set, reserves characters.
func isAlike(pattern string, flagV bool) bool {
	inClass, last := false, byte(0)
	for i := 0; i < len(pattern); i++ {
		c := pattern[i]
		switch {
		case c == '\\':
			if i++; i == len(pattern) || strings.IndexByte("sS", pattern[i]) >= 0 {
				return false
			}
			last = 0
			continue
		case !inClass:
			if c == '.' {
				return false
			}
			inClass = c == '['
		case c == ']':
			inClass = false
		case flagV && isReserved(last, pattern[i:]):
			return false
		}
		last = c
	}
	return true
}

// isReserved reports whether the flag v reserves the first character of what is left of brackets, behind another one.
func isReserved(last byte, rest string) bool {
	c := rest[0]
	return strings.IndexByte("()[{}/|", c) >= 0 || c == '-' && (last == '[' || rest[1] == ']') ||
		c == last && strings.IndexByte("&!#$%*+,.:;<=>?@^`~", c) >= 0
}

// ecmaWriter writes the tree of a pattern.
type ecmaWriter struct {
	strings.Builder
	ok bool
}

func (w *ecmaWriter) put(text string) { _, _ = w.WriteString(text) }

func (w *ecmaWriter) write(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpNoMatch:
		w.put(`[^\s\S]`)
	case syntax.OpEmptyMatch:
		w.put(`(?:)`)
	case syntax.OpLiteral:
		for _, r := range re.Rune {
			w.literal(r, re.Flags&syntax.FoldCase != 0)
		}
	case syntax.OpCharClass:
		w.class(re.Rune)
	case syntax.OpAnyCharNotNL:
		w.put(`[^\n]`)
	case syntax.OpAnyChar:
		w.put(`[\s\S]`)
	case syntax.OpBeginText:
		w.put(`^`)
	case syntax.OpEndText:
		w.put(`$`)
	case syntax.OpWordBoundary:
		w.put(`\b`)
	case syntax.OpNoWordBoundary:
		w.put(`\B`)
	case syntax.OpCapture:
		w.group(re.Sub[0])
	case syntax.OpStar:
		w.repeated(re.Sub[0], "*")
	case syntax.OpPlus:
		w.repeated(re.Sub[0], "+")
	case syntax.OpQuest:
		w.repeated(re.Sub[0], "?")
	case syntax.OpRepeat:
		w.repeated(re.Sub[0], times(re.Min, re.Max))
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			if sub.Op == syntax.OpAlternate {
				w.group(sub)
			} else {
				w.write(sub)
			}
		}
	case syntax.OpAlternate:
		for i, sub := range re.Sub {
			if i > 0 {
				w.put("|")
			}
			w.write(sub)
		}
	default: // the ends of lines, which are fewer in RE2
		w.ok = false
	}
}

func times(least, most int) string {
	switch most {
	case least:
		return fmt.Sprintf("{%d}", least)
	case -1:
		return fmt.Sprintf("{%d,}", least)
	default:
		return fmt.Sprintf("{%d,%d}", least, most)
	}
}

func (w *ecmaWriter) group(re *syntax.Regexp) {
	w.put("(?:")
	w.write(re)
	w.put(")")
}

// repeated writes what a repetition is of. Which of several matches is found makes no difference to whether there is one.
func (w *ecmaWriter) repeated(re *syntax.Regexp, how string) {
	switch {
	case re.Op == syntax.OpCharClass, re.Op == syntax.OpAnyChar, re.Op == syntax.OpAnyCharNotNL, re.Op == syntax.OpCapture,
		re.Op == syntax.OpLiteral && len(re.Rune) == 1:
		w.write(re)
	default:
		w.group(re)
	}
	w.put(how)
}

// literal writes a character, or all of its cases.
func (w *ecmaWriter) literal(r rune, isFolded bool) {
	var ranges []rune
	if isFolded {
		ranges = append(ranges, r, r)
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			ranges = append(ranges, f, f)
		}
	}
	if len(ranges) > 2 {
		slices.Sort(ranges)
		w.class(ranges)
		return
	}
	w.character(r, `$^*+?.`)
}

// class writes a class of characters, which is given as the sorted ends of its ranges.
func (w *ecmaWriter) class(ranges []rune) {
	w.put("[")
	if n := len(ranges); n > 0 && ranges[n-1] == unicode.MaxRune {
		w.put("^")
		ranges = gaps(ranges)
	}
	if len(ranges) == 0 { // all of them, as none are left out
		w.ok = false
	}
	for i := 0; i+1 < len(ranges); i += 2 {
		low, high := ranges[i], ranges[i+1]
		w.character(low, `^`)
		if high > low+1 {
			w.put("-")
		}
		if high > low {
			w.character(high, `^`)
		}
	}
	w.put("]")
}

// gaps returns the ranges between ranges.
func gaps(ranges []rune) []rune {
	var out []rune
	next := rune(0)
	for i := 0; i < len(ranges); i += 2 {
		if ranges[i] > next {
			out = append(out, next, ranges[i]-1)
		}
		next = ranges[i+1] + 1
	}
	return out
}

// character writes a character, with a backslash if it is one of those in special or has a meaning anywhere.
func (w *ecmaWriter) character(r rune, special string) {
	switch {
	case r >= 0xd800 && r < 0xe000:
		w.ok = false // no text has it
	case r < ' ', r >= 0x7f && r < 0xa0:
		if i := strings.IndexRune("\t\n\v\f\r", r); i >= 0 {
			w.put(`\`)
			w.put("tnvfr"[i : i+1])
			return
		}
		fmt.Fprintf(w, `\x%02x`, r)
	case strings.ContainsRune(`\/()[]{}|`, r), strings.ContainsRune(special, r):
		w.put(`\`)
		w.put(string(r))
	case r == '-' && special == `^`: // within brackets alone
		w.put(`\-`)
	default:
		w.put(string(r))
	}
}

// The classes that ECMA 262 has larger than RE2, as members of a class of RE2.
const (
	lineEnds  = `\n\r\x{2028}\x{2029}`
	spaces    = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	notSpaces = `\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
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

const (
	// unicodeEscapes are the characters that ECMA 262 lets a backslash precede in Unicode mode, where it refuses all
	// others: its own classes and controls, and the characters of its syntax.
	unicodeEscapes = `dDwWsSbBtnvfrxu^$\.*+?()[]{}|/`
	// setEscapes stand for sets of characters, which cannot be an end of a range.
	setEscapes       = "dDwWsS"
	repetitionDigits = "0123456789,"
)
