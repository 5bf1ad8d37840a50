// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"encoding/json"
	"iter"
)

// maxIndexed is how many members of one object are noted: more than any envelope or
// params of a known method have.
const maxIndexed = 8

// Index records the positions of an object's members. [Outline] builds it in its
// single pass, because a member may have megabytes, which every later lookup of
// another member would have to skip. The zero Index is empty and scans the bytes.
type Index struct {
	size   int // of the object; zero where nothing was noted
	count  int // above maxIndexed where not all members are noted
	fields [maxIndexed]indexed
}

// indexed is one member: offsets into the object. The name is the text between its
// quotes.
type indexed struct{ name, value span }

type span struct{ start, end uint32 }

// note takes down a member whose name has no escapes. An object that has more
// members, or others, is not whole, and is left to the functions that look at the
// bytes.
func (x *Index) note(name, value span, escaped bool) {
	if escaped || x.count >= maxIndexed {
		x.count = maxIndexed + 1
		return
	}
	x.fields[x.count] = indexed{name, value}
	x.count++
}

// isWhole reports whether all members of object are noted.
func (x *Index) isWhole(object []byte) bool {
	return x.size > 0 && x.size == len(object) && x.count <= maxIndexed
}

// Lookup is the function [Lookup] for the object that x was built from. For an
// object of another size, it scans the bytes.
func (x *Index) Lookup(object []byte, name string) (json.RawMessage, bool) {
	if !x.isWhole(object) {
		return Lookup(object, name)
	}
	for _, f := range x.fields[:x.count] {
		if string(object[f.name.start:f.name.end]) == name {
			return object[f.value.start:f.value.end:f.value.end], true
		}
	}
	return nil, false
}

// Fields is the function [Fields] for the object that x was built from.
func (x *Index) Fields(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) { x.eachField(object, yield) }
}

func (x *Index) eachField(object []byte, yield func([]byte, json.RawMessage) bool) {
	if !x.isWhole(object) {
		eachField(object, yield)
		return
	}
	for _, f := range x.fields[:x.count] {
		if !yield(object[f.name.start:f.name.end], object[f.value.start:f.value.end:f.value.end]) {
			return
		}
	}
}
