// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"strings"
	"testing"
	"testing/iotest"
)

func TestFirstLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"INVALID CONNECTION PREFACE\r\n\r\n":    true,
		"PRI * HTTQ/2.0\r\n\r\nSM\r\n\r\n":      true,
		"GET / more words\n":                    true,
		"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n":      false,
		"GET / HTTP/1.1\r\nHost: a b c\r\n\r\n": false,
		"GET / http/1.1\r\n":                    false,
		"GET /a b HTTP/1.1\r\n":                 false,
		"GET /\r\nA B C\r\n":                    false,
		"GET / ":                                false,
		"\x16\x03\x01 A B\n":                    false,
		"post / odd\n":                          false,
		"":                                      false,
	} {
		whole, pieces := firstLine{}, firstLine{}
		got, inPieces := whole.isForeign([]byte(text)), false
		bytes, one := iotest.OneByteReader(strings.NewReader(text)), make([]byte, 1)
		for !pieces.known {
			if _, err := bytes.Read(one); err != nil {
				break
			}
			inPieces = pieces.isForeign(one)
		}
		if got != want || inPieces != want || whole.known != pieces.known {
			t.Errorf("%q: foreign %v, in pieces %v, want %v; known %v, in pieces %v", text, got, inPieces, want, whole.known, pieces.known)
		}
	}
}
