// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// graph is what has to be known about the messages below a root before they are written down: whether a message is shared
// depends on fields that come later, and whether it is recursive on what is below it.
type graph struct {
	uses      map[protoreflect.FullName]int // how many fields hold the message
	distance  map[protoreflect.FullName]int // fewest fields on the way from the root
	recursive map[protoreflect.FullName]bool
}

// newGraph walks all messages below a root, twice: depth first for cycles and uses, then breadth first for distances. Of every
// cycle at least the message by which it is entered is recursive: with those behind $ref, inlining ends. Fields that the
// direction does not have lead nowhere, so a message may be recursive as an output and not as an input.
func (d *deriver) newGraph(root protoreflect.MessageDescriptor) *graph {
	g := &graph{
		uses:      map[protoreflect.FullName]int{},
		distance:  map[protoreflect.FullName]int{root.FullName(): 0},
		recursive: map[protoreflect.FullName]bool{},
	}
	done := map[protoreflect.FullName]bool{}
	// Depth first, with its own stack: descriptors come from outside, and a chain may be long.
	type frame struct {
		name protoreflect.FullName
		next []protoreflect.MessageDescriptor
	}
	stack := []frame{{root.FullName(), d.below(root)}}
	active := map[protoreflect.FullName]bool{root.FullName(): true}
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.next) == 0 {
			done[top.name] = true
			active[top.name] = false
			stack = stack[:len(stack)-1]
			continue
		}
		md := top.next[0]
		top.next = top.next[1:]
		g.uses[md.FullName()]++
		switch {
		case active[md.FullName()]:
			g.recursive[md.FullName()] = true
		case !done[md.FullName()]:
			active[md.FullName()] = true
			stack = append(stack, frame{md.FullName(), d.below(md)})
		}
	}
	level := []protoreflect.MessageDescriptor{root}
	for len(level) > 0 {
		var next []protoreflect.MessageDescriptor
		for _, md := range level {
			for _, m := range d.below(md) {
				if _, seen := g.distance[m.FullName()]; !seen {
					g.distance[m.FullName()] = g.distance[md.FullName()] + 1
					next = append(next, m)
				}
			}
		}
		level = next
	}
	return g
}

// below lists the messages that the fields of a message hold, well-known types aside.
func (d *deriver) below(md protoreflect.MessageDescriptor) []protoreflect.MessageDescriptor {
	if IsWellKnown(md) {
		return nil
	}
	var out []protoreflect.MessageDescriptor
	for _, fd := range d.fieldsOf(md) {
		if fd.IsMap() {
			fd = fd.MapValue()
		}
		if m := fd.Message(); m != nil && !IsWellKnown(m) {
			out = append(out, m)
		}
	}
	return out
}

// IsRecursive reports whether a schema contains itself by $ref, so that a client that replaces references by what they
// lead to never ends. References by another keyword than $ref count as such; those out of the schema lead nowhere. The time
// grows with the size of the schema.
func IsRecursive(schema json.RawMessage) bool {
	if !slices.ContainsFunc(append(otherReferences[:], "$ref"), func(keyword string) bool { return bytes.Contains(schema, []byte(`"`+keyword+`"`)) }) {
		return false
	}
	var root any
	if json.Unmarshal(schema, &root) != nil {
		return false
	}
	w := refWalk{root: root, open: map[string]bool{}, done: map[string]bool{}}
	return w.follow("#") // what contains the root contains itself
}

// refWalk follows the references of a schema, each target once.
type refWalk struct {
	root       any
	open, done map[string]bool
}

// follow reports whether a target leads back to one that is being followed.
func (w *refWalk) follow(target string) bool {
	switch {
	case w.open[target]:
		return true
	case w.done[target]:
		return false
	}
	w.open[target] = true
	defer func() { w.open[target], w.done[target] = false, true }()
	pointer, isLocal := strings.CutPrefix(target, "#")
	return isLocal && w.within(at(w.root, pointer), target == "#")
}

// within looks for references below a value. Definitions count where something refers to them.
func (w *refWalk) within(value any, isRoot bool) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, child := range v {
			switch ref, isText := child.(string); {
			case slices.Contains(otherReferences[:], name):
				return true
			case name == "$ref" && isText:
				if w.follow(ref) {
					return true
				}
			case isRoot && (name == "$defs" || name == "definitions"):
			case w.within(child, false):
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, func(child any) bool { return w.within(child, false) })
	}
	return false
}

