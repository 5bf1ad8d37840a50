// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"context"
	"math"
	"slices"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
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

// checker walks over wire bytes that are known to be right: no field that is not repeated is there twice. That holds
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

// entry checks the key and value of an entry. What the wire leaves out represents a zero that no rule has been asked
// about, so such an entry is for protovalidate where there are rules.
func (c *checker) entry(s *slot, f *fieldRules, b []byte, from int) bool {
	e, ok := entryAt(s, b, from)
	if !ok {
		return false
	}
	if !f.key.free() {
		// The key is looked at as it is on the wire, and has to be there for that.
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

// bitsAt reads a number as it is on the wire.
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

// numeric turns what is on the wire into what rules are about: two's complement for signed integers, the bits of a
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

// ruleSet are the rules of a message that can be checked on the wire. Everything else makes the message, the field or
// the value opaque: then protovalidate is asked, whose word counts anyway. Opaque is as narrow as possible: an opaque
// value of a field with presence only costs the documents that have it.
//
// CEL, rules of messages and of well-known types, formats such as email, and predefined rules are always opaque. An
// unknown rule is as well, so that a newer version of protovalidate cannot add one that is silently not checked.
type ruleSet struct {
	none    bool // no rules here and below
	opaque  bool
	fields  []fieldRules // by index
	watched []int        // fields about which something is said when the message is over
	oneofs  []uint64     // bits of the members of the oneofs that have to be set
}

type fieldRules struct {
	none       bool
	required   bool
	zeroBreaks bool // absence, which is the zero value, may break a rule
	unique     bool // only clear for up to one element
	counter    int  // or -1
	least      uint64
	most       uint64
	value      valueRules // of the value or of each element
	key        valueRules
}

type valueRules struct {
	opaque     bool
	ignoreZero bool
	deep       bool // a message with rules
	number     func(uint64) bool
	text       func([]byte) bool
	pattern    *schema.Pattern // of a text; it is matched last
	bounds     bounds          // what number says, where it says nothing else
	shorter    int             // a text of fewer bytes keeps what text says; 0 says nothing
}

// maxCounted is how many fields of a message may have bounds on their number of elements; they are counted on the stack.
const maxCounted = 8

// free holds where every value will do.
func (v *valueRules) free() bool {
	return !v.opaque && !v.deep && v.number == nil && v.text == nil && v.pattern == nil
}

// ruled returns the rules of the message, compiled on first use. Two calls may compile them at once: the results are
// equal, and either may stay.
func (p *plan) ruled() *ruleSet {
	if rules := p.rules.Load(); rules != nil {
		return rules
	}
	rules := p.compileRules()
	p.rules.Store(rules)
	return rules
}

// compileRules reads the options through protovalidate's own resolver, so that both see the same rules. Rules that it
// cannot resolve make the message opaque: protovalidate then reports what is wrong with them.
func (p *plan) compileRules() *ruleSet {
	if p.form == formNone {
		return &ruleSet{opaque: true}
	}
	if p.form != formFields || !p.planner.rulesBelow(p.md) {
		return &ruleSet{none: true}
	}
	set := &ruleSet{fields: make([]fieldRules, len(p.fields))}
	message, err := protovalidate.ResolveMessageRules(p.md)
	if err != nil || message != nil && !isEmpty(message.ProtoReflect()) {
		set.opaque = true
		return set
	}
	for i := range p.md.Oneofs().Len() {
		od := p.md.Oneofs().Get(i)
		rules, err := protovalidate.ResolveOneofRules(od)
		if err != nil {
			set.opaque = true
			return set
		}
		if rules.GetRequired() {
			members := uint64(0)
			for j := range od.Fields().Len() {
				members |= 1 << od.Fields().Get(j).Index()
			}
			set.oneofs = append(set.oneofs, members)
		}
	}
	counters := 0
	for i := range p.fields {
		f := &set.fields[i]
		f.counter = -1
		if p.fields[i].extended {
			f.none = true // protovalidate does not look at extensions
			continue
		}
		fd := p.md.Fields().Get(i)
		rules, err := protovalidate.ResolveFieldRules(fd)
		if err != nil {
			set.opaque = true
			return set
		}
		f.compile(&p.fields[i], fd, rules)
		if f.least > 0 || f.most < math.MaxUint64 || f.unique {
			f.counter = counters
			counters++
		}
		if f.counter >= 0 || f.required || f.zeroBreaks {
			set.watched = append(set.watched, i)
		}
		f.none = f.value.free() && f.key.free() && f.counter < 0 && !f.required
	}
	set.opaque = counters > maxCounted
	return set
}

// rulesBelow says whether a message or one below it has rules. What is found of a message by itself is kept.
func (pl *planner) rulesBelow(root protoreflect.MessageDescriptor) bool {
	seen := map[protoreflect.FullName]bool{root.FullName(): true}
	queue := []protoreflect.MessageDescriptor{root}
	for len(queue) > 0 {
		md := queue[0]
		queue = queue[1:]
		if pl.rulesOf(md) {
			return true
		}
		for i := range md.Fields().Len() {
			fd := md.Fields().Get(i)
			if below := fd.Message(); below != nil && !seen[below.FullName()] {
				seen[below.FullName()] = true
				queue = append(queue, below)
			}
		}
	}
	return false
}

func (pl *planner) rulesOf(md protoreflect.MessageDescriptor) bool {
	if found, ok := pl.ruled.Load(md); ok {
		return found.(bool)
	}
	found := schema.HasRules(md)
	for i := range md.Oneofs().Len() {
		found = found || schema.HasRules(md.Oneofs().Get(i))
	}
	for i := range md.Fields().Len() {
		found = found || schema.HasRules(md.Fields().Get(i))
	}
	pl.ruled.Store(md, found)
	return found
}

func isEmpty(m protoreflect.Message) bool {
	empty := len(m.GetUnknown()) == 0
	m.Range(func(protoreflect.FieldDescriptor, protoreflect.Value) bool {
		empty = false
		return false
	})
	return empty
}

// compile reads the rules of a field. For a field without presence, absence is the zero value and has to keep the rules
// too, unless they say that zero is ignored; zeroBreaks keeps the answer to that, since absence leaves no bytes to check.
func (f *fieldRules) compile(s *slot, fd protoreflect.FieldDescriptor, rules *validate.FieldRules) {
	f.most = math.MaxUint64
	if rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		return
	}
	f.required = rules.GetRequired()
	ignoreZero := rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE
	switch s.shape {
	case shapeOne:
		f.value = compileValue(s, fd, rules)
		f.value.ignoreZero = ignoreZero && !s.present // a zero that is there by itself is not passed over
		f.zeroBreaks = !s.present && !ignoreZero && f.value.breaksAtZero(s)
		return
	case shapeList:
		list := rules.GetRepeated()
		f.value = compileItems(s, fd, list.GetItems())
		f.counts(rules, list.ProtoReflect(), "min_items", "max_items")
	default:
		entries := rules.GetMap()
		f.key = compileItems(s.key, fd.MapKey(), entries.GetKeys())
		f.value = compileItems(s.value, fd.MapValue(), entries.GetValues())
		f.counts(rules, entries.ProtoReflect(), "min_pairs", "max_pairs")
	}
	f.zeroBreaks = !ignoreZero && (f.least > 0 || f.value.opaque)
}

// breaksAtZero says whether the value that absence represents may break the rules.
func (v *valueRules) breaksAtZero(s *slot) bool {
	switch {
	case v.opaque:
		return true
	case v.number != nil:
		return !v.number(0)
	case v.text != nil || v.pattern != nil:
		return v.text != nil && !v.text(nil) || v.pattern != nil && !v.pattern.MatchString("")
	default:
		return false
	}
}

// counts reads the bounds of a list or map. What else is said of it makes its values opaque.
func (f *fieldRules) counts(rules *validate.FieldRules, of protoreflect.Message, least, most protoreflect.Name) {
	if !hasOnly(rules.ProtoReflect(), "required", "ignore", "repeated", "map") {
		f.value.opaque = true
	}
	known := eachRule(of, func(name protoreflect.Name, v protoreflect.Value) bool {
		switch name {
		case least:
			f.least = v.Uint()
		case most:
			f.most = v.Uint()
		case "unique":
			f.unique = v.Bool()
		case "items", "keys", "values":
		default:
			return false
		}
		return true
	})
	f.value.opaque = f.value.opaque || !known
}

// compileItems compiles what is said of elements, of keys or of values of a map.
func compileItems(s *slot, fd protoreflect.FieldDescriptor, rules *validate.FieldRules) valueRules {
	if rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		return valueRules{}
	}
	v := compileValue(s, fd, rules)
	v.opaque = v.opaque || rules.GetRequired()
	return v
}

