// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"context"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// keeps says that wire bytes, which the plan has read or written, keep the rules of their message, as far as the plan can
// see. False means that protovalidate has to be asked: a rule may be broken, or be of a kind that is not compiled here.
//
// So true is a promise and false is none. protovalidate needs a decoded message and words every violation; most calls
// break no rule, and for those this pass replaces both. All code below follows one line: where it is not certain, it
// returns false.
func (m *Message) keeps(ctx context.Context, wire []byte, u use) bool {
	c := checker{ctx: ctx, use: u}
	return c.message(m.prepared(), wire)
}

// checker walks over wire bytes that are known to be right: no field that is not repeated stands there twice. That holds
// because keeps only runs on what the reader wrote or the writer accepted, and both refuse repetitions. Without it, a
// later value could replace one that was checked.
type checker struct {
	ctx    context.Context //nolint:containedctx // a checker lives as long as one check
	budget *schema.Budget  // made for the first long text with a pattern
	use    use
}

// passedOver holds for the fields that the direction does not have.
func (c *checker) passedOver(s *slot) bool {
	return c.use == forInput && s.hidden || c.use == forOutput && s.secret
}

// message checks one message and all below it. It keeps what it has seen in one word and eight counters on the stack, so
// it allocates nothing; a message with more bits or counters is opaque. Depth needs no bound here: reader and writer have
// one.
func (c *checker) message(p *plan, b []byte) bool {
	rules := p.ruled()
	if rules.none {
		return true
	}
	if rules.opaque || p.bits > 64 {
		return false
	}
	var seen uint64
	var counts [maxCounted]uint64
	for pos := 0; pos < len(b); {
		num, typ, at := protowire.Number(b[pos]>>3), protowire.Type(b[pos]&7), pos+1
		if b[pos] >= 0x80 || num == 0 {
			if num, typ, at = tagAt(b, pos); at < 0 {
				return false
			}
		}
		s := p.byNumber(num)
		if s == nil || rules.fields[s.index].none || s.shape != shapeOne || s.wire != typ {
			var ok bool
			if pos, ok = c.several(rules, s, b, at, num, typ, &seen, &counts); !ok {
				return false
			}
			continue
		}
		var ok, set bool
		if pos, set, ok = c.single(s, &rules.fields[s.index].value, b, at, typ); !ok {
			return false
		}
		if set {
			seen |= 1 << s.index
		}
	}
	return c.whole(p, rules, seen, &counts)
}

// several passes over a field that does not matter, and checks one that may occur more than once. pos is behind it. A
// field without rules is marked as seen nevertheless: it may be a member of a oneof that has to be set.
func (c *checker) several(rules *ruleSet, s *slot, b []byte, at int, num protowire.Number, typ protowire.Type, seen *uint64, counts *[maxCounted]uint64) (pos int, ok bool) {
	pos = valueEnd(b, at, num, typ)
	if pos < 0 {
		return pos, false
	}
	if s == nil || typ != s.wire && !(typ == protowire.BytesType && s.packable) {
		return pos, true
	}
	f := &rules.fields[s.index]
	if f.none || c.passedOver(s) {
		*seen |= 1 << s.index
		return pos, true
	}
	n, ok := c.occurrence(s, f, b[:pos], at, typ)
	if !ok {
		return pos, false
	}
	if n > 0 {
		*seen |= 1 << s.index
	}
	if f.counter >= 0 {
		counts[f.counter] += n
	}
	return pos, true
}

// single checks the value of a field that occurs once, and returns the position behind it. set is false for a zero that
// is the same as absence.
func (c *checker) single(s *slot, v *valueRules, b []byte, at int, typ protowire.Type) (pos int, set, ok bool) {
	if typ == protowire.StartGroupType {
		pos = valueEnd(b, at, s.number, typ)
		return pos, true, pos >= 0 && (c.passedOver(s) || c.value(s, v, b[:pos], at))
	}
	if typ != protowire.BytesType {
		pos = valueEnd(b, at, s.number, typ)
		if pos < 0 {
			return pos, false, false
		}
		if c.passedOver(s) {
			return pos, true, true
		}
		n := s.numeric(bitsAt(b, at, typ))
		set = s.present || n != 0
		return pos, set, !set && v.ignoreZero || v.keepsNumber(n)
	}
	n, from := varintAt(b, at)
	if from < 0 || n > uint64(len(b)-from) {
		return refused, false, false
	}
	pos = from + int(n)
	if c.passedOver(s) {
		return pos, true, true
	}
	set = s.present || n > 0
	return pos, set, !set && v.ignoreZero || c.content(s, v, b[from:pos])
}

