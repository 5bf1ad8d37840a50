// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// planner keeps the plans of one set of types. A message has one plan however many fields hold it, so that a recursive
// message costs no more than any other. The key is the descriptor and not its name: the types that an Any may hold can
// include another message of the same name. It is safe for concurrent use.
type planner struct {
	extensions schema.Extensions
	sight      *schema.Sight // of whom the results are for; nil: all is seen
	plans      sync.Map      // protoreflect.MessageDescriptor to *plan
	placed     sync.Map      // placement to *plan, where the sight has positions
	ruled      sync.Map      // protoreflect.MessageDescriptor to whether it has rules itself
}

// of returns the plan of a message. Nothing is compiled yet: a message may hold itself, and many messages of a
// catalog are never used.
func (pl *planner) of(md protoreflect.MessageDescriptor) *plan {
	if p, ok := pl.plans.Load(md); ok {
		return p.(*plan)
	}
	p, _ := pl.plans.LoadOrStore(md, &plan{md: md, planner: pl})
	return p.(*plan)
}

// placement is a message at a position at which it is seen in another way than elsewhere.
type placement struct {
	md protoreflect.MessageDescriptor
	at *schema.Place
}

// at returns the plan of a message at a position of a result.
func (pl *planner) at(md protoreflect.MessageDescriptor, at *schema.Place) *plan {
	if at == nil {
		return pl.of(md)
	}
	p, _ := pl.placed.LoadOrStore(placement{md, at}, &plan{md: md, planner: pl, at: at})
	return p.(*plan)
}

// plan is how one message is read and written. What is below ready is filled by prepare when a call first needs the
// message. Only disorder and rules change after that.
//
// Reader, writer and checker keep what they have seen as bits: the index of a field is its bit, and the oneofs of two or
// more fields follow. For up to 64 bits that is one word in a register.
type plan struct {
	md      protoreflect.MessageDescriptor
	planner *planner
	at      *schema.Place
	once    sync.Once
	ready   atomic.Bool

	form       form
	fields     []slot                  // as declared, then the known extensions by name: the order of the JSON
	names      nameTable               // of the fields, under every name that ProtoJSON reads
	bits       int                     // one for each field, then one for each oneof of two or more
	must       []int                   // bits that have to be set: REQUIRED by behavior or by proto2, but for fields that input does not have
	needed     []int                   // bits of proto2's required fields alone, which an answer has to have too
	neededMask uint64                  // the same where there are no more than 64 bits
	secrets    bool                    // there are INPUT_ONLY fields
	absents    string                  // what is written for all fields that are not there, each with a comma
	absentAt   []int                   // where a field begins in it, and the end
	disorder   atomic.Bool             // fields came in another order than they are declared in; this alone changes later
	rules      atomic.Pointer[ruleSet] // compiled when first asked for
	open       bool                    // there are extension ranges
	dense      []int32                 // index of a field plus 1 by its number, for small numbers
	sparse     map[int32]int32
	scalar     *slot  // the one field of a wrapper
	unready    string // why no plan can serve, or ""
}

// form says what JSON a message has.
type form uint8

const (
	formNone form = iota // no plan: the general engine has to do it
	formFields
	formTimestamp
	formDuration
	formFieldMask
	formStruct
	formValue
	formList
	formWrapper
	formEmpty
	formAny
)

// slot is one field.
type slot struct {
	index  int32
	number protowire.Number
	kind   protoreflect.Kind
	shape  shape

	head   string // `"name":` as it is written
	quoted string // `"name"` as it is most often read
	blank  string // JSON of the value that a field has where it is not there
	absent string // what is written where the field is not there; "" for nothing

	tag      []byte // of one value, with the type of its kind
	end      []byte // end of group
	packTag  []byte // for a packed list
	packed   bool
	packable bool // a list that may come in one piece
	wire     protowire.Type

	present  bool // a zero value is there
	null     bool // null is a value
	must     bool // null is not enough, and neither is nothing
	hidden   bool // OUTPUT_ONLY: input does not have it
	secret   bool // INPUT_ONLY: answers do not have it
	oneof    int  // bit of its oneof, or -1
	alone    bool // no oneof, so that nothing can push it out
	order    int  // rank in the deterministic encoding
	extended bool // an extension

	enum  *enumPlan
	below *plan // of a message
	key   *slot // of a map
	value *slot
}