// compileValue compiles what is said of one value.
func compileValue(s *slot, fd protoreflect.FieldDescriptor, rules *validate.FieldRules) valueRules {
	v := valueRules{ignoreZero: rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE}
	if s.below != nil {
		v.deep = s.below.planner.rulesBelow(s.below.md)
		v.opaque = rules != nil && !hasOnly(rules.ProtoReflect(), "required", "ignore")
		return v
	}
	if rules == nil {
		return v
	}
	name := fd.Kind().String()
	if !hasOnly(rules.ProtoReflect(), "required", "ignore", protoreflect.Name(name)) {
		v.opaque = true
		return v
	}
	field := rules.ProtoReflect().Descriptor().Fields().ByName(protoreflect.Name(name))
	if field == nil || !rules.ProtoReflect().Has(field) {
		return v
	}
	of := rules.ProtoReflect().Get(field).Message()
	var ok bool
	if s.kind == protoreflect.StringKind || s.kind == protoreflect.BytesKind {
		v.text, v.pattern, ok = compileText(s.kind, of)
		v.shorter = shorterThan(of)
	} else {
		v.number, ok = compileNumber(s, of)
		v.bounds = boundsOf(s, of)
	}
	v.opaque = !ok
	return v
}

// hasOnly holds for a rule message in which nothing but the named fields is set.
func hasOnly(m protoreflect.Message, names ...protoreflect.Name) bool {
	return eachRule(m, func(name protoreflect.Name, _ protoreflect.Value) bool { return slices.Contains(names, name) })
}

