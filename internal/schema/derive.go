// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// errNoDescriptor is returned by Derive if the descriptor is missing.
var errNoDescriptor = errors.New("schema: no message descriptor")

// Derive generates the canonical and the advertised schema of a message, for one direction. The same descriptor and
// options always give the same bytes. What exceeds the bounds is left open and named in Warnings. The only errors are a
// missing descriptor (errNoDescriptor) and one whose file could not be resolved.
func Derive(md protoreflect.MessageDescriptor, dir Direction, opts Options) (*Schema, error) {
	return derive(md, dir, nil, opts, partBoth)
}

// derive is Derive for one form or both, or for the arguments of a tool that takes a stream of messages, where one is given.
func derive(md protoreflect.MessageDescriptor, dir Direction, of *Stream, opts Options, part Part) (*Schema, error) {
	if md == nil {
		return nil, errNoDescriptor
	}
	if md.IsPlaceholder() {
		return nil, fmt.Errorf("schema: message %s is not in the descriptor set", md.FullName())
	}
	opts = opts.withDefaults()
	if opts.Sight != nil {
		opts.Examples = nil // which are of whole results
		opts.WithoutRules = opts.WithoutRules || opts.Sight.loosens(md, opts.Extensions)
	}
	out := &Schema{Wrapped: of == nil && IsWrapped(md, dir)}
	scratch := make([]byte, 0, usualBytes)
	if part&PartCanonical != 0 {
		d := newDeriver(md, dir, opts, dir == Input)
		d.scratch, d.stream = scratch, of
		doc, err := d.bounded(md, []plan{{share: true}})
		if err != nil {
			return nil, err
		}
		if out.Wrapped && dir == Input {
			doc = eitherForm(doc)
		}
		out.Canonical, scratch = d.encode(doc), d.scratch
		out.Warnings = d.warnings("canonical")
	}
	if part&PartAdvertised != 0 {
		d := newDeriver(md, dir, opts, false)
		d.scratch, d.shown, d.stream = scratch, true, of
		doc, err := d.advertised(md, out.Wrapped)
		if err != nil {
			return nil, err
		}
		out.Advertised = d.encode(doc)
		out.Warnings = append(out.Warnings, d.warnings("advertised")...)
	}
	if part&PartShared != 0 {
		var err error
		if out.Shared, err = deriveShared(md, dir, of, opts, out.Wrapped); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// advertised is the form for clients.
func (d *deriver) advertised(md protoreflect.MessageDescriptor, isWrapped bool) (*object, error) {
	if d.dir == Input && d.opts.Profile == ProfileStrict {
		doc := d.strict(md)
		d.describeWrapped(doc, md, isWrapped)
		return doc, nil
	}
	doc, err := d.bounded(md, []plan{{share: false, bytes: d.opts.InlineBytes}, {share: true}})
	if err == nil && isWrapped {
		doc = wrapped(doc)
		d.describeWrapped(doc, md, d.dir == Input)
	}
	if err == nil && d.opts.Profile == ProfileStrict {
		doc = d.strictOutput(doc)
	}
	return doc, err
}

// describeWrapped gives the one member of a wrapped input the description in Options.Words.
func (d *deriver) describeWrapped(doc *object, md protoreflect.MessageDescriptor, isWrapped bool) {
	text := d.opts.Words[wrappedName(md)]
	properties, _ := doc.get("properties").(*object)
	if text == "" || !isWrapped || properties == nil {
		return
	}
	if value, ok := properties.get(wrappedMember).(*object); ok {
		d.describe(value, text, value.words())
	}
}

// usualBytes is the room that most schemas fit into.
const usualBytes = 4 << 10

// deriver writes one schema. all is set where every ProtoJSON form is admitted, else one form is shown. Only the canonical
// schema of an input has it: what the transcoder writes has one form. It belongs to one call of Derive. What write fills is
// cleared by each attempt; graph stays, since it does not depend on the attempt.
type deriver struct {
	dir   Direction
	opts  Options
	needs *Needs
	all   bool
	// shown is set for the advertised schema, which clients compile and models read.
	shown bool

	graph   *graph
	root    protoreflect.MessageDescriptor
	stream  *Stream // the root is the items of a stream; nil: it is the document
	share   bool    // messages used more than once go to $defs
	cut     int     // messages farther than this from the root are left open
	defs    *object
	pending []protoreflect.MessageDescriptor
	count   int
	opened  map[protoreflect.FullName]bool
	// resources are the patterns of resource names by type, by file.
	resources map[string]map[string][]string
	noted     []string
	// here is the position of the message that is being written, for Options.Sight. masking is set for a field of which no value
	// is shown.
	here    *Place
	masking bool
	// names are those of $defs, and inline the messages that are not worth a reference; nil but for Schema.Shared.
	names  *defNames
	inline map[protoreflect.FullName]bool

	written *object // what write made last, and its JSON
	encoded []byte
	scratch []byte // where JSON is written first, so that what is kept is no larger than it has to be
}

// plan is one way to write a schema; the first whose result fits is taken.
type plan struct {
	share bool
	bytes int // a tighter bound than Options.MaxBytes, or 0
}

func newDeriver(md protoreflect.MessageDescriptor, dir Direction, opts Options, all bool) *deriver {
	d := &deriver{dir: dir, opts: opts, needs: cmp.Or(opts.Needs, new(Needs)), all: all, root: md}
	d.graph = d.newGraph(md)
	return d
}

// bounded tries the plans, and then the last of them with less and less below the root. A message far from the root says
// least to a reader, and is left open first. Each cut keeps three quarters of the depth, so that a schema of any depth takes
// few attempts. At cut 0 only the root remains, and if that is too large an open object does: Derive never fails for size.
func (d *deriver) bounded(md protoreflect.MessageDescriptor, plans []plan) (*object, error) {
	const everything = 1 << 30
	for _, p := range plans {
		if doc, ok := d.write(md, p, everything); ok {
			return doc, nil
		}
	}
	deepest := 0
	for _, n := range d.graph.distance {
		deepest = max(deepest, n)
	}
	last := plan{share: true}
	for cut := deepest - 1; cut >= 0; cut = cut * 3 / 4 {
		if doc, ok := d.write(md, last, cut); ok {
			return doc, nil
		}
		if cut == 0 {
			break
		}
	}
	d.note("message %s alone exceeds the size limit: its schema is left open", md.FullName())
	return newObject("type", "object"), nil
}

// write makes one attempt. Messages that place put behind a reference wait in pending and are written to $defs here, not
// where they were met, so that the depth of the recursion follows MaxDepth and not the descriptor. d.count stops an attempt
// before it takes much memory: inlined messages can grow exponentially with their depth.
func (d *deriver) write(md protoreflect.MessageDescriptor, p plan, cut int) (*object, bool) {
	d.share, d.cut, d.count = p.share, cut, 0
	d.defs, d.pending, d.noted = &object{}, nil, nil
	d.opened = map[protoreflect.FullName]bool{}
	d.here = d.opts.Sight.Root()
	doc := d.document(md)
	d.here = nil
	for len(d.pending) > 0 && d.count <= d.opts.MaxSchemas {
		next := d.pending[0]
		d.pending = d.pending[1:]
		d.defs.set(d.defName(next), d.message(next, d.refTo(next), 0))
	}
	if d.count > d.opts.MaxSchemas {
		return nil, false
	}
	if d.defs.size() > 0 {
		doc.set("$defs", d.defs)
	}
	d.showResults(doc, md)
	limit := d.opts.MaxBytes
	if p.bytes > 0 {
		limit = min(limit, p.bytes)
	}
	if countSchemas(doc) > d.opts.MaxSchemas {
		return nil, false
	}
	if d.scratch = appendJSON(d.scratch[:0], doc); len(d.scratch) > limit {
		return doc, false
	}
	d.written, d.encoded = doc, bytes.Clone(d.scratch)
	return doc, true
}

// encode is the JSON of a schema, which write most often has made already.
func (d *deriver) encode(doc *object) []byte {
	if doc == d.written {
		return d.encoded
	}
	d.scratch = appendJSON(d.scratch[:0], doc)
	return bytes.Clone(d.scratch)
}

// document writes the schema of a whole document.
func (d *deriver) document(md protoreflect.MessageDescriptor) *object {
	if d.stream != nil {
		return d.streamDocument(md)
	}
	return d.rootSchema(md)
}

// rootRef is the reference to the place of the root message.
func (d *deriver) rootRef() string {
	if d.stream != nil {
		return itemRef
	}
	return "#"
}

func (d *deriver) rootSchema(md protoreflect.MessageDescriptor) *object {
	if IsWellKnown(md) {
		doc := d.wellKnown(md, nil, nil, false)
		if !doc.has("description") {
			d.describe(doc, comment(md))
		}
		return doc
	}
	return d.message(md, d.rootRef(), 0)
}

func (d *deriver) note(format string, args ...any) {
	d.noted = append(d.noted, fmt.Sprintf(format, args...))
}

func (d *deriver) warnings(which string) []string {
	var out []string
	for _, w := range d.noted {
		out = append(out, which+" "+strings.ToLower([]string{"input", "output"}[d.dir])+" schema: "+w)
	}
	return out
}

// refTo is where a message is in $defs. Names need no escape in a JSON Pointer or a URI.
func (d *deriver) refTo(md protoreflect.MessageDescriptor) string { return defsRef + d.defName(md) }

// defsRef is how references into $defs begin.
const defsRef = "#/$defs/"

// pointerTo is where a value is. Only the canonical schema refers to places other than $defs, for the second names of
// fields; for the others the work is saved.
func (d *deriver) pointerTo(base string, tokens ...string) string {
	if !d.all {
		return base
	}
	return pointerTo(base, tokens...)
}

// pointerTo extends a reference by property names, escaped for JSON Pointer and then for a URI fragment.
func pointerTo(base string, tokens ...string) string {
	for _, t := range tokens {
		if isWord(t) {
			base += "/" + t
			continue
		}
		base += "/" + url.PathEscape(strings.TrimPrefix(AppendPointer("", t), "/"))
	}
	return base
}

// isWord holds for names that need no escape anywhere, as nearly all of fields do.
func isWord(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return name != ""
}

// place writes a message where a field holds it: inline, or as a reference. at is the reference to the place.
//
// A message that contains itself has to stand behind a reference, or inlining would not end. The root is one already, under
// "#". A message deeper than MaxDepth goes to $defs as well and begins there at depth 0. A reference is shorter, but some
// model APIs and clients do not follow one: so a message is only shared for its size where the plan says so.
func (d *deriver) place(md protoreflect.MessageDescriptor, at string, depth int, nullable bool) *object {
	name := md.FullName()
	if md.IsPlaceholder() {
		d.open(name, "is not in the descriptor set")
		return newObject("type", typeOrNull(nullable, "object"))
	}
	if d.graph.distance[name] > d.cut {
		d.open(name, "is left open to keep the schema within its size limit")
		return newObject("type", typeOrNull(nullable, "object"))
	}
	isRoot := name == d.root.FullName() && !IsWellKnown(d.root)
	if d.here == nil && isRoot && d.opts.Sight.Root() == nil {
		return orNull(newObject("$ref", d.rootRef()), nullable)
	}
	// What is seen in another way than elsewhere has its own schema in its place. There are as many such places as paths.
	if d.here == nil && (isRoot || d.graph.recursive[name] || depth >= d.opts.MaxDepth || d.share && d.graph.uses[name] > 1 && !d.inline[name]) {
		if key := d.defName(md); !d.defs.has(key) {
			d.defs.set(key, nil)
			d.pending = append(d.pending, md)
		}
		return orNull(newObject("$ref", d.refTo(md)), nullable)
	}
	doc := d.message(md, at, depth)
	if nullable {
		allowNull(doc)
	}
	return doc
}

func (d *deriver) open(name protoreflect.FullName, why string) {
	if !d.opened[name] {
		d.opened[name] = true
		d.note("message %s %s", name, why)
	}
}

func orNull(o *object, nullable bool) *object {
	if !nullable {
		return o
	}
	return newObject("anyOf", []any{o, newObject("type", "null")})
}

// allowNull admits null beside an object: the clauses about its members then only hold for objects.
func allowNull(doc *object) {
	doc.set("type", []string{"object", "null"})
	if clauses, ok := doc.get("allOf").([]any); ok {
		doc.set("allOf", []any{newObject("if", newObject("type", "object"), "then", newObject("allOf", clauses))})
	}
}

// message writes the schema of an ordinary message. The canonical schema has one property for each name of a field: the
// first has the schema, the others refer to it, so that both names are held to the same rules, and dependentSchemas keeps
// them from coming together. A required field may then come under any one name, which is a clause in allOf.
func (d *deriver) message(md protoreflect.MessageDescriptor, at string, depth int) *object {
	d.count++
	doc := newObject("type", "object")
	properties, together, clauses := &object{}, &object{}, []any(nil)
	said := d.annotatedMessage(md)
	var required []string
	here := d.here
	for _, fd := range d.fieldsOf(md) {
		if d.opts.Sight.Hides(here, fd) {
			continue
		}
		if d.count > d.opts.MaxSchemas {
			break // write gives up, so the rest need not be right
		}
		f := d.fieldOf(fd, said)
		names := Names(fd)
		place := d.pointerTo(at, "properties", names[0])
		d.here = here.Below(fd)
		properties.set(names[0], d.property(f, place, depth+1))
		d.here = here
		if d.requires(f) {
			if !d.all || len(names) == 1 {
				required = append(required, names[0])
			} else {
				clauses = append(clauses, requiredUnderOneName(names))
			}
		}
		if d.all && len(names) > 1 {
			for _, alias := range names[1:] {
				properties.set(alias, newObject("$ref", place))
			}
			refuseSecondNames(together, names)
		}
	}
	oneofs, text := d.oneofs(md)
	rules := ""
	if !d.isLimited(md) {
		rules = d.messageRuleText(md)
	}
	d.describe(doc, messageWords(md, said), d.deprecation(md), text, rules)
	if isDeprecated(md) {
		doc.set("deprecated", true)
	}
	doc.set("properties", properties)
	if len(required) > 0 {
		doc.set("required", required)
	}
	doc.set("additionalProperties", false)
	if together.size() > 0 {
		doc.set("dependentSchemas", together)
	}
	if d.all {
		clauses = append(clauses, oneofs...)
		if len(clauses) > 0 {
			doc.set("allOf", clauses)
		}
		return doc
	}
	if examples := d.messageExamples(doc, md, said); len(examples) > 0 {
		doc.set("examples", examples)
	}
	// Model APIs refuse a root with allOf, anyOf, oneOf or not; a condition that must not fail says the same.
	switch len(oneofs) {
	case 0:
	case 1:
		doc.set("if", oneofs[0]).set("else", never())
	default:
		doc.set("if", newObject("allOf", oneofs)).set("else", never())
	}
	return doc
}

// never is the schema that nothing satisfies, in the form of an object: tools that port schemas to model APIs do not take
// the bare false outside of additionalProperties.
func never() *object { return newObject("not", &object{}) }

// requires reports whether the member of a field has to be there. The advertised schema of an output requires none: a caller
// may ask for a part of the fields, and what exceeds a budget is left out (docs/results.md).
func (d *deriver) requires(f field) bool {
	if d.dir == Output {
		return !d.shown && !f.look.varies && (f.must || isAlwaysWritten(f.fd))
	}
	return f.must
}

// isAlwaysWritten holds for the fields that the transcoder writes even where they hold their default.
func isAlwaysWritten(fd protoreflect.FieldDescriptor) bool {
	return !fd.IsExtension() && (!fd.HasPresence() || fd.Cardinality() == protoreflect.Required)
}

func requiredUnderOneName(names []string) *object {
	var branches []any
	for _, n := range names {
		branches = append(branches, newObject("required", []string{n}))
	}
	return newObject("anyOf", branches)
}

// refuseSecondNames refuses a field that is given under two of its names. The description is the text of the violation: "not"
// by itself says nothing to a caller (see reporter.flatten).
func refuseSecondNames(together *object, names []string) {
	for i, first := range names[:len(names)-1] {
		refused := &object{}
		for _, second := range names[i+1:] {
			text := "wanted one name of the field, found " + quote(second) + " beside " + quote(first)
			refused.set(second, newObject("description", text, "not", &object{}))
		}
		together.set(first, newObject("properties", refused))
	}
}

// deprecation is empty where the keyword says it and is enough.
func (d *deriver) deprecation(of protoreflect.Descriptor) string {
	if d.isBrief() {
		return ""
	}
	return deprecation(of)
}

func deprecation(d protoreflect.Descriptor) string {
	if isDeprecated(d) {
		return "Deprecated."
	}
	return ""
}

// field is one field with everything that its options say about the value.
type field struct {
	fd    protoreflect.FieldDescriptor
	rules *validate.FieldRules // nil: none
	// must: the member has to be there, and null does not do.
	must bool
	// nonZero: the value has to differ from the type's zero, because only so can an implicit presence be seen.
	nonZero bool
	// given is the description in Options.Words; the advertised schema alone has it.
	given string
	// said is what annotations of other tools say, and patterns the forms of the resource name that the field holds, as its
	// message declares them. Only the advertised schema has them.
	said     FieldAnnotations
	patterns []string
	// look is what its caller sees of it.
	look look
}

// newField decides whether a field has to be there. There are five reasons: proto2's required; REQUIRED in an input;
// protovalidate's required; rules that the zero value breaks, for a field without presence, of which protovalidate
// sees the zero where the field is absent; and rules of the message that its absence breaks. protovalidate's required also means that a field without presence is not zero.
// The advertised input takes the rules of other annotations where protovalidate has none.
func (d *deriver) newField(fd protoreflect.FieldDescriptor) field {
	f := d.ownField(fd)
	if d.dir == Input && d.opts.Filled != "" && d.opts.Filled == fd.FullName() {
		f.must = false
	}
	return f
}

// ownField is newField for what callers have to fill themselves.
func (d *deriver) ownField(fd protoreflect.FieldDescriptor) field {
	f := field{fd: fd, must: fd.Cardinality() == protoreflect.Required, said: d.annotatedField(fd)}
	if d.shown {
		f.given = d.opts.Words[fd.FullName()]
	}
	if d.dir == Input && BehaviorOf(fd).Required {
		f.must = true
	}
	if d.guides() && f.said.Required {
		f.require()
	}
	if d.opts.WithoutRules {
		return f
	}
	f.must = f.must || d.needs.absenceBreaks(fd)
	if f.rules = fieldRules(fd); f.rules == nil && d.guides() {
		f.rules = f.said.Rules
	}
	if f.rules == nil {
		return f
	}
	if f.rules.GetRequired() {
		f.must, f.nonZero = true, !fd.HasPresence()
	}
	if !fd.HasPresence() && !ignoresZero(f.rules) && (!zeroHolds(fd, f.rules) || d.needs.zeroBreaks(fd, f.rules)) {
		f.must = true
	}
	return f
}

func ignoresZero(rules *validate.FieldRules) bool {
	return rules.GetIgnore() == validate.Ignore_IGNORE_IF_ZERO_VALUE
}

// value is what is wanted of one value: of a singular field, an element, a map key or a map value.
type value struct {
	rules    *validate.FieldRules
	nullable bool // null represents absence
	nonZero  bool
}

// isFree reports whether the type says all there is to say, as it does of most fields.
func (v value) isFree() bool { return v.rules == nil && !v.nonZero }

func elementRules(rules *validate.FieldRules) *validate.FieldRules {
	if rules.GetIgnore() == validate.Ignore_IGNORE_ALWAYS {
		return nil
	}
	return rules
}

// property writes the schema of a field. at is the reference to the place where it will stand.
func (d *deriver) property(f field, at string, depth int) *object {
	nullable := d.all && !f.must
	var doc *object
	d.masking = f.look.isMasked()
	switch {
	case f.fd.IsMap():
		doc = d.mapping(f, at, depth, nullable)
	case f.fd.IsList():
		doc = d.array(f, at, depth, nullable)
	default:
		doc = d.single(f.fd, value{rules: f.rules, nullable: nullable, nonZero: f.nonZero}, at, depth)
	}
	d.masking = false
	d.describe(doc, f.words(), d.deprecation(f.fd), doc.words(), celText(f.rules.GetCel(), f.rules.GetCelExpression()), d.guide(doc, f), d.shownAs(doc, f))
	if isDeprecated(f.fd) {
		doc.set("deprecated", true)
	}
	return doc
}

// typeOrNull is the value of "type".
func typeOrNull(nullable bool, names ...string) any {
	if nullable {
		return slices.Concat(names, []string{"null"})
	}
	if len(names) == 1 {
		return names[0]
	}
	return slices.Clone(names) // so that the list of a single name stays on the stack
}

func (d *deriver) array(f field, at string, depth int, nullable bool) *object {
	d.count++
	rules := f.rules.GetRepeated()
	doc := newObject("type", typeOrNull(nullable, "array"))
	items := d.single(f.fd, value{rules: elementRules(rules.GetItems())}, d.pointerTo(at, "items"), depth)
	doc.set("items", items)
	d.finishMany(doc, listLimits(f), newObject("maxItems", 0), "minItems", f.rules)
	return doc
}

// finishMany is finish for a list or a map. The advertised schema of an output has no least number: elements that exceed a
// budget are left out (docs/results.md).
func (d *deriver) finishMany(doc, limits, zero *object, least string, rules *validate.FieldRules) {
	if d.dir == Input || !d.shown {
		d.finish(doc, limits, zero, rules)
		return
	}
	limits.remove(least)
	doc.setAll(limits)
}

// listLimits is what rules say of a list as a whole.
func listLimits(f field) *object {
	rules, limits := f.rules.GetRepeated(), &object{}
	least := rules.GetMinItems()
	if f.nonZero {
		least = max(least, 1)
	}
	setLimit(limits, "minItems", least)
	if rules.HasMaxItems() {
		setMost(limits, "maxItems", rules.GetMaxItems())
	}
	if rules.GetUnique() {
		limits.set("uniqueItems", true)
	}
	return limits
}

func (d *deriver) mapping(f field, at string, depth int, nullable bool) *object {
	d.count++
	rules := f.rules.GetMap()
	doc := newObject("type", typeOrNull(nullable, "object"))
	if names := d.keys(f.fd.MapKey(), elementRules(rules.GetKeys())); names.size() > 0 {
		doc.set("propertyNames", names)
	}
	values := d.single(f.fd.MapValue(), value{rules: elementRules(rules.GetValues())}, d.pointerTo(at, "additionalProperties"), depth)
	doc.set("additionalProperties", values)
	d.finishMany(doc, mapLimits(f), newObject("maxProperties", 0), "minProperties", f.rules)
	return doc
}

// mapLimits is what rules say of a map as a whole.
func mapLimits(f field) *object {
	rules, limits := f.rules.GetMap(), &object{}
	least := rules.GetMinPairs()
	if f.nonZero {
		least = max(least, 1)
	}
	setLimit(limits, "minProperties", least)
	if rules.HasMaxPairs() {
		setMost(limits, "maxProperties", rules.GetMaxPairs())
	}
	return limits
}

// setLimit sets a lower bound of a length. One that nothing can reach is that of the numbers which every client reads.
func setLimit(o *object, keyword string, least uint64) {
	if least > 0 {
		o.set(keyword, number(min(least, maxSafe)))
	}
}

// setMost sets an upper bound of a length. One that nothing can reach says nothing, and is left out: some clients refuse a
// number that they cannot hold.
func setMost(o *object, keyword string, most uint64) {
	if most <= maxSafe {
		o.set(keyword, number(most))
	}
}

// maxSafe is the largest integer that every reader of JSON holds exactly.
const maxSafe = 1<<53 - 1

// finish joins what the type says (doc) with what the rules say (limits). Where the rules leave the zero value alone
// (IGNORE_IF_ZERO_VALUE), the schema has to admit it beside them; the advertised schema of an input need not show that form,
// since a caller can leave the field out. A keyword of the rules replaces the one of the type: it is never wider.
func (d *deriver) finish(doc, limits, zero *object, rules *validate.FieldRules) {
	if limits.size() == 0 {
		return
	}
	if rules != nil && ignoresZero(rules) && (d.all || d.dir == Output) {
		doc.set("anyOf", []any{zero, limits})
		return
	}
	doc.setAll(limits)
}

// single writes the schema of one value.
func (d *deriver) single(fd protoreflect.FieldDescriptor, v value, at string, depth int) *object {
	d.count++
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		md := fd.Message()
		if IsWellKnown(md) {
			return d.shareValue(md.FullName(), v, d.wellKnown(md, fd, v.rules, v.nullable))
		}
		if d.masking {
			return newObject("type", typeOrNull(v.nullable, "object")) // an empty message, whatever its fields are held to
		}
		return d.place(md, at, depth, v.nullable)
	case protoreflect.EnumKind:
		return d.shareValue(fd.Enum().FullName(), v, d.enum(fd.Enum(), v))
	default:
		return d.scalar(fd.Kind(), v)
	}
}

func (d *deriver) scalar(kind protoreflect.Kind, v value) *object {
	switch kind {
	case protoreflect.BoolKind:
		return d.boolean(v)
	case protoreflect.StringKind:
		return d.text(v)
	case protoreflect.BytesKind:
		return d.bytes(v)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		return d.float(kind, v)
	default:
		return d.integer(kind, v)
	}
}

func (d *deriver) boolean(v value) *object {
	doc := newObject("type", typeOrNull(v.nullable, "boolean"))
	if v.isFree() {
		return doc
	}
	rules := v.rules.GetBool()
	limits := &object{}
	switch {
	case rules.HasConst():
		limits.set("enum", []any{rules.GetConst()})
	case v.nonZero:
		limits.set("enum", []any{true})
	}
	if limits.size() > 0 && v.nullable {
		limits.set("enum", append(limits.get("enum").([]any), nil))
	}
	d.finish(doc, limits, newObject("enum", []any{false, nil}), v.rules)
	return doc
}

// Names returns the names that ProtoJSON accepts for a field, the one that it writes first: the JSON name, the name
// in the .proto file, and for a group also the name of its type. An extension has one name, in brackets.
func Names(fd protoreflect.FieldDescriptor) []string {
	if fd.IsExtension() {
		return []string{"[" + string(fd.FullName()) + "]"}
	}
	names := append(make([]string, 0, 2), fd.JSONName())
	if !utf8.ValidString(names[0]) {
		// Nothing keeps a corrupt descriptor from having such a name, and no
		// JSON text can have it.
		names = []string{string(fd.Name())}
	}
	candidates := []string{fd.TextName(), string(fd.Name())}
	if fd.Kind() == protoreflect.GroupKind {
		candidates = append(candidates, strings.ToLower(fd.JSONName()), strings.ToLower(fd.TextName()))
	}
	for _, name := range candidates {
		if !slices.Contains(names, name) && byName(fd.ContainingMessage().Fields(), name) == fd {
			names = append(names, name)
		}
	}
	return names
}

// byName resolves a member name as ProtoJSON does: the JSON name goes first.
func byName(fields protoreflect.FieldDescriptors, name string) protoreflect.FieldDescriptor {
	if fd := fields.ByJSONName(name); fd != nil {
		return fd
	}
	return fields.ByTextName(name)
}

// fieldsOf lists the fields that a message has in one direction: those declared, in the order of the file, then the
// known extensions by number.
func (d *deriver) fieldsOf(md protoreflect.MessageDescriptor) []protoreflect.FieldDescriptor {
	declared := md.Fields()
	fields := make([]protoreflect.FieldDescriptor, 0, declared.Len())
	for i := range declared.Len() {
		fd := declared.Get(i)
		if !BehaviorOf(fd).Hides(d.dir) {
			fields = append(fields, fd)
		}
	}
	if d.opts.Extensions == nil || md.ExtensionRanges().Len() == 0 {
		return fields
	}
	var more []protoreflect.FieldDescriptor
	d.opts.Extensions.RangeExtensionsByMessage(md.FullName(), func(t protoreflect.ExtensionType) bool {
		more = append(more, t.TypeDescriptor())
		return true
	})
	slices.SortFunc(more, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	return append(fields, more...)
}

// TakesNull reports whether JSON null is a value of a field, and not its absence.
func TakesNull(fd protoreflect.FieldDescriptor) bool {
	if md := fd.Message(); md != nil {
		return md.FullName() == "google.protobuf.Value"
	}
	return fd.Enum() != nil && fd.Enum().FullName() == "google.protobuf.NullValue"
}

// object is a JSON object that remembers the order of its members, so that a schema reads in the order in which the
// fields were declared and the same descriptor always gives the same bytes.
type object struct {
	members []member
	// few is where they stand while there are few, so that most objects are one piece
	// of memory. An object is not copied.
	few [2]member
}

type member struct {
	name  string
	value any // *object, []any, []string, string, bool, int, json.Number, json.RawMessage or nil
}

func newObject(pairs ...any) *object {
	o := &object{}
	if n := len(pairs) / 2; n > len(o.few) {
		o.members = make([]member, 0, n)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		o.set(pairs[i].(string), pairs[i+1])
	}
	return o
}

// set adds a member, or replaces the value of the one that has the name already.
func (o *object) set(name string, value any) *object {
	if i := o.index(name); i >= 0 {
		o.members[i].value = value
		return o
	}
	if o.members == nil {
		o.members = o.few[:0]
	}
	o.members = append(o.members, member{name, value})
	return o
}

// setAll sets all members of another object.
func (o *object) setAll(from *object) {
	for _, m := range from.members {
		o.set(m.name, m.value)
	}
}

func (o *object) index(name string) int {
	return slices.IndexFunc(o.members, func(m member) bool { return m.name == name })
}

func (o *object) get(name string) any {
	if i := o.index(name); i >= 0 {
		return o.members[i].value
	}
	return nil
}

func (o *object) has(name string) bool { return o.index(name) >= 0 }

func (o *object) remove(name string) {
	o.members = slices.DeleteFunc(o.members, func(m member) bool { return m.name == name })
}

// words are the description of a schema.
func (o *object) words() string {
	text, _ := o.get("description").(string)
	return text
}

func (o *object) size() int { return len(o.members) }

// merge copies the members of other; a keyword that is there already moves into an allOf, so that neither is lost.
func (o *object) merge(other *object) {
	for _, m := range other.members {
		switch {
		case !o.has(m.name):
			o.set(m.name, m.value)
		case m.name == "allOf":
			all, _ := o.get("allOf").([]any)
			more, _ := m.value.([]any)
			o.set("allOf", append(append([]any(nil), all...), more...))
		default:
			all, _ := o.get("allOf").([]any)
			o.set("allOf", append(append([]any(nil), all...), newObject(m.name, m.value)))
		}
	}
}

// appendJSON writes compact JSON. It knows every type that the builders put into an object.
func appendJSON(dst []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		return strconv.AppendBool(dst, v)
	case int:
		return strconv.AppendInt(dst, int64(v), 10)
	case json.RawMessage:
		return append(dst, v...)
	case json.Number:
		return append(dst, v...)
	case string:
		return jsontext.AppendString(dst, v)
	case []string:
		dst = append(dst, '[')
		for i, s := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, s)
		}
		return append(dst, ']')
	case []any:
		dst = append(dst, '[')
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, e)
		}
		return append(dst, ']')
	case *object:
		dst = append(dst, '{')
		for i, m := range v.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = jsontext.AppendString(dst, m.name)
			dst = append(dst, ':')
			dst = appendJSON(dst, m.value)
		}
		return append(dst, '}')
	default:
		// The builders are in this package: another type is a slip that the golden tests would show.
		return jsontext.AppendString(dst, fmt.Sprint(v))
	}
}