// shape says how often a field occurs.
type shape uint8

const (
	shapeOne shape = iota
	shapeList
	shapeMap
)

// enumPlan are the values of an enum.
type enumPlan struct {
	names  nameTable
	values []int32 // by the index in names
	closed bool
	null   bool             // NullValue, which is written as null
	text   map[int32]string // `"NAME"` by number
	dense  []string         // the same for small numbers
}

// prepared returns the plan with everything filled. Every step down to another message calls it, so that a plan is
// compiled when the first document reaches it.
func (p *plan) prepared() *plan {
	if !p.ready.Load() {
		p.once.Do(p.prepare)
	}
	return p
}

// prepare compiles the plan. It cannot fail: a message that no table can describe safely gets the reason in unready and
// the form formNone, which reader and writer refuse, so that the general engine serves it. Those are rare or broken
// descriptors. ready is set last: a call that sees it set sees all of the plan.
func (p *plan) prepare() {
	defer func() {
		if p.unready != "" {
			p.form = formNone
		}
		p.ready.Store(true)
	}()
	if p.md.IsPlaceholder() {
		p.unready = "is not in the descriptor set"
		return
	}
	if isMessageSet(p.md) {
		p.unready = "is a message set"
		return
	}
	var ok bool
	if p.form, ok = formOf(p.md); !ok {
		p.unready = "does not have the fields of the well-known type"
		return
	}
	fds := fieldsOf(p.md, p.planner.extensions)
	declared := p.md.Fields().Len()
	slices.SortFunc(fds[declared:], func(a, b protoreflect.FieldDescriptor) int {
		return strings.Compare(string(a.FullName()), string(b.FullName()))
	})
	p.fields = make([]slot, len(fds))
	p.bits = len(fds)
	oneofs := map[int]int{}
	p.open = p.md.ExtensionRanges().Len() > 0
	var names []string
	var targets []int32
	for i, fd := range fds {
		s := &p.fields[i]
		p.planner.fill(s, fd, p.at.Below(fd))
		p.hide(s, fd)
		s.index = int32(i)
		s.oneof = -1
		if od := fd.ContainingOneof(); od != nil && od.Fields().Len() > 1 {
			bit, ok := oneofs[od.Index()]
			if !ok {
				bit = p.bits
				p.bits++
				oneofs[od.Index()] = bit
			}
			s.oneof = bit
		}
		if s.must && !s.hidden || fd.Cardinality() == protoreflect.Required {
			p.must = append(p.must, i)
		}
		if fd.Cardinality() == protoreflect.Required {
			p.needed = append(p.needed, i)
		}
		for _, name := range schema.Names(fd) {
			names = append(names, name)
			targets = append(targets, int32(i))
			if name == typeMember {
				p.unready = "has a field with the name of an Any's type"
			}
		}
		if !utf8.ValidString(fd.JSONName()) {
			p.unready = "has a name that is not UTF-8"
		}
	}
	rankFields(p.fields, fds)
	p.names = newNameTable(names, targets)
	p.number()
	p.writeAbsent()
	if p.form == formWrapper {
		p.scalar = &p.fields[0]
	}
}

// hide leaves out of answers what their caller does not see. What may be hidden is not written where it is not there: its default
// would say that it is.
func (p *plan) hide(s *slot, fd protoreflect.FieldDescriptor) {
	if seen, varies := p.planner.sight.Of(p.at, fd); seen == schema.SeenNot {
		s.absent = ""
		s.secret = s.secret || !varies
	}
}

