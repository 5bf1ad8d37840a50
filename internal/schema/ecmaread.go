// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The classes that ECMA 262 has larger than RE2, as members of a class of RE2.
const (
	lineEnds  = `\n\r\x{2028}\x{2029}`
	spaces    = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	notSpaces = `\x00-\x08\x0e-\x1f!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

// compileECMA compiles the pattern of a JSON Schema, which is one of ECMA 262 with the flag u.
func compileECMA(pattern string) (*Pattern, error) {
	read, err := readECMA(pattern)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", clipped(pattern), err)
	}
	p, err := CompilePattern(read)
	if err != nil {
		return nil, fmt.Errorf("pattern %s: %w", clipped(pattern), err)
	}
	return p, nil
}

// clipped is a pattern for an error.
func clipped(pattern string) string {
	const most = 128
	if len(pattern) > most {
		pattern = strings.ToValidUTF8(pattern[:most], "") + "…"
	}
	return strconv.Quote(pattern)
}

// readECMA returns a pattern of RE2 for the texts that a pattern of ECMA 262 matches. What cannot be matched in linear time, and what RE2
// alone knows, is an error.
func readECMA(pattern string) (string, error) {
	r := ecmaReader{rest: pattern}
	for r.rest != "" {
		if err := r.next(); err != nil {
			return "", err
		}
	}
	return r.out.String(), nil
}

type ecmaReader struct {
	rest    string
	out     strings.Builder
	inClass bool
}

// put writes RE2 for the first n bytes of the rest.
func (r *ecmaReader) put(n int, text string) {
	_, _ = r.out.WriteString(text)
	r.rest = r.rest[n:]
}

func (r *ecmaReader) next() error {
	switch c := r.rest[0]; {
	case c == '\\':
		return r.escape()
	case r.inClass:
		if c == '[' {
			r.put(1, `\[`) // a class of POSIX would begin here
			return nil
		}
		r.inClass = c != ']'
	case c == '.':
		r.put(1, `[^`+lineEnds+`]`)
		return nil
	case strings.HasPrefix(r.rest, "[]"):
		r.put(2, `[^\x00-\x{10ffff}]`)
		return nil
	case strings.HasPrefix(r.rest, "[^]"):
		r.put(3, `[\x00-\x{10ffff}]`)
		return nil
	case strings.HasPrefix(r.rest, "[^"):
		r.inClass = true
		r.put(2, "[^")
		return nil
	case c == '[':
		r.inClass = true
	case strings.HasPrefix(r.rest, "(?"):
		return r.group()
	}
	r.put(1, r.rest[:1])
	return nil
}

func (r *ecmaReader) group() error {
	switch after := r.rest[2:]; {
	case strings.HasPrefix(after, ":"):
		r.put(3, "(?:")
	case strings.HasPrefix(after, "="), strings.HasPrefix(after, "!"), strings.HasPrefix(after, "<="), strings.HasPrefix(after, "<!"):
		return errors.New("it looks around, and patterns are matched in linear time; say it with allOf and not")
	case strings.HasPrefix(after, "<"):
		r.put(3, "(?P<")
	default:
		return errors.New("a group with flags or (?P is no syntax of ECMA 262, as JSON Schema has it; use classes, or (?<name>")
	}
	return nil
}

func (r *ecmaReader) escape() error {
	if len(r.rest) < 2 {
		return errors.New("it ends with a backslash")
	}
	c := r.rest[1]
	switch {
	case c == 's' && r.inClass:
		r.put(2, spaces)
	case c == 's':
		r.put(2, "["+spaces+"]")
	case c == 'S' && r.inClass:
		r.put(2, notSpaces)
	case c == 'S':
		r.put(2, "["+notSpaces+"]")
	case c == 'b' && r.inClass:
		r.put(2, `\x08`)
	case c == 'x', c == 'u', c == 'c':
		return r.code()
	case c == 'p', c == 'P':
		return r.property()
	case c == '0' && (len(r.rest) == 2 || r.rest[2] < '0' || r.rest[2] > '9'):
		r.put(2, `\x00`)
	case '0' <= c && c <= '9', c == 'k':
		return errors.New("it refers to a group, and patterns are matched in linear time")
	case strings.IndexByte("dDwWtnvfr", c) >= 0, (c == 'b' || c == 'B') && !r.inClass:
		r.put(2, r.rest[:2])
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c >= utf8.RuneSelf:
		_, n := utf8.DecodeRuneInString(r.rest[1:])
		return fmt.Errorf("%s is no escape of ECMA 262, as JSON Schema has it; text begins at ^ and ends at $, flags and \\Q do not exist", r.rest[:1+n])
	default:
		r.put(2, r.rest[:2])
	}
	return nil
}

// code reads \xHH, \uHHHH, two of those that are one character, \u{H} and \cL.
func (r *ecmaReader) code() error {
	text := r.rest
	if text[1] == 'c' {
		if len(text) < 3 || (text[2]|0x20) < 'a' || (text[2]|0x20) > 'z' {
			return errors.New(`\c is before a letter`)
		}
		r.put(3, fmt.Sprintf(`\x%02x`, text[2]&0x1f))
		return nil
	}
	n, code, ok := hexCode(text)
	if ok && code>>10 == 0xd800>>10 {
		m, low, isLow := hexCode(text[n:])
		ok = isLow && low>>10 == 0xdc00>>10
		n, code = n+m, 0x10000+(code&0x3ff)<<10+low&0x3ff
	}
	if !ok || code > utf8.MaxRune || code>>11 == 0xd800>>11 {
		return errors.New(`the character is written as \xHH, \uHHHH or \u{H}, and half a surrogate pair is none`)
	}
	r.put(n, fmt.Sprintf(`\x{%x}`, code))
	return nil
}

// hexCode reads \xHH, \uHHHH or \u{H}, and returns its length.
func hexCode(text string) (n int, code uint64, ok bool) {
	var digits string
	switch {
	case strings.HasPrefix(text, `\u{`):
		var closed bool
		digits, _, closed = strings.Cut(text[3:], "}")
		if n = 4 + len(digits); !closed {
			return 0, 0, false
		}
	case strings.HasPrefix(text, `\u`) && len(text) >= 6:
		n, digits = 6, text[2:6]
	case strings.HasPrefix(text, `\x`) && len(text) >= 4:
		n, digits = 4, text[2:4]
	}
	code, err := strconv.ParseUint(digits, 16, 32)
	return n, code, err == nil
}

// property reads \p{L}, \p{Lu}, \p{Script=Greek} and their opposites. RE2 names scripts without the word, and knows \pL.
func (r *ecmaReader) property() error {
	name, _, closed := strings.Cut(r.rest[2:], "}")
	name, opened := strings.CutPrefix(name, "{")
	script, isScript := strings.CutPrefix(name, "Script=")
	if !isScript {
		script, isScript = strings.CutPrefix(name, "sc=")
	}
	if !opened || !closed || name == "" || !isScript && len(name) > 2 {
		return errors.New(`of the properties of characters, general categories (\p{Lu}) and scripts (\p{Script=Greek}) are known`)
	}
	of := r.rest[1:2]
	r.put(len(name)+4, `\`+of+"{"+script+"}")
	return nil
}