// countSchemas counts the objects of a schema: a close upper bound of its subschemas, and of what a reader has to hold.
// deriver.count, which stops an attempt on the way, is coarser: it counts messages and values.
func countSchemas(v any) int {
	n := 0
	switch v := v.(type) {
	case *object:
		n = 1
		for _, m := range v.members {
			n += countSchemas(m.value)
		}
	case []any:
		for _, e := range v {
			n += countSchemas(e)
		}
	}
	return n
}

// oneofs returns one condition for each oneof of a message, and the sentences that say the same. The answer of a tool
// needs neither: what the transcoder writes cannot break a oneof.
//
// A condition is a oneOf with one branch for each member that may be set and, where the oneof may be empty, one branch
// for none, so it grows with the number of members and not with its square. In the canonical schema a member that is
// null counts as absent, as in ProtoJSON. The sentences say the same to a model, and are the text of a violation, since
// "oneOf" by itself does not say which members are meant. Each is written once: in the canonical schema at its condition, in
// the advertised one in the description of the message, unless a comment says it already.
func (d *deriver) oneofs(md protoreflect.MessageDescriptor) (conditions []any, text string) {
	if d.dir == Output {
		return nil, ""
	}
	var sentences []string
	for i := range md.Oneofs().Len() {
		od := md.Oneofs().Get(i)
		if od.IsSynthetic() {
			continue
		}
		required := d.wantsOne(od)
		var shown []string
		var branches []any
		none := &object{}
		for j := range od.Fields().Len() {
			fd := od.Fields().Get(j)
			if BehaviorOf(fd).Hides(d.dir) {
				continue
			}
			names := Names(fd)
			shown = append(shown, names[0])
			if !d.all {
				names = names[:1]
			}
			for _, name := range names {
				branches = append(branches, d.isSet(fd, name))
				none.set(name, d.isUnset(fd))
			}
		}
		if len(shown) == 0 {
			continue
		}
		sentence := fmt.Sprintf("At most one of %s may be set (%s).", strings.Join(shown, ", "), od.Name())
		if required {
			sentence = fmt.Sprintf("Exactly one of %s must be set (%s).", strings.Join(shown, ", "), od.Name())
		}
		if len(branches) == 1 && !required {
			continue
		}
		comment := comment(od)
		if comment != "" {
			sentences = append(sentences, comment)
		}
		if d.needsSentence(od, shown) {
			sentences = append(sentences, sentence)
		}
		if !required {
			branches = append(branches, newObject("properties", none))
		}
		condition := newObject("oneOf", branches)
		if d.all {
			condition.set("description", sentence)
		}
		conditions = append(conditions, condition)
	}
	return conditions, strings.Join(sentences, "\n")
}

