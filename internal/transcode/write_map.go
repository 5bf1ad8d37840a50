// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// mapEntry is one entry of a map: a key in the order of its kind, and where the value stands. The sign bit of a signed key is
// flipped, so that comparing unsigned numbers gives the order of signed ones.
type mapEntry struct {
	number     uint64 // the order of the keys is that of the numbers; of a string, its first eight bytes
	start, end int32  // a key that is one
	value      int32  // plus 1; 0 where there is none
	limit      int32  // end of the entry
}

// mapping writes the entries that follow one another, with their keys in order: equal answers then have equal JSON, whatever
// order a backend's hash maps gave. An entry counts as a message for the depth, as the wire decoder counts it.
func (w *writer) mapping(s *slot, b []byte, pos, depth int) int {
	if depth+1 > maxWireDepth {
		return refused
	}
	if s.key.kind == protoreflect.StringKind && isOrderly(s, b, pos) {
		return w.orderly(s, b, pos, depth)
	}
	base := len(w.entries)
	for more := true; more; {
		n, from := varintAt(b, pos)
		if from < 0 || n > uint64(len(b)-from) {
			return refused
		}
		pos = from + int(n)
		e, ok := entryAt(s, b[:pos], from)
		if !ok {
			return refused
		}
		w.entries = append(w.entries, e)
		pos, _, more = following(s, b, pos)
	}
	if !sortEntries(w.entries[base:], b, s.key.kind == protoreflect.StringKind) {
		return refused
	}
	w.out = append(w.out, '{')
	for i := base; i < len(w.entries); i++ {
		e := w.entries[i]
		if !w.key(s.key, b, e) {
			return refused
		}
		w.out = append(w.out, ':')
		if !w.entryValue(s.value, b, e, depth+1) {
			return refused
		}
		w.out = append(w.out, ',')
	}
	w.out[len(w.out)-1] = '}'
	w.entries = w.entries[:base]
	return pos
}

// isOrderly says that the entries that follow one another are as most encoders write them: a key of text and a value,
// each in its place, and the keys in order. It does not look at values, so that what is nested is looked at once.
func isOrderly(s *slot, b []byte, pos int) bool {
	var last []byte
	for first, more := true, true; more; first = false {
		n, from := varintAt(b, pos)
		if from < 0 || n > uint64(len(b)-from) {
			return false
		}
		pos = from + int(n)
		key, value, ok := orderlyEntry(s, b[:pos], from)
		if !ok || valueEnd(b[:pos], value, 2, s.value.wire) != pos || !first && bytes.Compare(last, key) >= 0 {
			return false
		}
		last = key
		pos, _, more = following(s, b, pos)
	}
	return true
}

// orderlyEntry returns the key of an entry that ends with b, and where its value stands.
func orderlyEntry(s *slot, b []byte, pos int) (key []byte, value int, ok bool) {
	if pos >= len(b) || b[pos] != 1<<3|byte(protowire.BytesType) {
		return nil, 0, false
	}
	size, at := varintAt(b, pos+1)
	if at < 0 || size >= uint64(len(b)-at) { // the tag of the value stands behind it
		return nil, 0, false
	}
	end := at + int(size)
	return b[at:end], end + 1, b[end] == 2<<3|byte(s.value.wire)
}

// orderly writes the entries of which isOrderly holds.
func (w *writer) orderly(s *slot, b []byte, pos, depth int) int {
	w.out = append(w.out, '{')
	for more := true; more; {
		n, from := varintAt(b, pos)
		pos = from + int(n)
		key, value, _ := orderlyEntry(s, b[:pos], from)
		if !w.text(key) {
			return refused
		}
		w.out = append(w.out, ':')
		if w.value(s.value, b[:pos], value, depth+1) < 0 {
			return refused
		}
		w.out = append(w.out, ',')
		pos, _, more = following(s, b, pos)
	}
	w.out[len(w.out)-1] = '}'
	return pos
}

// entryAt reads an entry, which is a message with the fields 1 and 2. It refuses one that has a field twice, or with another type.
func entryAt(s *slot, b []byte, pos int) (mapEntry, bool) {
	e := mapEntry{limit: int32(len(b))}
	keyed := false
	if s.key.signed() {
		e.number = 1 << 63
	}
	for pos < len(b) {
		num, typ, at := tagAt(b, pos)
		if at < 0 {
			return e, false
		}
		if pos = valueEnd(b, at, num, typ); pos < 0 {
			return e, false
		}
		switch {
		case num == 1 && typ == s.key.wire:
			if keyed || !e.readKey(s.key, b, at, pos) {
				return e, false
			}
			keyed = true
		case num == 2 && typ == s.value.wire:
			if e.value != 0 {
				return e, false
			}
			e.value = int32(at) + 1
		case num <= 2:
			return e, false // a key or value of another type is not skipped by everyone
		}
	}
	return e, true
}

