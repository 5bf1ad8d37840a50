// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// Action is what a caller gets in the place of a field's value, the stricter ones last: where several apply, the last one does.
type Action uint8

// The actions.
const (
	Show Action = iota // the value
	Mask               // a value of the same type that says little
	Hash               // a keyed digest, the same each time for one caller
	Hide               // nothing, as if the field were not set
	Deny               // no result at all
)

// MaskStyle is how a string is masked.
type MaskStyle uint8

// The styles.
const (
	MaskStars    MaskStyle = iota // one star per character, at most eight
	MaskLastFour                  // the last four characters, of eight or more
)

// Treatment is how the value of one field is treated.
type Treatment struct {
	Action Action
	Style  MaskStyle
}

// FilterOptions say what a [Filter] does.
type FilterOptions struct {
	// Of is the treatment of a field. path has the names from the root of the message to the field, with dots between them, through
	// lists and maps; it is empty where no one of Paths begins with it, and Elsewhere within an Any. A field that is treated is
	// treated as a whole, with all that is in it.
	Of func(path string, fd protoreflect.FieldDescriptor) Treatment
	// Paths are those for which Of says something else than for the field alone.
	Paths []string
	// Resolve finds the type of an Any by its URL; nil for an unknown one, whose Any is hidden. Without Resolve all are.
	Resolve func(url string) protoreflect.MessageDescriptor
	// Extensions are those that are known; others are unknown fields.
	Extensions schema.Extensions
	// Digest is a keyed digest of a value, in hexadecimal. [Filter.Keyed] gives a filter another one. Without any, Hash is Mask.
	Digest func(value []byte) string
}

// Elsewhere is the path of fields of messages that are not the result itself: what an Any holds, details of errors.
const Elsewhere = "*"

// On is the treatment as it fits a field: a required field is masked instead of hidden, and what has no text is masked instead of
// hashed.
func (t Treatment) On(fd protoreflect.FieldDescriptor) Treatment {
	if t.Action == Hide && fd.Cardinality() == protoreflect.Required {
		return Treatment{Action: Mask}
	}
	if t.Action != Hash {
		return t
	}
	if fd.IsMap() {
		fd = fd.MapValue()
	}
	if kind := fd.Kind(); kind != protoreflect.StringKind && kind != protoreflect.BytesKind {
		return Treatment{Action: Mask}
	}
	return t
}

// Filter takes out of messages of one type, as wire bytes, what a caller may not see. A nil Filter changes nothing. It is safe for
// concurrent use.
type Filter struct {
	filters *Filters
	plan    *filterPlan
	digest  func(value []byte) string
}

// NewFilter returns the filter for a message type; nil where no field that can occur in it is treated. What an Any holds, and an
// extension that is not known, can be treated.
func NewFilter(md protoreflect.MessageDescriptor, o FilterOptions) *Filter {
	return NewFilters(o).Of(md, true)
}

// Filters makes filters with the same options, which share what they know of types. It is safe for concurrent use.
type Filters struct {
	opts  FilterOptions
	root  *filterAt
	mu    sync.Mutex
	known map[placed]*filterPlan
}

// NewFilters returns what makes filters.
func NewFilters(o FilterOptions) *Filters {
	fs := &Filters{opts: o, known: map[placed]*filterPlan{}}
	root := &filterAt{}
	for _, path := range o.Paths {
		root.add(path)
	}
	if len(root.below) > 0 {
		fs.root = root
	}
	return fs
}

// elsewhere is the position of what is not below the root.
var elsewhere = &filterAt{path: Elsewhere}

// Of is [NewFilter]. Where the message is not the root of the paths, but something else, they mean nothing in it.
func (fs *Filters) Of(md protoreflect.MessageDescriptor, isRoot bool) *Filter {
	at := elsewhere
	if isRoot {
		at = fs.root
	}
	plan := fs.of(md, at)
	if plan == nil {
		plan = &filterPlan{form: filterShut, concerned: true, certain: true}
	}
	if !plan.concerned {
		return nil
	}
	return &Filter{filters: fs, plan: plan, digest: fs.opts.Digest}
}

