// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// reader turns JSON into wire bytes in one pass. It knows that a document is wrong, and not why: whatever it refuses is
// left to the general engine to judge and to explain, so a refusal costs time and never changes an answer. What it takes
// has to be right to the byte.
//
// Methods take the position of the value in the document and return the position behind it, or refused. The position never
// moves back, but for the type of an Any, which is looked for first. After a refusal the state is of no use:
// nothing is undone, and the next document begins with a clean reader.
//
// A reader comes from a pool and belongs to one call. Stacks for nested messages and maps (words, seen) are shared by all
// levels: each level remembers where its part begins and cuts it off at its end.
type reader struct {
	doc     []byte
	out     []byte
	scratch []byte // the text of the last string with escapes
	words   []uint64
	seen    keySet

	planner   *planner
	resolver  Resolver
	maxDepth  int
	maxNumber int
	// shortNumber is a length that needs no look at the bounds of numbers where there are only digits.
	shortNumber int
	inAny       int  // Anys around the current message
	disorder    bool // something was written that a deterministic encoding would have put in another place
}

// refused says that the reader cannot take a document.
const refused = jsontext.Refused

// maxKept bounds the buffers that wait for the next call, in bytes: rare large messages must not fill the memory of a
// process. Slices of larger elements are kept up to the same memory, so their bounds are fractions of it.
const maxKept = 1 << 20

//nolint:gochecknoglobals // a pool is only useful if it is shared
var readers = sync.Pool{New: func() any { return &reader{seen: keySet{seed: maphash.MakeSeed()}} }}

// read appends the wire bytes of a document to dst, or returns false with dst as it came. Wire bytes are mostly shorter than
// their JSON. Where dst has pool for as much, they are written straight to it, else to the reader's own buffer and copied
// once their number is known.
func (m *Message) read(pool BufferPool, dst, doc []byte) ([]byte, bool) {
	if mayHoldMore(doc, m.bounds.MaxValues) {
		return dst, false
	}
	r := readers.Get().(*reader)
	direct := cap(dst)-len(dst) >= len(doc)
	own := r.out[:0]
	var pooled *[]byte
	switch {
	case direct:
		r.out = dst
	case len(doc) > maxKept:
		pooled = acquireBuffer(len(doc))
		defer releaseBuffer(pooled)
		r.out = *pooled
	default:
		r.out = own
	}
	r.doc, r.planner, r.resolver, r.maxDepth, r.maxNumber = doc, m.planner, m.resolver, m.bounds.MaxDepth, m.bounds.MaxNumberLength
	r.shortNumber = min(m.bounds.MaxNumberLength, 19)
	r.scratch, r.words, r.inAny, r.disorder = r.scratch[:0], r.words[:0], 0, false
	r.seen.reset()
	ok := r.document(m.prepared(), m.wrapped)
	switch {
	case pooled != nil:
		*pooled = r.out
	case !direct:
		own = r.out
	}
	switch {
	case !ok:
	case direct:
		dst = r.out
	default:
		dst = append(extended(dst, len(r.out), pool), r.out...)
	}
	r.out, r.doc, r.planner, r.resolver = own[:0], nil, nil, nil
	if cap(r.out) > maxKept {
		r.out = nil
	}
	if cap(r.scratch) > maxKept {
		r.scratch = nil
	}
	r.seen.shrink()
	readers.Put(r)
	return dst, ok
}

// mayHoldMore says whether a document may hold more values than the bound: each but the first needs a comma or an
// opening bracket before it. The bytes are first counted wherever they stand, in strings too, which is quick and never too
// low; only a document that is over the bound by that is inspected.
func mayHoldMore(doc []byte, limit int) bool {
	if (len(doc)+1)/2 <= limit {
		return false
	}
	n := 1
	for _, c := range []byte{',', '[', '{'} {
		n += bytes.Count(doc, []byte{c})
	}
	return n > limit && len(schema.Inspect(doc, schema.Bounds{MaxValues: limit, MaxViolations: 1})) > 0
}

// document reads the root and accepts nothing but white space around it.
func (r *reader) document(p *plan, wrapped bool) bool {
	pos := r.space(0)
	if pos >= len(r.doc) {
		return false
	}
	if wrapped && r.doc[pos] == '{' {
		pos = r.wrapped(p, pos)
	} else {
		pos = r.message(p, pos, 0, false)
	}
	return pos >= 0 && r.space(pos) == len(r.doc)
}

