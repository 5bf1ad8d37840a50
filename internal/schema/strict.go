// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Bounds of an input schema in the strict profile. Each is the lowest of what the three providers document, or below it.
const (
	strictLevels     = 5        // messages in one another
	strictDepth      = 10       // objects and arrays in one another; OpenAI
	strictRepeats    = 2        // a message within itself, so that a tree shows its children
	strictProperties = 5000     // OpenAI
	strictEnum       = 1000     // values of all enums together; OpenAI
	strictValues     = 250      // of one enum; beyond it OpenAI bounds their text
	strictBytes      = 32 << 10 // a model reads all of it on every turn
	maxStrictName    = 64       // Anthropic
	maxQuotedSchema  = 600      // of the schema that a description repeats, below maxDescription
)

// strictName is how a property may be called; Anthropic refuses the tool otherwise.
var strictName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`) })

// strict writes the advertised schema of an input for ProfileStrict. It uses these keywords and no others: type (one name,
// never a list), properties, required (all of them), additionalProperties (false), items, enum (of strings), anyOf (of a
// schema and null, or of the scalar types), description. What JSON Schema could say and those cannot, the description says
// in words: a document that breaks it is refused when the call is made, as one that breaks a rule of CEL is.
//
// A map is shown as a list of entries (EntryKey, EntryValue), so that its values keep their structure. What has no schema in
// these words is shown as a string that holds JSON: a Struct, a ListValue, an Any, an Empty, and a message below the bounds.
// The transcoder reads both (transcode.Options.QuotedObjects).
type strict struct {
	d          *deriver
	levels     int
	withText   bool // maps are text as well
	hasMap     bool
	depth      int // objects and arrays around what is written
	properties int
	values     int // of enums
}

// The members of an entry of a map, as ProfileStrict shows it.
const (
	EntryKey   = "key"
	EntryValue = "value"
)

// strict tries the most levels first, then fewer, until the schema is within the bounds. On each level, maps are text where they
// are too large as lists. At level 0 the messages below the root are text. What is over the providers' bounds then is the root
// alone, which is shown as it is, with a warning.
func (d *deriver) strict(md protoreflect.MessageDescriptor) *object {
	most := strictLevels
	if d.stream != nil {
		most-- // the items and their array are a level more
	}
	withText := false
	for levels := most; levels >= 0; {
		d.count, d.noted = 0, nil
		s := &strict{d: d, levels: levels, withText: withText}
		doc := s.document(md)
		isLast := levels == 0 && (withText || !s.hasMap)
		if d.count <= d.opts.MaxSchemas && s.properties <= strictProperties && s.values <= strictEnum && len(appendJSON(nil, doc)) <= min(strictBytes, d.opts.MaxBytes) {
			return doc
		}
		if isLast && d.count <= d.opts.MaxSchemas && len(appendJSON(nil, doc)) <= d.opts.MaxBytes {
			d.note("message %s is larger than all providers allow, even with its messages as text", md.FullName())
			return doc
		}
		if withText = !withText && s.hasMap; !withText {
			levels--
		}
	}
	d.note("message %s alone exceeds the size limit: its schema is left empty", md.FullName())
	return closed(&object{}, nil)
}

func closed(properties *object, required []string) *object {
	if required == nil {
		required = []string{}
	}
	return newObject("type", "object", "properties", properties, "required", required, "additionalProperties", false)
}

func (s *strict) document(md protoreflect.MessageDescriptor) *object {
	if s.d.stream != nil {
		return s.streamDocument(md)
	}
	return s.root(md)
}

func (s *strict) root(md protoreflect.MessageDescriptor) *object {
	switch {
	case IsWrapped(md, Input):
		return closed(newObject(wrappedMember, s.single(md, nil, value{}, nil)), []string{wrappedMember})
	case IsWellKnown(md):
		if md.Name() != "Empty" {
			s.d.note("%s as the whole input accepts any object, which this profile cannot express: it is shown without members", md.FullName())
		}
		return closed(&object{}, nil)
	default:
		return s.message(md, nil)
	}
}

// message writes an ordinary message. path are the messages around it.
func (s *strict) message(md protoreflect.MessageDescriptor, path []protoreflect.FullName) *object {
	d := s.d
	d.count++
	s.depth++
	defer func() { s.depth-- }()
	path = append(slices.Clip(path), md.FullName())
	said := d.annotatedMessage(md)
	properties := &object{}
	var required []string
	for _, fd := range d.fieldsOf(md) {
		if d.count > d.opts.MaxSchemas {
			break // strict gives up, so the rest need not be right
		}
		name := Names(fd)[0]
		if !strictName().MatchString(name) {
			d.note("field %s omitted: not all providers accept its JSON name %s", fd.FullName(), quote(name))
			continue
		}
		if od := fd.ContainingOneof(); od != nil && TakesNull(fd) {
			// It would have to be there, and any value, null too, would choose it.
			d.note("field %s omitted: null is a valid value for it, so nothing could express that it is not the chosen field of %s", fd.FullName(), od.Name())
			continue
		}
		properties.set(name, s.property(d.fieldOf(fd, said), path))
		required = append(required, name)
		s.properties++
	}
	doc := closed(properties, required)
	_, oneofs := d.oneofs(md)
	d.describe(doc, messageWords(md, said), deprecation(md), oneofs, d.messageRuleText(md))
	return doc
}

// property writes a field. Every property is required, so that one which may be absent may be null.
func (s *strict) property(f field, path []protoreflect.FullName) *object {
	d, fd := s.d, f.fd
	var doc *object
	switch {
	case fd.IsMap():
		doc = s.mapField(f, path)
	case fd.IsList():
		s.depth++
		doc = newObject("type", "array", "items", s.single(fd.Message(), fd, value{rules: elementRules(f.rules.GetRepeated().GetItems())}, path))
		s.depth--
		limits := &object{}
		d.finish(limits, listLimits(f), newObject("maxItems", 0), f.rules)
		d.describe(doc, inWords(limits))
	default:
		doc = s.single(fd.Message(), fd, value{rules: f.rules, nonZero: f.nonZero}, path)
	}
	d.describe(doc, f.words(), deprecation(fd), doc.words(), celText(f.rules.GetCel(), f.rules.GetCelExpression()), d.guide(doc, f))
	if f.must || TakesNull(fd) && !fd.IsList() {
		return doc // null is a value already, or not enough
	}
	return maybe(doc)
}

// mapField writes a map: as a list of entries, or as text where there is no room for them.
func (s *strict) mapField(f field, path []protoreflect.FullName) *object {
	if s.hasMap = true; s.withText || s.depth+2 > strictDepth {
		return s.quoted(s.mapping(f), "A JSON object")
	}
	d, values, rules := s.d, f.fd.MapValue(), f.rules.GetMap()
	s.depth += 2 // the list and the entry
	key := newObject("type", "string")
	key.setAll(d.keys(f.fd.MapKey(), elementRules(rules.GetKeys())))
	one := newObject(EntryKey, s.plain(key), EntryValue, s.single(values.Message(), values, value{rules: elementRules(rules.GetValues())}, path))
	s.depth -= 2
	s.properties += one.size()
	doc := newObject("type", "array", "items", closed(one, []string{EntryKey, EntryValue}))
	limits := &object{}
	if !ignoresZero(f.rules) {
		of := mapLimits(f)
		for _, keyword := range [...][2]string{{"minProperties", "minItems"}, {"maxProperties", "maxItems"}} {
			if n := of.get(keyword[0]); n != nil {
				limits.set(keyword[1], n)
			}
		}
	}
	d.describe(doc, "A map, as a list of entries. Each key once.", inWords(limits))
	return doc
}

// mapping is the schema of a map for a description.
func (s *strict) mapping(f field) *object {
	d, values := s.d, f.fd.MapValue()
	d.count++
	rules := f.rules.GetMap()
	doc := newObject("type", "object")
	if names := d.keys(f.fd.MapKey(), elementRules(rules.GetKeys())); names.size() > 0 {
		doc.set("propertyNames", names)
	}
	if md := values.Message(); md != nil && !IsWellKnown(md) && !md.IsPlaceholder() {
		doc.set("additionalProperties", d.shallow(md))
	} else {
		doc.set("additionalProperties", d.single(values, value{rules: elementRules(rules.GetValues())}, "#", 0))
	}
	d.finish(doc, mapLimits(f), newObject("maxProperties", 0), f.rules)
	return doc
}

// maybe admits null. Gemini takes a choice of two schemas, and not a list of types.
func maybe(doc *object) *object {
	out := newObject("anyOf", []any{doc, newObject("type", "null")})
	if text := doc.get("description"); text != nil {
		out = newObject("description", text, "anyOf", out.get("anyOf"))
		doc.remove("description")
	}
	return out
}

// single writes one value; fd is nil at the root.
func (s *strict) single(md protoreflect.MessageDescriptor, fd protoreflect.FieldDescriptor, v value, path []protoreflect.FullName) *object {
	d := s.d
	d.count++
	switch {
	case md == nil:
		return s.plain(d.single(fd, v, "#", 0))
	case IsWellKnown(md):
		return s.wellKnown(md, fd, v)
	case md.IsPlaceholder():
		return s.quoted(newObject("type", "object"), "A JSON object")
	case len(d.fieldsOf(md)) == 0:
		// Gemini refuses an object without properties below the root.
		return newObject("type", "string", "enum", []any{"{}"}, "description", "It has no members: use the text {}.")
	case len(path) > s.levels || count(path, md.FullName()) >= strictRepeats || s.depth+2 > strictDepth: // it may hold lists
		return s.quoted(d.shallow(md), "A JSON object of the message "+string(md.Name()))
	default:
		return s.message(md, path)
	}
}

func (s *strict) wellKnown(md protoreflect.MessageDescriptor, fd protoreflect.FieldDescriptor, v value) *object {
	switch md.Name() {
	case "Struct":
		return s.quoted(nil, "A JSON object with any members")
	case "ListValue":
		return s.quoted(nil, "A JSON array of any values")
	case "Any":
		return s.quoted(s.d.wellKnown(md, fd, v.rules, false), "A JSON object")
	case "Empty":
		return newObject("type", "string", "enum", []any{"{}"}, "description", "It has no members: use the text {}.")
	case "Value":
		// A string is a Value already, so that text which holds JSON would be ambiguous.
		var types []any
		for _, name := range []string{"string", "number", "boolean", "null"} {
			types = append(types, newObject("type", name))
		}
		return newObject("anyOf", types)
	default:
		doc := s.d.wellKnown(md, fd, v.rules, false)
		if !isWrapper(md) {
			doc.remove("pattern") // the description says it better
		}
		return s.plain(doc)
	}
}

// shallow is the schema of a message for a description: with its own scalars, and what is below as open objects.
func (d *deriver) shallow(md protoreflect.MessageDescriptor) *object {
	properties := &object{}
	for _, fd := range d.fieldsOf(md) {
		kind := "object"
		switch {
		case fd.IsMap():
		case fd.IsList():
			kind = "array"
		case fd.Message() == nil:
			kind, _ = d.single(fd, value{}, "#", 0).get("type").(string)
		case IsWellKnown(fd.Message()):
			kind, _ = d.wellKnown(fd.Message(), fd, nil, false).get("type").(string)
		}
		if kind != "" {
			properties.set(Names(fd)[0], newObject("type", kind))
		}
	}
	return newObject("properties", properties)
}

// quoted is a string that holds JSON, with the schema of what it holds where that is short and is alone.
func (s *strict) quoted(content *object, what string) *object {
	doc := newObject("type", "string")
	text := what + ", written as a string."
	if content != nil {
		own := content.words()
		content.remove("description")
		if raw := string(appendJSON(nil, content)); len(raw) <= maxQuotedSchema && !strings.Contains(raw, `"$ref"`) {
			text += " Its JSON Schema: " + raw
		}
		s.d.describe(doc, own, text)
		return doc
	}
	s.d.describe(doc, text)
	return doc
}

// plain keeps of a scalar's schema what the profile has keywords for, and says the rest in words.
func (s *strict) plain(doc *object) *object {
	out := newObject("type", doc.get("type"))
	told := []string{"type", "description"}
	if values, ok := doc.get("enum").([]any); ok && areStrings(values) && len(values) > 0 && len(values) <= strictValues {
		out.set("enum", values)
		s.values += len(values)
		told = append(told, "enum")
	}
	s.d.describe(out, doc.words(), inWords(doc, told...))
	return out
}

func areStrings(values []any) bool {
	return !slices.ContainsFunc(values, func(v any) bool { _, ok := v.(string); return !ok })
}

// sentences say what a keyword with one number says.
var sentences = map[string]string{ //nolint:gochecknoglobals // a table that is never changed
	"minLength": "Length: at least %v.", "maxLength": "Length: at most %v.", "minItems": "Items: at least %v.",
	"maxItems": "Items: at most %v.", "minimum": "At least %v.", "maximum": "At most %v.",
}

// inWords says what keywords say, but for those that need no saying or stand in the schema.
func inWords(doc *object, but ...string) string {
	var said []string
	say := func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }
	rest := &object{}
	for _, m := range doc.members {
		if slices.Contains(but, m.name) {
			continue
		}
		switch m.name {
		case "description", "deprecated":
		case "format":
			if text := formatInWords(fmt.Sprint(m.value)); text != "" {
				say("%s", text)
			}
		case "contentEncoding": // the description says it
		case "uniqueItems":
			say("No item twice.")
		case "pattern":
			// The format says what the pattern of a 64-bit integer does. One that is narrower comes with a sentence.
			if format := doc.get("format"); format != formatInt64 && format != formatUint64 {
				say("Must match %v.", m.value)
			}
		default:
			if sentence := sentences[m.name]; sentence != "" {
				say(sentence, m.value)
			} else {
				rest.set(m.name, m.value)
			}
		}
	}
	if rest.size() > 0 {
		say("Must also match the JSON Schema %s.", appendJSON(nil, rest))
	}
	return strings.Join(said, " ")
}

// formatInWords is a sentence for a format that nothing else says: neither the type, nor the range, nor the description.
func formatInWords(format string) string {
	switch format {
	case formatInt64:
		return "A 64-bit integer, in decimal."
	case formatUint64:
		return "An unsigned 64-bit integer, in decimal."
	case formatInt32, formatUint32, formatDouble, formatFloat, formatByte, formatDuration, formatFieldMask, formatDateTime:
		return ""
	default:
		return "Format: " + format + "."
	}
}

// strictOutput is the advertised schema of an output in ProfileStrict, made of the one for ProfileMCP. Clients hold results
// to it, so it says less, and nothing else: each result that matches the schema of ProfileMCP matches this one. It has the
// keywords of strict inputs; only that properties need not be required, nor objects closed. References are replaced by what they
// lead to, and below the bounds by an open object: some clients drop all tools of a server for a schema that contains itself.
func (d *deriver) strictOutput(doc *object) *object {
	defs, _ := doc.get("$defs").(*object)
	for levels := strictLevels; ; levels-- {
		r := &resolver{root: doc, defs: defs, levels: levels, room: d.opts.MaxSchemas}
		out := r.value(doc, []string{rootOnly})
		if levels == 0 || r.room > 0 && len(appendJSON(nil, out)) <= min(strictBytes, d.opts.MaxBytes) {
			return out
		}
	}
}

// rootOnly is the reference to a document as a whole.
const rootOnly = "#"

// resolver writes a schema without references. It belongs to one attempt.
type resolver struct {
	root, defs *object
	levels     int // references in one another
	room       int // subschemas that may still be written
}

// value writes a schema. path are the references that led to it.
func (r *resolver) value(doc *object, path []string) *object {
	r.room--
	if ref, ok := doc.get("$ref").(string); ok {
		target := r.target(ref)
		if target == nil || r.room < 0 || len(path) > r.levels || count(path, ref) >= strictRepeats {
			return described(newObject("type", "object"), doc)
		}
		return described(r.value(target, append(slices.Clip(path), ref)), doc)
	}
	out := &object{}
	for _, m := range doc.members {
		switch m.name {
		case "description", "required":
			out.set(m.name, m.value)
		case "properties":
			out.set(m.name, r.members(m.value, path))
		case "items", "additionalProperties":
			out.set(m.name, r.below(m.value, path))
		case "anyOf":
			if choices, ok := r.choices(m.value, path); ok {
				out.set(m.name, choices)
			}
		}
	}
	setTypes(out, doc)
	return typeFirst(out)
}

// typeFirst puts the type of a schema before the rest, where readers look for it.
func typeFirst(doc *object) *object {
	kind := doc.get("type")
	if kind == nil {
		return doc
	}
	out := newObject("type", kind)
	out.setAll(doc)
	return out
}

func (r *resolver) target(ref string) *object {
	if ref == rootOnly {
		return r.root
	}
	if r.defs == nil || len(ref) <= len(defsRef) || ref[:len(defsRef)] != defsRef {
		return nil
	}
	out, _ := r.defs.get(ref[len(defsRef):]).(*object)
	return out
}

func (r *resolver) members(value any, path []string) *object {
	out := &object{}
	if from, ok := value.(*object); ok {
		for _, m := range from.members {
			out.set(m.name, r.below(m.value, path))
		}
	}
	return out
}

// below is a value that is a schema, or true or false.
func (r *resolver) below(value any, path []string) any {
	if doc, ok := value.(*object); ok {
		return r.value(doc, path)
	}
	return value
}

// choices are the schemas of an anyOf. One that only limits a value without naming its type would allow everything.
func (r *resolver) choices(value any, path []string) ([]any, bool) {
	from, _ := value.([]any)
	var out []any
	for _, choice := range from {
		doc, ok := choice.(*object)
		if !ok {
			return nil, false
		}
		one := r.value(doc, path)
		if !one.has("type") && !one.has("anyOf") {
			return nil, false
		}
		out = append(out, one)
	}
	return out, len(out) > 0
}

// setTypes sets type and enum of a schema, or what they mean in an anyOf. A list of types becomes a choice, and an enum with
// other values than strings loses its values.
func setTypes(out, doc *object) {
	values, _ := doc.get("enum").([]any)
	var types []string
	switch kind := doc.get("type").(type) {
	case string:
		types = []string{kind}
	case []string:
		types = kind
	}
	if doc.has("enum") && len(types) == 0 {
		types = typesOf(values)
	}
	if len(types) != 1 {
		if len(types) > 1 && !out.has("anyOf") {
			var choices []any
			for _, kind := range types {
				choices = append(choices, newObject("type", kind))
			}
			out.set("anyOf", choices)
		}
		return
	}
	if out.has("anyOf") {
		out.remove("anyOf") // beside a type it only limits the value further
	}
	out.set("type", types[0])
	if len(values) > 0 && len(values) <= strictEnum && areStrings(values) {
		out.set("enum", values)
	}
}

// typesOf are the types of the values of an enum.
func typesOf(values []any) []string {
	var out []string
	for _, v := range values {
		kind := "null"
		switch v.(type) {
		case string:
			kind = "string"
		case bool:
			kind = "boolean"
		case json.Number, int:
			kind = "number"
		}
		if !slices.Contains(out, kind) {
			out = append(out, kind)
		}
	}
	return out
}

// described gives a schema the description of the reference to it, which knows more of its place.
func described(doc, ref *object) *object {
	if text := ref.get("description"); text != nil {
		doc.set("description", text)
	}
	return doc
}

// count is how often one thing is on a path.
func count[T comparable](path []T, one T) int {
	n := 0
	for _, step := range path {
		if step == one {
			n++
		}
	}
	return n
}
