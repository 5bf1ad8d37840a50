// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// text reads a string, whose opening quote may stand at pos, and returns it decoded. Without escapes it is part of the
// document; with them it is valid until the next string is read.
func (r *reader) text(pos int) ([]byte, int) {
	doc := r.doc
	if pos >= len(doc) || doc[pos] != '"' {
		return nil, refused
	}
	start := pos + 1
	pos = start
	for {
		pos += plainBytes(doc[pos:])
		if pos >= len(doc) {
			return nil, refused
		}
		switch c := doc[pos]; {
		case c == '"':
			return doc[start:pos:pos], pos + 1
		case c == '\\':
			return r.escapedText(start, pos)
		case c < ' ':
			return nil, refused
		default:
			if pos = passRunes(doc, pos); pos < 0 {
				return nil, refused
			}
		}
	}
}

// passRunes passes over the characters outside of ASCII that stand at pos.
func passRunes(doc []byte, pos int) int {
	for pos < len(doc) && doc[pos] >= utf8.RuneSelf {
		c, size := utf8.DecodeRune(doc[pos:])
		if c == utf8.RuneError && size <= 1 {
			return refused
		}
		pos += size
	}
	return pos
}

// escapedText goes on where the first escape of a string stands.
func (r *reader) escapedText(start, pos int) ([]byte, int) {
	doc := r.doc
	r.scratch = append(r.scratch[:0], doc[start:pos]...)
	for pos < len(doc) {
		n := plainBytes(doc[pos:])
		r.scratch = append(r.scratch, doc[pos:pos+n]...)
		if pos += n; pos >= len(doc) {
			return nil, refused
		}
		switch c := doc[pos]; {
		case c == '"':
			return r.scratch, pos + 1
		case c == '\\':
			if pos = r.escape(pos); pos < 0 {
				return nil, refused
			}
		case c < ' ':
			return nil, refused
		default:
			end := passRunes(doc, pos)
			if end < 0 {
				return nil, refused
			}
			r.scratch = append(r.scratch, doc[pos:end]...)
			pos = end
		}
	}
	return nil, refused
}

// escape decodes the escape at pos.
func (r *reader) escape(pos int) int {
	if pos+1 >= len(r.doc) {
		return refused
	}
	c := r.doc[pos+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		return r.unicodeEscape(pos)
	default:
		return refused
	}
	r.scratch = append(r.scratch, c)
	return pos + 2
}

func (r *reader) unicodeEscape(pos int) int {
	unit, ok := hexUnit(r.doc, pos)
	if !ok {
		return refused
	}
	if !utf16.IsSurrogate(unit) {
		r.scratch = utf8.AppendRune(r.scratch, unit)
		return pos + 6
	}
	low, ok := hexUnit(r.doc, pos+6)
	both := utf16.DecodeRune(unit, low)
	if !ok || both == utf8.RuneError {
		return refused
	}
	r.scratch = utf8.AppendRune(r.scratch, both)
	return pos + 12
}

// hexUnit reads \uXXXX.
func hexUnit(doc []byte, at int) (rune, bool) {
	if at+6 > len(doc) || doc[at] != '\\' || doc[at+1] != 'u' {
		return 0, false
	}
	var unit rune
	for _, c := range doc[at+2 : at+6] {
		switch {
		case '0' <= c && c <= '9':
			unit = unit<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			unit = unit<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return unit, true
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// plainBytes counts the bytes at the start of b that a JSON string holds as they are and that are ASCII: no control
// character, no quote, no backslash. It looks at eight at a time; a byte that is flagged without reason by a borrow has
// one below it that is flagged rightly.
func plainBytes(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		flagged := (w - ' '*everyByte) | ((w ^ '"'*everyByte) - everyByte) | ((w ^ '\\'*everyByte) - everyByte) | w
		if flagged &= highBits; flagged != 0 {
			return i + bits.TrailingZeros64(flagged)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}
