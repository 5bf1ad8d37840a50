// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"math"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// writer turns wire bytes into JSON. JSON has the order of the descriptor and the wire any order, so there are two ways. In
// order: fields are written as they are read, as long as they come in the order of the descriptor, which most encoders
// keep. Located: a first pass notes where each field stands, a second one writes. members chooses.
//
// Like reader, it refuses without a reason, and the general engine decides. It also refuses what is right and rare: a
// field that stands in several places, a map with a key twice, an extension that only the resolver knows.
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

	// nearest is set to write values that have no standard form in the nearest one (nearest.go), and odd are those.
	nearest bool
	odd     []oddValue
	more    int // odd values that are not noted
}

// span is where a field stands in the bytes of its message: the first value without its tag, and the end of the last. The
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

// members writes a message with members of its own. Most encoders write fields in the order in which they are declared;
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

// located writes the members after it has seen where each field stands. After a refusal spans keeps its length: the whole
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

// member writes a field whose first value stands at pos, with its name and a comma behind it, and returns the position
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

// locate notes where each field stands. It refuses a field that occurs once and is there twice, since the wire decoder would
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

// following says whether another value of the field follows, and where it stands; else pos is as it came.
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
