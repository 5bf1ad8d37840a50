// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf8"
)

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