// eachRule visits the rules that are set until one is refused, in no order. Predefined rules, which are extensions of the
// rule message, are refused. An example is documentation and no rule.
func eachRule(m protoreflect.Message, visit func(protoreflect.Name, protoreflect.Value) bool) bool {
	ok := len(m.GetUnknown()) == 0
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		ok = ok && !fd.IsExtension() && (fd.Name() == "example" || visit(fd.Name(), v))
		return ok
	})
	return ok
}

// compileText compiles the rules of a string or of bytes.
func compileText(kind protoreflect.Kind, of protoreflect.Message) (test func([]byte) bool, pattern *schema.Pattern, ok bool) {
	var tests []func([]byte) bool
	add := func(test func([]byte) bool) bool {
		tests = append(tests, test)
		return true
	}
	size := func(b []byte) uint64 { return uint64(len(b)) }
	count := size
	if kind == protoreflect.StringKind {
		count = runes
	}
	ok = eachRule(of, func(name protoreflect.Name, v protoreflect.Value) bool {
		switch name {
		case "len":
			return add(func(b []byte) bool { return count(b) == v.Uint() })
		case "min_len":
			return add(func(b []byte) bool { return count(b) >= v.Uint() })
		case "max_len":
			return add(func(b []byte) bool { return count(b) <= v.Uint() })
		case "len_bytes":
			return add(func(b []byte) bool { return size(b) == v.Uint() })
		case "min_bytes":
			return add(func(b []byte) bool { return size(b) >= v.Uint() })
		case "max_bytes":
			return add(func(b []byte) bool { return size(b) <= v.Uint() })
		}
		if kind != protoreflect.StringKind {
			return false
		}
		switch name {
		case "const":
			return add(func(b []byte) bool { return string(b) == v.String() })
		case "prefix":
			return add(func(b []byte) bool { return bytes.HasPrefix(b, []byte(v.String())) })
		case "suffix":
			return add(func(b []byte) bool { return bytes.HasSuffix(b, []byte(v.String())) })
		case "contains":
			return add(func(b []byte) bool { return bytes.Contains(b, []byte(v.String())) })
		case "not_contains":
			return add(func(b []byte) bool { return !bytes.Contains(b, []byte(v.String())) })
		case "in":
			return add(func(b []byte) bool { return isListed(b, v.List()) })
		case "not_in":
			return add(func(b []byte) bool { return !isListed(b, v.List()) })
		case "pattern":
			var err error
			pattern, err = schema.CompilePattern(v.String())
			return err == nil
		default:
			return false
		}
	})
	return all(tests), pattern, ok
}

