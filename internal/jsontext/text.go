// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// text scans the string at pos, whose opening quote is there, and reports
// whether it holds escapes.
func (s *scanner) text() (escaped bool, e *Error) {
	start := s.pos
	s.pos++
	if s.pos+8 <= len(s.raw) { // most texts end here
		if special := flagged(s.raw[s.pos:]); special == 0 {
			s.pos += 8
		} else if s.pos += bits.TrailingZeros64(special) / 8; s.raw[s.pos] == '"' {
			s.pos++
			return false, nil
		}
	}
	for {
		s.pos += plain(s.raw[s.pos:])
		if s.pos >= len(s.raw) {
			return escaped, s.unexpected(Unclosed, start, "the closing quote of a string")
		}
		switch c := s.raw[s.pos]; {
		case c == '"':
			s.pos++
			return escaped, nil
		case c == '\\':
			escaped = true
			_, size := escape(s.raw, s.pos)
			if size == 0 {
				return escaped, s.badEscape()
			}
			s.pos += size
		case c < ' ':
			return escaped, s.fault(BareControl, s.pos, "Byte %d is the control character %s; escape it.", s.pos, shown(c))
		default:
			end, ok := passRunes(s.raw, s.pos)
			s.pos = end
			if !ok {
				return escaped, s.fault(NotUTF8, s.pos, "Byte %d is not valid UTF-8.", s.pos)
			}
		}
	}
}

// badEscape says what is wrong with the escape at pos, which was refused.
func (s *scanner) badEscape() *Error {
	start := s.pos
	if start+1 >= len(s.raw) {
		s.pos++
		return s.unexpected(UnclosedEscape, start, "the rest of an escape")
	}
	if s.raw[start+1] != 'u' {
		s.pos++
		return s.unexpected(BadEscape, start, "a JSON escape")
	}
	unit, ok := hexUnit(s.raw, start)
	if !ok {
		return s.fault(BadHex, start, "The escape at byte %d needs four hexadecimal digits.", start)
	}
	kind := LoneHigh
	if unit >= lowSurrogates {
		kind = LoneLow
	}
	return s.fault(kind, start, "The escape at byte %d is a lone surrogate; send both halves or the character itself.", start)
}

// lowSurrogates is where the second halves of surrogate pairs begin; the first ones
// are below it.
const lowSurrogates = 0xDC00

// Refused is the position that ReadString returns for an invalid string.
const Refused = -1

// ReadString reads the string whose opening quote should be at pos, by the rules of
// Check. It returns the decoded string and the position after it, or Refused. A
// string without escapes is a slice of doc. Otherwise it is in scratch, whose
// content is replaced.
func ReadString(doc []byte, pos int, scratch *[]byte) (text []byte, end int) {
	if pos >= len(doc) || doc[pos] != '"' {
		return nil, Refused
	}
	start := pos + 1
	pos = start
	for {
		pos += plain(doc[pos:])
		if pos >= len(doc) {
			return nil, Refused
		}
		switch c := doc[pos]; {
		case c == '"':
			return doc[start:pos:pos], pos + 1
		case c == '\\':
			return readEscaped(doc, start, pos, scratch)
		case c < ' ':
			return nil, Refused
		default:
			next, ok := passRunes(doc, pos)
			if !ok {
				return nil, Refused
			}
			pos = next
		}
	}
}

// readEscaped goes on where the first escape of a string is.
func readEscaped(doc []byte, start, pos int, scratch *[]byte) ([]byte, int) {
	out := (*scratch)[:0]
	out = append(out, doc[start:pos]...)
	for pos < len(doc) {
		out, pos = appendPlain(out, doc, pos)
		if pos >= len(doc) {
			break
		}
		switch c := doc[pos]; {
		case c == '"':
			*scratch = out
			return out, pos + 1
		case c == '\\':
			r, size := escape(doc, pos)
			if size == 0 {
				return nil, Refused
			}
			if r < utf8.RuneSelf {
				out = append(out, byte(r))
			} else {
				out = utf8.AppendRune(out, r)
			}
			pos += size
		case c < ' ':
			return nil, Refused
		default:
			end, ok := passRunes(doc, pos)
			if !ok {
				return nil, Refused
			}
			out = append(out, doc[pos:end]...)
			pos = end
		}
	}
	return nil, Refused
}

