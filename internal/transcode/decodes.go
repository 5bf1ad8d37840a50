// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// surelyDepth is how deeply nested a message may be that decodes looks at. Few are, and the general engine has the
// rest.
const surelyDepth = 100

// decodes reports whether the general engine is sure to decode wire bytes. It needs no memory, and it may say no where
// the general engine would not: where the plan does not know all about the message (extensions, required fields, groups),
// and where an encoder would not write it like that.
func (p *plan) decodes(b []byte, depth int) bool {
	if depth > surelyDepth || p.form == formNone || p.open || len(p.needed) > 0 {
		return false
	}
	for pos := 0; pos < len(b); {
		num, typ, at := tagAt(b, pos)
		if at < 0 || typ == protowire.StartGroupType || typ == protowire.EndGroupType {
			return false
		}
		end := valueEnd(b, at, num, typ)
		if end < 0 {
			return false
		}
		s := p.byNumber(num)
		switch {
		case s == nil:
		case typ == s.wire:
			if typ == protowire.BytesType && !s.decodes(lengthened(b, at, end), depth) {
				return false
			}
		case typ == protowire.BytesType && s.packable:
			if !s.decodesPacked(lengthened(b, at, end)) {
				return false
			}
		default:
			return false
		}
		pos = end
	}
	return true
}

// lengthened is what follows the length of a value, which valueEnd has read before.
func lengthened(b []byte, at, end int) []byte {
	_, from := varintAt(b, at)
	return b[from:end]
}

// decodes looks at the content of a value with a length: a string, bytes, a message or the entry of a map.
func (s *slot) decodes(content []byte, depth int) bool {
	switch {
	case s.shape == shapeMap:
		return s.decodesEntry(content, depth)
	case s.below != nil:
		return s.below.prepared().decodes(content, depth+1)
	case s.kind == protoreflect.StringKind:
		return utf8.Valid(content)
	}
	return true
}

// decodesPacked looks at the numbers of a list that come in one piece.
func (s *slot) decodesPacked(b []byte) bool {
	for pos := 0; pos < len(b); {
		if pos = valueEnd(b, pos, s.number, s.wire); pos < 0 {
			return false
		}
	}
	return true
}

// decodesEntry looks at the entry of a map.
func (s *slot) decodesEntry(b []byte, depth int) bool {
	for pos := 0; pos < len(b); {
		num, typ, at := tagAt(b, pos)
		if at < 0 {
			return false
		}
		part := s.key
		if num == s.value.number {
			part = s.value
		}
		if num != part.number || typ != part.wire || typ == protowire.StartGroupType {
			return false
		}
		end := valueEnd(b, at, num, typ)
		if end < 0 || typ == protowire.BytesType && !part.decodes(lengthened(b, at, end), depth+1) {
			return false
		}
		pos = end
	}
	return true
}