func isListed(b []byte, list protoreflect.List) bool {
	for i := range list.Len() {
		if string(b) == list.Get(i).String() {
			return true
		}
	}
	return false
}

// all joins tests; nil where there is none.
func all[T any](tests []func(T) bool) func(T) bool {
	switch len(tests) {
	case 0:
		return nil
	case 1:
		return tests[0]
	default:
		return func(v T) bool {
			for _, test := range tests {
				if !test(v) {
					return false
				}
			}
			return true
		}
	}
}

// compileNumber compiles the rules of a number, of a bool or of an enum.
func compileNumber(s *slot, of protoreflect.Message) (func(uint64) bool, bool) {
	switch {
	case s.kind == protoreflect.FloatKind || s.kind == protoreflect.DoubleKind:
		return numberTest(of, math.Float64frombits, protoreflect.Value.Float, nil)
	case s.kind == protoreflect.EnumKind:
		return numberTest(of, func(v uint64) int64 { return int64(v) }, int64Of, s.enum)
	case s.kind == protoreflect.BoolKind:
		return numberTest(of, func(v uint64) uint64 { return v }, bitOf, nil)
	case s.signed():
		return numberTest(of, func(v uint64) int64 { return int64(v) }, int64Of, nil)
	default:
		return numberTest(of, func(v uint64) uint64 { return v }, protoreflect.Value.Uint, nil)
	}
}

// int64Of reads a rule about an enum or a signed integer.
func int64Of(v protoreflect.Value) int64 {
	if n, ok := v.Interface().(protoreflect.EnumNumber); ok {
		return int64(n)
	}
	return v.Int()
}

func bitOf(v protoreflect.Value) uint64 {
	if v.Bool() {
		return 1
	}
	return 0
}

func doubleBits(single uint32) uint64 {
	return math.Float64bits(float64(math.Float32frombits(single)))
}

// numberTest compiles the rules that are the same for all numbers. A lower and an upper bound are joined at the end, since
// their order decides what they mean: with the upper below the lower, a value must not lie between them. T carries the
// comparison of the kind: as unsigned bits, a negative number would be the largest.
func numberTest[T int64 | uint64 | float64](of protoreflect.Message, decode func(uint64) T, value func(protoreflect.Value) T, enum *enumPlan) (func(uint64) bool, bool) {
	var tests []func(T) bool
	var above, below func(T) bool
	var low, high T
	ok := eachRule(of, func(name protoreflect.Name, v protoreflect.Value) bool {
		switch name {
		case "in", "not_in":
			var listed []T
			for i := range v.List().Len() {
				listed = append(listed, value(v.List().Get(i)))
			}
			tests = append(tests, func(x T) bool { return slices.Contains(listed, x) == (name == "in") })
			return true
		case "finite":
			if v.Bool() {
				tests = append(tests, func(x T) bool { return !math.IsNaN(float64(x)) && !math.IsInf(float64(x), 0) })
			}
			return true
		case "defined_only":
			if v.Bool() {
				tests = append(tests, func(x T) bool { return enum.knows(int32(x)) })
			}
			return enum != nil
		}
		if _, listed := v.Interface().(protoreflect.List); listed {
			return false
		}
		switch name {
		case "const":
			n := value(v)
			tests = append(tests, func(x T) bool { return x == n })
		case "gt":
			low = value(v)
			above = func(x T) bool { return x > low }
		case "gte":
			low = value(v)
			above = func(x T) bool { return x >= low }
		case "lt":
			high = value(v)
			below = func(x T) bool { return x < high }
		case "lte":
			high = value(v)
			below = func(x T) bool { return x <= high }
		default:
			return false
		}
		return true
	})
	switch {
	case above != nil && below != nil && high < low: // outside of the two
		tests = append(tests, func(x T) bool { return above(x) || below(x) })
	case above != nil && below != nil:
		tests = append(tests, func(x T) bool { return above(x) && below(x) })
	case above != nil:
		tests = append(tests, above)
	case below != nil:
		tests = append(tests, below)
	}
	test := all(tests)
	if test == nil {
		return nil, ok
	}
	return func(v uint64) bool { return test(decode(v)) }, ok
}

