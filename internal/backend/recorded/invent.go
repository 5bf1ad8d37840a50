// SPDX-License-Identifier: Apache-2.0

package recorded

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Bounds of what is invented.
const (
	// attempts is how often a message is invented until one keeps its rules.
	attempts = 24
	// maxDepth bounds the messages in one another that need not be there, maxNesting all.
	maxDepth = 4
	// maxValues bounds the values of one message that need not be there, and maxForced those that have to: two messages that must
	// each have two of the other would never end.
	maxValues = 400
	maxForced = 4_000
	// streamItems is the length of an invented stream.
	streamItems = 3
)

// invent invents the answer to a call.
func (u *Upstream) invent(ctx context.Context, x *index, m *catalog.Method, args *arguments) ([][]byte, *errmap.Error) {
	var request protoreflect.Message
	if len(args.messages) > 0 {
		request = args.messages[0]
	}
	md, check := m.Descriptor.Output(), func([]byte) error { return nil }
	tool, _ := x.catalog.ByProcedure(m.Procedure)
	var ends *catalog.OperationValue
	switch {
	case tool != nil && tool.Operation != nil:
		if ends = tool.Operation.Response; ends == nil || ends.Out == nil {
			return [][]byte{done(nil)}, nil
		}
		md, check = ends.Out.Descriptor(), func(wire []byte) error { return ends.Out.CheckWire(ctx, wire) }
	case tool != nil:
		check = func(wire []byte) error { return tool.Out.CheckWire(ctx, wire) }
	}
	n := 1
	if m.ServerStreaming {
		n = streamItems
	}
	var out [][]byte
	for i := range n {
		seed := sha256.Sum256(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(args.key[:], u.opts.Seed), uint64(i)))
		wire, err := Invent(md, request, seed, check)
		if err != nil && ctx.Err() != nil {
			return nil, ended(ctx)
		}
		if ends != nil {
			wire = doneWith(ends.Name, wire)
		}
		// A message that keeps no rules goes on: the check of the result names those that it breaks.
		out = append(out, wire)
	}
	return out, nil
}

// Invent invents a message, the same for the same seed, which answers a request unless that is nil. The error is that of check for
// the message, if none was found that it lets through.
func Invent(md protoreflect.MessageDescriptor, request protoreflect.Message, seed [32]byte, check func(wire []byte) error) (wire []byte, err error) {
	random := rand.NewChaCha8(seed)
	for i := range attempts {
		v := inventor{Rand: rand.New(random), request: request, attempt: i, left: maxValues} //nolint:gosec // the same values each time are the point
		message := v.message(md, nil, 0)
		wire, err = proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(message.Interface())
		if err == nil {
			err = check(wire)
		}
		if err == nil {
			return wire, nil
		}
	}
	return wire, err
}

// inventor invents one message.
type inventor struct {
	*rand.Rand
	request protoreflect.Message
	// attempt is how many messages were refused before: later ones have less, or other values.
	attempt, left int
}

// isSparse: only what has to be there, and what has rules. isBare: without the latter.
func (v *inventor) isSparse() bool { return v.attempt%4 >= 2 }
func (v *inventor) isBare() bool   { return v.attempt%4 == 3 }

// isPlain: no examples, which may break rules.
func (v *inventor) isPlain() bool { return v.attempt > 0 }

// message invents a message. rules are those of the field that has it.
func (v *inventor) message(md protoreflect.MessageDescriptor, rules *validate.FieldRules, depth int) protoreflect.Message {
	m := dynamicpb.NewMessage(md)
	if v.wellKnown(m, rules) {
		return m
	}
	if depth == 0 && v.echoes(m) {
		return m
	}
	if depth > maxNesting || v.left < -maxForced {
		return m
	}
	about, _ := protovalidate.ResolveMessageRules(md) // rules that cannot be read are for the check
	chosen := v.alternatives(md, about, depth)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if od := fd.ContainingOneof(); od != nil && !od.IsSynthetic() || v.isOneOf(about, fd) {
			if !chosen[fd.Name()] {
				continue
			}
			v.field(m, fd, depth, true)
			continue
		}
		v.field(m, fd, depth, false)
	}
	return m
}

