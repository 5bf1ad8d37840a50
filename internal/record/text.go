// SPDX-License-Identifier: Apache-2.0

package record

import (
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// maxTextBytes bounds transport, route and method. No method of a dialect
	// has a tenth of it; what is longer was sent to be a nuisance.
	maxTextBytes = 512
	// maxIDBytes bounds an id, quotes included: four times the envelope's own
	// default. An id is recorded whole or not at all.
	maxIDBytes = 4096
)

// appendText appends s as a JSON string, cut at maxTextBytes, or null for "".
func appendText(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	if len(s) > maxTextBytes {
		s = s[:maxTextBytes]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		s = s[:max(len(s)-1, 0)] + "…"
	}
	return jsontext.Visible(jsontext.AppendString(dst, s), len(dst))
}

// isPlain reports whether s is ASCII that JSON writes as it is.
func isPlain(s []byte) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7F || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// appendID appends a JSON-RPC id as it came, but for characters that cannot be seen, which
// are escaped, or null for what is no string and no number: a line must be JSON whatever
// was sent.
func appendID(dst, id []byte) []byte {
	if !isID(id) {
		return append(dst, "null"...)
	}
	return jsontext.Visible(append(dst, id...), len(dst))
}

func isID(id []byte) bool {
	if len(id) == 0 || len(id) > maxIDBytes {
		return false
	}
	switch c := id[0]; {
	case c == '"':
		return len(id) >= 2 && id[len(id)-1] == '"' && isPlain(id[1:len(id)-1]) || isValue(id)
	case c == '-' || c >= '0' && c <= '9':
		return isCounter(id) || isValue(id)
	}
	return false
}

// isValue reports whether raw is one JSON value with nothing around it.
func isValue(raw []byte) bool {
	last := raw[len(raw)-1]
	return last > ' ' && isJSON(raw)
}

// maxDepth bounds the recursion over what is recorded. The edges stop far below it.
const maxDepth = 10_000

// isJSON reports whether raw is one strict JSON value.
func isJSON(raw []byte) bool { return jsontext.Check(raw, maxDepth) == nil }

// isCounter reports whether raw is a number as most ids are: digits that do not
// begin with zero.
func isCounter(raw []byte) bool {
	for _, c := range raw {
		if c < '0' || c > '9' {
			return false
		}
	}
	return raw[0] != '0'
}