// Keyed is the filter with another digest.
func (f *Filter) Keyed(digest func(value []byte) string) *Filter {
	if f == nil {
		return nil
	}
	return &Filter{filters: f.filters, plan: f.plan, digest: digest}
}

// Treats reports whether a field of the message, or of what an Any in it may hold, is treated. An open message, which may only have
// extensions that are not known, does not count.
func (f *Filter) Treats() bool { return f != nil && f.plan.certain }

// DeniedError means that a message has a field that denies all of it.
type DeniedError struct{ Field protoreflect.FullName }

func (e *DeniedError) Error() string {
	return "transcode: field " + string(e.Field) + " denies the result"
}

// errFilter is the cause of the *OutputError of wire bytes that cannot be read.
var errFilter = errors.New("malformed, or nested too deep")

func malformed() error { return &OutputError{Step: "decode", Err: errFilter} }

// Apply returns wire itself where it has nothing to change, or else appends what is left of it to dst. What is left is a valid
// message of the type if wire is one. Fields that the type does not have are dropped from messages that can have a treated field.
// The error is a *DeniedError or, for wire that is malformed, an *OutputError. dst must not overlap with wire.
func (f *Filter) Apply(dst, wire []byte) ([]byte, error) {
	if f == nil {
		return wire, nil
	}
	if dst == nil {
		dst = make([]byte, 0, len(wire)+filterRoom)
	}
	w := filtering{Filters: f.filters, digest: f.digest, out: dst}
	changed, _, err := w.message(f.plan, wire, 0)
	if err != nil {
		return nil, err
	}
	if !changed {
		return wire, nil
	}
	return w.out, nil
}

// filterRoom is how much longer than its message a treated one may be before its buffer grows.
const filterRoom = 64

// filterAt is a place in the tree of the paths that options have, nil for any other place.
type filterAt struct {
	path  string
	below map[string]*filterAt
}

func (p *filterAt) add(path string) {
	for name := range strings.SplitSeq(path, ".") {
		next := p.below[name]
		if next == nil {
			next = &filterAt{path: strings.TrimPrefix(p.path+"."+name, ".")}
			if p.below == nil {
				p.below = map[string]*filterAt{}
			}
			p.below[name] = next
		}
		p = next
	}
}

func (p *filterAt) name() string {
	if p == nil {
		return ""
	}
	return p.path
}

// at returns the position of a field, and its path; nil and nothing off all paths.
func (p *filterAt) at(fd protoreflect.FieldDescriptor) (*filterAt, string) {
	if p == nil || p == elsewhere {
		return p, p.name()
	}
	next := p.below[string(fd.Name())]
	if next == nil {
		return nil, ""
	}
	return next, next.path
}

// placed is a message type at a position. Off all paths a type has one plan, so that plans of recursive types end.
type placed struct {
	md protoreflect.MessageDescriptor
	at *filterAt
}

// maxFilterPlans bounds the plans of one filter, types that an Any holds among them. Beyond it, an Any is hidden.
const maxFilterPlans = 50_000

// of returns the plan of a message at a position; nil beyond the bound.
func (fs *Filters) of(md protoreflect.MessageDescriptor, at *filterAt) *filterPlan {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if p := fs.known[placed{md, at}]; p != nil {
		return p
	}
	if len(fs.known) >= maxFilterPlans {
		return nil
	}
	m := planning{Filters: fs}
	root := m.plan(md, at)
	for len(m.queue) > 0 {
		next := m.queue[0]
		m.queue = m.queue[1:]
		m.fill(next)
	}
	m.spread()
	return root
}

