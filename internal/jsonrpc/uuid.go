// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// uuidBytes is the length of a UUID in its usual form.
const uuidBytes = 36

// Fields of a UUID of version 7 (RFC 9562, section 5.7) in its two halves.
const (
	uuidVersion7 = 0x7000
	uuidVariant  = 0b10 << 62
	// tickBits is the length of the field rand_a, which carries the part of the
	// millisecond that has passed.
	tickBits = 12
)

// uuid7 is the UUID of a tick, which is a count of 1/4096 milliseconds, and of 62 random bits.
func uuid7(tick, random uint64) [16]byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], tick>>tickBits<<16|uuidVersion7|tick&(1<<tickBits-1))
	binary.BigEndian.PutUint64(id[8:], random&^(0b11<<62)|uuidVariant)
	return id
}

// appendUUID appends a UUID in its usual form, in lower case.
func appendUUID(dst []byte, id [16]byte) []byte {
	dst = append(hex.AppendEncode(dst, id[:4]), '-')
	dst = append(hex.AppendEncode(dst, id[4:6]), '-')
	dst = append(hex.AppendEncode(dst, id[6:8]), '-')
	dst = append(hex.AppendEncode(dst, id[8:10]), '-')
	return hex.AppendEncode(dst, id[10:])
}

// isUUID reports whether an id is a UUID in its usual form, of any version.
func isUUID(id ID) bool {
	text, ok := id.Text()
	if !ok || len(text) != uuidBytes {
		return false
	}
	for i := range len(text) {
		switch c := text[i]; i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if jsontext.HexValue(c) < 0 {
				return false
			}
		}
	}
	return true
}
