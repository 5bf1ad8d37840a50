// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"encoding/binary"
	"math/bits"
)

// nameTable finds the index of a name. It is open addressing over a table that is at most half full: the names are those
// of a descriptor, and few. The hash needs no seed, because a document cannot add names: the longest search is fixed when
// the plan is compiled.
type nameTable struct {
	slots []nameSlot
	mask  uint64
}

type nameSlot struct {
	name   string
	target int32 // plus 1; 0 is free
}

func newNameTable(names []string, targets []int32) nameTable {
	size := 4
	for size < 2*len(names) {
		size *= 2
	}
	t := nameTable{slots: make([]nameSlot, size), mask: uint64(size - 1)}
	for i, name := range names {
		for at := hashName([]byte(name)) & t.mask; ; at = (at + 1) & t.mask {
			if t.slots[at].target == 0 {
				t.slots[at] = nameSlot{name, targets[i] + 1}
				break
			}
			if t.slots[at].name == name {
				break // the first one holds
			}
		}
	}
	return t
}

// find returns the index of a name, or -1.
func (t *nameTable) find(name []byte) int {
	for at := hashName(name) & t.mask; ; at = (at + 1) & t.mask {
		s := &t.slots[at]
		if s.target == 0 {
			return -1
		}
		if s.name == string(name) {
			return int(s.target - 1)
		}
	}
}

// hashName multiplies eight bytes at a time; the constant is the fraction of the golden ratio. The length comes first, so
// that zero bytes at the end count.
func hashName(name []byte) uint64 {
	const golden = 0x9e3779b97f4a7c15
	h := uint64(len(name)) * golden
	for len(name) >= 8 {
		h = fold(h^binary.LittleEndian.Uint64(name), golden)
		name = name[8:]
	}
	last := uint64(0)
	for i, c := range name {
		last |= uint64(c) << (8 * i)
	}
	return fold(h^last, golden)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