// wrapped reads {"value": ...} for a root whose own JSON is no object.
func (r *reader) wrapped(p *plan, pos int) int {
	name, pos := r.name(pos + 1)
	if pos < 0 || string(name) != "value" || r.maxDepth < 1 {
		return refused
	}
	if pos = r.message(p, pos, 1, false); pos < 0 {
		return refused
	}
	if pos = r.space(pos); pos >= len(r.doc) || r.doc[pos] != '}' {
		return refused
	}
	return pos + 1
}

// space passes over white space.
func (r *reader) space(pos int) int { return jsontext.SkipSpace(r.doc, pos) }

// name reads the name of a member and the colon, and returns the position of the value. The name is valid until the
// next string is read.
func (r *reader) name(pos int) ([]byte, int) {
	if pos = r.space(pos); pos >= len(r.doc) || r.doc[pos] != '"' {
		return nil, refused
	}
	name, pos := r.text(pos)
	if pos < 0 {
		return nil, refused
	}
	return name, r.colon(pos)
}

// colon returns the position of the value behind a colon.
func (r *reader) colon(pos int) int {
	doc := r.doc
	if pos < len(doc) && doc[pos] != ':' {
		pos = r.space(pos)
	}
	if pos >= len(doc) || doc[pos] != ':' {
		return refused
	}
	pos++
	if pos < len(doc) && doc[pos] <= ' ' {
		pos = r.space(pos)
	}
	if pos >= len(doc) {
		return refused
	}
	return pos
}

// next is behind a value. It returns the position of what follows the comma, or done and the position behind the
// closing bracket.
func (r *reader) next(pos int, closing byte) (at int, done bool) {
	doc := r.doc
	if pos < len(doc) && doc[pos] <= ' ' {
		pos = r.space(pos)
	}
	if pos >= len(doc) {
		return refused, true
	}
	switch doc[pos] {
	case ',':
		pos++
		if pos < len(doc) && doc[pos] <= ' ' {
			pos = r.space(pos)
		}
		return pos, false
	case closing:
		return pos + 1, true
	default:
		return refused, true
	}
}

// open steps into an object or array: the position of the first thing in it, or done and the position behind it where
// it is empty.
func (r *reader) open(pos, depth int, opening, closing byte) (at int, done bool) {
	doc := r.doc
	if pos >= len(doc) || doc[pos] != opening || depth >= r.maxDepth {
		return refused, true
	}
	pos++
	if pos < len(doc) && doc[pos] <= ' ' {
		pos = r.space(pos)
	}
	if pos >= len(doc) {
		return refused, true
	}
	if doc[pos] == closing {
		return pos + 1, true
	}
	return pos, false
}

// message appends the content of a message, without its tag and length. depth is the number of open brackets; inAny is
// set where the object is an Any, whose @type is no field.
func (r *reader) message(p *plan, pos, depth int, inAny bool) int {
	switch p.form {
	case formFields:
		return r.members(p, pos, depth, inAny)
	case formNone:
		return refused
	default:
		return r.wellKnown(p, pos, depth)
	}
}

// members reads an object whose members are fields. What was seen is kept as bits of the plan (see plan): a bit that is set
// twice is a field under both of its names, or two members of a oneof, and refuses the document. null sets the bit of its
// field but not that of the oneof, since it represents absence. Inside an Any (r.inAny) neither REQUIRED nor OUTPUT_ONLY
// holds: the schema says nothing about what an Any holds.
//
//nolint:gocognit // one pass over one member after another, with what was seen in a register; parts would need it in memory
func (r *reader) members(p *plan, pos, depth int, inAny bool) int {
	pos, done := r.open(pos, depth, '{', '}')
	if pos < 0 {
		return refused
	}
	var low uint64 // the first 64 bits of what was seen
	base := len(r.words)
	for extra := p.bits; extra > 64; extra -= 64 {
		r.words = append(r.words, 0)
	}
	guess, rank, typed := 0, 0, false
	for !done {
		s, at := r.field(p, pos, guess)
		if at < 0 {
			return refused
		}
		if s == nil {
			// The one member that is no field is the type of an Any.
			if !inAny || typed || !r.isType(pos) {
				return refused
			}
			typed = true
			if _, pos = r.text(at); pos < 0 {
				return refused
			}
			pos, done = r.next(pos, '}')
			continue
		}
		guess = int(s.index) + 1
		if bit := int(s.index); bit < 64 {
			if low&(1<<bit) != 0 {
				return refused
			}
			low |= 1 << bit
		} else if !r.mark(base, bit) {
			return refused
		}
		if s.hidden && r.inAny == 0 {
			return refused
		}
		if r.doc[at] == 'n' && !s.null {
			if pos = r.absence(s, at); pos < 0 {
				return refused
			}
			pos, done = r.next(pos, '}')
			continue
		}
		if bit := s.oneof; bit >= 0 {
			if bit < 64 {
				if low&(1<<bit) != 0 {
					return refused
				}
				low |= 1 << bit
			} else if !r.mark(base, bit) {
				return refused
			}
		}
		if s.order < rank {
			r.disorder = true
		}
		rank = s.order
		if pos = r.value(s, at, depth+1); pos < 0 {
			return refused
		}
		pos, done = r.next(pos, '}')
	}
	if pos < 0 || len(p.must) > 0 && r.inAny == 0 && !r.hasAll(p.must, low, base) {
		return refused
	}
	r.words = r.words[:base]
	return pos
}

