// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/json"
	"iter"
	"strconv"
)

// The functions of this file look into values that were checked, by Check
// or one like it, and allocate next to nothing. On other bytes they return something
// useless but stay within them and do not panic. Values that they return alias
// their input, without space around them.

// Lookup returns the member of an object with the given decoded name. It reports
// false if there is none, and if object is nil or not an object. Checked objects
// have at most one such member.
func Lookup(object []byte, name string) (json.RawMessage, bool) {
	for pos := firstElement(object, '{'); pos < len(object); {
		body, escaped, value, next := memberAt(object, pos)
		if sameText(body, escaped, name) {
			return value, len(value) > 0
		}
		pos = next
	}
	return nil, false
}

// Members yields the decoded names and raw values of an object in order, and
// nothing if object is not an object. Each name is a copy.
//
// Like the other iterators, it only returns a function that calls another one.
// The compiler can then inline it, and the loop's body, with the variables that it
// changes, stays on the stack.
func Members(object []byte) iter.Seq2[string, json.RawMessage] {
	return func(yield func(string, json.RawMessage) bool) { eachMember(object, yield) }
}

func eachMember(object []byte, yield func(string, json.RawMessage) bool) {
	eachField(object, func(name []byte, value json.RawMessage) bool { return yield(string(name), value) })
}

// Fields is Members without the copies: a name is valid until the next one.
func Fields(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) { eachField(object, yield) }
}

func eachField(object []byte, yield func([]byte, json.RawMessage) bool) {
	for pos := firstElement(object, '{'); pos < len(object); {
		body, escaped, value, next := memberAt(object, pos)
		if escaped {
			body = appendDecoded(nil, body)
		}
		if !yield(body, value) {
			return
		}
		pos = next
	}
}

// Elements yields the raw elements of an array in order, and nothing if array is
// not an array.
func Elements(array []byte) iter.Seq[json.RawMessage] {
	return func(yield func(json.RawMessage) bool) { eachElement(array, yield) }
}

func eachElement(array []byte, yield func(json.RawMessage) bool) {
	for pos := firstElement(array, '['); pos < len(array); {
		end := SkipValue(array, pos)
		if !yield(array[pos:end:end]) {
			return
		}
		pos = nextElement(array, end)
	}
}

// Text returns the decoded value of a JSON string, and false for other values.
func Text(raw []byte) (string, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return "", false
	}
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 {
		return string(body), true
	}
	return string(appendDecoded(make([]byte, 0, len(body)), body)), true
}

// IsText reports whether raw is a JSON string with this decoded value.
func IsText(raw []byte, want string) bool {
	if len(raw) < 2 || raw[0] != '"' {
		return false
	}
	body := raw[1 : len(raw)-1]
	return sameText(body, bytes.IndexByte(body, '\\') >= 0, want)
}

// IsInteger reports whether raw consists of digits after at most one minus sign.
func IsInteger(raw []byte) bool {
	if len(raw) > 0 && raw[0] == '-' {
		raw = raw[1:]
	}
	for _, c := range raw {
		if !isDigit(c) {
			return false
		}
	}
	return len(raw) > 0
}

// Int64 returns the value of a JSON number that has no fraction or exponent and
// fits an int64, and false for anything else.
func Int64(raw []byte) (int64, bool) {
	if !IsInteger(raw) {
		return 0, false
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	return n, err == nil
}

// EmptyObject is the JSON of an object without members.
const EmptyObject = "{}"

// IsObject reports whether raw is a JSON object. It is false for nil bytes.
func IsObject(raw []byte) bool { return len(raw) > 0 && raw[0] == '{' }

// IsNull reports whether raw is a JSON null. It is false for nil bytes.
func IsNull(raw []byte) bool { return string(raw) == "null" }

// TypeName returns the JSON type of a value, in words for people.
func TypeName(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	default:
		return "a number"
	}
}

