// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// writer turns wire bytes into JSON. JSON has the order of the descriptor and the wire any order, so there are two ways. In
// order: fields are written as they are read, as long as they come in the order of the descriptor, which most encoders
// keep. Located: a first pass notes where each field is, a second one writes. members chooses.
//
// Like reader, it refuses without a reason, and the general engine decides. It also refuses what is right and rare: a
// field that is in several places, a map with a key twice, an extension that only the resolver knows.
//
// Every member and element is written with a comma behind it, and the closing bracket replaces the last comma. A writer
// comes from a pool and belongs to one call; spans and entries are stacks that all levels share.
type writer struct {
	out     []byte
	spans   []span
	entries []mapEntry

	planner  *planner
	resolver Resolver
	inAny    int
	unknown  []string // types that are not known, as far as they are noted

	// nearest is set to write values that have no standard form in the nearest one, and odd are those.
	nearest bool
	odd     []oddValue
	more    int // odd values that are not noted
}

// span is where a field is in the bytes of its message: the first value without its tag, and the end of the last. The
// values of a list or map follow one another without another field between them, or the message is refused. Positions are
// 32 bits wide, which write checks once.
type span struct {
	start, end int32 // end is 0 where the field is not there
	typ        protowire.Type
}

//nolint:gochecknoglobals // a pool is only useful if it is shared
var writers = sync.Pool{New: func() any { return &writer{} }}

// write appends the JSON of wire bytes to dst, or returns false with dst as it came. noted is what there is to say
// about it.
func (m *Message) write(pool BufferPool, dst, wire []byte) (out []byte, noted Noted, ok bool) {
	return m.writeAs(pool, dst, wire, false)
}

// writeAs is write, with the nearest form of what has no standard one where nearest is set.
func (m *Message) writeAs(pool BufferPool, dst, wire []byte, nearest bool) (out []byte, noted Noted, ok bool) {
	if len(wire) > math.MaxInt32 {
		return dst, Noted{}, false
	}
	w := writers.Get().(*writer)
	w.nearest = nearest
	// What the message takes as JSON is not known, so it is written apart and copied once.
	own := w.out[:0]
	var pooled *[]byte
	w.out, w.spans, w.entries = own, w.spans[:0], w.entries[:0]
	if len(wire) > maxKept/jsonGrowth {
		pooled = acquireBuffer(2 * len(wire))
		defer releaseBuffer(pooled)
		w.out = *pooled
	}
	w.planner, w.resolver, w.inAny = m.planner, m.resolver, 0
	ok = w.message(m.prepared(), wire, 1, "")
	if ok {
		noted = Noted{Unknown: w.unknown}
		if len(w.odd) > 0 {
			noted.Odd, noted.More = located(w.odd, w.out), w.more
		}
		dst = append(extended(dst, len(w.out), pool), w.out...)
	}
	if pooled != nil {
		*pooled, w.out = w.out, own
	}
	w.planner, w.resolver, w.unknown = nil, nil, nil
	w.odd, w.more = nil, 0
	if cap(w.out) > maxKept {
		w.out = nil
	}
	if cap(w.spans) > maxKept/16 {
		w.spans = nil
	}
	if cap(w.entries) > maxKept/32 {
		w.entries = nil
	}
	writers.Put(w)
	return dst, noted, ok
}

// message writes a message. depth counts those around it and itself, with the entries of maps, as the wire decoder does.
// url is the type of the Any that holds the message, or "".
func (w *writer) message(p *plan, b []byte, depth int, url string) bool {
	if depth > maxWireDepth {
		return false
	}
	switch p.form {
	case formFields, formEmpty:
		return w.members(p, b, depth, url)
	case formNone:
		return false
	default:
		return w.wellKnown(p, b, depth)
	}
}

// members writes a message with its own members. Most encoders write fields in the order in which they are declared;
// for the others the fields are located first.
func (w *writer) members(p *plan, b []byte, depth int, url string) bool {
	start := len(w.out)
	w.out = append(w.out, '{')
	if url != "" {
		w.out = append(jsontext.AppendString(append(w.out, `"`+typeMember+`":`...), url), ',')
	}
	var ok bool
	if p.bits <= 64 && (w.inAny == 0 || !p.secrets) && !w.nearest && !p.disorder.Load() {
		first := len(w.out)
		var sorted bool
		if ok, sorted = w.inOrder(p, b, depth); !sorted {
			// A type that came out of order once is located from now on, so that this work is not done twice for long.
			p.disorder.Store(true)
			w.out = w.out[:first]
			ok = w.located(p, b, depth)
		}
	} else {
		ok = w.located(p, b, depth)
	}
	if last := len(w.out) - 1; last > start {
		w.out[last] = '}'
	} else {
		w.out = append(w.out, '}')
	}
	return ok
}