// filterPlan is how messages of one type are treated at one position.
type filterPlan struct {
	placed
	form      filterForm
	concerned bool // a field here or below can be treated
	certain   bool // and not only one that is not known
	fields    map[protowire.Number]*filterField
	dense     [24]*filterField // those with small numbers
	singles   int              // message fields that a message has once, and that are concerned
	oneofs    int              // oneofs with a member that is hidden
}

type filterForm uint8

const (
	filterFields filterForm = iota
	filterAny
	filterItems // message_set_wire_format
	filterShut  // nothing is known about it
)

// filterField is one field of a plan.
type filterField struct {
	Treatment
	fd      protoreflect.FieldDescriptor
	typ     protowire.Type
	packs   bool
	below   *filterPlan // of a concerned message that is shown
	blank   []byte      // in the place of a masked message, or the value of a masked number
	single  int         // its number among the singles of the plan, from 1
	oneof   int         // of the plan's oneofs, from 1
	isPlain bool        // it is copied, whatever is around it
	keep    bool        // an Any that cannot be read stays, without its content
}

// planning makes the plans that are reachable from one.
type planning struct {
	*Filters
	queue []*filterPlan
	made  []*filterPlan
}

func (m *planning) plan(md protoreflect.MessageDescriptor, at *filterAt) *filterPlan {
	key := placed{md, at}
	if p := m.known[key]; p != nil {
		return p
	}
	p := &filterPlan{placed: key}
	m.known[key] = p
	m.queue = append(m.queue, p)
	m.made = append(m.made, p)
	return p
}

func (m *planning) fill(p *filterPlan) {
	set, _ := p.md.(interface{ IsMessageSet() bool })
	switch {
	case p.md.IsPlaceholder():
		p.form, p.concerned, p.certain = filterShut, true, true
		return
	case p.md.FullName() == anyName:
		p.form, p.concerned, p.certain = filterAny, true, true
		return
	case set != nil && set.IsMessageSet():
		p.form = filterItems
	}
	p.concerned = p.md.ExtensionRanges().Len() > 0
	p.fields = map[protowire.Number]*filterField{}
	oneofs := map[protoreflect.FullName]int{}
	for _, fd := range fieldsOf(p.md, m.opts.Extensions) {
		at, path := p.at.at(fd)
		f := m.field(fd, at, m.opts.Of(path, fd))
		if f.Action != Show {
			p.concerned, p.certain = true, true
		}
		if group := fd.ContainingOneof(); group != nil && f.Action == Hide {
			if oneofs[group.FullName()] == 0 {
				oneofs[group.FullName()] = len(oneofs) + 1
			}
		}
		p.add(f)
	}
	p.oneofs = len(oneofs)
	for _, f := range p.fields {
		if group := f.fd.ContainingOneof(); group != nil {
			f.oneof = oneofs[group.FullName()]
		}
	}
}

func (p *filterPlan) add(f *filterField) {
	n := f.fd.Number()
	p.fields[n] = f
	if int(n) < len(p.dense) {
		p.dense[n] = f
	}
}

func (m *planning) field(fd protoreflect.FieldDescriptor, at *filterAt, t Treatment) *filterField {
	f := &filterField{
		Treatment: t.On(fd), fd: fd, typ: wireType(fd.Kind()), packs: fd.IsList() && wireType(fd.Kind()) != protowire.BytesType && fd.Message() == nil,
		keep: fd.Cardinality() == protoreflect.Required || fd.ContainingOneof() != nil,
	}
	if f.Action == Hash && m.opts.Digest == nil {
		f.Action = Mask
	}
	switch {
	case fd.IsMap() && (f.Action == Show || f.Action == Mask || f.Action == Hash):
		f.below, f.Action = m.entry(fd, at, f.Treatment), Show
	case f.Action == Mask:
		f.blank = blankOf(fd)
	case f.Action == Show && fd.Message() != nil:
		f.below = m.plan(fd.Message(), at)
	}
	return f
}

