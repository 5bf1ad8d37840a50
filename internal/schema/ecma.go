// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
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
	if isPortable(pattern) && isAlike(pattern) {
		return pattern, true // in the words of its author
	}
	w := ecmaWriter{ok: true}
	w.write(tree)
	return w.String(), w.ok && w.Len() <= max(len(pattern), maxECMAPattern)
}

// isAlike reports whether a portable pattern has none of what the engines read differently: a dot stops at more line ends in
// ECMA 262, white space has more members, and within brackets the flag v reserves characters.
func isAlike(pattern string) bool {
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
		case strings.IndexByte("()[{}/|", c) >= 0,
			c == '-' && (last == '[' || pattern[i+1] == ']'),
			c == last && strings.IndexByte("&!#$%*+,.:;<=>?@^`~", c) >= 0:
			return false
		}
		last = c
	}
	return true
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