// absence reads the null that represents a field that is not there.
func (r *reader) absence(s *slot, pos int) int {
	if s.must && r.inAny == 0 {
		return refused
	}
	return r.word(pos, "null")
}

// mark sets a bit beyond the first 64 and says whether it is new.
func (r *reader) mark(base, bit int) bool {
	word, mask := &r.words[base+bit/64-1], uint64(1)<<(bit%64)
	if *word&mask != 0 {
		return false
	}
	*word |= mask
	return true
}

func (r *reader) hasAll(bits []int, low uint64, base int) bool {
	for _, bit := range bits {
		if bit < 64 {
			if low&(1<<bit) == 0 {
				return false
			}
		} else if r.words[base+bit/64-1]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// field finds the field of the member whose name is at pos, and the position of its value. Callers mostly keep to
// the order of the descriptor, so the field that would be next is tried first.
func (r *reader) field(p *plan, pos, guess int) (*slot, int) {
	if guess < len(p.fields) {
		s := &p.fields[guess]
		if end := pos + len(s.quoted); end <= len(r.doc) && string(r.doc[pos:end]) == s.quoted {
			return s, r.colon(end)
		}
	}
	if pos >= len(r.doc) || r.doc[pos] != '"' {
		return nil, refused
	}
	name, pos := r.text(pos)
	if pos < 0 {
		return nil, refused
	}
	at := p.names.find(name)
	if pos = r.colon(pos); pos < 0 || at < 0 {
		return nil, pos
	}
	return &p.fields[at], pos
}

// isType says whether the name at pos is that of an Any's type.
func (r *reader) isType(pos int) bool {
	name, pos := r.text(pos)
	return pos >= 0 && string(name) == typeMember
}

func (r *reader) word(pos int, word string) int {
	if end := pos + len(word); end <= len(r.doc) && string(r.doc[pos:end]) == word {
		return end
	}
	return refused
}

// value appends a field with its tag.
func (r *reader) value(s *slot, pos, depth int) int {
	switch s.shape {
	case shapeOne:
		if s.below != nil {
			return r.messageField(s, pos, depth)
		}
		return r.scalar(s, pos, s.tag, s.present)
	case shapeList:
		return r.list(s, pos, depth)
	default:
		return r.mapping(s, pos, depth)
	}
}

// messageField appends a message with its tag and length. The length is only known at the end, so one byte is kept for it;
// messages of up to 127 bytes, which most are, then need no copy. A group ends with a tag and needs no length.
func (r *reader) messageField(s *slot, pos, depth int) int {
	r.out = append(r.out, s.tag...)
	if s.end != nil {
		if pos = r.message(s.below.prepared(), pos, depth, false); pos < 0 {
			return refused
		}
		r.out = append(r.out, s.end...)
		return pos
	}
	start := len(r.out)
	r.out = append(r.out, 0)
	if pos = r.message(s.below.prepared(), pos, depth, false); pos < 0 {
		return refused
	}
	r.close(start)
	return pos
}

// close writes the length of what is behind start, where one byte was kept for it. A length of more bytes moves the
// content up, so positions in the output that were noted before are no longer right (see mapping). A byte is moved at most
// once for each message around it, so the bound on depth bounds this work too.
func (r *reader) close(start int) {
	n := len(r.out) - start - 1
	if n < 0x80 {
		r.out[start] = byte(n)
		return
	}
	size := protowire.SizeVarint(uint64(n))
	const pool = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	r.out = append(r.out, pool[:size-1]...)
	copy(r.out[start+size:], r.out[start+1:start+1+n])
	protowire.AppendVarint(r.out[:start], uint64(n))
}

// list appends the elements of a list, in one piece where the field is packed. An empty list is not on the wire.
func (r *reader) list(s *slot, pos, depth int) int {
	pos, done := r.open(pos, depth, '[', ']')
	if done {
		return pos
	}
	start := 0
	if s.packed {
		r.out = append(r.out, s.packTag...)
		start = len(r.out)
		r.out = append(r.out, 0)
	}
	for !done {
		switch {
		case s.below != nil:
			pos = r.messageField(s, pos, depth+1)
		case s.packed:
			pos = r.scalar(s, pos, nil, true)
		default:
			pos = r.scalar(s, pos, s.tag, true)
		}
		if pos < 0 {
			return refused
		}
		pos, done = r.next(pos, ']')
	}
	if s.packed && pos >= 0 {
		r.close(start)
	}
	return pos
}

// text reads a string, whose opening quote may stand at pos, and returns it decoded. Without escapes it is part of the
// document; with them it is valid until the next string is read.
func (r *reader) text(pos int) ([]byte, int) { return jsontext.ReadString(r.doc, pos, &r.scratch) }

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

// packed appends the content of an Any. Its type may stand anywhere in the object, so it is looked for first. In the worst
// case each Any in another is passed over once more, which Options.MaxDepth bounds.
func (r *reader) packed(pos, depth int) int {
	if at, done := r.open(pos, depth, '{', '}'); done {
		return at // an Any without a type is empty
	}
	url := r.typeOf(pos + 1)
	if len(url) == 0 {
		return refused
	}
	mt, err := r.resolver.FindMessageByURL(url)
	if err != nil && !isTypeURL(url) {
		return refused
	}
	r.out = append(r.out, tagBytes1)
	r.length(len(url))
	r.out = append(r.out, url...)
	before := len(r.out)
	r.out = append(r.out, tagBytes2)
	start := len(r.out)
	r.out = append(r.out, 0)
	r.inAny++
	if err != nil {
		pos = r.opaque(pos, depth)
	} else {
		pos = r.unpackedContent(mt, pos, depth)
	}
	r.inAny--
	if pos < 0 {
		return refused
	}
	if len(r.out) == start+1 {
		r.out = r.out[:before]
		return pos
	}
	r.close(start)
	return pos
}

// unpackedContent appends the content of an Any of a type that is known, of which the members stand at pos.
func (r *reader) unpackedContent(mt protoreflect.MessageType, pos, depth int) int {
	p := r.planner.of(mt.Descriptor()).prepared()
	start := len(r.out)
	outer := r.disorder
	r.disorder = false
	if p.form == formFields {
		pos = r.members(p, pos, depth, true)
	} else {
		pos = r.packedValue(p, pos, depth)
	}
	if pos < 0 || !r.inOrder(mt, start) {
		return refused
	}
	r.disorder = outer
	return pos
}

// packedValue reads the member value of an Any whose type has its own JSON form.
func (r *reader) packedValue(p *plan, pos, depth int) int {
	pos, done := r.open(pos, depth, '{', '}')
	typed, found := false, false
	for !done {
		name, at := r.name(pos)
		if at < 0 {
			return refused
		}
		switch {
		case string(name) == typeMember && !typed:
			typed = true
			_, pos = r.text(at)
		case string(name) == "value" && !found:
			found = true
			pos = r.message(p, at, depth+1, false)
		default:
			return refused
		}
		if pos < 0 {
			return refused
		}
		pos, done = r.next(pos, '}')
	}
	if !found && p.form != formEmpty {
		return refused
	}
	return pos
}

// inOrder makes the value of an Any, which starts at a place of the output, what a deterministic encoding of it is:
// there it is bytes, and comparisons use those. A type without generated code whose fields came in order has that form
// already. A type with generated code is always encoded again: its encoder may have its own order.
func (r *reader) inOrder(mt protoreflect.MessageType, start int) bool {
	msg := mt.New().Interface()
	if _, ok := msg.(*dynamicpb.Message); ok && !r.disorder {
		return true
	}
	if err := (proto.UnmarshalOptions{AllowPartial: true, Resolver: r.resolver}).Unmarshal(r.out[start:], msg); err != nil {
		return false
	}
	value, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(msg)
	r.out = append(r.out[:start], value...)
	return err == nil
}

// typeOf returns the member @type of the object whose first member is at pos, or "". It may pass over text that is not
// JSON, and over a second @type: members and packedValue read the same bytes again and judge them.
func (r *reader) typeOf(pos int) string {
	for done := false; !done; {
		name, at := r.name(pos)
		if at < 0 {
			return ""
		}
		if string(name) == typeMember {
			text, end := r.text(at)
			if end < 0 {
				return ""
			}
			return string(text)
		}
		// Whatever is there is read, and judged, later.
		pos, done = r.next(jsontext.SkipValue(r.doc, at), '}')
	}
	return ""
}

// An Any of an unknown type is not lost: its JSON is {"@type": URL, "value": bytes in base64}. That is the form
// which ProtoJSON gives to an Any of a google.protobuf.BytesValue, so the general engine sees such an Any as one: its
// value is put into a BytesValue before protojson writes it, and taken out after protojson has read it.

// maxNoted bounds how many unknown types of one answer are reported: each may cost a question to the backend.
const maxNoted = 16

// anyName is the message that holds any other.
const anyName protoreflect.FullName = "google.protobuf.Any"

// The fields of Any and of BytesValue.
const (
	anyURL     protowire.Number = 1
	anyValue   protowire.Number = 2
	bytesField protowire.Number = 1
)

// opaqueTypes are the types as one document sees them: one that is unknown once stays so, although the resolver may
// learn it meanwhile.
type opaqueTypes struct {
	Resolver
	// forInput: only what is a type's URL can be an unknown type. An answer is passed
	// on whatever its types are called.
	forInput bool
	unknown  map[string]bool
	last     string // of the unknown ones
}

// FindMessageByURL finds every type; values of unknown types are bytes.
func (o *opaqueTypes) FindMessageByURL(url string) (protoreflect.MessageType, error) {
	if mt := o.known(url); mt != nil {
		return mt, nil
	}
	if o.forInput && !isTypeURL(url) {
		return nil, protoregistry.NotFound
	}
	return (&wrapperspb.BytesValue{}).ProtoReflect().Type(), nil
}

// known returns the type, or nil for an unknown one.
func (o *opaqueTypes) known(url string) protoreflect.MessageType {
	if o.unknown[url] {
		return nil
	}
	mt, err := o.Resolver.FindMessageByURL(url)
	if err == nil {
		return mt
	}
	if o.unknown == nil {
		o.unknown = map[string]bool{}
	}
	o.unknown[url], o.last = true, url
	return nil
}

// isTypeURL holds for what google.protobuf.Any asks of a type's URL: a slash, and the
// full name of a type behind the last one.
func isTypeURL(url string) bool {
	slash := strings.LastIndexByte(url, '/')
	return slash >= 0 && protoreflect.FullName(url[slash+1:]).IsValid()
}

// noted adds a type to a list of unknown ones, each once and within the bound.
func noted(list []string, url string) []string {
	if len(list) >= maxNoted || slices.Contains(list, url) {
		return list
	}
	return append(list, url)
}

// errDeepAny is what an answer gets that nests Any in Any without end.
var errDeepAny = errors.New("more than 1,000 nested google.protobuf.Any messages")

// anyWalk changes the values of unknown types everywhere in a message.
type anyWalk struct {
	types  *opaqueTypes
	change func(value []byte) ([]byte, error)
}

// message reports whether it changed anything. Only then is the value of an Any around it encoded again: an encoding that
// came from outside is not replaced by another one without need.
func (w *anyWalk) message(m protoreflect.Message, depth int) (bool, error) {
	if depth > maxWireDepth {
		return false, errDeepAny
	}
	if m.Descriptor().FullName() == anyName {
		return w.any(m, depth)
	}
	var changed bool
	var failed error
	below := func(v protoreflect.Value) bool {
		did, err := w.message(v.Message(), depth+1)
		changed, failed = changed || did, err
		return err == nil
	}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { return below(v) })
			}
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				if !below(v.List().Get(i)) {
					break
				}
			}
		default:
			below(v)
		}
		return failed == nil
	})
	return changed, failed
}