func (s *slot) signed() bool {
	switch s.kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind, protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return true
	default:
		return false
	}
}

// readKey reads a key that ends at end.
func (e *mapEntry) readKey(s *slot, b []byte, pos, end int) bool {
	if s.kind == protoreflect.StringKind {
		_, from := varintAt(b, pos)
		if from < 0 || !utf8.Valid(b[from:end]) {
			return false
		}
		e.start, e.end = int32(from), int32(end)
		e.number = prefix(b[from:end])
		return true
	}
	var v uint64
	switch s.wire {
	case protowire.Fixed32Type:
		u, _ := protowire.ConsumeFixed32(b[pos:end])
		v = uint64(u)
	case protowire.Fixed64Type:
		v, _ = protowire.ConsumeFixed64(b[pos:end])
	default:
		v, _ = varintAt(b, pos)
	}
	const sign = 1 << 63
	switch s.kind {
	case protoreflect.BoolKind:
		e.number = min(v, 1)
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		e.number = uint64(int64(int32(v))) ^ sign
	case protoreflect.Sint32Kind:
		e.number = uint64(int64(int32(protowire.DecodeZigZag(v&0xffffffff)))) ^ sign
	case protoreflect.Sint64Kind:
		e.number = uint64(protowire.DecodeZigZag(v)) ^ sign
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		e.number = v ^ sign
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		e.number = uint64(uint32(v))
	default:
		e.number = v
	}
	return true
}

// prefix is the first eight bytes of a key as a number. Where two keys' differ, they have the order of the keys; where they are
// the same, the keys have to be compared.
func prefix(key []byte) uint64 {
	const size = 8
	if len(key) >= size {
		return binary.BigEndian.Uint64(key)
	}
	var padded [size]byte
	copy(padded[:], key)
	return binary.BigEndian.Uint64(padded[:])
}

// sortEntries returns false where a key is there twice. Most keys differ in their first eight bytes, so the entries are sorted
// by number, and then those that follow one another with the same one by their keys.
func sortEntries(entries []mapEntry, b []byte, text bool) bool {
	sortByNumber(entries)
	for i := 1; i < len(entries); i++ {
		if entries[i-1].number != entries[i].number {
			continue
		}
		end := i + 1
		for end < len(entries) && entries[end].number == entries[i].number {
			end++
		}
		if !text || !sortTexts(entries[i-1:end], b) {
			return false
		}
		i = end
	}
	return true
}

// fewEntries is up to how many entries are sorted by insertion, for which no function is called.
const fewEntries = 24

func sortByNumber(entries []mapEntry) {
	if len(entries) > fewEntries {
		slices.SortFunc(entries, func(x, y mapEntry) int { return cmp.Compare(x.number, y.number) })
		return
	}
	for i := 1; i < len(entries); i++ {
		e, at := entries[i], i
		for ; at > 0 && entries[at-1].number > e.number; at-- {
			entries[at] = entries[at-1]
		}
		entries[at] = e
	}
}

// sortTexts sorts entries whose keys are strings, and returns false where one is there twice.
func sortTexts(entries []mapEntry, b []byte) bool {
	compare := func(x, y mapEntry) int { return bytes.Compare(b[x.start:x.end], b[y.start:y.end]) }
	slices.SortFunc(entries, compare)
	for i := 1; i < len(entries); i++ {
		if compare(entries[i-1], entries[i]) == 0 {
			return false
		}
	}
	return true
}

// key writes the name of an entry's member.
func (w *writer) key(s *slot, b []byte, e mapEntry) bool {
	if s.kind == protoreflect.StringKind {
		return w.text(b[e.start:e.end])
	}
	w.out = append(w.out, '"')
	switch {
	case s.kind == protoreflect.BoolKind:
		w.out = strconv.AppendBool(w.out, e.number != 0)
	case s.signed():
		w.out = strconv.AppendInt(w.out, int64(e.number^1<<63), 10)
	default:
		w.out = strconv.AppendUint(w.out, e.number, 10)
	}
	w.out = append(w.out, '"')
	return true
}

// entryValue writes the value of an entry, which may be left out on the wire.
func (w *writer) entryValue(s *slot, b []byte, e mapEntry, depth int) bool {
	switch {
	case e.value != 0:
		return w.value(s, b[:e.limit], int(e.value)-1, depth) >= 0
	case s.below != nil:
		return w.message(s.below.prepared(), nil, depth+1, "")
	default:
		w.out = append(w.out, s.blank...)
		return true
	}
}