// writeAbsent joins what is written for fields that are not there, so that the writer copies a run of them at once: the
// fields from i up to j, without j, are absents[absentAt[i]:absentAt[j]]. INPUT_ONLY fields have no text in it. Inside an
// Any they are written all the same, so there the writer cannot use it (see members in write.go).
func (p *plan) writeAbsent() {
	var all strings.Builder
	for i := range p.fields {
		s := &p.fields[i]
		p.absentAt = append(p.absentAt, all.Len())
		p.secrets = p.secrets || s.secret
		if s.absent != "" && !s.secret {
			all.WriteString(s.absent + ",")
		}
	}
	p.absentAt = append(p.absentAt, all.Len())
	p.absents = all.String()
	for _, i := range p.needed {
		if i < 64 {
			p.neededMask |= 1 << i
		}
	}
}

// denseNumbers bounds the table that finds a field by its number without a hash: four bytes for each number below it.
const denseNumbers = 256

// number fills the tables of byNumber. A descriptor that was not checked may give one number to two fields; which of them
// the wire decoder would choose is not for a plan to guess.
func (p *plan) number() {
	highest := protowire.Number(0)
	for i := range p.fields {
		if n := p.fields[i].number; n < denseNumbers {
			highest = max(highest, n)
		}
	}
	p.dense = make([]int32, highest+1)
	for i := range p.fields {
		n := p.fields[i].number
		switch {
		case int(n) < len(p.dense) && p.dense[n] == 0:
			p.dense[n] = int32(i) + 1
		case int(n) < len(p.dense):
			p.unready = "has two fields of one number"
		default:
			if p.sparse == nil {
				p.sparse = map[int32]int32{}
			}
			if p.sparse[int32(n)] != 0 {
				p.unready = "has two fields of one number"
			}
			p.sparse[int32(n)] = int32(i) + 1
		}
	}
}

// byNumber returns the field of a number, or nil.
func (p *plan) byNumber(n protowire.Number) *slot {
	if int(n) < len(p.dense) {
		if i := p.dense[n]; i != 0 {
			return &p.fields[i-1]
		}
		return nil
	}
	if i := p.sparse[int32(n)]; i != 0 {
		return &p.fields[i-1]
	}
	return nil
}

// fill describes a field, or the key or value of a map. An extension and a member of a oneof have no text for their
// absence: a default would say that the field is set. below is the position of what it holds.
func (pl *planner) fill(s *slot, fd protoreflect.FieldDescriptor, below *schema.Place) {
	s.number, s.kind, s.wire = fd.Number(), fd.Kind(), wireType(fd.Kind())
	s.tag = protowire.AppendTag(nil, s.number, s.wire)
	if s.kind == protoreflect.GroupKind {
		s.end = protowire.AppendTag(nil, s.number, protowire.EndGroupType)
	}
	name := jsontext.AppendString(nil, fd.JSONName())
	s.quoted = string(name)
	s.head = s.quoted + ":"
	s.extended = fd.IsExtension()
	s.present = fd.HasPresence() || s.extended
	s.alone = fd.ContainingOneof() == nil
	behavior := schema.BehaviorOf(fd)
	s.must = mustBeThere(fd)
	if !s.extended {
		s.hidden, s.secret = behavior.OutputOnly, behavior.InputOnly
	}
	if ed := fd.Enum(); ed != nil {
		s.enum = newEnumPlan(ed)
	}
	switch {
	case fd.IsMap():
		s.shape = shapeMap
		s.key, s.value = &slot{oneof: -1}, &slot{oneof: -1}
		pl.fill(s.key, fd.MapKey(), nil)
		pl.fill(s.value, fd.MapValue(), below)
		s.absent = s.head + "{}"
	case fd.IsList():
		s.shape = shapeList
		s.packed = fd.IsPacked()
		s.packable = s.wire != protowire.BytesType && s.wire != protowire.StartGroupType
		s.packTag = protowire.AppendTag(nil, s.number, protowire.BytesType)
		s.absent = s.head + "[]"
	default:
		s.null = takesNull(fd)
		s.blank = s.zero(fd)
		if !s.present {
			s.absent = s.head + s.blank
		}
	}
	if s.extended || !s.alone {
		s.absent = ""
	}
	if md := fd.Message(); md != nil && s.shape != shapeMap {
		s.below = pl.at(md, below)
	}
}