// entry is the plan of the entries of a map, which has the treatment of its values.
func (m *planning) entry(fd protoreflect.FieldDescriptor, at *filterAt, t Treatment) *filterPlan {
	p := &filterPlan{placed: placed{fd.Message(), at}, fields: map[protowire.Number]*filterField{}}
	m.made = append(m.made, p)
	value := m.field(fd.MapValue(), at, t)
	value.keep = true
	p.concerned = value.Action != Show
	p.certain = p.concerned
	p.add(m.field(fd.MapKey(), at, Treatment{}))
	p.add(value)
	return p
}

// spread finds the plans that are concerned because of one below them, and forgets what is below the others.
func (m *planning) spread() {
	for again := true; again; {
		again = false
		for _, p := range slices.Backward(m.made) {
			for _, f := range p.fields {
				if b := f.below; b != nil && (b.concerned && !p.concerned || b.certain && !p.certain) {
					p.concerned, p.certain, again = true, p.certain || b.certain, true
				}
			}
		}
	}
	for _, p := range m.made {
		for _, f := range p.fields {
			f.isPlain = f.Action == Show && (f.below == nil || !f.below.concerned) && f.oneof == 0
			switch {
			case f.below == nil:
			case !f.below.concerned:
				f.below = nil
			case !f.fd.IsList() && !f.fd.IsMap():
				p.singles++
				f.single = p.singles
			}
		}
		if !p.concerned {
			p.fields, p.dense = nil, [24]*filterField{}
		}
	}
}

// blankOf is the content of a masked message, or the zero of a number.
func blankOf(fd protoreflect.FieldDescriptor) []byte {
	if fd.Message() != nil {
		return blankMessage(fd.Message(), 0)
	}
	return appendZero(nil, fd)
}

// appendZero appends the value of a masked number: an enum has its first value.
func appendZero(dst []byte, fd protoreflect.FieldDescriptor) []byte {
	switch wireType(fd.Kind()) {
	case protowire.Fixed32Type:
		return protowire.AppendFixed32(dst, 0)
	case protowire.Fixed64Type:
		return protowire.AppendFixed64(dst, 0)
	case protowire.VarintType:
		if ed := fd.Enum(); ed != nil && ed.Values().Len() > 0 {
			return protowire.AppendVarint(dst, uint64(int64(ed.Values().Get(0).Number())))
		}
		return append(dst, 0)
	default:
		return dst
	}
}

// maxRequired bounds required messages within required messages: a type that holds itself so has no message.
const maxRequired = 64

// blankMessage is the smallest message of a type: its required fields alone, and null for a Value.
func blankMessage(md protoreflect.MessageDescriptor, depth int) []byte {
	if md.FullName() == "google.protobuf.Value" {
		return []byte{0x08, 0x00} // null_value
	}
	var out []byte
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		if fd.Cardinality() != protoreflect.Required || depth > maxRequired {
			continue
		}
		out = protowire.AppendTag(out, fd.Number(), wireType(fd.Kind()))
		switch {
		case fd.Kind() == protoreflect.GroupKind:
			out = append(out, blankMessage(fd.Message(), depth+1)...)
			out = protowire.AppendTag(out, fd.Number(), protowire.EndGroupType)
		case fd.Message() != nil:
			out = protowire.AppendBytes(out, blankMessage(fd.Message(), depth+1))
		case wireType(fd.Kind()) == protowire.BytesType:
			out = protowire.AppendBytes(out, nil)
		default:
			out = appendZero(out, fd)
		}
	}
	return out
}

func (p *filterPlan) field(n protowire.Number) *filterField {
	if uint(n) < uint(len(p.dense)) {
		return p.dense[n]
	}
	return p.fields[n]
}

// filtering is one application of a filter.
type filtering struct {
	*Filters
	digest func(value []byte) string
	out    []byte
}