func (w *anyWalk) any(m protoreflect.Message, depth int) (bool, error) {
	fields := m.Descriptor().Fields()
	urlField, valueField := fields.ByNumber(anyURL), fields.ByNumber(anyValue)
	if urlField == nil || valueField == nil || urlField.Kind() != protoreflect.StringKind || valueField.Kind() != protoreflect.BytesKind {
		return false, nil
	}
	url, value := m.Get(urlField).String(), m.Get(valueField).Bytes()
	if url == "" {
		return false, nil
	}
	mt := w.types.known(url)
	if mt == nil {
		value, err := w.change(value)
		if err == nil {
			m.Set(valueField, protoreflect.ValueOfBytes(value))
		}
		return true, err
	}
	inner := mt.New()
	if (proto.UnmarshalOptions{AllowPartial: true, Resolver: w.types.Resolver, RecursionLimit: maxWireDepth}).Unmarshal(value, inner.Interface()) != nil {
		return false, nil //nolint:nilerr // protojson says so as well
	}
	changed, err := w.message(inner, depth+1)
	if !changed || err != nil {
		return false, err
	}
	value, err = proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(inner.Interface())
	if err == nil {
		m.Set(valueField, protoreflect.ValueOfBytes(value))
	}
	return true, err
}

// intoBytes is the encoding of a BytesValue.
func intoBytes(value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, nil
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, bytesField, protowire.BytesType), value), nil
}