// alternatives chooses which fields are set of those that exclude each other.
func (v *inventor) alternatives(md protoreflect.MessageDescriptor, about *validate.MessageRules, depth int) map[protoreflect.Name]bool {
	chosen := map[protoreflect.Name]bool{}
	for i := range md.Oneofs().Len() {
		od := md.Oneofs().Get(i)
		if od.IsSynthetic() {
			continue
		}
		if schema.OneofRequired(od) || !v.isSparse() && depth <= maxDepth {
			chosen[od.Fields().Get(v.alternative(od.Fields().Len(), depth, func(i int) bool { return od.Fields().Get(i).Message() == nil })).Name()] = true
		}
	}
	for _, one := range about.GetOneof() {
		if len(one.GetFields()) > 0 && (one.GetRequired() || !v.isSparse()) {
			chosen[protoreflect.Name(one.GetFields()[v.IntN(len(one.GetFields()))])] = true
		}
	}
	return chosen
}

// alternative chooses one of several fields. Deep in a message, one that ends the nesting is better.
func (v *inventor) alternative(n, depth int, isLeaf func(int) bool) int {
	first := v.IntN(n)
	if depth < maxDepth && v.attempt == 0 {
		return first
	}
	for i := range n {
		if at := (first + i) % n; depth >= maxDepth && isLeaf(at) {
			return at
		}
	}
	return first
}

func (*inventor) isOneOf(about *validate.MessageRules, fd protoreflect.FieldDescriptor) bool {
	return slices.ContainsFunc(about.GetOneof(), func(one *validate.MessageOneofRule) bool {
		return slices.Contains(one.GetFields(), string(fd.Name()))
	})
}

// field invents the value of a field, or leaves it out.
func (v *inventor) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, depth int, must bool) {
	rules := rulesOf(fd)
	behavior := schema.BehaviorOf(fd)
	must = must || rules.GetRequired() || behavior.Required || fd.Cardinality() == protoreflect.Required
	if behavior.InputOnly || rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS && !must {
		return
	}
	if v.echo(m, fd) || isPageToken(fd) && !must {
		return
	}
	if !must && v.leavesOut(fd, rules, depth) {
		return
	}
	switch {
	case fd.IsList():
		v.list(m.Mutable(fd).List(), fd, rules, depth)
	case fd.IsMap():
		v.pairs(m.Mutable(fd).Map(), fd, rules, depth)
	default:
		m.Set(fd, v.value(fd, rules, depth))
	}
}

// leavesOut reports whether a field that need not be there is left out.
func (v *inventor) leavesOut(fd protoreflect.FieldDescriptor, rules *validate.FieldRules, depth int) bool {
	isLarge := fd.Message() != nil || fd.IsList()
	switch {
	case isLarge && (v.isSparse() || depth >= maxDepth || v.left <= 0):
		if leastOf(fd, rules) > 0 {
			return false
		}
		// Some rules want one of several fields.
		return depth >= maxDepth || v.left <= 0 || v.attempt <= 4 || v.IntN(3) > 0
	case !v.isSparse(), v.attempt > 4 && v.IntN(3) == 0:
		return false
	}
	return fd.HasPresence() || v.isBare() || kindRules(rules) == nil || rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE
}

// leastOf is how many elements a list or map has to have.
func leastOf(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) uint64 {
	switch {
	case rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE:
		return 0
	case fd.IsMap():
		return rules.GetMap().GetMinPairs()
	case fd.IsList():
		return rules.GetRepeated().GetMinItems()
	}
	return 0
}

// isPageToken: an invented list has one page.
func isPageToken(fd protoreflect.FieldDescriptor) bool {
	return fd.Name() == "next_page_token" && fd.Kind() == protoreflect.StringKind
}

// rulesOf returns the rules of a field: those of protovalidate, else what other annotations say. It is never nil.
func rulesOf(fd protoreflect.FieldDescriptor) *validate.FieldRules {
	if !fd.IsExtension() && schema.HasRules(fd) {
		if rules, err := protovalidate.ResolveFieldRules(fd); err == nil && rules != nil {
			return rules
		}
	}
	if about, _ := schema.AnnotationsOfField(fd); about.Rules != nil {
		return about.Rules
	}
	return &validate.FieldRules{}
}