// takesNull holds for the two types of which null is a value.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	if md := fd.Message(); md != nil {
		return md.FullName() == "google.protobuf.Value"
	}
	return fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
}

// zero is the JSON that represents a value which the wire leaves out: of a field without presence, of a wrapper, or in an
// entry of a map. It is the zero of the type, but for an enum, whose default is its first value.
func (s *slot) zero(fd protoreflect.FieldDescriptor) string {
	switch s.kind {
	case protoreflect.BoolKind:
		return "false"
	case protoreflect.StringKind, protoreflect.BytesKind:
		return `""`
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind, protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return `"0"`
	case protoreflect.EnumKind:
		return string(s.enum.append(nil, int32(fd.Default().Enum())))
	default:
		return "0"
	}
}

func wireType(k protoreflect.Kind) protowire.Type {
	switch k {
	case protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind, protoreflect.FloatKind:
		return protowire.Fixed32Type
	case protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind, protoreflect.DoubleKind:
		return protowire.Fixed64Type
	case protoreflect.StringKind, protoreflect.BytesKind, protoreflect.MessageKind:
		return protowire.BytesType
	case protoreflect.GroupKind:
		return protowire.StartGroupType
	default:
		return protowire.VarintType
	}
}

// rankFields sets the order in which the Go runtime encodes fields when asked to be deterministic: extensions, then
// fields by number, then the members of oneofs. The order of fields has no meaning but in the value of an Any: that is
// bytes, and two equal messages should give equal bytes (see inOrder in read.go).
func rankFields(fields []slot, fds []protoreflect.FieldDescriptor) {
	group := func(fd protoreflect.FieldDescriptor) int {
		od := fd.ContainingOneof()
		switch {
		case fd.IsExtension():
			return 0
		case od == nil || od.IsSynthetic():
			return 1
		default:
			return 2 + od.Index()
		}
	}
	ranked := make([]int, len(fields))
	for i := range ranked {
		ranked[i] = i
	}
	slices.SortFunc(ranked, func(a, b int) int {
		return cmp.Or(cmp.Compare(group(fds[a]), group(fds[b])), cmp.Compare(fds[a].Number(), fds[b].Number()))
	})
	for rank, i := range ranked {
		fields[i].order = rank
	}
}

func isMessageSet(md protoreflect.MessageDescriptor) bool {
	options, ok := md.Options().(*descriptorpb.MessageOptions)
	return ok && options.GetMessageSetWireFormat()
}

// newEnumPlan reads an enum. Input may use every name, aliases included. Output has the name that the descriptor gives to
// a number, which is the first of its aliases.
func newEnumPlan(ed protoreflect.EnumDescriptor) *enumPlan {
	e := &enumPlan{closed: ed.IsClosed(), null: ed.FullName() == "google.protobuf.NullValue", text: map[int32]string{}}
	var names []string
	var targets []int32
	for i := range ed.Values().Len() {
		ev := ed.Values().Get(i)
		names = append(names, string(ev.Name()))
		targets = append(targets, int32(i))
		e.values = append(e.values, int32(ev.Number()))
		n := int32(ev.Number())
		if _, ok := e.text[n]; !ok {
			e.text[n] = string(jsontext.AppendString(nil, string(ed.Values().ByNumber(ev.Number()).Name())))
		}
	}
	e.names = newNameTable(names, targets)
	for n := range int32(denseNumbers) {
		text, ok := e.text[n]
		if !ok {
			break
		}
		e.dense = append(e.dense, text)
	}
	return e
}

func (e *enumPlan) knows(n int32) bool {
	_, ok := e.text[n]
	return ok
}

// typeMember is the member of an Any that names its type.
const typeMember = "@type"