// deriveShared writes Schema.Shared: the smaller one of the advertised schema and of one that shares messages.
func deriveShared(md protoreflect.MessageDescriptor, dir Direction, of *Stream, opts Options, isWrapped bool) (json.RawMessage, error) {
	d := newDeriver(md, dir, opts, false)
	d.shown, d.stream = true, of
	doc, err := d.advertised(md, isWrapped)
	if err != nil {
		return nil, err
	}
	whole := d.encode(doc)
	if isWrapped || opts.Profile == ProfileStrict { // which has no references
		return whole, nil
	}
	d.names = newDefNames(md)
	if shared := d.shareRepeated(md); shared != nil && len(shared) < len(whole) {
		return shared, nil
	}
	return whole, nil
}

// maxSharings bounds the attempts. Each finds messages that are not worth a reference, and a message that takes in such a
// one may then be worth one itself, or no longer.
const maxSharings = 4

// shareRepeated puts the messages that several fields hold into $defs, and takes those back that are smaller in their
// places. It is nil if that exceeds a bound.
func (d *deriver) shareRepeated(md protoreflect.MessageDescriptor) json.RawMessage {
	const everything = 1 << 30
	d.inline = map[protoreflect.FullName]bool{}
	var best json.RawMessage
	for range maxSharings {
		doc, ok := d.write(md, plan{share: true}, everything)
		if !ok {
			break
		}
		if best == nil || len(d.encoded) < len(best) {
			best = d.encoded
		}
		if !d.takeBack(doc) {
			break
		}
	}
	return best
}

// takeBack marks the messages that take less room inline, and reports whether there are any.
func (d *deriver) takeBack(doc *object) bool {
	uses := map[string]int{}
	countRefs(doc, uses)
	found := false
	for _, m := range d.defs.members {
		name, size := d.names.of[m.name], len(appendJSON(nil, m.value))
		if d.graph.recursive[name] || d.inline[name] {
			continue
		}
		n := uses[m.name]
		reference := len(`{"$ref":""}`) + len(defsRef) + len(m.name)
		if n*size <= n*reference+size+len(`"":,`)+len(m.name) {
			d.inline[name], found = true, true
		}
	}
	return found
}

// shareValue puts the schema of an enum or of a well-known type into $defs, where it is always the same.
func (d *deriver) shareValue(name protoreflect.FullName, v value, doc *object) *object {
	if d.names == nil || !d.share || !v.isFree() || d.inline[name] || d.masking {
		return doc
	}
	key := d.names.name(name)
	if !d.defs.has(key) {
		d.defs.set(key, doc)
	}
	return newObject("$ref", defsRef+key)
}

// countRefs counts the references to each definition.
func countRefs(v any, uses map[string]int) {
	switch v := v.(type) {
	case *object:
		for _, m := range v.members {
			if ref, ok := m.value.(string); ok && m.name == "$ref" {
				uses[strings.TrimPrefix(ref, defsRef)]++
				continue
			}
			countRefs(m.value, uses)
		}
	case []any:
		for _, e := range v {
			countRefs(e, uses)
		}
	}
}

// defNames gives definitions short names: that of the message without its package, or the full one where another message
// has the short one.
type defNames struct {
	short map[protoreflect.FullName]string
	of    map[string]protoreflect.FullName
}

// newDefNames leaves the full name of the root to the root: it becomes a definition where the schema is put into another.
func newDefNames(root protoreflect.MessageDescriptor) *defNames {
	return &defNames{
		short: map[protoreflect.FullName]string{root.FullName(): string(root.FullName())},
		of:    map[string]protoreflect.FullName{string(root.FullName()): root.FullName()},
	}
}

func (n *defNames) name(full protoreflect.FullName) string {
	if known, ok := n.short[full]; ok {
		return known
	}
	name := string(full.Name())
	if _, taken := n.of[name]; taken {
		name = string(full)
	}
	for n.of[name] != "" { // a message without a package may have the name
		name += "_"
	}
	n.short[full], n.of[name] = name, full
	return name
}

// defName is the name of a message in $defs.
func (d *deriver) defName(md protoreflect.MessageDescriptor) string {
	if d.names == nil {
		return string(md.FullName())
	}
	return d.names.name(md.FullName())
}

