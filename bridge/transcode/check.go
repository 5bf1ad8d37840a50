// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// keeps says that wire bytes, which the plan has read or written, keep the rules of their message, as far as the plan can
// see. False means that protovalidate has to be asked: a rule may be broken, or be of a kind that is not compiled here.
func (m *Message) keeps(wire []byte, u use) bool {
	c := checker{use: u}
	return c.message(m.plan.prepared(), wire)
}

// checker walks over wire bytes that are known to be right: no field that is not repeated stands there twice.
type checker struct {
	use use
}

// passedOver holds for the fields that the direction does not have.
func (c *checker) passedOver(s *slot) bool {
	return c.use == forInput && s.hidden || c.use == forOutput && s.secret
}

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
		num, typ, at := tagAt(b, pos)
		if at < 0 {
			return false
		}
		end := valueEnd(b, at, num, typ)
		if end < 0 {
			return false
		}
		pos = end
		s := p.byNumber(num)
		if s == nil || typ != s.wire && !(typ == protowire.BytesType && s.packable) {
			continue
		}
		f := &rules.fields[s.index]
		if f.none || c.passedOver(s) {
			seen |= 1 << s.index
			continue
		}
		n, set, ok := c.occurrence(s, f, b[:end], at, typ)
		if !ok {
			return false
		}
		if set {
			seen |= 1 << s.index
		}
		if f.counter >= 0 {
			counts[f.counter] += n
		}
	}
	return c.whole(p, rules, seen, &counts)
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

// occurrence checks one field of the wire: a value, an element, several elements in one piece, or an entry of a map. set
// is false for a zero that is the same as absence.
func (c *checker) occurrence(s *slot, f *fieldRules, b []byte, at int, typ protowire.Type) (n uint64, set, ok bool) {
	switch s.shape {
	case shapeOne:
		zero := !s.present && s.isZero(b, at)
		if zero && f.value.ignoreZero {
			return 1, false, true
		}
		return 1, !zero, c.value(s, &f.value, b, at)
	case shapeMap:
		_, from := varintAt(b, at)
		return 1, true, c.entry(s, f, b, from)
	}
	if typ == s.wire {
		return 1, true, c.value(s, &f.value, b, at)
	}
	_, from := varintAt(b, at)
	for from < len(b) {
		if !c.value(s, &f.value, b, from) {
			return 0, false, false
		}
		if from = valueEnd(b, from, s.number, s.wire); from < 0 {
			return 0, false, false
		}
		n++
	}
	return n, n > 0, true
}

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
	if v.opaque {
		return false
	}
	switch s.wire {
	case protowire.BytesType:
		n, from := varintAt(b, at)
		if from < 0 || n > uint64(len(b)-from) {
			return false
		}
		content := b[from : from+int(n)]
		if s.below != nil {
			return !v.deep || c.message(s.below.prepared(), content)
		}
		return v.ignoreZero && len(content) == 0 || v.text == nil || v.text(content)
	case protowire.StartGroupType:
		content, n := protowire.ConsumeGroup(s.number, b[at:])
		return n >= 0 && (!v.deep || c.message(s.below.prepared(), content))
	default:
		n := s.numeric(bitsAt(b, at, s.wire))
		return v.ignoreZero && n == 0 || v.number == nil || v.number(n)
	}
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

// isZero looks at a number, or at the length of what has one.
func (s *slot) isZero(b []byte, at int) bool {
	return s.numeric(bitsAt(b, at, s.wire)) == 0
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