// message appends what is left of a message. changed is false where that is all of it, and shut is set where nothing is left
// because it holds what cannot be read.
func (w *filtering) message(p *filterPlan, b []byte, depth int) (changed, shut bool, err error) {
	if depth > maxWireDepth {
		return false, false, malformed()
	}
	switch p.form {
	case filterShut:
		return len(b) > 0, len(b) > 0, nil
	case filterAny:
		return w.any(b, depth)
	case filterItems:
		changed, err = w.items(p, b, depth)
	default:
		changed, err = w.members(p, b, depth)
	}
	return changed, false, err
}

// maxSingles is how many fields are watched for occurring twice without an allocation.
const maxSingles = 256

func (w *filtering) members(p *filterPlan, b []byte, depth int) (changed bool, err error) {
	start := len(w.out)
	stale, err := p.stale(b)
	if err != nil {
		return false, err
	}
	var room [maxSingles / 64]uint64
	seen := room[:]
	if p.singles >= maxSingles {
		seen = make([]uint64, p.singles/64+1)
	}
	run := 0
	for pos := 0; pos < len(b); {
		if next := p.pass(b, pos); next > pos {
			pos = next
			continue
		}
		num, typ, at, end := fieldAt(b, pos)
		if end < 0 {
			return false, malformed()
		}
		f := p.field(num)
		isKnown := f != nil && (typ == f.typ || f.packs && typ == protowire.BytesType)
		isStale := isKnown && f.oneof > 0 && pos < stale[f.oneof-1]
		if isKnown && !isStale && f.Action == Show && f.below == nil {
			pos = end
			continue
		}
		if isKnown && f.isAgain(seen) { // in parts, which mean something else than each of them
			w.out = w.out[:start]
			if b, err = p.merged(b); err == nil {
				_, err = w.members(p, b, depth)
			}
			return true, err
		}
		mark := len(w.out)
		w.out = append(w.out, b[run:pos]...)
		isChanged := true
		if isKnown && !isStale {
			if isChanged, err = w.value(f, b, pos, at, end, typ, depth); err != nil {
				return false, err
			}
		}
		if isChanged {
			run, changed = end, true
		} else {
			w.out = w.out[:mark]
		}
		pos = end
	}
	w.out = append(w.out, b[run:]...)
	return changed, nil
}

// fieldAt is the field at a position: its tag, where its value begins, and the end of that; -1 where it is malformed.
func fieldAt(b []byte, pos int) (num protowire.Number, typ protowire.Type, at, end int) {
	if num, typ, at = tagAt(b, pos); at < 0 {
		return num, typ, at, -1
	}
	return num, typ, at, valueEnd(b, at, num, typ)
}

// isAgain notes a field that a message has once, and reports whether it was there before.
func (f *filterField) isAgain(seen []uint64) bool {
	if f.single == 0 {
		return false
	}
	word, bit := f.single/64, uint64(1)<<(f.single%64)
	was := seen[word]&bit != 0
	seen[word] |= bit
	return was
}

// pass returns the position behind plain fields in their shortest form, which most are.
func (p *filterPlan) pass(b []byte, pos int) int {
	for pos+1 < len(b) && b[pos] < 0x80 {
		f, value := p.dense[b[pos]>>3], b[pos+1]
		if f == nil || !f.isPlain || value >= 0x80 || protowire.Type(b[pos]&7) != f.typ {
			return pos
		}
		switch f.typ {
		case protowire.VarintType:
			pos += 2
		case protowire.BytesType:
			if pos+2+int(value) > len(b) {
				return pos
			}
			pos += 2 + int(value)
		default:
			return pos
		}
	}
	return pos
}

// stale returns, for each oneof with hidden members, where the last one of these is: members before it were replaced by it, and
// must not come back.
func (p *filterPlan) stale(b []byte) ([]int, error) {
	if p.oneofs == 0 {
		return nil, nil
	}
	last := make([]int, p.oneofs)
	for pos := 0; pos < len(b); {
		num, typ, at := tagAt(b, pos)
		if at < 0 {
			return nil, malformed()
		}
		if f := p.field(num); f != nil && f.oneof > 0 && f.Action == Hide && typ == f.typ {
			last[f.oneof-1] = pos
		}
		if pos = valueEnd(b, at, num, typ); pos < 0 {
			return nil, malformed()
		}
	}
	return last, nil
}