// wanted is what the plan takes for granted of a field of a well-known type.
type wanted struct {
	kind  protoreflect.Kind
	shape shape
	below protoreflect.FullName // of a message, an enum, or the values of a map
	oneof bool
}

// formOf says what JSON a message has, and false for one that only has the name of a well-known type. Descriptors come
// from outside, and a file may define its own google.protobuf.Timestamp. The code for these types goes to fields by
// position and number, so their shape is checked once, here, and taken for granted everywhere else.
func formOf(md protoreflect.MessageDescriptor) (form, bool) {
	if !schema.IsWellKnown(md) {
		return formFields, true
	}
	const pkg = "google.protobuf."
	switch md.Name() {
	case "Timestamp":
		return formTimestamp, hasFields(md, wanted{kind: protoreflect.Int64Kind}, wanted{kind: protoreflect.Int32Kind})
	case "Duration":
		return formDuration, hasFields(md, wanted{kind: protoreflect.Int64Kind}, wanted{kind: protoreflect.Int32Kind})
	case "FieldMask":
		return formFieldMask, hasFields(md, wanted{kind: protoreflect.StringKind, shape: shapeList})
	case "Any":
		return formAny, hasFields(md, wanted{kind: protoreflect.StringKind}, wanted{kind: protoreflect.BytesKind})
	case "Empty":
		return formEmpty, md.Fields().Len() == 0
	case "Struct":
		return formStruct, hasFields(md, wanted{kind: protoreflect.MessageKind, shape: shapeMap, below: pkg + "Value"})
	case "ListValue":
		return formList, hasFields(md, wanted{kind: protoreflect.MessageKind, shape: shapeList, below: pkg + "Value"})
	case "Value":
		return formValue, hasFields(md,
			wanted{kind: protoreflect.EnumKind, below: pkg + "NullValue", oneof: true}, wanted{kind: protoreflect.DoubleKind, oneof: true},
			wanted{kind: protoreflect.StringKind, oneof: true}, wanted{kind: protoreflect.BoolKind, oneof: true},
			wanted{kind: protoreflect.MessageKind, below: pkg + "Struct", oneof: true}, wanted{kind: protoreflect.MessageKind, below: pkg + "ListValue", oneof: true})
	default:
		return formWrapper, isWrapperAsKnown(md)
	}
}

// hasFields holds where the fields are numbered from 1 and have the kinds that are wanted, without presence of their own.
func hasFields(md protoreflect.MessageDescriptor, fields ...wanted) bool {
	if md.Fields().Len() != len(fields) || md.ExtensionRanges().Len() > 0 {
		return false
	}
	for i, want := range fields {
		fd := md.Fields().Get(i)
		if int(fd.Number()) != i+1 || fd.Kind() != want.kind || shapeOf(fd) != want.shape || (fd.ContainingOneof() != nil) != want.oneof {
			return false
		}
		if want.shape == shapeOne && fd.Message() == nil && fd.HasPresence() != want.oneof || fd.Cardinality() == protoreflect.Required {
			return false
		}
		if want.below != "" && nameBelow(fd) != want.below {
			return false
		}
		if want.shape == shapeMap && fd.MapKey().Kind() != protoreflect.StringKind {
			return false
		}
	}
	return true
}

func shapeOf(fd protoreflect.FieldDescriptor) shape {
	switch {
	case fd.IsMap():
		return shapeMap
	case fd.IsList():
		return shapeList
	default:
		return shapeOne
	}
}

func nameBelow(fd protoreflect.FieldDescriptor) protoreflect.FullName {
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	switch {
	case fd.Message() != nil:
		return fd.Message().FullName()
	case fd.Enum() != nil:
		return fd.Enum().FullName()
	default:
		return ""
	}
}

func isWrapperAsKnown(md protoreflect.MessageDescriptor) bool {
	kinds := map[protoreflect.Name]protoreflect.Kind{
		"BoolValue": protoreflect.BoolKind, "StringValue": protoreflect.StringKind, "BytesValue": protoreflect.BytesKind,
		"Int32Value": protoreflect.Int32Kind, "Int64Value": protoreflect.Int64Kind, "UInt32Value": protoreflect.Uint32Kind,
		"UInt64Value": protoreflect.Uint64Kind, "FloatValue": protoreflect.FloatKind, "DoubleValue": protoreflect.DoubleKind,
	}
	return hasFields(md, wanted{kind: kinds[md.Name()]})
}

