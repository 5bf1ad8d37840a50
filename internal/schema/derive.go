// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// ErrNoDescriptor is returned by Derive if the descriptor is missing.
var ErrNoDescriptor = errors.New("schema: no message descriptor")

// Derive generates the canonical and the advertised schema of a message, for one direction. The same descriptor and
// options always give the same bytes. What exceeds the bounds is left open and named in Warnings. The only errors are a
// missing descriptor (ErrNoDescriptor) and one whose file could not be resolved.
func Derive(md protoreflect.MessageDescriptor, dir Direction, opts Options) (*Schema, error) {
	return derive(md, dir, nil, opts, partBoth)
}

// derive is Derive for one form or both, and DeriveStream where a stream is given.
func derive(md protoreflect.MessageDescriptor, dir Direction, of *Stream, opts Options, part Part) (*Schema, error) {
	if md == nil {
		return nil, ErrNoDescriptor
	}
	if md.IsPlaceholder() {
		return nil, fmt.Errorf("schema: message %s is not in the descriptor set", md.FullName())
	}
	opts = opts.withDefaults()
	out := &Schema{Wrapped: of == nil && isWrapped(md, dir)}
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
		own, _ := value.get("description").(string)
		d.describe(value, text, own)
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
	doc := d.document(md)
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
	if isWellKnown(md) {
		doc := d.wellKnown(md, nil, nil, false)
		if !doc.has("description") {
			d.describe(doc, Comment(md))
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

// refTo is where a message stands in $defs. Names need no escape in a JSON Pointer or a URI.
func (d *deriver) refTo(md protoreflect.MessageDescriptor) string { return defsRef + d.defName(md) }

// defsRef is how references into $defs begin.
const defsRef = "#/$defs/"

// pointerTo is where a value stands. Only the canonical schema refers to places other than $defs, for the second names of
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
		return d.openObject(nullable)
	}
	if d.graph.distance[name] > d.cut {
		d.open(name, "is left open to keep the schema within its size limit")
		return d.openObject(nullable)
	}
	if name == d.root.FullName() && !isWellKnown(d.root) {
		return orNull(newObject("$ref", d.rootRef()), nullable)
	}
	if d.graph.recursive[name] || depth >= d.opts.MaxDepth || d.share && d.graph.uses[name] > 1 && !d.inline[name] {
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

func (d *deriver) openObject(nullable bool) *object {
	if nullable {
		return newObject("type", []string{"object", "null"})
	}
	return newObject("type", "object")
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
	rules := (*messageText)(nil)
	if !d.opts.WithoutRules {
		rules = d.messageRuleText(md)
	}
	properties, together, clauses := &object{}, &object{}, []any(nil)
	said := d.annotatedMessage(md)
	var required []string
	for _, fd := range d.fieldsOf(md) {
		if d.count > d.opts.MaxSchemas {
			break // write gives up, so the rest need not be right
		}
		f := d.fieldOf(fd, said)
		names := Names(fd)
		place := d.pointerTo(at, "properties", names[0])
		properties.set(names[0], d.property(f, place, depth+1))
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
	d.describe(doc, messageWords(md, said), d.deprecation(md), text, rules.String())
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
		return !d.shown && (f.must || isAlwaysWritten(f.fd))
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