// appendPlain appends what plain finds at pos, and returns where it ends. A string
// with escapes has one every few bytes, so that words of eight bytes are copied whole
// and what is behind the first byte that needs care is taken back.
func appendPlain(dst, doc []byte, pos int) (longer []byte, end int) {
	const word = 8
	for len(doc)-pos >= word {
		n := len(dst)
		if cap(dst)-n < word {
			dst = slices.Grow(dst, max(n, 8*word))
		}
		piece := doc[pos : pos+word]
		binary.LittleEndian.PutUint64(dst[n:n+word:cap(dst)], binary.LittleEndian.Uint64(piece))
		if special := flagged(piece); special != 0 {
			k := bits.TrailingZeros64(special) / word
			return dst[:n+k], pos + k
		}
		dst, pos = dst[:n+word], pos+word
	}
	n := plain(doc[pos:])
	return append(dst, doc[pos:pos+n]...), pos + n
}

// passRunes passes over the characters beyond ASCII at pos. It returns false, and
// where it is, at a byte that is not UTF-8.
func passRunes(doc []byte, pos int) (int, bool) {
	for pos < len(doc) && doc[pos] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(doc[pos:])
		if r == utf8.RuneError && size <= 1 {
			return pos, false
		}
		pos += size
	}
	return pos, true
}

// escape decodes the escape whose backslash is at pos, a surrogate pair being one.
// The size is 0 where it is none.
func escape(doc []byte, pos int) (r rune, size int) {
	if pos+1 >= len(doc) {
		return 0, 0
	}
	switch c := doc[pos+1]; c {
	case '"', '\\', '/':
		return rune(c), 2
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	}
	unit, ok := hexUnit(doc, pos)
	switch {
	case !ok:
		return 0, 0
	case !utf16.IsSurrogate(unit):
		return unit, 6
	}
	low, ok := hexUnit(doc, pos+6)
	r = utf16.DecodeRune(unit, low)
	if !ok || r == utf8.RuneError {
		return 0, 0
	}
	return r, 12
}

// hexUnit reads \uXXXX at pos.
func hexUnit(doc []byte, pos int) (rune, bool) {
	if pos+6 > len(doc) || doc[pos] != '\\' || doc[pos+1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, c := range doc[pos+2 : pos+6] {
		digit := HexValue(c)
		if digit < 0 {
			return 0, false
		}
		unit = unit<<4 | rune(digit)
	}
	return unit, true
}

// HexValue returns the value of a hexadecimal digit, or -1 for any other character.
func HexValue(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	default:
		return -1
	}
}

// One byte of each lane of a 64-bit word.
const (
	lanes = 0x0101010101010101
	tops  = 0x80 * lanes
)