// Trim returns a value without surrounding space.
func Trim(raw []byte) []byte {
	raw = raw[SkipSpace(raw, 0):]
	for len(raw) > 0 && isSpace(raw[len(raw)-1]) {
		raw = raw[:len(raw)-1]
	}
	return raw
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// IsCompact reports whether raw has no space between its tokens.
func IsCompact(raw []byte) bool {
	for pos := 0; pos < len(raw); {
		switch c := raw[pos]; {
		case c == '"':
			pos = SkipString(raw, pos)
		case c <= ' ':
			return false
		default:
			pos++
		}
	}
	return true
}

// Compact appends raw to dst without the space between its tokens. Strings and
// numbers are unchanged.
func Compact(dst, raw []byte) []byte {
	for pos := 0; pos < len(raw); {
		switch raw[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
		case '"':
			end := SkipString(raw, pos)
			dst = append(dst, raw[pos:end]...)
			pos = end
		default:
			start := pos
			for pos < len(raw) && raw[pos] > ' ' && raw[pos] != '"' {
				pos++
			}
			pos = max(pos, start+1)
			dst = append(dst, raw[start:pos]...)
		}
	}
	return dst
}

// firstElement returns where the first element of a container stands, or
// len(raw) where raw is no such container or an empty one.
func firstElement(raw []byte, open byte) int {
	pos := SkipSpace(raw, 0)
	if pos >= len(raw) || raw[pos] != open {
		return len(raw)
	}
	pos = SkipSpace(raw, pos+1)
	if pos < len(raw) && (raw[pos] == '}' || raw[pos] == ']') {
		return len(raw)
	}
	return pos
}

// nextElement returns where the element after the one that ends at pos stands,
// or len(raw) after the last one.
func nextElement(raw []byte, pos int) int {
	pos = SkipSpace(raw, pos)
	if pos >= len(raw) || raw[pos] != ',' {
		return len(raw)
	}
	return SkipSpace(raw, pos+1)
}

// memberAt reads the member whose name stands at pos.
func memberAt(raw []byte, pos int) (body []byte, escaped bool, value json.RawMessage, next int) {
	end := SkipString(raw, pos)
	if end-pos >= 2 {
		body = raw[pos+1 : end-1]
		escaped = bytes.IndexByte(body, '\\') >= 0
	}
	pos = SkipSpace(raw, SkipSpace(raw, end)+1)
	if pos >= len(raw) {
		return body, escaped, nil, len(raw)
	}
	end = SkipValue(raw, pos)
	return body, escaped, raw[pos:end:end], nextElement(raw, end)
}

func sameText(body []byte, escaped bool, want string) bool {
	if !escaped {
		return string(body) == want
	}
	if len(body) > 6*len(want) { // \uXXXX is the longest spelling of a byte
		return false
	}
	return string(appendDecoded(nil, body)) == want
}

// SkipSpace returns the position of the first byte at or after pos that is not white
// space, or len(raw) if there is none.
func SkipSpace(raw []byte, pos int) int {
	for pos < len(raw) {
		switch raw[pos] {
		case ' ', '\t', '\n', '\r':
			pos++
		default:
			return pos
		}
	}
	return len(raw)
}

// SkipString returns the end of the string that starts at pos. It always advances.
// It searches from quote to quote, which the standard library does many bytes at a
// time: values are skipped far more often than they are read.
func SkipString(raw []byte, pos int) int {
	for pos++; pos < len(raw); {
		i := bytes.IndexByte(raw[pos:], '"')
		if i < 0 {
			break
		}
		end := pos + i
		backslashes := 0
		for at := end - 1; at >= pos && raw[at] == '\\'; at-- {
			backslashes++
		}
		if backslashes%2 == 0 {
			return end + 1
		}
		pos = end + 1 // the quote was escaped
	}
	return len(raw)
}

// SkipValue returns the end of the value that starts at pos. It always advances.
func SkipValue(raw []byte, pos int) int {
	for depth := 0; pos < len(raw); {
		switch raw[pos] {
		case '"':
			pos = SkipString(raw, pos)
		case '{', '[':
			depth++
			pos++
			continue
		case '}', ']':
			depth--
			pos++
		case ',', ':', ' ', '\t', '\n', '\r':
			pos++
			if depth > 0 {
				continue
			}
			return pos
		default:
			pos = skipScalar(raw, pos)
		}
		if depth <= 0 {
			return pos
		}
	}
	return len(raw)
}

// skipScalar returns the end of the number or literal at pos.
func skipScalar(raw []byte, pos int) int {
	for pos++; pos < len(raw); pos++ {
		switch raw[pos] {
		case ',', ':', '}', ']', ' ', '\t', '\n', '\r', '"', '{', '[':
			return pos
		}
	}
	return len(raw)
}