// whole checks what can be said when the message is over: what is not there, and how much of the rest.
func (c *checker) whole(p *plan, rules *ruleSet, seen uint64, counts *[maxCounted]uint64) bool {
	for _, members := range rules.oneofs {
		if seen&members == 0 {
			return false
		}
	}
	for _, i := range rules.watched {
		f, s := &rules.fields[i], &p.fields[i]
		if c.passedOver(s) {
			continue
		}
		if seen&(1<<i) == 0 {
			if f.required || f.zeroBreaks {
				return false
			}
			continue
		}
		if f.counter >= 0 && (counts[f.counter] < f.least || counts[f.counter] > f.most || f.unique && counts[f.counter] > 1) {
			return false
		}
	}
	return true
}

// occurrence checks one piece of a field that may occur more than once: an element, several elements in one piece, or an
// entry of a map. n is how many.
func (c *checker) occurrence(s *slot, f *fieldRules, b []byte, at int, typ protowire.Type) (n uint64, ok bool) {
	if s.shape == shapeMap {
		_, from := varintAt(b, at)
		return 1, c.entry(s, f, b, from)
	}
	if typ == s.wire {
		return 1, c.value(s, &f.value, b, at)
	}
	_, from := varintAt(b, at)
	for from < len(b) {
		if !c.value(s, &f.value, b, from) {
			return 0, false
		}
		if from = valueEnd(b, from, s.number, s.wire); from < 0 {
			return 0, false
		}
		n++
	}
	return n, true
}

// entry checks the key and value of an entry. What the wire leaves out stands for a zero that no rule has been asked
// about, so such an entry is for protovalidate where there are rules.
func (c *checker) entry(s *slot, f *fieldRules, b []byte, from int) bool {
	e, ok := entryAt(s, b, from)
	if !ok {
		return false
	}
	if !f.key.free() {
		// The key is looked at as it stands on the wire, and has to be there for that.
		num, typ, at := tagAt(b, from)
		if at < 0 || num != 1 || typ != s.key.wire || !c.value(s.key, &f.key, b, at) {
			return false
		}
	}
	if f.value.free() {
		return true
	}
	return e.value != 0 && c.value(s.value, &f.value, b, int(e.value)-1)
}

// value checks one value.
func (c *checker) value(s *slot, v *valueRules, b []byte, at int) bool {
	if v.free() {
		return true
	}
	switch s.wire {
	case protowire.BytesType:
		n, from := varintAt(b, at)
		if from < 0 || n > uint64(len(b)-from) {
			return false
		}
		return c.content(s, v, b[from:from+int(n)])
	case protowire.StartGroupType:
		content, n := protowire.ConsumeGroup(s.number, b[at:])
		return n >= 0 && c.content(s, v, content)
	default:
		return v.keepsNumber(s.numeric(bitsAt(b, at, s.wire)))
	}
}

// content checks a message, a string or bytes.
func (c *checker) content(s *slot, v *valueRules, content []byte) bool {
	if v.opaque {
		return false
	}
	if s.below != nil {
		return !v.deep || c.message(s.below.prepared(), content)
	}
	return len(content) < v.shorter || v.ignoreZero && len(content) == 0 ||
		(v.text == nil || v.text(content)) && (v.pattern == nil || c.matches(v.pattern, content))
}

// matches reports whether a text matches a pattern. One that takes long is matched within the budget of the check; where that ends, the
// general engine ends too, and says why.
func (c *checker) matches(p *schema.Pattern, content []byte) bool {
	if !p.IsLong(len(content)) {
		return p.Match(content)
	}
	if c.budget == nil {
		c.budget = schema.NewBudget(c.ctx)
	}
	return p.MatchWithin(c.budget, string(content)) && c.budget.Err() == nil
}

// keepsNumber checks a number, as numeric returns it.
func (v *valueRules) keepsNumber(n uint64) bool {
	if v.opaque {
		return false
	}
	return v.bounds.hold(n) || v.number == nil || v.ignoreZero && n == 0 || v.number(n)
}

// bitsAt reads a number as it stands on the wire.
func bitsAt(b []byte, at int, typ protowire.Type) uint64 {
	switch typ {
	case protowire.Fixed32Type:
		v, _ := protowire.ConsumeFixed32(b[at:])
		return uint64(v)
	case protowire.Fixed64Type:
		v, _ := protowire.ConsumeFixed64(b[at:])
		return v
	default:
		v, _ := varintAt(b, at)
		return v
	}
}

// numeric turns what stands on the wire into what rules are about: two's complement for signed integers, the bits of a
// double for floats.
func (s *slot) numeric(v uint64) uint64 {
	switch s.kind {
	case protoreflect.BoolKind:
		return min(v, 1)
	case protoreflect.Int32Kind, protoreflect.Sfixed32Kind, protoreflect.EnumKind:
		return uint64(int64(int32(v)))
	case protoreflect.Sint32Kind:
		return uint64(int64(int32(protowire.DecodeZigZag(v & 0xffffffff))))
	case protoreflect.Sint64Kind:
		return uint64(protowire.DecodeZigZag(v))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return uint64(uint32(v))
	case protoreflect.FloatKind:
		return doubleBits(uint32(v))
	default:
		return v
	}
}

// runes counts as CEL does: code points.
func runes(b []byte) uint64 { return uint64(utf8.RuneCount(b)) }