// inOrder writes the members while it reads the fields. It stops where a field comes behind one that is declared later, with
// sorted false, or where it refuses. A field that comes a second time is not sorted either, so repetitions reach locate,
// which knows them from mere disorder. The mask of required fields is enough here, since plans of more than 64 bits are
// always located.
func (w *writer) inOrder(p *plan, b []byte, depth int) (ok, sorted bool) {
	seen := uint64(0) // bits of fields and oneofs
	next := 0
	for pos := 0; pos < len(b); {
		num, typ, at := protowire.Number(b[pos]>>3), protowire.Type(b[pos]&7), pos+1
		if b[pos] >= 0x80 || num == 0 {
			if num, typ, at = tagAt(b, pos); at < 0 {
				return false, true
			}
		}
		s := p.byNumber(num)
		if s == nil || typ != s.wire {
			if s, ok = w.fieldOf(p, num, typ); !ok {
				return false, true
			}
		}
		if s == nil {
			if pos = valueEnd(b, at, num, typ); pos < 0 {
				return false, true
			}
			continue
		}
		i := int(s.index)
		if i < next {
			return false, false
		}
		if s.oneof >= 0 {
			if seen&(1<<s.oneof) != 0 {
				return false, true
			}
			seen |= 1 << s.oneof
		}
		seen |= 1 << i
		if from, to := p.absentAt[next], p.absentAt[i]; from < to {
			w.out = append(w.out, p.absents[from:to]...)
		}
		if pos = w.member(s, b, at, typ, depth); pos < 0 {
			return false, true
		}
		next = i + 1
	}
	w.out = append(w.out, p.absents[p.absentAt[next]:]...)
	return w.inAny > 0 || seen&p.neededMask == p.neededMask, true
}

// located writes the members after it has seen where each field is. After a refusal spans keeps its length: the whole
// answer is refused then, and the next one begins with an empty stack.
func (w *writer) located(p *plan, b []byte, depth int) bool {
	base := len(w.spans)
	for range p.bits {
		w.spans = append(w.spans, span{})
	}
	if !w.locate(p, b, w.spans[base:]) {
		return false
	}
	if w.inAny == 0 {
		for _, i := range p.needed {
			if w.spans[base+i].end == 0 {
				return false
			}
		}
	}
	for i := range p.fields {
		s := &p.fields[i]
		at := w.spans[base+i]
		if at.end == 0 {
			if s.absent != "" && (!s.secret || w.inAny > 0) {
				w.out = append(append(w.out, s.absent...), ',')
			}
			continue
		}
		if w.member(s, b[:at.end], int(at.start), at.typ, depth) < 0 {
			return false
		}
	}
	w.spans = w.spans[:base]
	return true
}

// member writes a field whose first value is at pos, with its name and a comma behind it, and returns the position
// behind the last value that follows it.
func (w *writer) member(s *slot, b []byte, pos int, typ protowire.Type, depth int) int {
	before := len(w.out)
	w.out = append(w.out, s.head...)
	switch s.shape {
	case shapeOne:
		pos = w.value(s, b, pos, depth)
	case shapeList:
		pos = w.list(s, b, pos, typ, depth)
	default:
		pos = w.mapping(s, b, pos, depth)
	}
	switch {
	case pos < 0:
		return refused
	case s.secret && w.inAny == 0:
		w.out = w.out[:before] // only read to see that it is right
		w.forget(before)
	case s.extended && s.shape == shapeList && w.out[len(w.out)-2] == '[':
		w.out = w.out[:before] // an extension without elements is not there
	default:
		w.out = append(w.out, ',')
	}
	return pos
}

// fieldOf returns the field of a tag, or nil for one that is skipped, and false where only the general engine knows it.
func (w *writer) fieldOf(p *plan, num protowire.Number, typ protowire.Type) (*slot, bool) {
	s := p.byNumber(num)
	if s == nil {
		return nil, !p.open || !w.extends(p, num)
	}
	if typ != s.wire && !(typ == protowire.BytesType && s.packable) {
		return nil, true // with another type it is no field of ours
	}
	return s, true
}

