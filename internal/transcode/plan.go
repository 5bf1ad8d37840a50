// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// planner keeps the plans of one set of types. A message has one plan however many fields hold it, so that a recursive
// message costs no more than any other. The key is the descriptor and not its name: the types that an Any may hold can
// include another message of the same name. It is safe for concurrent use.
type planner struct {
	extensions schema.Extensions
	plans      sync.Map // protoreflect.MessageDescriptor to *plan
	ruled      sync.Map // protoreflect.MessageDescriptor to whether it has rules of its own
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

// plan is how one message is read and written. What stands below ready is filled by prepare when a call first needs the
// message. Only disorder and rules change after that.
//
// Reader, writer and checker keep what they have seen as bits: the index of a field is its bit, and the oneofs of two or
// more fields follow. For up to 64 bits that is one word in a register.
type plan struct {
	md      protoreflect.MessageDescriptor
	planner *planner
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
		p.planner.fill(s, fd)
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
// absence: a default would say that the field is set.
func (pl *planner) fill(s *slot, fd protoreflect.FieldDescriptor) {
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
		pl.fill(s.key, fd.MapKey())
		pl.fill(s.value, fd.MapValue())
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
		s.below = pl.of(md)
	}
}

// takesNull holds for the two types of which null is a value.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	if md := fd.Message(); md != nil {
		return md.FullName() == "google.protobuf.Value"
	}
	return fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
}

// zero is the JSON that stands for a value which the wire leaves out: of a field without presence, of a wrapper, or in an
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
// bytes, and two equal messages should give equal bytes (see inOrder in read_any.go).
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