// Lazy is a schema that is derived on first use. Catalogs hold thousands, of which callers see few. It is safe
// for concurrent use. Nil and the zero value mean that there is no schema.
type Lazy struct {
	// Either says what the schema is.
	text   *Schema
	derive func(Part, *Sight) *Schema
	sight  *Sight
	// Wrapped is Schema.Wrapped.
	Wrapped bool
	digest  [sha256.Size]byte
	room    *Room
	kept    atomic.Pointer[json.RawMessage]
}

// Part selects the forms of a schema that are needed.
type Part uint8

// The forms of a schema.
const (
	PartCanonical Part = 1 << iota
	PartAdvertised
	PartShared
	partBoth = PartCanonical | PartAdvertised
)

// Fixed returns a Lazy of an existing schema.
func Fixed(s *Schema) *Lazy {
	hash := sha256.New()
	for _, text := range [...]json.RawMessage{s.Canonical, s.Advertised} {
		_, _ = hash.Write(append(slices.Clip(text), 0)) // JSON holds no zero byte
	}
	return &Lazy{text: s, Wrapped: s.Wrapped, digest: [sha256.Size]byte(hash.Sum(nil))}
}

// Defer returns a Lazy that calls Derive for a message on first use. It keeps the result if there is room. The digest must
// cover everything that the result depends on. The options are shared and must not change.
func Defer(md protoreflect.MessageDescriptor, dir Direction, opts *Options, digest [sha256.Size]byte, room *Room) *Lazy {
	return deferred(md, dir, nil, opts, digest, room)
}

// DeferStream returns a Lazy for the arguments of a tool that takes a stream of messages, as Defer does for others.
func DeferStream(md protoreflect.MessageDescriptor, of Stream, opts *Options, digest [sha256.Size]byte, room *Room) *Lazy {
	return deferred(md, Input, &of, opts, digest, room)
}

func deferred(md protoreflect.MessageDescriptor, dir Direction, of *Stream, opts *Options, digest [sha256.Size]byte, room *Room) *Lazy {
	return DeferAs(func(p Part, sight *Sight) *Schema {
		with := opts
		if sight != nil {
			own := *opts
			own.Sight, with = sight, &own
		}
		s, err := derive(md, dir, of, *with, p)
		if err != nil {
			return &Schema{} // a placeholder, which the caller has looked for
		}
		return s
	}, of == nil && IsWrapped(md, dir), digest, room)
}

// DeferAs returns a Lazy that calls derive, which must always return the same schema for the same Sight.
func DeferAs(derive func(Part, *Sight) *Schema, wrapped bool, digest [sha256.Size]byte, room *Room) *Lazy {
	return &Lazy{derive: derive, Wrapped: wrapped, digest: digest, room: room}
}

// Seen returns the schema as callers with a Sight are shown it. Nil leaves it as it is, and so does one that was declared. The key
// identifies the Sight.
func (l *Lazy) Seen(sight *Sight, key string, room *Room) *Lazy {
	if l == nil || l.derive == nil || sight == nil {
		return l
	}
	hash := sha256.New()
	_, _ = hash.Write(append(l.digest[:], key...))
	return &Lazy{derive: l.derive, sight: sight, Wrapped: l.Wrapped, digest: [sha256.Size]byte(hash.Sum(nil)), room: room}
}

// IsSet reports whether there is a schema.
func (l *Lazy) IsSet() bool {
	return l != nil && (l.derive != nil || l.text != nil && len(l.text.Advertised) > 0)
}

// Digest identifies both forms: equal digests mean equal schemas.
func (l *Lazy) Digest() [sha256.Size]byte { return l.digest }

// Canonical returns Schema.Canonical. It is not cached: code that compiles it keeps the result.
func (l *Lazy) Canonical() json.RawMessage { return l.part(PartCanonical).Canonical }

// Advertised returns Schema.Advertised. It is cached while there is room.
func (l *Lazy) Advertised() json.RawMessage {
	if l == nil {
		return nil
	}
	if kept := l.kept.Load(); kept != nil {
		return *kept
	}
	text := l.part(PartAdvertised).Advertised
	if l.derive != nil && l.room.reserve(len(text)) && !l.kept.CompareAndSwap(nil, &text) {
		l.room.give(len(text))
	}
	return text
}