// bounds are the commonest rules, a least and a greatest value, in a form that costs no call. They only ever say that a
// value keeps its rules; whether another breaks them is for the compiled tests to say.
type bounds struct {
	domain    domain
	low, high uint64 // as numeric returns them
}

// domain is how the bits of a number are compared.
type domain uint8

const (
	domainNone domain = iota
	domainSigned
	domainUnsigned
	domainFloat
)

// hold says that a number is surely between the bounds.
func (b *bounds) hold(n uint64) bool {
	switch b.domain {
	case domainSigned:
		return int64(n) >= int64(b.low) && int64(n) <= int64(b.high)
	case domainUnsigned:
		return n >= b.low && n <= b.high
	case domainFloat:
		v := math.Float64frombits(n)
		return v >= math.Float64frombits(b.low) && v <= math.Float64frombits(b.high)
	default:
		return false
	}
}

// boundsOf reads the rules of a number, and returns none where they are more than a least and a greatest value, or say
// that the value is outside of the two.
func boundsOf(s *slot, of protoreflect.Message) bounds {
	var b bounds
	var encode func(protoreflect.Value) uint64
	switch {
	case s.kind == protoreflect.FloatKind || s.kind == protoreflect.DoubleKind:
		b = bounds{domainFloat, math.Float64bits(math.Inf(-1)), math.Float64bits(math.Inf(1))}
		encode = func(v protoreflect.Value) uint64 { return math.Float64bits(v.Float()) }
	case s.kind == protoreflect.EnumKind || s.kind == protoreflect.BoolKind:
		return bounds{}
	case s.signed():
		low := int64(math.MinInt64)
		b = bounds{domainSigned, uint64(low), math.MaxInt64}
		encode = func(v protoreflect.Value) uint64 { return uint64(v.Int()) }
	default:
		b = bounds{domainUnsigned, 0, math.MaxUint64}
		encode = protoreflect.Value.Uint
	}
	plain := eachRule(of, func(name protoreflect.Name, v protoreflect.Value) bool {
		switch name {
		case "gte":
			b.low = encode(v)
		case "lte":
			b.high = encode(v)
		default:
			return false
		}
		return true
	})
	if !plain || !b.hold(b.low) { // the latter: the two stand the other way round
		return bounds{}
	}
	return b
}

// shorterThan reads the rules of a text, and returns zero where they are more than a greatest length. Characters are
// not more than bytes. The result is in bytes, and the limit itself is included: a text of fewer bytes keeps the rule.
func shorterThan(of protoreflect.Message) int {
	most := uint64(math.MaxInt32)
	plain := eachRule(of, func(name protoreflect.Name, v protoreflect.Value) bool {
		if name != "max_len" && name != "max_bytes" {
			return false
		}
		most = min(most, v.Uint())
		return true
	})
	if !plain {
		return 0
	}
	return int(most) + 1
}
