// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// The functions of this file append one compact envelope to dst and return the
// extended buffer. Payloads (result, params, data) must be one JSON value each;
// they are not checked, but space between their tokens is dropped, so that no
// envelope holds a line break. Other strings are escaped as needed.

// AppendResult appends a success response. A nil result is written as null.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = AppendResultHead(dst, id)
	dst = appendPayload(dst, result, "null")
	return append(dst, '}')
}

// AppendCompactResult is AppendResult for a result that holds no space between
// its tokens, which it does not look at: for results that are large, or cached.
// The result may come in pieces.
func AppendCompactResult(dst []byte, id ID, result ...[]byte) []byte {
	dst = AppendResultHead(dst, id)
	for _, piece := range result {
		dst = append(dst, piece...)
	}
	return append(dst, '}')
}

// AppendResultHead appends a success response up to where its result stands. The
// result, compact, and a closing brace have to follow.
func AppendResultHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	return append(dst, `,"result":`...)
}

// AppendError appends an error response. A zero id is written as null or, with
// omitNullID, left out, as MCP wants it. Nil data is left out.
func AppendError(dst []byte, id ID, omitNullID bool, code int, message string, data []byte) []byte {
	return appendError(dst, id, omitNullID, int64(code), message, data)
}

func appendError(dst []byte, id ID, omitNullID bool, code int64, message string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if !id.IsZero() || !omitNullID {
		dst = append(dst, `,"id":`...)
		dst = appendID(dst, id)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, code, 10)
	dst = append(dst, `,"message":`...)
	dst = AppendString(dst, message)
	if data != nil {
		dst = append(dst, `,"data":`...)
		dst = appendPayload(dst, data, "null")
	}
	return append(dst, "}}"...)
}

// AppendRequest appends a request. Nil params are written as {}.
func AppendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	dst = append(dst, `,"method":`...)
	dst = AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	dst = appendPayload(dst, params, "{}")
	return append(dst, '}')
}

// AppendNotification appends a notification. Nil params are left out.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	dst = AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = appendPayload(dst, params, "{}")
	}
	return append(dst, '}')
}

func appendPayload(dst, payload []byte, fallback string) []byte {
	if len(payload) == 0 {
		return append(dst, fallback...)
	}
	return Compact(dst, payload)
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Control characters, the quote and
// the backslash are escaped, bytes that are not UTF-8 become U+FFFD, and all
// else stays as it is.
func AppendString(dst []byte, s string) []byte { return AppendText(dst, []byte(s)) }

// AppendText is AppendString for bytes. JSON in a string has something to escape
// every few bytes, so that it copies words of eight bytes whole and takes back
// what stands behind the first byte that needs care.
func AppendText(dst, s []byte) []byte {
	const word = 8
	dst = append(dst, '"')
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
		dst, s = appendSpecial(dst, s[k:])
	}
	for len(s) > 0 {
		if c := s[0]; c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			dst, s = append(dst, c), s[1:]
			continue
		}
		dst, s = appendSpecial(dst, s)
	}
	return append(dst, '"')
}

// appendSpecial appends the byte at the start of s that has to be escaped, or the
// characters beyond ASCII there, and returns what follows.
func appendSpecial(dst, s []byte) (longer, rest []byte) {
	if s[0] < utf8.RuneSelf {
		return appendEscape(dst, s[0]), s[1:]
	}
	for len(s) > 0 && s[0] >= utf8.RuneSelf {
		r, size := utf8.DecodeRune(s)
		dst = utf8.AppendRune(dst, r) // U+FFFD for a byte that is not UTF-8
		s = s[size:]
	}
	return dst, s
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
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
