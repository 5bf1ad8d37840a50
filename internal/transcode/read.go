// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"hash/maphash"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// reader turns JSON into wire bytes in one pass. It knows that a document is wrong, and not why: whatever it refuses is
// left to the general engine to judge and to explain, so a refusal costs time and never changes an answer. What it takes
// has to be right to the byte.
//
// Methods take the position of the value in the document and return the position behind it, or refused. The position never
// moves back, but for the type of an Any, which is looked for first (read_any.go). After a refusal the state is of no use:
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

// next stands behind a value. It returns the position of what follows the comma, or done and the position behind the
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
// field but not that of the oneof, since it stands for absence. Inside an Any (r.inAny) neither REQUIRED nor OUTPUT_ONLY
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

// absence reads the null that stands for a field that is not there.
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

// field finds the field of the member whose name stands at pos, and the position of its value. Callers mostly keep to
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

// close writes the length of what stands behind start, where one byte was kept for it. A length of more bytes moves the
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