// outOfBytes is what a BytesValue holds.
func outOfBytes(value []byte) ([]byte, error) {
	held := new(wrapperspb.BytesValue)
	err := proto.Unmarshal(value, held)
	return held.GetValue(), err
}

// opaque writes an Any of an unknown type.
func (w *writer) opaque(url string, value []byte) bool {
	w.unknown = noted(w.unknown, url)
	w.out = append(jsontext.AppendString(append(w.out, `{"`+typeMember+`":`...), url), `,"value":`...)
	w.out = append(base64.StdEncoding.AppendEncode(append(w.out, '"'), value), '"', '}')
	return true
}

// opaque reads the value of an Any of an unknown type, to which out ends with the byte of its length. The document has the
// form of an Any of a BytesValue, so the plan of BytesValue reads it and appends tag, length and content. What the Any is
// to hold is the content alone, which is moved down over tag and length.
func (r *reader) opaque(pos, depth int) int {
	start := len(r.out)
	bytesPlan := r.planner.of((&wrapperspb.BytesValue{}).ProtoReflect().Descriptor()).prepared()
	if pos = r.packedValue(bytesPlan, pos, depth); pos < 0 {
		return refused
	}
	if len(r.out) == start {
		return pos
	}
	_, typ, tag := protowire.ConsumeTag(r.out[start:])
	if tag < 0 || typ != protowire.BytesType {
		return refused
	}
	held, n := protowire.ConsumeBytes(r.out[start+tag:])
	if n < 0 || start+tag+n != len(r.out) {
		return refused
	}
	r.out = append(r.out[:start], held...)
	return pos
}