// plain returns how many bytes at the start of b are printable ASCII that
// needs no care in a JSON string: not a control character, quote, backslash or
// part of a longer UTF-8 sequence. It looks at eight bytes at a time; the
// subtractions flag lanes wrongly only above a lane that is rightly flagged, so
// the lowest flag is exact.
func plain(b []byte) int {
	i := 0
	if len(b) >= 8 { // most texts and names end here
		if special := flagged(b); special != 0 {
			return bits.TrailingZeros64(special) / 8
		}
		i = 8
	}
	for ; i+32 <= len(b); i += 32 { // long texts, such as base64, have nothing special for long
		piece := b[i : i+32]
		if flagged(piece)|flagged(piece[8:])|flagged(piece[16:])|flagged(piece[24:]) != 0 {
			break
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if special := flagged(b[i:]); special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// flagged flags the special ones among the first eight bytes of b, each in the
// top bit of its lane. A lane with its top bit set is flagged by the word itself;
// the others are flagged where a subtraction borrowed.
func flagged(b []byte) uint64 { return flags(binary.LittleEndian.Uint64(b)) }

func flags(w uint64) uint64 {
	quote, slash := w^('"'*lanes), w^('\\'*lanes)
	return ((w - ' '*lanes) | (quote - lanes) | (slash - lanes) | w) & tops
}

// AppendDecoded appends the decoded value of a checked JSON string in its quotes.
func AppendDecoded(dst, quoted []byte) []byte { return appendDecoded(dst, body(quoted)) }

// body is what is between the quotes of a string.
func body(quoted []byte) []byte {
	if len(quoted) < 2 {
		return nil
	}
	return quoted[1 : len(quoted)-1]
}

// appendDecoded appends the value of a string body (no quotes) that was
// already checked. A broken escape in one that was not is left out.
func appendDecoded(dst, body []byte) []byte {
	for {
		at := bytes.IndexByte(body, '\\')
		if at < 0 {
			return append(dst, body...)
		}
		dst = append(dst, body[:at]...)
		r, size := escape(body, at)
		if size == 0 {
			body = body[min(at+2, len(body)):]
			continue
		}
		dst = utf8.AppendRune(dst, r)
		body = body[at+size:]
	}
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string in its shortest form: control characters,
// the quote and the backslash are escaped, invalid UTF-8 becomes U+FFFD, and
// everything else is unchanged.
func AppendString(dst []byte, s string) []byte { return AppendText(dst, []byte(s)) }

// AppendText is AppendString for bytes.
func AppendText(dst, s []byte) []byte {
	dst, _ = AppendValid(dst, s)
	return dst
}

// AppendValid is AppendText that also reports whether s was valid UTF-8.
//
// JSON in a string has something to escape every few bytes. AppendValid therefore
// copies whole words of eight bytes and discards what follows the first byte that
// needs escaping.
func AppendValid(dst, s []byte) (longer []byte, valid bool) {
	const word = 8
	dst, valid = append(dst, '"'), true
	for len(s) >= word {
		n := len(dst)
		if cap(dst)-n < 2*word {
			dst = slices.Grow(dst, len(s)+len(s)/4+2*word)
		}
		room := dst[n : n+word : cap(dst)]
		binary.LittleEndian.PutUint64(room, binary.LittleEndian.Uint64(s))
		special := flagged(s)
		if special == 0 {
			dst, s = dst[:n+word], s[word:]
			continue
		}
		k := bits.TrailingZeros64(special) / word
		dst = dst[:n+k]
		if c := s[k]; c == '"' || c == '\\' {
			dst, s = append(dst, '\\', c), s[k+1:]
			continue
		}
		dst, s, valid = appendSpecial(dst, s[k:], valid)
	}
	for len(s) > 0 {
		if c := s[0]; c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			dst, s = append(dst, c), s[1:]
			continue
		}
		dst, s, valid = appendSpecial(dst, s, valid)
	}
	return append(dst, '"'), valid
}

// appendSpecial appends the byte at the start of s that has to be escaped, or the
// characters beyond ASCII there, and returns what follows.
func appendSpecial(dst, s []byte, wasValid bool) (longer, rest []byte, valid bool) {
	if s[0] < utf8.RuneSelf {
		return appendEscape(dst, s[0]), s[1:], wasValid
	}
	for len(s) > 0 && s[0] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(s)
		wasValid = wasValid && (r != utf8.RuneError || size > 1)
		dst = utf8.AppendRune(dst, r) // U+FFFD for a byte that is not UTF-8
		s = s[size:]
	}
	return dst, s, wasValid
}

// appendEscape appends the shortest escape of a byte that needs one.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xF])
	}
}

// QuotedLen returns the length of s as AppendText writes it. It returns false if s
// holds control characters or is not UTF-8, because its length is then more than s,
// one byte for each quote and backslash, and the enclosing quotes. Compact JSON
// never has either.
func QuotedLen(s []byte) (int, bool) {
	if hasControl(s) || !utf8.Valid(s) {
		return 0, false
	}
	return len(s) + Escapes(s) + 2, true
}

