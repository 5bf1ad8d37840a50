// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
)

// inlineNames is how many names, over all open objects, fit on the stack of
// the scan. Envelopes of tool calls rarely hold more at one time.
const inlineNames = 64

// fewNames is the number of names of one object up to which comparing each
// pair is quicker than hashing.
const fewNames = 12

// name is one member name: offsets into the input, or into names.decoded where
// it came with escapes.
type name struct {
	start, end uint32
	escaped    bool
}

// names is the list of the names of all open objects, the innermost last, so that its
// memory follows the open objects and never exceeds a small multiple of the
// input. Large objects get a hash set; the hash is seeded per document, so a
// sender cannot aim for collisions.
type names struct {
	inline  [inlineNames]name // an array, so that the scanner stays on the stack
	more    []name            // those after the inline ones
	count   int
	decoded []byte
	seed    maphash.Seed
	seeded  bool
	spare   []uint32 // the table of the last large object that was closed
}

// scope is one open object.
type scope struct {
	first   int      // the index of its first name
	decoded int      // len(names.decoded) when it was opened
	seen    uint64   // the shortBit of each name so far that is short
	table   []uint32 // open addressing, a power of two: index of a name plus 1, or 0
}

func (ns *names) open() scope {
	return scope{first: ns.count, decoded: len(ns.decoded)}
}

func (ns *names) close(sc scope) {
	ns.count = sc.first
	ns.more = ns.more[:max(0, ns.count-inlineNames)]
	ns.decoded = ns.decoded[:sc.decoded]
	if cap(sc.table) > cap(ns.spare) {
		ns.spare = sc.table
	}
}

// add appends the name whose body stands at raw[start:end].
func (ns *names) add(raw []byte, start, end int, escaped bool) name {
	n := name{start: uint32(start), end: uint32(end)}
	if escaped {
		n.escaped = true
		n.start = uint32(len(ns.decoded))
		ns.decoded = appendDecoded(ns.decoded, raw[start:end])
		n.end = uint32(len(ns.decoded))
	}
	ns.push(n)
	return n
}

func (ns *names) push(n name) {
	if ns.count < inlineNames {
		ns.inline[ns.count] = n
	} else {
		ns.more = append(ns.more, n)
	}
	ns.count++
}

func (ns *names) at(index int) name {
	if index < inlineNames {
		return ns.inline[index]
	}
	return ns.more[index-inlineNames]
}

// bytes is the decoded name. It is valid until its object is closed.
func (ns *names) bytes(raw []byte, n name) []byte {
	if n.escaped {
		return ns.decoded[n.start:n.end]
	}
	return raw[n.start:n.end]
}

// longestShort is the length of the longest name, without escapes, that is found
// to be new by its bit alone.
const longestShort = 15

// shortBit is one of 64 bits that a name of up to longestShort bytes has, given its first eight
// bytes and the others, or zero and its bytes if it has fewer than eight. Names
// with different bits differ.
func shortBit(first, rest uint64) uint64 {
	// The golden ratio times 2^64, as in Fibonacci hashing; the highest six bits choose.
	const golden = 0x9e3779b97f4a7c15
	return 1 << (((first*golden ^ rest) * golden) >> 58)
}

// note sets the bit of a name that did not come by shortName.
func (sc *scope) note(text []byte) {
	if len(text) > longestShort {
		return
	}
	var padded [16]byte
	copy(padded[:], text)
	first, rest := binary.LittleEndian.Uint64(padded[:]), binary.LittleEndian.Uint64(padded[8:])
	if len(text) < 8 {
		first, rest = 0, first
	}
	sc.seen |= shortBit(first, rest)
}

// duplicate reports whether the last name added, n, was in its object before.
func (ns *names) duplicate(raw []byte, sc *scope, n name) bool {
	last := ns.count - 1
	count := last - sc.first
	if count <= fewNames {
		text := ns.bytes(raw, n)
		sc.note(text)
		for i := sc.first; i < last; i++ {
			other := ns.at(i)
			if other.end-other.start == n.end-n.start && bytes.Equal(text, ns.bytes(raw, other)) {
				return true
			}
		}
		return false
	}
	if 2*(count+1) > len(sc.table) { // keep half of the slots free
		ns.grow(raw, sc, last)
	}
	return !ns.insert(raw, sc.table, last)
}

// grow gives sc a table of twice the size, or its first one, and puts the names
// before last into it.
func (ns *names) grow(raw []byte, sc *scope, last int) {
	size := max(4*fewNames, 2*len(sc.table))
	for size&(size-1) != 0 {
		size += size & -size // up to the next power of two
	}
	old := sc.table
	if cap(ns.spare) >= size {
		// Only the part in use is cleared: an object pays for its own size,
		// not for that of an earlier, larger one.
		sc.table, ns.spare = ns.spare[:size], nil
		clear(sc.table)
	} else {
		sc.table = make([]uint32, size)
	}
	if ns.spare == nil {
		ns.spare = old
	}
	if !ns.seeded {
		ns.seed, ns.seeded = maphash.MakeSeed(), true
	}
	for i := sc.first; i < last; i++ {
		ns.insert(raw, sc.table, i)
	}
}

// insert reports whether the name at index was new to the table.
func (ns *names) insert(raw []byte, table []uint32, index int) bool {
	text := ns.bytes(raw, ns.at(index))
	mask := uint64(len(table) - 1)
	for slot := maphash.Bytes(ns.seed, text) & mask; ; slot = (slot + 1) & mask {
		found := table[slot]
		if found == 0 {
			table[slot] = uint32(index + 1)
			return true
		}
		if bytes.Equal(text, ns.bytes(raw, ns.at(int(found-1)))) {
			return false
		}
	}
}