// locate notes where each field is. It refuses a field that occurs once and is there twice, since the wire decoder would
// take the last value or merge two messages, and a list or map that is interrupted by another field. For a oneof, span.end
// is only a mark that one of its members is there.
func (w *writer) locate(p *plan, b []byte, spans []span) bool {
	for pos := 0; pos < len(b); {
		from := pos
		num, typ, pos2 := tagAt(b, pos)
		if pos2 < 0 {
			return false
		}
		pos = pos2
		s, ok := w.fieldOf(p, num, typ)
		if !ok {
			return false
		}
		end := valueEnd(b, pos, num, typ)
		if end < 0 {
			return false
		}
		if s != nil {
			at := &spans[s.index]
			switch {
			case at.end == 0:
				if s.oneof >= 0 {
					if spans[s.oneof].end != 0 {
						return false
					}
					spans[s.oneof].end = 1
				}
				*at = span{int32(pos), int32(end), typ}
			case s.shape == shapeOne || int(at.end) != from:
				return false
			default:
				at.end = int32(end)
			}
		}
		pos = end
	}
	return true
}

// extends says whether the resolver knows an extension that the plan does not.
func (w *writer) extends(p *plan, num protowire.Number) bool {
	if !p.md.ExtensionRanges().Has(num) {
		return false
	}
	_, err := w.resolver.FindExtensionByNumber(p.md.FullName(), num)
	return err != protoregistry.NotFound //nolint:errorlint // the wire decoder compares as well
}

// tagAt reads a tag, and returns the position of the value.
func tagAt(b []byte, pos int) (protowire.Number, protowire.Type, int) {
	if pos < len(b) && b[pos] < 0x80 {
		num := protowire.Number(b[pos] >> 3)
		if num == 0 {
			return 0, 0, refused
		}
		return num, protowire.Type(b[pos] & 7), pos + 1
	}
	v, pos := varintAt(b, pos)
	num := v >> 3
	if pos < 0 || num < uint64(protowire.MinValidNumber) || num > uint64(protowire.MaxValidNumber) {
		return 0, 0, refused
	}
	return protowire.Number(num), protowire.Type(v & 7), pos
}

// varintAt reads a varint, and returns the position behind it.
func varintAt(b []byte, pos int) (uint64, int) {
	if pos < len(b) && b[pos] < 0x80 {
		return uint64(b[pos]), pos + 1
	}
	if pos+1 < len(b) && b[pos+1] < 0x80 {
		return uint64(b[pos]&0x7f) | uint64(b[pos+1])<<7, pos + 2
	}
	if pos >= len(b) {
		return 0, refused
	}
	v, n := protowire.ConsumeVarint(b[pos:])
	if n < 0 {
		return 0, refused
	}
	return v, pos + n
}

// valueEnd returns the position behind a value.
func valueEnd(b []byte, pos int, num protowire.Number, typ protowire.Type) int {
	switch typ {
	case protowire.BytesType:
		n, pos := varintAt(b, pos)
		if pos < 0 || n > uint64(len(b)-pos) {
			return refused
		}
		return pos + int(n)
	case protowire.VarintType:
		_, pos = varintAt(b, pos)
		return pos
	case protowire.Fixed32Type:
		if pos += 4; pos > len(b) {
			return refused
		}
		return pos
	case protowire.Fixed64Type:
		if pos += 8; pos > len(b) {
			return refused
		}
		return pos
	default:
		n := protowire.ConsumeFieldValue(num, typ, b[pos:])
		if n < 0 {
			return refused
		}
		return pos + n
	}
}

// value writes one value, and returns the position behind it.
func (w *writer) value(s *slot, b []byte, pos, depth int) int {
	if s.below == nil {
		return w.scalar(s, b, pos)
	}
	var content []byte
	if s.kind == protoreflect.GroupKind {
		group, n := protowire.ConsumeGroup(s.number, b[pos:])
		if n < 0 {
			return refused
		}
		content, pos = group, pos+n
	} else {
		n, from := varintAt(b, pos)
		if from < 0 || n > uint64(len(b)-from) {
			return refused
		}
		pos = from + int(n)
		content = b[from:pos]
	}
	if !w.message(s.below.prepared(), content, depth+1, "") {
		return refused
	}
	return pos
}