// nameTable finds the index of a name. It is open addressing over a table that is at most half full: the names are those
// of a descriptor, and few. The hash needs no seed, because a document cannot add names: the longest search is fixed when
// the plan is compiled.
type nameTable struct {
	slots []nameSlot
	mask  uint64
}

type nameSlot struct {
	name   string
	target int32 // plus 1; 0 is free
}

func newNameTable(names []string, targets []int32) nameTable {
	size := 4
	for size < 2*len(names) {
		size *= 2
	}
	t := nameTable{slots: make([]nameSlot, size), mask: uint64(size - 1)}
	for i, name := range names {
		for at := hashName([]byte(name)) & t.mask; ; at = (at + 1) & t.mask {
			if t.slots[at].target == 0 {
				t.slots[at] = nameSlot{name, targets[i] + 1}
				break
			}
			if t.slots[at].name == name {
				break // the first one holds
			}
		}
	}
	return t
}

// find returns the index of a name, or -1.
func (t *nameTable) find(name []byte) int {
	for at := hashName(name) & t.mask; ; at = (at + 1) & t.mask {
		s := &t.slots[at]
		if s.target == 0 {
			return -1
		}
		if s.name == string(name) {
			return int(s.target - 1)
		}
	}
}

// hashName multiplies eight bytes at a time; the constant is the fraction of the golden ratio. The length comes first, so
// that zero bytes at the end count.
func hashName(name []byte) uint64 {
	const golden = 0x9e3779b97f4a7c15
	h := uint64(len(name)) * golden
	for len(name) >= 8 {
		h = fold(h^binary.LittleEndian.Uint64(name), golden)
		name = name[8:]
	}
	last := uint64(0)
	for i, c := range name {
		last |= uint64(c) << (8 * i)
	}
	return fold(h^last, golden)
}

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// ToWire appends the wire bytes of a document to dst. An *InputError lists what is wrong with the document, and a
// *ruleError means that a rule failed to run. On an error, dst is
// returned unchanged. Neither argument is retained.
//
// The plan of the message reads the document. The general engine handles what the plan refuses, and the few messages that
// no plan supports. Its verdict is final, and it explains what is wrong.
func (m *Message) ToWire(dst, doc []byte) ([]byte, error) {
	return m.ToWireWith(context.Background(), nil, dst, doc)
}

// ToWireWith is ToWire for a caller that reuses buffers. If dst has no room for the wire bytes, whose number is known only
// now, the content of dst and the wire bytes are written to a buffer from pool. The check ends with the context, with an
// error that wraps the context's; a document that takes too much work to check is an *InputError.
func (m *Message) ToWireWith(ctx context.Context, pool BufferPool, dst, doc []byte) ([]byte, error) {
	out, ok := m.read(pool, dst, doc)
	if !ok && m.opts.QuotedObjects {
		if plain, isChanged := m.plainObjects(doc); isChanged {
			doc = plain
			out, ok = m.read(pool, dst, doc)
		}
	}
	if ok && (m.rules == nil || m.keeps(ctx, out[len(dst):], forInput)) {
		return out, nil
	}
	end, err := turn(ctx, len(doc))
	if err != nil {
		return dst, err
	}
	defer end()
	if !ok {
		return m.generalToWire(ctx, dst, doc)
	}
	msg, err := m.decode(out[len(dst):])
	if err != nil {
		return m.generalToWire(ctx, dst, doc)
	}
	if err := m.checkRules(ctx, msg, len(doc), forInput, doc); err != nil {
		return dst, err
	}
	return out, nil
}