// merged is a message in which each single field that is concerned is in one part.
func (p *filterPlan) merged(b []byte) ([]byte, error) {
	out := make([]byte, 0, len(b))
	parts := map[*filterField][]byte{}
	var order []*filterField
	for pos := 0; pos < len(b); {
		num, typ, at, end := fieldAt(b, pos)
		if end < 0 {
			return nil, malformed()
		}
		f := p.field(num)
		isKnown := f != nil && typ == f.typ
		if isKnown {
			f.replace(parts)
		}
		if !isKnown || f.single == 0 {
			out = append(out, b[pos:end]...)
			pos = end
			continue
		}
		if _, ok := parts[f]; !ok {
			order = append(order, f)
			parts[f] = []byte{}
		}
		parts[f] = append(parts[f], contentAt(f, b, at, end)...)
		pos = end
	}
	for _, f := range order {
		content, ok := parts[f]
		if !ok {
			continue
		}
		delete(parts, f)
		out = protowire.AppendTag(out, f.fd.Number(), f.typ)
		if f.typ == protowire.StartGroupType {
			out = protowire.AppendTag(append(out, content...), f.fd.Number(), protowire.EndGroupType)
		} else {
			out = protowire.AppendBytes(out, content)
		}
	}
	return out, nil
}

// replace forgets the other members of a field's oneof.
func (f *filterField) replace(parts map[*filterField][]byte) {
	group := f.fd.ContainingOneof()
	if group == nil {
		return
	}
	for other := range parts {
		if other != f && other.fd.ContainingOneof() == group {
			delete(parts, other)
		}
	}
}

// contentAt is the content of a value that is a message or has a length.
func contentAt(f *filterField, b []byte, at, end int) []byte {
	if f.typ == protowire.StartGroupType {
		content, _ := protowire.ConsumeGroup(f.fd.Number(), b[at:end])
		return content
	}
	content, _ := protowire.ConsumeBytes(b[at:end])
	return content
}

// value appends what is left of a field. It reports false where that is the same.
func (w *filtering) value(f *filterField, b []byte, pos, at, end int, typ protowire.Type, depth int) (changed bool, err error) {
	switch f.Action {
	case Show:
		return w.nested(f, b, pos, at, end, depth)
	case Hide:
		return true, nil
	case Deny:
		if isUnset(f, b[at:end], typ) {
			return false, nil
		}
		return false, &DeniedError{Field: f.fd.FullName()}
	}
	content := contentAt(&filterField{fd: f.fd, typ: typ}, b, at, end)
	before := len(w.out)
	w.out = append(w.out, b[pos:at]...)
	switch {
	case typ == protowire.StartGroupType:
		w.out = append(w.out, f.blank...)
		w.out = protowire.AppendTag(w.out, f.fd.Number(), protowire.EndGroupType)
	case typ != protowire.BytesType:
		w.out = append(w.out, f.blank...)
	case f.fd.Message() != nil:
		w.out = protowire.AppendBytes(w.out, f.blank)
	case f.packs:
		count, ok := packedCount(content, f.typ)
		if !ok {
			w.out = w.out[:before]
			return false, malformed()
		}
		w.out = protowire.AppendVarint(w.out, uint64(count*len(f.blank)))
		for range count {
			w.out = append(w.out, f.blank...)
		}
	case len(content) > 0 && f.Action == Hash:
		w.out = protowire.AppendString(w.out, w.digest(content))
	case f.fd.Kind() == protoreflect.StringKind:
		w.text(content, f.Style)
	default:
		w.out = protowire.AppendBytes(w.out, nil)
	}
	return true, nil
}

