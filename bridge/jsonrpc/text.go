// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// text scans the string at pos, whose opening quote is there, and reports
// whether it holds escapes.
func (s *scanner) text() (escaped bool, f *Fault) {
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
			return escaped, s.unexpected("the closing quote of a string")
		}
		switch c := s.raw[s.pos]; {
		case c == '"':
			s.pos++
			return escaped, nil
		case c == '\\':
			escaped = true
			if f := s.escape(); f != nil {
				return escaped, f
			}
		case c < ' ':
			return escaped, s.fault("Byte %d is the control character %s; escape it.", s.pos, shown(c))
		default:
			r, size := utf8.DecodeRune(s.raw[s.pos:])
			if r == utf8.RuneError && size == 1 {
				return escaped, s.fault("Byte %d is not valid UTF-8.", s.pos)
			}
			s.pos += size
		}
	}
}

// escape scans the escape at pos, whose backslash is there.
func (s *scanner) escape() *Fault {
	if s.pos+1 >= len(s.raw) {
		s.pos++
		return s.unexpected("the rest of an escape")
	}
	switch s.raw[s.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.pos += 2
		return nil
	case 'u':
	default:
		s.pos++
		return s.unexpected("a JSON escape")
	}
	unit, ok := hexUnit(s.raw[s.pos:])
	if !ok {
		return s.fault("The escape at byte %d needs four hexadecimal digits.", s.pos)
	}
	if !utf16.IsSurrogate(unit) {
		s.pos += 6
		return nil
	}
	low, ok := hexUnit(s.raw[s.pos+6:])
	if !ok || utf16.DecodeRune(unit, low) == utf8.RuneError {
		return s.fault("The escape at byte %d is a lone surrogate; send both halves or the character itself.", s.pos)
	}
	s.pos += 12
	return nil
}

// hexUnit decodes an escape of the form \uXXXX at the start of b.
func hexUnit(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
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

// appendDecoded appends the value of a string body (no quotes) that was
// already checked.
func appendDecoded(dst, body []byte) []byte {
	for i := 0; i < len(body); {
		c := body[i]
		if c != '\\' {
			dst = append(dst, c)
			i++
			continue
		}
		if i+1 >= len(body) {
			return dst
		}
		if body[i+1] == 'u' {
			unit, _ := hexUnit(body[i:])
			i += 6
			if utf16.IsSurrogate(unit) && i <= len(body) {
				low, _ := hexUnit(body[i:])
				unit = utf16.DecodeRune(unit, low)
				i += 6
			}
			dst = utf8.AppendRune(dst, unit)
			continue
		}
		dst = append(dst, unescaped(body[i+1]))
		i += 2
	}
	return dst
}

// unescaped is the character behind a one-letter escape.
func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default: // quote, backslash, slash
		return c
	}
}