// generalToWire does what ToWire promises by way of a message that protojson fills. The order of its steps is part of the
// promise: bounds and strict JSON come first, so that nothing is built from a document that breaks them; then the form;
// then rules, which can only be asked of a message. A caller gets all that is wrong at once: a document whose form is wrong is
// asked the rules too, without the values that no message can hold (alsoRules).
func (m *Message) generalToWire(ctx context.Context, dst, doc []byte) ([]byte, error) {
	if found := schema.Inspect(doc, m.opts.bounds()); len(found) > 0 {
		return dst, &InputError{Violations: found, Structural: true}
	}
	msg := dynamicpb.NewMessage(m.md)
	types := &opaqueTypes{Resolver: m.resolver, forInput: true}
	read := protojson.UnmarshalOptions{Resolver: types}
	if err := read.Unmarshal(m.emptied(m.unwrap(doc)), msg); err != nil {
		return dst, m.explain(ctx, doc, err, types.last)
	}
	if len(types.unknown) > 0 {
		w := anyWalk{types: types, change: outOfBytes}
		if _, err := w.message(msg, 1); err != nil {
			return dst, m.explain(ctx, doc, err, types.last)
		}
	}
	if m.traits.needsSchema {
		if err := m.checkStructure(ctx, doc); err != nil {
			return dst, m.alsoRules(ctx, err, msg, doc, nil)
		}
	}
	if err := m.checkRules(ctx, msg, len(doc), forInput, doc); err != nil {
		return dst, err
	}
	out, err := proto.MarshalOptions{AllowPartial: true}.MarshalAppend(dst, msg)
	if err != nil {
		return dst, &InputError{Structural: true, Violations: []schema.Violation{{Keyword: "encode", Message: plainError(err)}}}
	}
	return out, nil
}

// unwrap takes {"value": ...} apart where the root's own JSON is not an object.
func (m *Message) unwrap(doc []byte) []byte {
	if !m.wrapped {
		return doc
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(doc, &members) != nil || len(members) != 1 {
		return doc
	}
	if value, ok := members["value"]; ok {
		return value
	}
	return doc
}

// explain lists what the canonical schema finds in a document that protojson refused. protojson stops at the first fault
// and says where in the text; the schema finds all of them and says which value. What only protojson sees, such as
// the content of an Any, is reported where protojson stopped. unknown is the last
// type of an Any that was read as bytes, or "".
func (m *Message) explain(ctx context.Context, doc []byte, cause error, unknown string) error {
	v, err := m.full()
	if err != nil {
		return err
	}
	found, err := v.ValidateContext(ctx, doc)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		at, text := m.place(doc, cause), plainError(cause)
		if in, ok := m.placeOf(doc, unknown); ok && (at == "" || strings.HasPrefix(at, in)) {
			at, text = in+"/"+typeMember, unknownTypeText(unknown)
		}
		found = []schema.Violation{{Path: at, Keyword: "protojson", Message: text}}
	}
	refused := &InputError{Violations: schema.SortViolations(found, m.opts.limit()), Structural: true}
	if msg, rest, without := m.readRest(doc, refused.Violations); msg != nil {
		return m.alsoRules(ctx, refused, msg, rest, without)
	}
	return refused
}

// checkStructure asks the canonical schema for what protojson does not check: unknown numbers of closed enums, REQUIRED and
// OUTPUT_ONLY. The schema has no rules in it, which protovalidate checks next and words better.
func (m *Message) checkStructure(ctx context.Context, doc []byte) error {
	v, err := m.structure()
	if err != nil {
		return err
	}
	found, err := v.ValidateContext(ctx, doc)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	return &InputError{Violations: schema.SortViolations(found, m.opts.limit()), Structural: true}
}

// position is how protojson says where it stopped.
var position = regexp.MustCompile(`\(line (\d+):(\d+)\):\s*`)