// unknownTypeText tells a caller what can be sent in an Any of an unknown type.
func unknownTypeText(url string) string {
	return fmt.Sprintf(`unknown type %q: send {"@type": its URL, "value": its encoding in base64}, and no other members`, clipURL(url))
}

// clipURL bounds what is repeated of a type's URL.
func clipURL(url string) string {
	const most = 200
	if len(url) <= most {
		return url
	}
	return url[:most] + " ..."
}

// Tags of the well-known types, whose field numbers formOf has checked.
const (
	tagVarint1 = 1<<3 | byte(protowire.VarintType)
	tagVarint2 = 2<<3 | byte(protowire.VarintType)
	tagVarint4 = 4<<3 | byte(protowire.VarintType)
	tagFixed2  = 2<<3 | byte(protowire.Fixed64Type)
	tagBytes1  = 1<<3 | byte(protowire.BytesType)
	tagBytes2  = 2<<3 | byte(protowire.BytesType)
	tagBytes3  = 3<<3 | byte(protowire.BytesType)
	tagBytes5  = 5<<3 | byte(protowire.BytesType)
	tagBytes6  = 6<<3 | byte(protowire.BytesType)
)

// Bounds of google.protobuf.Timestamp (years 1 to 9999) and Duration (10,000 years), see their .proto files.
const (
	minTimestamp = -62135596800
	maxTimestamp = 253402300799
	maxDuration  = 315576000000
	maxNanos     = 999999999
)