// list writes the values of a list, packed or not, as long as they follow one another.
func (w *writer) list(s *slot, b []byte, pos int, typ protowire.Type, depth int) int {
	w.out = append(w.out, '[')
	start := len(w.out)
	for more := true; more; {
		if typ == s.wire {
			pos = w.value(s, b, pos, depth)
			w.out = append(w.out, ',')
		} else {
			pos = w.pack(s, b, pos)
		}
		if pos < 0 {
			return refused
		}
		pos, typ, more = following(s, b, pos)
	}
	if last := len(w.out) - 1; last >= start {
		w.out[last] = ']'
	} else {
		w.out = append(w.out, ']')
	}
	return pos
}

// pack writes the values of a packed list, each with a comma behind it.
func (w *writer) pack(s *slot, b []byte, pos int) int {
	n, pos := varintAt(b, pos)
	if pos < 0 || n > uint64(len(b)-pos) {
		return refused
	}
	end := pos + int(n)
	for b = b[:end]; pos < end; {
		if pos = w.scalar(s, b, pos); pos < 0 {
			return refused
		}
		w.out = append(w.out, ',')
	}
	return end
}

// following says whether another value of the field follows, and where it is; else pos is as it came.
func following(s *slot, b []byte, pos int) (at int, typ protowire.Type, more bool) {
	if pos >= len(b) {
		return pos, 0, false
	}
	num, typ, at := tagAt(b, pos)
	if at < 0 || num != s.number || typ != s.wire && !(typ == protowire.BytesType && s.packable) {
		return pos, 0, false
	}
	return at, typ, true
}

// mapEntry is one entry of a map: a key in the order of its kind, and where the value is. The sign bit of a signed key is
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