// Shared returns Schema.Shared, which is Advertised if the schema was declared. It is not cached: lists keep what they show.
func (l *Lazy) Shared() json.RawMessage {
	if l == nil {
		return nil
	}
	if text := l.part(PartShared).Shared; len(text) > 0 {
		return text
	}
	return l.Advertised()
}

// Warnings returns Schema.Warnings.
func (l *Lazy) Warnings() []string { return l.part(partBoth).Warnings }

func (l *Lazy) part(p Part) *Schema {
	switch {
	case l == nil || l.text == nil && l.derive == nil:
		return &Schema{}
	case l.text != nil:
		return l.text
	default:
		return l.derive(p, l.sight)
	}
}

// Room is a shared memory budget for the text of cached schemas. It is safe for concurrent use; nil has no room.
type Room struct{ left atomic.Int64 }

// NewRoom returns a Room of the given number of bytes.
func NewRoom(bytes int64) *Room {
	r := &Room{}
	r.left.Store(bytes)
	return r
}

func (r *Room) reserve(n int) bool {
	if r == nil {
		return false
	}
	if r.left.Add(-int64(n)) >= 0 {
		return true
	}
	r.give(n)
	return false
}

func (r *Room) give(n int) { r.left.Add(int64(n)) }

// schemaAt finds the subschema that a location names, or nil.
func (r *reporter) schemaAt(location string) any {
	_, fragment, _ := strings.Cut(location, "#")
	pointer, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	return at(r.source, pointer)
}

// at is what a JSON Pointer leads to, or nil.
func at(doc any, pointer string) any {
	tokens := strings.Split(pointer, "/")[1:]
	for i := range tokens {
		tokens[i] = UnescapeToken(tokens[i])
	}
	return lookUp(doc, tokens)
}

// lookUp is what names of members and places of elements lead to, or nil.
func lookUp(doc any, tokens []string) any {
	for _, t := range tokens {
		switch d := doc.(type) {
		case map[string]any:
			doc = d[t]
		case []any:
			i, err := strconv.Atoi(t)
			if err != nil || i < 0 || i >= len(d) {
				return nil
			}
			doc = d[i]
		default:
			return nil
		}
	}
	return doc
}

// holders finds the objects whose member has a refused name. The library hands out a location for this keyword that it
// goes on to overwrite: only its length is right, and so is the place in the schema. What is looked for are the objects
// at that depth which have the member; where the schema names a property, its last step has to be that property, in any
// of its spellings. Objects of one schema that share a bad name are all at fault.
func (r *reporter) holders(e *jsonschema.ValidationError, name string) [][]string {
	_, fragment, _ := strings.Cut(e.SchemaURL, "#")
	steps := strings.Split(fragment, "/")
	property := ""
	if n := len(steps); n >= 3 && steps[n-1] == "propertyNames" && steps[n-3] == "properties" {
		if text, err := url.PathUnescape(steps[n-2]); err == nil {
			property = UnescapeToken(text)
		}
	}
	var out [][]string
	for _, way := range r.objectsAt(len(e.InstanceLocation)) {
		if property != "" && (len(way) == 0 || foldName(way[len(way)-1]) != foldName(property)) {
			continue
		}
		object, _ := lookUp(r.doc, way).(map[string]any)
		if _, has := object[name]; has {
			out = append(out, way)
		}
		if len(out) == DefaultMaxViolations || !r.budget.Spend(1) {
			break
		}
	}
	if len(out) == 0 {
		out = append(out, e.InstanceLocation)
	}
	return out
}

// objectsAt lists the ways to all objects at one depth, sorted. It is asked for again and again, so it is kept.
func (r *reporter) objectsAt(depth int) [][]string {
	if ways, ok := r.objects[depth]; ok {
		return ways
	}
	var out [][]string
	var walk func(v any, way []string)
	walk = func(v any, way []string) {
		switch v := v.(type) {
		case map[string]any:
			if len(way) == depth {
				out = append(out, slices.Clone(way))
				return
			}
			for key, below := range v {
				walk(below, append(way, key))
			}
		case []any:
			for i, below := range v {
				if len(way) < depth {
					walk(below, append(way, strconv.Itoa(i)))
				}
			}
		}
	}
	walk(r.doc, nil)
	slices.SortFunc(out, slices.Compare)
	if r.objects == nil {
		r.objects = map[int][][]string{}
	}
	r.objects[depth] = out
	return out
}