// wellKnown appends the content of a message that has its own JSON form.
func (r *reader) wellKnown(p *plan, pos, depth int) int {
	switch p.form {
	case formTimestamp:
		return r.timestamp(pos)
	case formDuration:
		return r.duration(pos)
	case formFieldMask:
		return r.fieldMask(pos)
	case formStruct:
		return r.mapping(&p.fields[0], pos, depth)
	case formList:
		return r.list(&p.fields[0], pos, depth)
	case formValue:
		return r.anyValue(p, pos, depth)
	case formWrapper:
		return r.scalar(p.scalar, pos, p.scalar.tag, false)
	case formEmpty:
		pos, done := r.open(pos, depth, '{', '}')
		if !done {
			return refused
		}
		return pos
	case formAny:
		return r.packed(pos, depth)
	default:
		return refused
	}
}

// anyValue appends the content of a google.protobuf.Value.
func (r *reader) anyValue(p *plan, pos, depth int) int {
	if pos >= len(r.doc) {
		return refused
	}
	switch r.doc[pos] {
	case 'n':
		r.out = append(r.out, tagVarint1, 0)
		return r.word(pos, "null")
	case 't':
		r.out = append(r.out, tagVarint4, 1)
		return r.word(pos, "true")
	case 'f':
		r.out = append(r.out, tagVarint4, 0)
		return r.word(pos, "false")
	case '"':
		text, pos := r.text(pos)
		if pos < 0 {
			return refused
		}
		r.out = append(r.out, tagBytes3)
		r.length(len(text))
		r.out = append(r.out, text...)
		return pos
	case '{':
		return r.messageField(&p.fields[4], pos, depth)
	case '[':
		return r.messageField(&p.fields[5], pos, depth)
	default:
		return r.floating(protoreflect.DoubleKind, pos, []byte{tagFixed2}, true)
	}
}

func (r *reader) timestamp(pos int) int {
	text, pos := r.text(pos)
	if pos < 0 {
		return refused
	}
	seconds, nanos, ok := parseTimestamp(text)
	if !ok || seconds < minTimestamp || seconds > maxTimestamp {
		return refused
	}
	r.moment(seconds, nanos)
	return pos
}

// moment appends the fields that Timestamp and Duration share.
func (r *reader) moment(seconds int64, nanos int32) {
	if seconds != 0 {
		r.out = protowire.AppendVarint(append(r.out, tagVarint1), uint64(seconds))
	}
	if nanos != 0 {
		r.out = protowire.AppendVarint(append(r.out, tagVarint2), uint64(int64(nanos)))
	}
}

// parseTimestamp reads the plain form of RFC 3339 itself, and leaves what is unusual to package time, as protojson does.
func parseTimestamp(text []byte) (seconds int64, nanos int32, ok bool) {
	if seconds, nanos, ok = plainTimestamp(text); ok {
		return seconds, nanos, true
	}
	t, err := time.Parse(time.RFC3339Nano, string(text))
	if err != nil {
		return 0, 0, false
	}
	// More than nine digits of a second are refused, where they stand before the zone.
	point, zone := bytes.LastIndexByte(text, '.'), bytes.LastIndexAny(text, "Z-+")
	if point >= 0 && zone >= point && zone-point > len(".999999999") {
		return 0, 0, false
	}
	return t.Unix(), int32(t.Nanosecond()), true
}

// plainTimestamp reads 2006-01-02T15:04:05, up to nine digits of a second, and Z or an offset.
func plainTimestamp(text []byte) (seconds int64, nanos int32, ok bool) {
	if len(text) < len("2006-01-02T15:04:05Z") || text[4] != '-' || text[7] != '-' || text[10] != 'T' || text[13] != ':' || text[16] != ':' {
		return 0, 0, false
	}
	century, year, month, day := twoDigits(text, 0), twoDigits(text, 2), twoDigits(text, 5), twoDigits(text, 8)
	hour, minute, second := twoDigits(text, 11), twoDigits(text, 14), twoDigits(text, 17)
	if century > 99 || year > 99 || month < 1 || month > 12 || day < 1 || day > 28 && day > daysOf(century*100+year, month) {
		return 0, 0, false
	}
	if hour > 23 || minute > 59 || second > 59 {
		return 0, 0, false
	}
	at := 19
	if text[at] == '.' {
		at++
		from := at
		for ; at < len(text) && text[at]-'0' <= 9 && at-from < 9; at++ {
			nanos = nanos*10 + int32(text[at]-'0')
		}
		if at == from || at == len(text) {
			return 0, 0, false
		}
		for n := at - from; n < 9; n++ {
			nanos *= 10
		}
	}
	seconds = daysBefore(century*100+year, month, day)*86400 + int64(hour*3600+minute*60+second)
	offset, ok := parseZone(text[at:])
	return seconds - offset, nanos, ok
}