// place turns protojson's line and column into a JSON Pointer; columns count code points.
func (m *Message) place(doc []byte, cause error) string {
	at := position.FindStringSubmatch(cause.Error())
	if at == nil {
		return ""
	}
	inner := m.unwrap(doc)
	line, _ := strconv.Atoi(at[1])
	column, _ := strconv.Atoi(at[2])
	offset := 0
	for ; line > 1 && offset < len(inner); offset++ {
		if inner[offset] == '\n' {
			line--
		}
	}
	for ; column > 1 && offset < len(inner); column-- {
		_, size := utf8.DecodeRune(inner[offset:])
		offset += size
	}
	if len(inner) != len(doc) {
		return "/value" + schema.PointerAt(inner, offset)
	}
	return schema.PointerAt(inner, offset)
}

// placeOf is the JSON Pointer of the Any of a type, false where it cannot be found, as where the URL has escapes.
func (m *Message) placeOf(doc []byte, url string) (string, bool) {
	inner := m.unwrap(doc)
	offset := bytes.Index(inner, jsontext.AppendString(nil, url))
	if url == "" || offset < 0 {
		return "", false
	}
	at, ok := strings.CutSuffix(schema.PointerAt(inner, offset), "/"+typeMember)
	if len(inner) != len(doc) {
		at = "/value" + at
	}
	return at, ok
}

// plainError takes away what only protojson's own readers need. Its errors have no-break spaces, so that
// texts are not compared.
func plainError(err error) string {
	text := strings.ReplaceAll(err.Error(), "\u00a0", " ")
	text = position.ReplaceAllString(strings.TrimPrefix(text, "proto: "), "")
	return strings.TrimPrefix(text, "syntax error ")
}

// BufferPool lends buffers to ToWireWith and ToJSONWith, so that a caller can reuse memory between calls. Get runs on the
// goroutine of the caller. Its buffer comes back as the result, or is dropped if the call fails.
type BufferPool interface {
	// Get returns a buffer of length zero and a capacity of at least n bytes.
	Get(n int) []byte
}

// extended is dst with pool for n bytes more: of pool's where it has less, and there is one.
func extended(dst []byte, n int, pool BufferPool) []byte {
	if pool == nil || cap(dst)-len(dst) >= n {
		return dst
	}
	return append(pool.Get(len(dst)+n), dst...)
}

// jsonGrowth is how much longer JSON rarely is than its wire bytes.
const jsonGrowth = 4

// scratches are buffers of more than maxKept bytes, for large messages alone. They are not part of a reader or writer: small
// messages would keep them in use, and so in memory, long after the large ones have ceased. A garbage collection takes
// those that no large message has used since the one before.
//
//nolint:gochecknoglobals // a pool is only useful if it is shared
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// turns bounds how many large messages are read or written at a time: as many as there are processors. More of them would only
// take turns on those, half done, each with a buffer. Nothing waits within a turn, so that the wait for one ends.
//
//nolint:gochecknoglobals // the processors are shared
var turns = make(chan struct{}, runtime.GOMAXPROCS(0))

// turn waits until the general engine may work on a message of n bytes, and returns what ends that. It holds many times the
// memory of the message, which is why even the large ones that are wrong take turns.
// The error is that of the context, which may end first.
func turn(ctx context.Context, n int) (end func(), err error) {
	if n <= maxKept {
		return func() {}, nil
	}
	end = func() { <-turns }
	select {
	case turns <- struct{}{}:
		return end, nil
	default:
	}
	if at, ok := ctx.Deadline(); ok { // a context may have one without a timer
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, at)
		defer cancel()
	}
	select {
	case turns <- struct{}{}:
		return end, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("transcode: wait for a turn: %w", ctx.Err())
	}
}

// acquireBuffer returns an empty buffer, with room for n bytes, that releaseBuffer takes back. It waits for its turn.
func acquireBuffer(n int) *[]byte {
	turns <- struct{}{}
	b := scratches.Get().(*[]byte)
	if cap(*b) < n {
		*b = make([]byte, 0, n)
	}
	*b = (*b)[:0]
	return b
}

// releaseBuffer takes a buffer back, and ends the turn. Callers defer it: a panic must not keep the turn.
func releaseBuffer(b *[]byte) {
	scratches.Put(b)
	<-turns
}