// oneOfWords are the ways in which comments say that fields exclude each other.
var oneOfWords = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b(one of|only one|exactly one|either|mutually exclusive)\b`)
})

// needsSentence reports whether nothing else in the schema says in words that the fields of a oneof exclude each other.
func (d *deriver) needsSentence(od protoreflect.OneofDescriptor, fields []string) bool {
	return !d.all && (!d.isBrief() || !saysOneOf(comment(od)) && !saysOneOf(comment(od.Parent()), fields...))
}

// saysOneOf reports whether a comment says that fields exclude each other, and names all of the given ones.
func saysOneOf(comment string, fields ...string) bool {
	words := lettersOf(comment)
	for _, name := range fields {
		if !strings.Contains(words, lettersOf(name)) {
			return false
		}
	}
	return oneOfWords().MatchString(comment)
}

// wantsOne reports whether one of the fields has to be set, by protovalidate's rules or by those that callers are only shown.
func (d *deriver) wantsOne(od protoreflect.OneofDescriptor) bool {
	return !d.opts.WithoutRules && (OneofRequired(od) || d.guides() && isOneofRequiredByAnnotation(od))
}

func (d *deriver) isSet(fd protoreflect.FieldDescriptor, name string) *object {
	o := newObject("required", []string{name})
	if d.all && !TakesNull(fd) {
		o.set("properties", newObject(name, newObject("not", newObject("type", "null"))))
	}
	return o
}

func (d *deriver) isUnset(fd protoreflect.FieldDescriptor) any {
	if d.all && !TakesNull(fd) {
		return newObject("type", "null")
	}
	return false
}

// enum writes the schema of an enum. Canonical: the names, aliases included, or a number: any int32 of an open enum,
// only the known ones of a closed enum, where an unknown number would be lost on the way. Advertised: the first name of
// each number, in an input without the zero value that says nothing, since a caller can leave the field out; an answer may also be a number that a newer backend knows, of a closed enum too, because the Go runtime keeps
// what other languages put among the unknown fields.
func (d *deriver) enum(ed protoreflect.EnumDescriptor, v value) *object {
	if ed.FullName() == "google.protobuf.NullValue" {
		return d.nullValue()
	}
	r := enumRulesOf(v)
	zero := v.rules != nil && ignoresZero(v.rules) && (d.all || d.dir == Output)
	var names, first []any
	var numbers []any
	var shown []protoreflect.EnumValueDescriptor
	seen := map[protoreflect.EnumNumber]bool{}
	for i := range ed.Values().Len() {
		ev := ed.Values().Get(i)
		if !r.admits(ev.Number()) && !(zero && ev.Number() == 0) {
			continue
		}
		names = append(names, string(ev.Name()))
		if seen[ev.Number()] {
			continue
		}
		seen[ev.Number()] = true
		if d.shown && d.dir == Input && isUnspecified(ev) && r.leaves(ed, ev.Number()) {
			continue
		}
		first = append(first, string(ev.Name()))
		numbers = append(numbers, enumLiteral(ev.Number()))
		shown = append(shown, ev)
	}
	open := !ed.IsClosed() && !r.defined && r.allowed == nil
	doc := &object{}
	switch {
	case d.all:
		byNumber := newObject("enum", numbers)
		if open {
			byNumber = anyInt32()
			if len(r.refused) > 0 {
				byNumber.set("not", newObject("enum", r.refusedLiterals()))
			}
		} else if r.allowed != nil && !ed.IsClosed() {
			byNumber = newObject("enum", r.allowedLiterals(zero))
		}
		branches := []any{newObject("enum", names), byNumber}
		if v.nullable {
			branches = append(branches, newObject("type", "null"))
		}
		doc.set("anyOf", branches)
	case d.dir == Output && !r.defined && r.allowed == nil:
		doc.set("anyOf", []any{newObject("type", "string", "enum", names), newObject("type", "integer")})
	case d.dir == Output && r.allowed != nil && !ed.IsClosed():
		doc.set("enum", append(slices.Clone(names), r.allowedLiterals(zero)...))
	default:
		doc.set("type", "string").set("enum", first)
	}
	d.describe(doc, strings.TrimPrefix(d.enumWords(ed)+"\n"+d.valueComments(shown), "\n"))
	return doc
}

// enumRules is what rules leave of an enum's numbers.
type enumRules struct {
	allowed []int32 // nil: all
	refused []int32
	defined bool
}

func enumRulesOf(v value) enumRules {
	rules := v.rules.GetEnum()
	r := enumRules{refused: rules.GetNotIn(), defined: rules.GetDefinedOnly()}
	if len(rules.GetIn()) > 0 {
		r.allowed = rules.GetIn()
	}
	if rules.HasConst() {
		r.allowed = []int32{rules.GetConst()}
	}
	if v.nonZero {
		r.refused = append(slices.Clone(r.refused), 0)
	}
	return r
}

func (r enumRules) admits(n protoreflect.EnumNumber) bool {
	return (r.allowed == nil || slices.Contains(r.allowed, int32(n))) && !slices.Contains(r.refused, int32(n))
}

// leaves reports whether the rules admit another value than the given one.
func (r enumRules) leaves(ed protoreflect.EnumDescriptor, but protoreflect.EnumNumber) bool {
	for i := range ed.Values().Len() {
		if n := ed.Values().Get(i).Number(); n != but && r.admits(n) {
			return true
		}
	}
	return false
}

func (r enumRules) allowedLiterals(zero bool) []any {
	out := []any{}
	for _, n := range r.allowed {
		if r.admits(protoreflect.EnumNumber(n)) {
			out = append(out, enumLiteral(protoreflect.EnumNumber(n)))
		}
	}
	if zero && !slices.Contains(r.allowed, 0) {
		out = append(out, enumLiteral(0))
	}
	return out
}

func (r enumRules) refusedLiterals() []any {
	out := []any{}
	for _, n := range r.refused {
		out = append(out, enumLiteral(protoreflect.EnumNumber(n)))
	}
	return out
}

func enumLiteral(n protoreflect.EnumNumber) json.Number {
	return json.Number(strconv.Itoa(int(n)))
}

// nullValue: ProtoJSON writes null and also reads the name and any number.
func (d *deriver) nullValue() *object {
	if !d.all {
		return newObject("type", "null")
	}
	return newObject("anyOf", []any{
		newObject("enum", []any{nil, "NULL_VALUE"}),
		anyInt32(),
	})
}

func anyInt32() *object {
	return newObject("type", "integer", "minimum", json.Number(strconv.Itoa(math.MinInt32)), "maximum", json.Number(strconv.Itoa(math.MaxInt32)))
}

// isUnspecified recognises the zero value that represents nothing having been said.
func isUnspecified(ev protoreflect.EnumValueDescriptor) bool {
	return ev.Number() == 0 && strings.HasSuffix(string(ev.Name()), "_UNSPECIFIED")
}

// IsWellKnown reports whether ProtoJSON has a special form for a message, so that its fields are not members.
func IsWellKnown(md protoreflect.MessageDescriptor) bool {
	if md.ParentFile() == nil || md.FullName().Parent() != "google.protobuf" {
		return false
	}
	switch md.Name() {
	case "Any", "Timestamp", "Duration", "FieldMask", "Struct", "Value", "ListValue", "Empty":
		return true
	default:
		return isWrapper(md)
	}
}

// isWrapper holds for google.protobuf.StringValue and its kin.
func isWrapper(md protoreflect.MessageDescriptor) bool {
	if md.FullName().Parent() != "google.protobuf" {
		return false
	}
	switch md.Name() {
	case "BoolValue", "StringValue", "BytesValue", "Int32Value", "Int64Value", "UInt32Value", "UInt64Value", "FloatValue", "DoubleValue":
		return true
	default:
		return false
	}
}

// IsWrapped reports whether a message at the root of an input or output is wrapped in an object {"value": ...}, because
// its ProtoJSON form need not be one. As input, a google.protobuf.Value is not wrapped: an object is a Value already.
func IsWrapped(md protoreflect.MessageDescriptor, dir Direction) bool {
	if !IsWellKnown(md) {
		return false
	}
	switch md.Name() {
	case "Any", "Struct", "Empty":
		return false
	case "Value":
		return dir == Output
	default:
		return true
	}
}

// wrappedMember is the name that Any, too, gives to a value that is no object.
const wrappedMember = "value"

func wrapped(doc *object) *object {
	return newObject("type", "object", "properties", newObject(wrappedMember, doc), "required", []string{wrappedMember}, "additionalProperties", false)
}

// eitherForm admits the plain and the wrapped form. The only roots that come here have no references inside.
func eitherForm(doc *object) *object {
	return newObject("anyOf", []any{doc, wrapped(doc)})
}

// wellKnown writes ProtoJSON's form of a well-known type. fd is nil at the root.
func (d *deriver) wellKnown(md protoreflect.MessageDescriptor, fd protoreflect.FieldDescriptor, rules *validate.FieldRules, nullable bool) *object {
	if isWrapper(md) {
		return d.scalar(md.Fields().ByName("value").Kind(), value{rules: rules, nullable: nullable})
	}
	var doc *object
	str, obj := typeOrNull(nullable, "string"), typeOrNull(nullable, "object")
	switch md.Name() {
	case "Timestamp":
		doc = d.timestamp(str)
	case "Duration":
		doc = d.duration(str)
	case "FieldMask":
		doc = d.fieldMask(str)
	case "Struct":
		doc = newObject("type", obj)
	case "ListValue":
		doc = newObject("type", typeOrNull(nullable, "array"), "items", &object{})
	case "Empty":
		doc = newObject("type", obj, "properties", &object{}, "additionalProperties", false)
	case "Any":
		doc = d.any(obj)
		doc.merge(anyLimits(rules))
	default: // Value
		doc = &object{}
		if fd == nil && d.dir == Input && !d.all {
			doc.set("type", "object")
		}
	}
	if md.Name() != "Any" {
		d.describe(doc, doc.words(), otherRules(rules))
	}
	return doc
}

// any: the type's own fields stand beside @type, so nothing can be said about them here. ProtoJSON also reads {}.
func (d *deriver) any(obj any) *object {
	about := newObject("type", "string", "minLength", 1)
	d.describe(about, d.inBrief("Type URL, such as type.googleapis.com/google.protobuf.Duration. Its fields stand beside it, or value if its JSON is no object.",
		"Type URL of the message, such as type.googleapis.com/google.protobuf.Duration. The other members are its fields, or value for a type whose JSON is not an object."))
	doc := newObject("type", obj, "properties", newObject("@type", about))
	if d.dir == Output {
		return doc // {} is what an Any without a type is written as
	}
	if d.all {
		empty := newObject("maxProperties", 0)
		return doc.set("anyOf", []any{newObject("required", []string{"@type"}), empty})
	}
	return doc.set("required", []string{"@type"})
}

func anyLimits(rules *validate.FieldRules) *object {
	limits := &object{}
	if urls := rules.GetAny().GetIn(); len(urls) > 0 {
		limits.merge(newObject("properties", newObject("@type", newObject("enum", stringForms(urls, false)))))
	}
	if urls := rules.GetAny().GetNotIn(); len(urls) > 0 {
		limits.merge(newObject("properties", newObject("@type", newObject("not", newObject("enum", stringForms(urls, false))))))
	}
	return limits
}

// rawMoment is a pattern of how answers show a Timestamp or Duration that ProtoJSON has no form for, such as one out of range.
const rawMoment = `seconds:-?[0-9]+ nanos:-?[0-9]+`

// timestamp: what an answer shows is not always a date-time (see rawMoment), so its schema says so in words alone.
func (d *deriver) timestamp(str any) *object {
	doc := newObject("type", str)
	switch {
	case d.dir == Input:
		doc.set("format", formatDateTime)
		d.describe(doc, d.inBrief("", "RFC 3339, up to nine digits of fraction."))
	case d.isBrief():
		d.describe(doc, "RFC 3339.")
	default:
		doc.set("anyOf", []any{newObject("format", formatDateTime), newObject("pattern", "^"+rawMoment+"$")})
		d.describe(doc, "RFC 3339, up to nine digits of fraction.")
	}
	return doc
}

// duration: the canonical form is in the format, which also knows the signs and dots that ProtoJSON reads. What is
// shown and written has up to twelve digits of seconds, of which eleven are always in range, or is a rawMoment. Who reads an
// answer needs the words alone.
func (d *deriver) duration(str any) *object {
	doc := newObject("type", str)
	switch {
	case d.all:
		doc.set("format", formatDuration)
	case d.dir == Input:
		doc.set("pattern", d.inBrief(`^-?(0|[1-9]\d{0,10})(\.\d{1,9})?s$`, `^-?(0|[1-9][0-9]{0,10})(\.[0-9]{1,9})?s$`))
	case !d.isBrief():
		doc.set("pattern", `^(-?[0-9]{1,12}(\.[0-9]{1,9})?s|`+rawMoment+`)$`)
	}
	d.describe(doc, d.inBrief("Seconds, such as 3.5s.", "Seconds with the suffix s, such as 3.5s."))
	return doc
}

// fieldMask: paths in lowerCamelCase. What is written may contain every path.
func (d *deriver) fieldMask(str any) *object {
	doc := newObject("type", str)
	switch {
	case d.all:
		doc.set("format", formatFieldMask)
	case d.dir == Input:
		const path = `[a-z][a-zA-Z0-9]*(\.[a-z][a-zA-Z0-9]*)*`
		doc.set("pattern", "^("+path+"(,"+path+")*)?$")
	}
	d.describe(doc, d.inBrief("Field paths, such as displayName,address.city.", "Comma-separated field paths in lowerCamelCase, such as displayName,address.city."))
	return doc
}