// isUnset holds for the zero of a field without presence, which is as good as absent.
func isUnset(f *filterField, value []byte, typ protowire.Type) bool {
	if f.fd.IsList() {
		return f.packs && typ == protowire.BytesType && len(value) > 0 && value[0] == 0
	}
	if f.fd.HasPresence() || f.fd.IsMap() {
		return false
	}
	mask := byte(0xff)
	if typ == protowire.VarintType || typ == protowire.BytesType {
		mask = 0x7f
	}
	for _, c := range value {
		if c&mask != 0 {
			return false
		}
	}
	return true
}

// packedCount is the number of elements of a packed list.
func packedCount(content []byte, typ protowire.Type) (count int, ok bool) {
	switch typ {
	case protowire.Fixed32Type:
		return len(content) / 4, len(content)%4 == 0
	case protowire.Fixed64Type:
		return len(content) / 8, len(content)%8 == 0
	}
	for pos := 0; pos < len(content); count++ {
		if _, pos = varintAt(content, pos); pos < 0 {
			return 0, false
		}
	}
	return count, true
}

const (
	stars     = "********"
	shownTail = 4
)

// MaskText is a text as masks show it.
func MaskText(text []byte, style MaskStyle) string {
	count := utf8.RuneCount(text)
	if style != MaskLastFour || count < len(stars) {
		return stars[:min(count, len(stars))]
	}
	from := len(text)
	for range shownTail {
		_, size := utf8.DecodeLastRune(text[:from])
		from -= size
	}
	return stars[:shownTail] + string(text[from:])
}

func (w *filtering) text(content []byte, style MaskStyle) {
	w.out = protowire.AppendString(w.out, MaskText(content, style))
}

// nested appends a message that is treated inside.
func (w *filtering) nested(f *filterField, b []byte, pos, at, end, depth int) (changed bool, err error) {
	before := len(w.out)
	w.out = append(w.out, b[pos:at]...)
	content := contentAt(f, b, at, end)
	length := protowire.SizeVarint(uint64(len(content)))
	if f.typ == protowire.StartGroupType {
		length = 0
	}
	start := len(w.out) + length
	w.out = append(w.out, make([]byte, length)...)
	changed, shut, err := w.message(f.below, content, depth+1)
	if err != nil || !changed {
		return false, err
	}
	if shut && !f.keep {
		w.out = w.out[:before]
		return true, nil
	}
	if f.typ == protowire.StartGroupType {
		w.out = protowire.AppendTag(w.out, f.fd.Number(), protowire.EndGroupType)
		return true, nil
	}
	w.out = fitLength(w.out, start, length)
	return true, nil
}

// fitLength writes the length of what follows start into the room before it.
func fitLength(out []byte, start, room int) []byte {
	size := len(out) - start
	need := protowire.SizeVarint(uint64(size))
	if need > room {
		out = append(out, make([]byte, need-room)...)
	}
	copy(out[start-room+need:], out[start:start+size])
	out = out[:start-room+need+size]
	protowire.AppendVarint(out[:start-room], uint64(size))
	return out
}

// Fields of a message set, and of its items.
const (
	setItem            = 1
	setType, setMember = 2, 3
)