// parseZone reads Z or an offset, in seconds to the east.
func parseZone(text []byte) (int64, bool) {
	switch {
	case len(text) == 1 && text[0] == 'Z':
		return 0, true
	case len(text) == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':':
		hours, minutes := twoDigits(text, 1), twoDigits(text, 4)
		if hours > 23 || minutes > 59 {
			return 0, false
		}
		offset := int64(hours*3600 + minutes*60)
		if text[0] == '-' {
			offset = -offset
		}
		return offset, true
	default:
		return 0, false
	}
}

// twoDigits reads two digits; what is none gives a number above all that are.
func twoDigits(text []byte, at int) int {
	a, b := text[at]-'0', text[at+1]-'0'
	if a > 9 || b > 9 {
		return 1000
	}
	return int(a)*10 + int(b)
}

func isLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysOf(year, month int) int {
	switch month {
	case 2:
		if isLeap(year) {
			return 29
		}
		return 28
	case 4, 6, 9, 11:
		return 30
	default:
		return 31
	}
}

// daysBefore counts the days from 1970-01-01. Years begin in March here, so that the leap day is the last of one.
func daysBefore(year, month, day int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	era := year + 400 // years are not negative: 0000-01-01 is the first
	days := 365*era + era/4 - era/100 + era/400 + (153*(month-3)+2)/5 + day - 1
	const toEpoch = 719468 + 146097 // from 0000-03-01, and the 400 years that were added
	return int64(days) - toEpoch
}

func (r *reader) duration(pos int) int {
	text, pos := r.text(pos)
	if pos < 0 {
		return refused
	}
	seconds, nanos, ok := parseDuration(text)
	if !ok || seconds < -maxDuration || seconds > maxDuration {
		return refused
	}
	r.moment(seconds, nanos)
	return pos
}

// parseDuration reads seconds with the suffix s. The sign may be a plus, and either side of the point may be missing, but
// there is no more than one leading zero.
func parseDuration(text []byte) (seconds int64, nanos int32, ok bool) {
	if len(text) < 2 || text[len(text)-1] != 's' {
		return 0, 0, false
	}
	text = text[:len(text)-1]
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	if len(text) == 0 {
		return 0, 0, false
	}
	n := 0
	for n < len(text) && text[n]-'0' <= 9 {
		n++
	}
	if n > 1 && text[0] == '0' || n == 0 && text[0] != '.' {
		return 0, 0, false
	}
	if n > 0 {
		var err error
		if seconds, err = strconv.ParseInt(string(text[:n]), 10, 64); err != nil {
			return 0, 0, false
		}
	}
	if text = text[n:]; len(text) > 0 {
		if nanos, ok = parseNanos(text); !ok {
			return 0, 0, false
		}
	}
	if negative {
		return -seconds, -nanos, true
	}
	return seconds, nanos, true
}

// parseNanos reads a point and up to nine digits.
func parseNanos(text []byte) (int32, bool) {
	digits := text[1:]
	if text[0] != '.' || len(digits) > 9 {
		return 0, false
	}
	nanos := int32(0)
	for i := range 9 {
		nanos *= 10
		if i < len(digits) {
			if digits[i]-'0' > 9 {
				return 0, false
			}
			nanos += int32(digits[i] - '0')
		}
	}
	return nanos, true
}

// fieldMask appends the paths of a mask, back in snake_case.
func (r *reader) fieldMask(pos int) int {
	text, pos := r.text(pos)
	if pos < 0 {
		return refused
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return pos
	}
	for more := true; more; {
		var path []byte
		path, text, more = bytes.Cut(text, []byte{','})
		r.out = append(r.out, tagBytes1)
		start := len(r.out)
		r.out = append(r.out, 0)
		for _, c := range path {
			if c == '_' {
				return refused
			}
			if 'A' <= c && c <= 'Z' {
				r.out = append(r.out, '_', c|0x20)
				continue
			}
			r.out = append(r.out, c)
		}
		if !isFullName(r.out[start+1:]) {
			return refused
		}
		r.close(start)
	}
	return pos
}

// isFullName holds for identifiers with points between them.
func isFullName(name []byte) bool {
	first := true
	for _, c := range name {
		switch {
		case c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z':
			first = false
		case first:
			return false
		case c == '.':
			first = true
		case c < '0' || c > '9':
			return false
		}
	}
	return !first
}
