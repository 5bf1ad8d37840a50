// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"hash/maphash"
	"math"
	"strconv"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// mapping appends the entries of a map, each a message of a key and a value, both always there. More than one entry counts
// as disorder: a deterministic encoding sorts them by key.
func (r *reader) mapping(s *slot, pos, depth int) int {
	pos, done := r.open(pos, depth, '{', '}')
	if done {
		return pos
	}
	keys := r.seen.open()
	entries := 0
	for !done {
		r.out = append(r.out, s.tag...)
		start := len(r.out)
		r.out = append(r.out, 0)
		name, at := r.name(pos)
		if at < 0 || !r.mapKey(s.key, name) {
			return refused
		}
		key := len(r.out) - start - 1
		if s.value.below != nil {
			pos = r.messageField(s.value, at, depth+1)
		} else {
			pos = r.scalar(s.value, at, s.value.tag, true)
		}
		if pos < 0 {
			return refused
		}
		end := len(r.out)
		r.close(start)
		first := start + 1 + len(r.out) - end // the length may have taken more than one byte
		if !r.seen.add(&keys, r.out, first, first+key) {
			return refused
		}
		entries++
		pos, done = r.next(pos, '}')
	}
	r.seen.close(keys)
	if entries > 1 {
		r.disorder = true
	}
	return pos
}

// mapKey appends the key of an entry as a field.
func (r *reader) mapKey(s *slot, name []byte) bool {
	r.tag(s.tag)
	switch s.kind {
	case protoreflect.StringKind:
		r.length(len(name))
		r.out = append(r.out, name...)
		return true
	case protoreflect.BoolKind:
		switch string(name) {
		case "true":
			r.out = append(r.out, 1)
			return true
		case "false":
			r.out = append(r.out, 0)
			return true
		}
		return false
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		u, err := strconv.ParseUint(string(name), 10, 64)
		return err == nil && r.whole(s.kind, magnitude{value: u}, nil, true)
	default:
		v, err := strconv.ParseInt(string(name), 10, 64)
		m := magnitude{uint64(v), false}
		if v < 0 {
			m = magnitude{uint64(-v), true}
		}
		return err == nil && r.whole(s.kind, m, nil, true)
	}
}

// keySet finds keys that occur twice in one map. The keys stand in the output, where all spellings of a key look the
// same: {"1": ..., "+1": ...} is refused for a key that is an integer. It serves all open maps, the innermost last, and is
// seeded, so that callers cannot choose keys that collide. Positions are 32 bits wide, and add refuses an output beyond.
type keySet struct {
	seed  maphash.Seed
	keys  []seenKey
	table []uint32
}

type seenKey struct {
	hash       uint64
	start, end uint32 // in the output
}

// keyScope is one open map.
type keyScope struct {
	first int // index of its first key
	table int // index of the start of its table
}

// fewKeys is up to where comparing with each is quicker than a table.
const fewKeys = 16

func (ks *keySet) reset() { ks.keys, ks.table = ks.keys[:0], ks.table[:0] }

// shrink gives up what a rare large map needed.
func (ks *keySet) shrink() {
	if cap(ks.keys) > maxKept/16 {
		ks.keys = nil
	}
	if cap(ks.table) > maxKept/4 {
		ks.table = nil
	}
}

func (ks *keySet) open() keyScope { return keyScope{len(ks.keys), len(ks.table)} }

func (ks *keySet) close(sc keyScope) { ks.keys, ks.table = ks.keys[:sc.first], ks.table[:sc.table] }

// add returns false where the map has the key already.
func (ks *keySet) add(sc *keyScope, out []byte, start, end int) bool {
	if end > math.MaxUint32 {
		return false
	}
	k := seenKey{maphash.Bytes(ks.seed, out[start:end]), uint32(start), uint32(end)}
	own := ks.keys[sc.first:]
	if len(own) < fewKeys {
		for i := range own {
			if own[i].hash == k.hash && same(out, own[i], k) {
				return false
			}
		}
		ks.keys = append(ks.keys, k)
		return true
	}
	if size := len(ks.table) - sc.table; 2*(len(own)+1) > size {
		ks.grow(sc, max(4*fewKeys, 2*size))
	}
	ks.keys = append(ks.keys, k)
	return ks.insert(ks.table[sc.table:], out, sc.first, len(own))
}

// grow makes a larger table for the innermost map, and puts the keys of it in.
func (ks *keySet) grow(sc *keyScope, size int) {
	ks.table = ks.table[:sc.table]
	for range size {
		ks.table = append(ks.table, 0)
	}
	table := ks.table[sc.table:]
	for i := range ks.keys[sc.first:] {
		at := ks.keys[sc.first+i].hash & uint64(size-1)
		for table[at] != 0 {
			at = (at + 1) & uint64(size-1)
		}
		table[at] = uint32(i + 1)
	}
}

// insert puts the key with an index within its map into the table.
func (ks *keySet) insert(table []uint32, out []byte, first, index int) bool {
	mask := uint64(len(table) - 1)
	k := ks.keys[first+index]
	for at := k.hash & mask; ; at = (at + 1) & mask {
		i := table[at]
		if i == 0 {
			table[at] = uint32(index + 1)
			return true
		}
		if other := ks.keys[first+int(i)-1]; other.hash == k.hash && same(out, other, k) {
			return false
		}
	}
}

func same(out []byte, a, b seenKey) bool {
	return bytes.Equal(out[a.start:a.end], out[b.start:b.end])
}
