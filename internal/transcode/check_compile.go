// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"math"
	"slices"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

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

// breaksAtZero says whether the value that absence stands for may break the rules.
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
