// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"
)

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