// Escapes returns how much longer compact JSON becomes as a string in JSON: only
// quotes and backslashes need escaping.
func Escapes(compact []byte) int {
	return bytes.Count(compact, []byte{'"'}) + bytes.Count(compact, []byte{'\\'})
}

// hasControl reports whether s has a byte below the space. A subtraction borrows
// from such a lane; lanes above it may be flagged wrongly, and the answer is right.
func hasControl(s []byte) bool {
	const word = 8
	for ; len(s) >= 4*word; s = s[4*word:] {
		a, b := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[word:])
		c, d := binary.LittleEndian.Uint64(s[2*word:]), binary.LittleEndian.Uint64(s[3*word:])
		if ((a-' '*lanes)&^a|(b-' '*lanes)&^b|(c-' '*lanes)&^c|(d-' '*lanes)&^d)&tops != 0 {
			return true
		}
	}
	for _, c := range s {
		if c < ' ' {
			return true
		}
	}
	return false
}

// Visible escapes what JSON does not have to escape and a reader cannot see in
// text[from:]: line ends of Unicode, controls above ASCII and DEL, marks that change the
// direction of text, characters without width, and code points that have no character.
// Text that holds none of them is returned as it is, other text as a copy. The text is
// JSON, or a line of a log.
func Visible(text []byte, from int) []byte { return escapeAll(text, from, isUnseen) }

// WithoutLineEnds escapes the characters in JSON at which some readers end a line: U+0085,
// U+2028 and U+2029. Text that holds none of them is returned as it is, other text as a
// copy.
func WithoutLineEnds(text []byte) []byte {
	if !bytes.Contains(text, []byte("\u2028")) && !bytes.Contains(text, []byte("\u2029")) && !bytes.Contains(text, []byte("\u0085")) {
		return text
	}
	return escapeAll(text, 0, isLineEnd)
}

func isLineEnd(r rune) bool { return r == 0x85 || r == 0x2028 || r == 0x2029 }

func isUnseen(r rune) bool {
	return r >= 0x7F && (!unicode.IsGraphic(r) || unicode.In(r, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point))
}

// escapeAll escapes the characters of text[from:] that is chooses, none of them below DEL.
func escapeAll(text []byte, from int, is func(rune) bool) []byte {
	at := nextAbove(text, from, is)
	if at == len(text) {
		return text
	}
	out, rest := append(make([]byte, 0, len(text)+len(text)/4+64), text[:at]...), text[at:]
	for len(rest) > 0 {
		r, size := utf8.DecodeRune(rest)
		if r > 0xFFFF {
			r -= 0x10000
			out = appendUnit(out, 0xD800+r>>10)
			r = 0xDC00 + r&0x3FF
		}
		out, rest = appendUnit(out, r), rest[size:]
		n := nextAbove(rest, 0, is)
		out, rest = append(out, rest[:n]...), rest[n:]
	}
	return out
}

// nextAbove is where the next character that is chooses begins, or the end of the text.
// Bytes that are no UTF-8 are none.
func nextAbove(text []byte, at int, is func(rune) bool) int {
	const word = 8
	for at < len(text) {
		if len(text)-at >= word {
			if w := binary.LittleEndian.Uint64(text[at:]); (w|(w+lanes))&tops == 0 { // below DEL
				at += word
				continue
			}
		}
		if text[at] < 0x7F {
			at++
			continue
		}
		r, size := utf8.DecodeRune(text[at:])
		if (r != utf8.RuneError || size > 1) && is(r) {
			return at
		}
		at += size
	}
	return at
}

// appendUnit appends the escape of a unit of UTF-16.
func appendUnit(dst []byte, u rune) []byte {
	return append(dst, '\\', 'u', hexDigits[u>>12&0xF], hexDigits[u>>8&0xF], hexDigits[u>>4&0xF], hexDigits[u&0xF])
}