// count chooses how many elements there are.
func (v *inventor) count(least uint64, most *uint64) int {
	n := 1 + v.IntN(streamItems)
	if v.isSparse() {
		n = 0
	}
	n = max(n, int(min(least, maxElements)))
	if most != nil {
		n = min(n, int(min(*most, maxElements)))
	}
	return n
}

// maxElements bounds an invented list, and maxTries how often another element is invented where it must not occur twice.
const (
	maxElements = 1_000
	maxTries    = 20
)

func (v *inventor) list(l protoreflect.List, fd protoreflect.FieldDescriptor, rules *validate.FieldRules, depth int) {
	r := rules.GetRepeated()
	var most *uint64
	if r.HasMaxItems() {
		most = new(r.GetMaxItems())
	}
	items := r.GetItems()
	if items == nil {
		items = &validate.FieldRules{}
	}
	seen := map[string]bool{}
	for range v.count(max(r.GetMinItems(), leastIf(rules.GetRequired())), most) {
		for range maxTries {
			one := v.value(fd, items, depth)
			if text := textOf(fd, one); !r.GetUnique() || !seen[text] {
				seen[text] = true
				l.Append(one)
				break
			}
		}
	}
}

// leastIf is how many elements something has that must be there.
func leastIf(required bool) uint64 {
	if required {
		return 1
	}
	return 0
}

// textOf tells values apart.
func textOf(fd protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch {
	case fd.Message() != nil:
		wire, _ := proto.MarshalOptions{Deterministic: true, AllowPartial: true}.Marshal(v.Message().Interface()) // another one is tried then
		return string(wire)
	case fd.Kind() == protoreflect.BytesKind:
		return string(v.Bytes())
	}
	return v.String()
}

func (v *inventor) pairs(m protoreflect.Map, fd protoreflect.FieldDescriptor, rules *validate.FieldRules, depth int) {
	r := rules.GetMap()
	var most *uint64
	if r.HasMaxPairs() {
		most = new(r.GetMaxPairs())
	}
	keys, values := r.GetKeys(), r.GetValues()
	if keys == nil {
		keys = &validate.FieldRules{}
	}
	if values == nil {
		values = &validate.FieldRules{}
	}
	want := v.count(max(r.GetMinPairs(), leastIf(rules.GetRequired())), most)
	for range want * maxTries {
		if m.Len() >= want {
			return
		}
		m.Set(v.value(fd.MapKey(), keys, depth).MapKey(), v.value(fd.MapValue(), values, depth))
	}
}

// value invents one value of a field: of a list an element, of a map a key or a value.
func (v *inventor) value(fd protoreflect.FieldDescriptor, rules *validate.FieldRules, depth int) protoreflect.Value {
	v.left--
	if md := fd.Message(); md != nil {
		return protoreflect.ValueOfMessage(v.message(md, rules, depth+1))
	}
	if example, ok := v.example(fd, rules); ok {
		return example
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(v.bool(rules))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(v.enum(fd.Enum(), rules.GetEnum()))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(v.text(fd, rules.GetString()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(v.bytes(fd, rules.GetBytes()))
	}
	return v.number(fd.Kind(), rules)
}

// example returns an example that annotations have of a field.
func (v *inventor) example(fd protoreflect.FieldDescriptor, rules *validate.FieldRules) (none protoreflect.Value, ok bool) {
	if v.isPlain() || fd.ContainingMessage().IsMapEntry() {
		return none, false
	}
	about, _ := schema.AnnotationsOfField(fd)
	examples := slices.Concat(about.Examples, examplesOf(rules))
	if about.Default != "" {
		examples = append(examples, about.Default)
	}
	for _, text := range examples {
		for _, raw := range []string{text, quoted(text)} {
			if fd.IsList() && !strings.HasPrefix(raw, "[") {
				raw = "[" + raw + "]"
			}
			m := dynamicpb.NewMessage(fd.ContainingMessage())
			if (protojson.UnmarshalOptions{AllowPartial: true}).Unmarshal([]byte(`{`+quoted(string(fd.Name()))+`:`+raw+`}`), m) != nil {
				continue
			}
			if !fd.IsList() {
				return m.Get(fd), true
			}
			if l := m.Get(fd).List(); l.Len() > 0 {
				return l.Get(v.IntN(l.Len())), true
			}
		}
	}
	return none, false
}