// any treats what an Any holds by its type. What cannot be read is left out.
func (w *filtering) any(b []byte, depth int) (changed, shut bool, err error) {
	var url, value []byte
	isPlain := true
	for pos := 0; pos < len(b); {
		num, typ, at := tagAt(b, pos)
		if at < 0 {
			return false, false, malformed()
		}
		if pos = valueEnd(b, at, num, typ); pos < 0 {
			return false, false, malformed()
		}
		switch {
		case typ != protowire.BytesType || num > anyValue:
			isPlain = false
		case num == anyURL:
			isPlain = isPlain && url == nil && value == nil
			url, _ = protowire.ConsumeBytes(b[at:pos])
		default:
			isPlain = isPlain && value == nil
			value, _ = protowire.ConsumeBytes(b[at:pos])
		}
	}
	if len(url) == 0 && len(value) == 0 {
		return !isPlain, false, nil
	}
	p := w.planOf(string(url))
	if p == nil {
		return true, true, nil
	}
	before := len(w.out)
	w.out = protowire.AppendBytes(protowire.AppendTag(w.out, anyURL, protowire.BytesType), url)
	w.out = protowire.AppendTag(w.out, anyValue, protowire.BytesType)
	room := protowire.SizeVarint(uint64(len(value)))
	start := len(w.out) + room
	w.out = append(w.out, make([]byte, room)...)
	if p.concerned {
		changed, _, err = w.message(p, value, depth+1)
	}
	var denied *DeniedError
	switch {
	case errors.As(err, &denied):
		return false, false, err
	case err != nil: // not of the type that it says
		w.out = w.out[:before]
		return true, true, nil //nolint:nilerr // what cannot be read is left out
	case !changed && isPlain:
		w.out = w.out[:before]
		return false, false, nil
	case !changed:
		w.out = append(w.out[:start], value...)
	}
	w.out = fitLength(w.out, start, room)
	return true, false, nil
}

// planOf is the plan of what an Any holds; nil where that is not known.
func (w *filtering) planOf(url string) *filterPlan {
	if w.opts.Resolve == nil || url == "" {
		return nil
	}
	md := w.opts.Resolve(url)
	if md == nil {
		return nil
	}
	return w.of(md, elsewhere)
}

// items treats a message set, whose members are extensions in groups. Members that are not known are left out.
func (w *filtering) items(p *filterPlan, b []byte, depth int) (changed bool, err error) {
	for pos := 0; pos < len(b); {
		num, typ, at := tagAt(b, pos)
		if at < 0 {
			return false, malformed()
		}
		start := pos
		if pos = valueEnd(b, at, num, typ); pos < 0 {
			return false, malformed()
		}
		if num != setItem || typ != protowire.StartGroupType {
			changed = true
			continue
		}
		group, _ := protowire.ConsumeGroup(num, b[at:pos])
		member, content := itemOf(group)
		f := p.field(member)
		if f != nil && f.Action == Show && f.below == nil {
			w.out = append(w.out, b[start:pos]...)
			continue
		}
		changed = true
		if f == nil || f.Action == Hide {
			continue
		}
		if f.Action == Deny {
			return false, &DeniedError{Field: f.fd.FullName()}
		}
		inner := filtering{Filters: w.Filters, digest: w.digest}
		if f.below != nil {
			if did, _, err := inner.message(f.below, content, depth+1); err != nil {
				return false, err
			} else if !did {
				inner.out = content
			}
		} else {
			inner.out = f.blank
		}
		w.out = protowire.AppendTag(w.out, setItem, protowire.StartGroupType)
		w.out = protowire.AppendVarint(protowire.AppendTag(w.out, setType, protowire.VarintType), uint64(member))
		w.out = protowire.AppendBytes(protowire.AppendTag(w.out, setMember, protowire.BytesType), inner.out)
		w.out = protowire.AppendTag(w.out, setItem, protowire.EndGroupType)
	}
	return changed, nil
}

// itemOf reads an item of a message set: the number of its extension, and the content.
func itemOf(group []byte) (member protowire.Number, content []byte) {
	for pos := 0; pos < len(group); {
		num, typ, at := tagAt(group, pos)
		if at < 0 {
			return 0, nil
		}
		if pos = valueEnd(group, at, num, typ); pos < 0 {
			return 0, nil
		}
		switch {
		case num == setType && typ == protowire.VarintType:
			v, _ := varintAt(group, at)
			if v > uint64(1<<31-1) {
				return 0, nil
			}
			member = protowire.Number(v)
		case num == setMember && typ == protowire.BytesType:
			part, _ := protowire.ConsumeBytes(group[at:pos])
			content = append(content, part...)
		}
	}
	return member, content
}