// orderlyEntry returns the key of an entry that ends with b, and where its value is.
func orderlyEntry(s *slot, b []byte, pos int) (key []byte, value int, ok bool) {
	if pos >= len(b) || b[pos] != 1<<3|byte(protowire.BytesType) {
		return nil, 0, false
	}
	size, at := varintAt(b, pos+1)
	if at < 0 || size >= uint64(len(b)-at) { // the tag of the value is behind it
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

// scalar writes the value at pos, which is no message.
func (w *writer) scalar(s *slot, b []byte, pos int) int {
	switch s.wire {
	case protowire.BytesType:
		n, from := varintAt(b, pos)
		if from < 0 || n > uint64(len(b)-from) {
			return refused
		}
		pos = from + int(n)
		if s.kind == protoreflect.BytesKind {
			w.out = append(w.out, '"')
			w.out = append(base64.StdEncoding.AppendEncode(w.out, b[from:pos]), '"')
			return pos
		}
		if !w.text(b[from:pos]) {
			return refused
		}
		return pos
	case protowire.Fixed32Type:
		if pos+4 > len(b) {
			return refused
		}
		w.bits(s, uint64(binary.LittleEndian.Uint32(b[pos:])))
		return pos + 4
	case protowire.Fixed64Type:
		if pos+8 > len(b) {
			return refused
		}
		w.bits(s, binary.LittleEndian.Uint64(b[pos:]))
		return pos + 8
	default:
		v, pos := varintAt(b, pos)
		if pos >= 0 {
			w.bits(s, v)
		}
		return pos
	}
}

// bits writes a value from what is on the wire. Sizes are cut off as the wire decoder does.
func (w *writer) bits(s *slot, v uint64) {
	switch s.kind {
	case protoreflect.BoolKind:
		w.out = strconv.AppendBool(w.out, v != 0)
	case protoreflect.EnumKind:
		w.out = s.enum.append(w.out, int32(v))
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind:
		w.out = strconv.AppendInt(w.out, int64(int32(v)), 10)
	case protoreflect.Sint32Kind:
		w.out = strconv.AppendInt(w.out, int64(int32(protowire.DecodeZigZag(v&math.MaxUint32))), 10)
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		w.out = strconv.AppendUint(w.out, uint64(uint32(v)), 10)
	case protoreflect.Int64Kind, protoreflect.Sfixed64Kind:
		w.out = append(strconv.AppendInt(append(w.out, '"'), int64(v), 10), '"')
	case protoreflect.Sint64Kind:
		w.out = append(strconv.AppendInt(append(w.out, '"'), protowire.DecodeZigZag(v), 10), '"')
	case protoreflect.FloatKind:
		w.out = appendFloat(w.out, float64(math.Float32frombits(uint32(v))), 32)
	case protoreflect.DoubleKind:
		w.out = appendFloat(w.out, math.Float64frombits(v), 64)
	default:
		w.out = append(strconv.AppendUint(append(w.out, '"'), v, 10), '"')
	}
}

// append writes the name of a number, or the number where it has none.
func (e *enumPlan) append(dst []byte, n int32) []byte {
	if e.null {
		return append(dst, "null"...)
	}
	if uint32(n) < uint32(len(e.dense)) {
		return append(dst, e.dense[n]...)
	}
	if text, ok := e.text[n]; ok {
		return append(dst, text...)
	}
	return strconv.AppendInt(dst, int64(n), 10)
}

// appendFloat writes a float as encoding/json does, and the three that are no numbers as strings.
func appendFloat(dst []byte, f float64, size int) []byte {
	exact := float64(1 << 53)
	if size == 32 {
		exact = 1 << 24
	}
	abs := math.Abs(f)
	if abs < exact && f == math.Trunc(f) && (f != 0 || !math.Signbit(f)) {
		return strconv.AppendInt(dst, int64(f), 10)
	}
	if size == 64 && abs < 1e9 && abs != 0 {
		for _, places := range [...]int{3, 6} {
			if n := math.Round(abs * powersOfTen(places)); n > 0 && n/powersOfTen(places) == abs {
				return appendDecimal(dst, f < 0, uint64(n), places)
			}
		}
	}
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	format := byte('f')
	if abs != 0 && (size == 64 && (abs < 1e-6 || abs >= 1e21) || size == 32 && (float32(abs) < 1e-6 || float32(abs) >= 1e21)) {
		format = 'e'
	}
	dst = strconv.AppendFloat(dst, f, format, -1, size)
	if n := len(dst); format == 'e' && n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst = append(dst[:n-2], dst[n-1]) // e-07 is written as e-7
	}
	return dst
}

// appendDecimal writes n / 10^places without zeros at its end. No two numbers of up to fifteen digits are the same
// double, so this is the shortest form of the one whose nearest number it is.
func appendDecimal(dst []byte, negative bool, n uint64, places int) []byte {
	if negative {
		dst = append(dst, '-')
	}
	unit := uint64(powersOfTen(places))
	dst = append(strconv.AppendUint(dst, n/unit, 10), '.')
	for rest := n % unit; rest > 0; rest %= unit {
		unit /= 10
		dst = append(dst, byte('0'+rest/unit))
	}
	return dst
}

// text writes a string, or returns false where it is not UTF-8.
func (w *writer) text(b []byte) (valid bool) {
	before := len(w.out)
	w.out, valid = jsontext.AppendValid(w.out, b)
	return valid || w.mended(b, before)
}

// wellKnown writes a message that has its own JSON form.
func (w *writer) wellKnown(p *plan, b []byte, depth int) bool {
	if p.form == formTimestamp || p.form == formDuration {
		if seconds, nanos, ok := briefMoment(b); ok {
			if p.form == formTimestamp {
				return w.timestamp(seconds, nanos)
			}
			return w.duration(seconds, nanos)
		}
	}
	base := len(w.spans)
	for range p.bits {
		w.spans = append(w.spans, span{})
	}
	if !w.locate(p, b, w.spans[base:]) {
		return false
	}
	var at [6]span // of the fields, of which no well-known type has more
	copy(at[:], w.spans[base:])
	w.spans = w.spans[:base]
	switch p.form {
	case formTimestamp:
		return w.timestamp(moment(b, at))
	case formDuration:
		return w.duration(moment(b, at))
	case formFieldMask:
		return w.fieldMask(b, at[0])
	case formStruct:
		if at[0].end == 0 {
			w.out = append(w.out, '{', '}')
			return true
		}
		return w.mapping(&p.fields[0], b[:at[0].end], int(at[0].start), depth) >= 0
	case formList:
		if at[0].end == 0 {
			w.out = append(w.out, '[', ']')
			return true
		}
		return w.list(&p.fields[0], b[:at[0].end], int(at[0].start), at[0].typ, depth) >= 0
	case formValue:
		for i := range p.fields {
			if at[i].end != 0 {
				return w.anyValue(&p.fields[i], b, at[i], depth)
			}
		}
		return w.word("null", "a Value that has no kind, shown as null")
	case formWrapper:
		if at[0].end == 0 {
			w.out = append(w.out, p.scalar.blank...)
			return true
		}
		return w.scalar(p.scalar, b, int(at[0].start)) >= 0
	case formAny:
		return w.unpacked(b, at, depth)
	default:
		return false
	}
}

// anyValue writes what a google.protobuf.Value holds. JSON has no number that is infinite or not a number.
func (w *writer) anyValue(s *slot, b []byte, at span, depth int) bool {
	if s.wire == protowire.Fixed64Type {
		bits, _ := protowire.ConsumeFixed64(b[at.start:])
		if f := math.Float64frombits(bits); math.IsNaN(f) || math.IsInf(f, 0) {
			return w.word(string(appendFloat(nil, f, 64)), "a number that JSON does not have, shown as a word")
		}
	}
	return w.value(s, b, int(at.start), depth) >= 0
}

// briefMoment reads a Timestamp or Duration in the form in which encoders write it: seconds and nanos, in this order and
// nothing else.
func briefMoment(b []byte) (seconds, nanos int64, ok bool) {
	pos := 0
	if len(b) > 0 && b[0] == 1<<3|byte(protowire.VarintType) {
		v, end := varintAt(b, 1)
		if end < 0 {
			return 0, 0, false
		}
		seconds, pos = int64(v), end
	}
	if pos < len(b) && b[pos] == 2<<3|byte(protowire.VarintType) {
		v, end := varintAt(b, pos+1)
		if end < 0 {
			return 0, 0, false
		}
		nanos, pos = int64(int32(v)), end
	}
	return seconds, nanos, pos == len(b)
}

// moment reads the fields that Timestamp and Duration share.
func moment(b []byte, at [6]span) (seconds, nanos int64) {
	if at[0].end != 0 {
		v, _ := varintAt(b, int(at[0].start))
		seconds = int64(v)
	}
	if at[1].end != 0 {
		v, _ := varintAt(b, int(at[1].start))
		nanos = int64(int32(v))
	}
	return seconds, nanos
}

func (w *writer) timestamp(seconds, nanos int64) bool {
	if seconds < minTimestamp || seconds > maxTimestamp || nanos < 0 || nanos > maxNanos {
		return w.raw(seconds, nanos, "a Timestamp outside of the years 0001 to 9999 or with invalid nanos, shown as its fields, in seconds since 1970")
	}
	seconds -= minTimestamp // since the start of year 1
	days, second := seconds/86400, int(seconds%86400)
	year, month, day := dateOf(days)
	hour, minute := second/3600, second/60%60
	second %= 60
	w.out = append(w.out, '"',
		byte('0'+year/1000), byte('0'+year/100%10), byte('0'+year/10%10), byte('0'+year%10), '-',
		byte('0'+month/10), byte('0'+month%10), '-', byte('0'+day/10), byte('0'+day%10), 'T',
		byte('0'+hour/10), byte('0'+hour%10), ':', byte('0'+minute/10), byte('0'+minute%10), ':', byte('0'+second/10), byte('0'+second%10))
	w.nanos(nanos)
	w.out = append(w.out, 'Z', '"')
	return true
}

// nanos writes a fraction of three, six or nine digits, or nothing.
func (w *writer) nanos(n int64) {
	if n == 0 {
		return
	}
	digits := 9
	for n%1000 == 0 {
		n /= 1000
		digits -= 3
	}
	w.out = append(w.out, '.')
	start := len(w.out)
	for range digits {
		w.out = append(w.out, '0')
	}
	for i := start + digits - 1; n > 0; i-- {
		w.out[i] = byte('0' + n%10)
		n /= 10
	}
}

// dateOf turns days since 0001-01-01 into a date. Years begin in March while it counts, so that the leap day is the last.
func dateOf(days int64) (year, month, day int) {
	const fromMarch = 306 // days from 0000-03-01 to 0001-01-01
	d := int(days) + fromMarch
	era := d / 146097
	d %= 146097
	years := (d - d/1460 + d/36524 - d/146096) / 365
	d -= 365*years + years/4 - years/100
	m := (5*d + 2) / 153
	day = d - (153*m+2)/5 + 1
	year = era*400 + years
	if month = m + 3; month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func (w *writer) duration(seconds, nanos int64) bool {
	isOdd := seconds < -maxDuration || seconds > maxDuration || nanos < -maxNanos || nanos > maxNanos
	if isOdd || seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0 {
		return w.raw(seconds, nanos, "a Duration of more than 10,000 years or with invalid nanos, shown as its fields")
	}
	w.out = append(w.out, '"')
	if seconds < 0 || nanos < 0 {
		w.out = append(w.out, '-')
		seconds, nanos = -seconds, -nanos
	}
	w.out = strconv.AppendInt(w.out, seconds, 10)
	w.nanos(nanos)
	w.out = append(w.out, 's', '"')
	return true
}

// fieldMask writes the paths in lowerCamelCase, where that can be undone.
func (w *writer) fieldMask(b []byte, at span) bool {
	w.out = append(w.out, '"')
	if at.end == 0 {
		w.out = append(w.out, '"')
		return true
	}
	start := len(w.out) - 1
	for pos := int(at.start); ; {
		n, from := varintAt(b, pos)
		if from < 0 || n > uint64(len(b)-from) {
			return false
		}
		pos = from + int(n)
		before := len(w.out)
		if !isFullName(b[from:pos]) || !w.camelCase(b[from:pos]) {
			w.out = w.out[:before]
			if !w.pathAsItIs(b[from:pos], start) {
				return false
			}
		}
		if pos >= int(at.end) {
			w.out = append(w.out, '"')
			return true
		}
		w.out = append(w.out, ',')
		if _, _, pos = tagAt(b, pos); pos < 0 {
			return false
		}
	}
}

// camelCase writes a path. What cannot be read back, such as a capital or an underscore without a small letter behind
// it, is refused.
func (w *writer) camelCase(path []byte) bool {
	for i := 0; i < len(path); i++ {
		c := path[i]
		switch {
		case 'A' <= c && c <= 'Z':
			return false
		case c == '_':
			if i++; i >= len(path) || path[i] < 'a' || path[i] > 'z' {
				return false
			}
			w.out = append(w.out, path[i]-'a'+'A')
		default:
			w.out = append(w.out, c)
		}
	}
	return true
}

// unpacked writes an Any with the fields of its type, or with the form of its type as the member value.
func (w *writer) unpacked(b []byte, at [6]span, depth int) bool {
	url, value := contentOf(b, at[0]), contentOf(b, at[1])
	if len(url) == 0 {
		if len(value) > 0 {
			return w.packedBytes("", value, "an Any that has no type, shown as bytes in base64")
		}
		w.out = append(w.out, '{', '}')
		return true
	}
	if !utf8.Valid(url) {
		return false
	}
	mt, err := w.resolver.FindMessageByURL(string(url))
	if err != nil {
		return w.opaque(string(url), value)
	}
	if w.nearest {
		if value, err = w.reencoded(mt, value); err != nil {
			return w.packedBytes(string(url), contentOf(b, at[1]), "an Any whose bytes are no "+string(mt.Descriptor().FullName())+", shown in base64")
		}
	}
	p := w.planner.of(mt.Descriptor()).prepared()
	w.inAny++
	var ok bool
	if p.form == formFields || p.form == formEmpty {
		ok = w.message(p, value, depth+1, string(url))
	} else {
		w.out = append(jsontext.AppendString(append(w.out, `{"`+typeMember+`":`...), string(url)), `,"value":`...)
		ok = w.message(p, value, depth+1, "")
		w.out = append(w.out, '}')
	}
	w.inAny--
	return ok
}

// contentOf returns the bytes of a string, which is nil where it is not there.
func contentOf(b []byte, at span) []byte {
	if at.end == 0 {
		return nil
	}
	_, from := varintAt(b, int(at.start))
	return b[from:at.end]
}

// ProtoJSON has no form for some values that an answer may hold, and protojson gives up the whole answer for one of them. Here
// the one value is written in the nearest form that output schemas admit, with a note, and the rest as always.

// Noted is what there is to say about JSON that ToJSONNoting wrote. The zero Noted says nothing.
type Noted struct {
	// Unknown are the URLs of Any types that the resolver did not know, without duplicates and at most 16. In the JSON, such
	// values are {"@type", "value"}, with the bytes in base64.
	Unknown []string
	// Odd are the first 16 values that ProtoJSON has no form for, and More is the number of the others.
	Odd  []Odd
	More int
}

// Odd is a value that ProtoJSON has no form for.
type Odd struct {
	// Path is the JSON Pointer of the value.
	Path string
	// What says what the value is and how it is shown.
	What string
}

// oddValue is an Odd whose path is still a position in the output.
type oddValue struct {
	at   int
	what string
}

// note notes a value whose form begins at a position of the output.
func (w *writer) note(at int, what string) {
	if len(w.odd) >= maxNoted {
		w.more++
		return
	}
	w.odd = append(w.odd, oddValue{at, what})
}

// forget drops the notes about what was behind a position of the output, which was cut off there.
func (w *writer) forget(from int) {
	for len(w.odd) > 0 && w.odd[len(w.odd)-1].at >= from {
		w.odd = w.odd[:len(w.odd)-1]
	}
}

// located turns positions into paths.
func located(odd []oddValue, doc []byte) []Odd {
	out := make([]Odd, 0, len(odd))
	for _, o := range odd {
		out = append(out, Odd{Path: schema.PointerAt(doc, o.at), What: o.what})
	}
	return out
}

// appendNearest writes wire bytes that the wire decoder reads and protojson has no form for. The writer of the plan needs every
// field in one place, which an encoder sees to. ok is false where no plan serves.
func (m *Message) appendNearest(dst, wire []byte) (out []byte, noted Noted, ok bool) {
	msg, err := m.decode(wire)
	if err != nil {
		return dst, Noted{}, false
	}
	plain, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(msg)
	if err != nil {
		return dst, Noted{}, false
	}
	return m.writeAs(nil, dst, plain, true)
}

// word writes a literal of JSON for a value without a form.
func (w *writer) word(literal, what string) bool {
	if w.nearest {
		w.note(len(w.out), what)
		w.out = append(w.out, literal...)
	}
	return w.nearest
}

// raw writes the fields of a Timestamp or Duration, as Protobuf's text format does.
func (w *writer) raw(seconds, nanos int64, what string) bool {
	return w.word(`"seconds:`+strconv.FormatInt(seconds, 10)+" nanos:"+strconv.FormatInt(nanos, 10)+`"`, what)
}

// pathAsItIs writes a path of the FieldMask whose form begins at start.
func (w *writer) pathAsItIs(path []byte, start int) bool {
	if !w.nearest {
		return false
	}
	if n := len(w.odd); n == 0 || w.odd[n-1].at != start {
		w.note(start, "a FieldMask with paths that have no lowerCamelCase form, shown as they are")
	}
	quoted := jsontext.AppendString(nil, string(path))
	w.out = append(w.out, quoted[1:len(quoted)-1]...)
	return true
}

// mended writes text that is not UTF-8, in place of what the output has from a position on.
func (w *writer) mended(text []byte, before int) bool {
	w.out = w.out[:before]
	if w.nearest {
		w.note(before, "text that is not UTF-8, shown with U+FFFD in place of the invalid bytes")
		w.out = jsontext.AppendString(w.out, strings.ToValidUTF8(string(text), "\uFFFD"))
	}
	return w.nearest
}

// packedBytes writes an Any as its bytes.
func (w *writer) packedBytes(url string, value []byte, what string) bool {
	if !w.nearest {
		return false
	}
	w.note(len(w.out), what)
	w.out = append(w.out, '{')
	if url != "" {
		w.out = append(jsontext.AppendString(append(w.out, `"`+typeMember+`":`...), url), ',')
	}
	w.out = append(w.out, `"value":"`...)
	w.out = append(base64.StdEncoding.AppendEncode(w.out, value), '"', '}')
	return true
}

// reencoded is the content of an Any with every field in one place.
func (w *writer) reencoded(mt protoreflect.MessageType, value []byte) ([]byte, error) {
	inner := mt.New().Interface()
	read := proto.UnmarshalOptions{AllowPartial: true, Resolver: w.resolver, RecursionLimit: maxWireDepth}
	if err := read.Unmarshal(value, inner); err != nil {
		return nil, err //nolint:wrapcheck // only whether it is there counts
	}
	return proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(inner)
}
