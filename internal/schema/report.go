// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// reporter turns the library's tree of errors into violations that a caller, often a model, can act on: one for each
// thing to repair, and of alternatives only the one that the document was closest to. It reads the schema beside the error:
// what was known, what a description says. It belongs to one document.
type reporter struct {
	source  any // the schema
	doc     any
	objects map[int][][]string // see objectsAt
	budget  *Budget            // of the report alone
}

// flatten words one failure and what caused it. Keywords that a derived schema uses as a means (anyOf for the forms of a
// value, oneOf for a oneof, not for a second name) are never reported by their name alone: a caller knows fields, and not how
// the schema is built.
func (r *reporter) flatten(e *jsonschema.ValidationError) []Violation {
	if !r.budget.Spend(workPerFault) {
		return nil // what was found so far has to do
	}
	switch k := e.ErrorKind.(type) {
	case *kind.AnyOf:
		return r.alternatives(e)
	case *kind.OneOf:
		return r.exclusive(e, k)
	case *kind.AdditionalProperties:
		return r.unknown(e, k.Properties)
	case *kind.Required:
		var out []Violation
		for _, name := range k.Missing {
			out = append(out, r.at(AppendPointer(pointerOf(e.InstanceLocation), name), "required", "wanted this field, found nothing"))
		}
		return out
	case *kind.PropertyNames:
		why := "an admitted name"
		if inner := r.flattenAll(e.Causes); len(inner) > 0 {
			why, _, _ = strings.Cut(strings.TrimPrefix(inner[0].Message, "wanted "), ", found")
		}
		var out []Violation
		for _, location := range r.holders(e, k.Property) {
			path := AppendPointer(pointerOf(location), k.Property)
			out = append(out, r.at(path, "propertyNames", "wanted "+why+" as the name, found "+quote(k.Property)))
		}
		return out
	case *kind.Not:
		if text := r.described(e); text != "" {
			return []Violation{r.at(pointerOf(e.InstanceLocation), "not", text)}
		}
	}
	if len(e.Causes) > 0 {
		return r.flattenAll(e.Causes)
	}
	return []Violation{r.at(pointerOf(e.InstanceLocation), keywordOf(e.ErrorKind), r.wanted(e)+", found "+r.found(e.InstanceLocation))}
}

// workPerFault is what it takes to word a fault, in steps.
const workPerFault = 4

func (r *reporter) flattenAll(causes []*jsonschema.ValidationError) []Violation {
	var out []Violation
	for _, c := range causes {
		out = append(out, r.flatten(c)...)
	}
	return out
}

func (r *reporter) at(path, keyword, message string) Violation {
	return Violation{Path: path, Keyword: keyword, Message: message}
}

func pointerOf(location []string) string {
	p := ""
	for _, token := range location {
		p = AppendPointer(p, token)
	}
	return p
}

func keywordOf(k jsonschema.ErrorKind) string {
	path := k.KeywordPath()
	if len(path) == 0 {
		return "schema"
	}
	return path[len(path)-1]
}

// alternatives chooses among the branches of an anyOf. A branch that wants another type than the value has was not
// meant; if that goes for all, the types are listed together. Of the rest the one with the fewest faults is reported.
func (r *reporter) alternatives(e *jsonschema.ValidationError) []Violation {
	here := pointerOf(e.InstanceLocation)
	var meant [][]Violation
	var types []string
	for _, cause := range e.Causes {
		if wanted := typesWanted(cause, len(e.InstanceLocation)); wanted != nil {
			types = append(types, wanted...)
			continue
		}
		meant = append(meant, r.flatten(cause))
	}
	if len(meant) == 0 {
		return []Violation{r.at(here, "type", "wanted "+typeList(types)+", found "+r.found(e.InstanceLocation))}
	}
	// Names of one required field: the first is the one that ProtoJSON writes.
	return slices.MinFunc(meant, func(a, b []Violation) int { return cmp.Compare(len(a), len(b)) })
}

// typesWanted returns what types a failed branch wants, where the type of the value itself is what it failed on.
func typesWanted(e *jsonschema.ValidationError, depth int) []string {
	if k, ok := e.ErrorKind.(*kind.Type); ok && len(e.InstanceLocation) == depth {
		return k.Want
	}
	switch e.ErrorKind.(type) {
	case *kind.Reference, *kind.Schema, *kind.Group:
	default:
		return nil
	}
	for _, c := range e.Causes {
		if wanted := typesWanted(c, depth); wanted != nil {
			return wanted
		}
	}
	return nil
}

// typeList leaves null out where there is anything else to suggest: it only represents leaving the member out.
func typeList(types []string) string {
	slices.Sort(types)
	types = slices.Compact(types)
	if i := slices.Index(types, "null"); i >= 0 && len(types) > 1 {
		types = slices.Delete(types, i, i+1)
	}
	if len(types) == 1 {
		return types[0]
	}
	return strings.Join(types[:len(types)-1], ", ") + " or " + types[len(types)-1]
}

// exclusive reports a oneOf; a derived schema says in words what it represents.
func (r *reporter) exclusive(e *jsonschema.ValidationError, k *kind.OneOf) []Violation {
	if k.Subschemas == nil && r.described(e) == "" {
		return r.alternatives(e)
	}
	text := "wanted exactly one of the alternatives to hold, found several"
	if said := r.described(e); said != "" {
		text = said
	}
	return []Violation{r.at(pointerOf(e.InstanceLocation), "oneOf", text+r.both(e, k))}
}

// both names the members of two branches that hold at once.
func (r *reporter) both(e *jsonschema.ValidationError, k *kind.OneOf) string {
	s, _ := r.schemaAt(e.SchemaURL).(map[string]any)
	branches, _ := s["oneOf"].([]any)
	var names []string
	for _, i := range k.Subschemas {
		if i >= len(branches) {
			continue
		}
		branch, _ := branches[i].(map[string]any)
		required, _ := branch["required"].([]any)
		if len(required) == 1 {
			names = append(names, fmt.Sprintf("%q", required[0]))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " Found " + strings.Join(names, " and ") + "."
}

func (r *reporter) unknown(e *jsonschema.ValidationError, names []string) []Violation {
	var known []string
	if s, ok := r.schemaAt(e.SchemaURL).(map[string]any); ok {
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			if !isAlias(p) {
				known = append(known, name)
			}
		}
	}
	slices.Sort(known)
	// A document may consist of nothing else; more than can be reported need not be worded.
	slices.Sort(names)
	names = names[:min(len(names), DefaultMaxViolations)]
	var out []Violation
	for _, name := range names {
		out = append(out, r.at(AppendPointer(pointerOf(e.InstanceLocation), name), "additionalProperties", unknownMember(name, known)))
	}
	return out
}

// isAlias recognises the second name of a field: nothing but a reference to the property of the first.
func isAlias(property any) bool {
	p, ok := property.(map[string]any)
	if !ok || len(p) != 1 {
		return false
	}
	ref, _ := p["$ref"].(string)
	return strings.Contains(ref, "/properties/")
}

func (r *reporter) described(e *jsonschema.ValidationError) string {
	s, _ := r.schemaAt(e.SchemaURL).(map[string]any)
	text, _ := s["description"].(string)
	return text
}

// Bounds are the limits of a JSON document. Zero members mean the defaults. Each bounds a cost that even a short document
// could cause: stack, arithmetic of long numbers, memory for many small values, and the size of the error.
type Bounds struct {
	MaxDepth        int // maximum nesting of open objects and arrays
	MaxNumberLength int // maximum length of one number in bytes
	MaxValues       int // maximum number of values in the document: scalars, objects and arrays
	MaxViolations   int // maximum number of violations reported
}

const (
	// DefaultMaxNumberLength exceeds what the exact decimal form of most doubles needs. Longer numbers only cost time, which
	// is quadratic in arbitrary-precision arithmetic.
	DefaultMaxNumberLength = 1024
	// DefaultMaxValues limits the memory of a parsed 4 MiB document to some tens of megabytes.
	DefaultMaxValues = 1 << 18
	// DefaultMaxViolations is more than a reader fixes in one go, and bounds the size of the error.
	DefaultMaxViolations = 32

	// maxExponent bounds the exponent of a number: beyond it a double is zero or infinite for every mantissa of
	// DefaultMaxNumberLength digits, and arbitrary-precision libraries fail.
	maxExponent = 2000
)

// WithDefaults returns the bounds with every unset field set to its default.
func (b Bounds) WithDefaults() Bounds {
	defaults.Fill(&b.MaxDepth, defaults.MaxJSONDepth)
	defaults.Fill(&b.MaxNumberLength, DefaultMaxNumberLength)
	defaults.Fill(&b.MaxValues, DefaultMaxValues)
	defaults.Fill(&b.MaxViolations, DefaultMaxViolations)
	return b
}

// Inspect reads a document once, strictly, before anything else processes it, and reports the violations that need no
// schema. The keywords are syntax (not JSON, not UTF-8, a lone surrogate, text after the end), duplicate (a repeated name
// in one object, however escaped), maxDepth, maxValues, maxNumberLength and range (a number that no double can hold).
// The result is nil for a valid document. Inspect keeps nothing of the document.
//
// A syntax error ends the walk, since the rest cannot be parsed. So do too many levels or values. Duplicate names and
// numbers beyond their bounds do not end it: they are reported together.
func Inspect(doc []byte, bounds Bounds) []Violation {
	in := inspector{doc: doc, bounds: bounds.WithDefaults(), watch: -1}
	in.document()
	return SortViolations(in.found, in.bounds.MaxViolations)
}

// PointerAt returns the JSON Pointer of the value, or of the member whose name, starts at a byte offset in the document.
// It converts the position in another parser's error to the form that all violations use. Unknown offsets give "".
func PointerAt(doc []byte, offset int) string {
	in := inspector{doc: doc, bounds: Bounds{}.WithDefaults(), watch: offset}
	in.document()
	if in.watched == nil {
		return ""
	}
	return *in.watched
}

// inspector adds to the grammar of package jsontext, whose visitor it is, the bounds of a document and where in it
// something is wrong. It goes on behind a repeated name and behind a number that is too large: those are reported
// together.
type inspector struct {
	doc    []byte
	bounds Bounds
	values int
	path   []step
	found  []Violation

	watch   int     // offset of interest, or -1
	watched *string // pointer of the value or name that starts there
}

// step is one open object or array, and where in it the walk is. The pointer is only built where something is wrong.
type step struct {
	array bool
	name  []byte // of the current member of an object; nil before the first
	index int    // of the current element of an array; -1 before the first
}

func (in *inspector) document() {
	if e := jsontext.Walk(in.doc, in.bounds.MaxDepth, in); e != nil {
		in.refuse(e)
	}
}

// Value counts a value, records it and opens it.
func (in *inspector) Value(start int) bool {
	if n := len(in.path); n > 0 && in.path[n-1].array {
		in.path[n-1].index++
	}
	if in.values++; in.values > in.bounds.MaxValues {
		in.report("maxValues", "wanted at most %d values in one document", in.bounds.MaxValues)
		return false
	}
	in.note(start)
	if start < len(in.doc) && (in.doc[start] == '{' || in.doc[start] == '[') {
		in.path = append(in.path, step{array: in.doc[start] == '[', index: -1})
	}
	return true
}

// Name moves on to the next member.
func (in *inspector) Name(start int, name []byte, repeated bool) bool {
	in.path[len(in.path)-1].name = name
	in.note(start)
	return !repeated || in.report("duplicate", "wanted each name once, found %s again", quote(string(name)))
}

// End closes a container and checks a number.
func (in *inspector) End(start, end int) bool {
	if c := in.doc[start]; c != '{' && c != '[' {
		return in.magnitude(in.doc[start:end])
	}
	in.path = in.path[:len(in.path)-1]
	return true
}

// note remembers the current path where it is the one that is looked for.
func (in *inspector) note(start int) {
	if start == in.watch && in.watched == nil {
		p := in.pointer()
		in.watched = &p
	}
}

func (in *inspector) pointer() string {
	p := ""
	for _, s := range in.path {
		switch {
		case s.array && s.index >= 0:
			p += "/" + strconv.Itoa(s.index)
		case s.name != nil:
			p = AppendPointer(p, string(s.name))
		}
	}
	return p
}

// report adds a violation at the current path and says whether there is room for more.
func (in *inspector) report(keyword, format string, args ...any) bool {
	in.found = append(in.found, Violation{Path: in.pointer(), Keyword: keyword, Message: fmt.Sprintf(format, args...)})
	return len(in.found) < in.bounds.MaxViolations
}

// refuse reports what ended the walk: what follows cannot be understood.
func (in *inspector) refuse(e *jsontext.Error) {
	if n := len(in.path); n > 0 && e.InName {
		in.path[n-1].name = nil // the fault is in the next name, not in the member before it
	}
	switch e.Kind {
	case jsontext.VisitorStopped: // and reported
	case jsontext.TooDeep:
		in.path = in.path[:len(in.path)-1] // the one that is too deep was not entered
		in.report("maxDepth", "wanted at most %d levels of objects and arrays", in.bounds.MaxDepth)
	case jsontext.BadLiteral:
		in.syntax(wordOf(in.doc[e.Start]), e.Start)
	case jsontext.BadEscape, jsontext.BadHex, jsontext.LoneLow, jsontext.LoneHigh:
		in.syntax(wantedInEscape(e.Kind), e.Start)
	default:
		in.syntax(in.wanted(e.Kind), e.Pos)
	}
}

func (in *inspector) syntax(wanted string, at int) {
	found := "the end of the text"
	if at < len(in.doc) {
		r, size := utf8.DecodeRune(in.doc[at:])
		found = fmt.Sprintf("%q", r)
		if r == utf8.RuneError && size <= 1 {
			found = fmt.Sprintf("byte 0x%02x", in.doc[at])
		}
	}
	in.report("syntax", "wanted %s at byte %d, found %s", wanted, at, found)
}

// wanted is what should have been where the walk ended.
func (in *inspector) wanted(kind jsontext.Kind) string {
	switch kind {
	case jsontext.Trailing, jsontext.DocumentTooLong:
		return "the end of the text"
	case jsontext.WantName:
		return "a member name"
	case jsontext.WantColon:
		return "':'"
	case jsontext.WantComma, jsontext.LeadingZero: // a number ends behind a zero
		return in.wantedNext()
	case jsontext.WantDigit:
		return "a digit"
	case jsontext.Unclosed:
		return "'\"'"
	case jsontext.BareControl:
		return "an escaped control character"
	case jsontext.NotUTF8:
		return "valid UTF-8"
	case jsontext.UnclosedEscape:
		return "an escape"
	default: // jsontext.Empty, jsontext.ByteOrderMark, jsontext.WantValue
		return "a JSON value"
	}
}

// wantedNext is what may follow a value.
func (in *inspector) wantedNext() string {
	switch n := len(in.path); {
	case n == 0:
		return "the end of the text"
	case in.path[n-1].array:
		return "',' or ']'"
	default:
		return "',' or '}'"
	}
}

func wantedInEscape(kind jsontext.Kind) string {
	switch kind {
	case jsontext.BadHex:
		return "four hexadecimal digits"
	case jsontext.LoneLow:
		return "a high surrogate before a low one"
	case jsontext.LoneHigh:
		return "a low surrogate after a high one"
	default:
		return "an escape"
	}
}

// wordOf is the word that begins with c.
func wordOf(c byte) string {
	switch c {
	case 't':
		return "true"
	case 'f':
		return "false"
	default:
		return "null"
	}
}

// magnitude checks a number without computing with it first. Numbers up to 300 bytes without an exponent always fit.
func (in *inspector) magnitude(raw []byte) bool {
	if len(raw) > in.bounds.MaxNumberLength {
		return in.report("maxNumberLength", "wanted a number of at most %d bytes, found %d", in.bounds.MaxNumberLength, len(raw))
	}
	if exponent := bytes.IndexAny(raw, "eE") + 1; exponent > 0 {
		e, err := strconv.Atoi(string(raw[exponent:]))
		if err != nil || e > maxExponent || e < -maxExponent {
			return in.report("range", "wanted a number that a double can hold, found %s", quote(string(raw)))
		}
	} else if len(raw) <= 300 {
		return true
	}
	if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
		return in.report("range", "wanted a number that a double can hold, found %s", quote(string(raw)))
	}
	return true
}

// Violation is one problem of a document. The members are part of what callers get. Programs should read Path and
// Keyword, since the text of Message may change.
type Violation struct {
	// Path is the JSON Pointer (RFC 6901) of the value; for an unknown, repeated or missing member it names that member.
	Path string `json:"path"`
	// Keyword is the JSON Schema keyword that the value violates, or one of the keywords of Inspect.
	Keyword string `json:"keyword"`
	// Message says what was expected and what was found.
	Message string `json:"message"`
}

// AppendPointer appends one reference token, a member name or an index, to a JSON Pointer, escaped as RFC 6901 requires.
// The pointer to the whole document is "".
func AppendPointer(pointer, token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	return pointer + "/" + token
}

// UnescapeToken returns the name in one reference token of a JSON Pointer.
func UnescapeToken(token string) string {
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
}

// SortViolations sorts violations by path, keyword and message, drops duplicates and keeps at most limit of them. Numbers
// in paths compare as numbers, so that /items/2 comes before /items/10. A limit of zero or less keeps all. It modifies
// the given slice.
func SortViolations(vs []Violation, limit int) []Violation {
	slices.SortFunc(vs, func(a, b Violation) int {
		return cmp.Or(comparePointers(a.Path, b.Path), cmp.Compare(a.Keyword, b.Keyword), cmp.Compare(a.Message, b.Message))
	})
	vs = slices.Compact(vs)
	if limit > 0 && len(vs) > limit {
		vs = vs[:limit]
	}
	return vs
}

func comparePointers(a, b string) int {
	for {
		if a == b {
			return 0
		}
		var x, y string
		x, a, _ = strings.Cut(a, "/")
		y, b, _ = strings.Cut(b, "/")
		if c := compareTokens(x, y); c != 0 {
			return c
		}
		if a == "" || b == "" {
			return cmp.Compare(len(a), len(b))
		}
	}
}

func compareTokens(x, y string) int {
	i, errX := strconv.Atoi(x)
	j, errY := strconv.Atoi(y)
	if errX == nil && errY == nil && i != j {
		return cmp.Compare(i, j)
	}
	return cmp.Compare(x, y)
}

// maxNearestLength bounds the work of Nearest: the names of fields are short, and an edit distance costs the product
// of both lengths.
const maxNearestLength = 64

// Nearest returns the known name that a writer most likely meant, or "" if none is close. It ignores case and
// underscores; otherwise at most a third of the letters may differ.
func Nearest(name string, known []string) string {
	if len(name) > maxNearestLength {
		return ""
	}
	folded := foldName(name)
	best, bestDistance := "", len(folded)/3+1
	for _, k := range known {
		if len(k) > maxNearestLength {
			continue
		}
		if d := editDistance(folded, foldName(k), bestDistance); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// NearestValue is Nearest for the values of an enum, which a writer may name without the prefix that all of them have: IDLE for
// VEHICLE_STATE_IDLE.
func NearestValue(name string, known []string) string {
	if near := Nearest(name, known); near != "" || len(known) == 0 {
		return near
	}
	prefix := known[0]
	for _, k := range known {
		for !strings.HasPrefix(k, prefix) {
			prefix = prefix[:len(prefix)-1]
		}
	}
	prefix = prefix[:strings.LastIndexByte(prefix, '_')+1]
	short := make([]string, 0, len(known))
	for _, k := range known {
		short = append(short, k[len(prefix):])
	}
	if near := Nearest(name, short); near != "" {
		return prefix + near
	}
	return ""
}

func foldName(s string) string {
	return strings.ReplaceAll(strings.ToLower(s), "_", "")
}

// editDistance is Levenshtein's, given up where it must reach limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next := min(row[j+1]+1, row[j]+1, diagonal+cost)
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}

// unknownMember words the refusal of a member that is not known.
func unknownMember(name string, known []string) string {
	near := Nearest(name, known)
	if near == "" && len(known) == 0 {
		return fmt.Sprintf("wanted no members here, found unknown field %s", quote(name))
	}
	if near == "" {
		return fmt.Sprintf("wanted one of %s, found unknown field %s", list(known), quote(name))
	}
	return fmt.Sprintf("wanted a known field, found unknown field %s; did you mean %s?", quote(name), quote(near))
}

// maxListed is how many names a message shows: enough for most messages and enums, and still one line.
const maxListed = 12

func list(names []string) string {
	quoted := make([]string, 0, min(len(names), maxListed))
	for _, n := range names[:min(len(names), maxListed)] {
		quoted = append(quoted, quote(n))
	}
	s := strings.Join(quoted, ", ")
	if more := len(names) - maxListed; more > 0 {
		s += fmt.Sprintf(" and %d more", more)
	}
	return s
}

// maxQuoted bounds what a message repeats of the caller's own text.
const maxQuoted = 64

func quote(s string) string {
	r := []rune(s)
	if len(r) > maxQuoted {
		return fmt.Sprintf("%q... (%d characters)", string(r[:maxQuoted]), len(r))
	}
	return fmt.Sprintf("%q", s)
}

// noField is the error of a path: of is the message that lacks name, or whose field has no members. known are the names that
// the message has in an input, in its order, of which the error shows 20; empty if it has none.
func noField(of protoreflect.FullName, name string, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf("there is no %s: %s has no members to describe", quote(name), of)
	}
	const most = 20
	more := ""
	if len(known) > most {
		known, more = known[:most], fmt.Sprintf(" and %d more", len(known)-most)
	}
	return fmt.Errorf("%s has no %s; it has %s%s", of, quote(name), strings.Join(known, ", "), more)
}

// InputField returns the full name of the field that a path leads to in the input of a message, for Options.Words: names of
// fields, in JSON or as in the .proto file, with dots between them, through lists and maps to the messages in them. Of an
// input that is wrapped, the only path is "value". Extensions have no path.
func InputField(md protoreflect.MessageDescriptor, path string) (protoreflect.FullName, error) {
	d := &deriver{dir: Input, needs: new(Needs)}
	if IsWrapped(md, Input) {
		if path != wrappedMember {
			return "", noField(md.FullName(), path, []string{wrappedMember})
		}
		return wrappedName(md), nil
	}
	names := strings.Split(path, ".")
	for i, name := range names {
		var fields []protoreflect.FieldDescriptor
		if !IsWellKnown(md) {
			fields = d.fieldsOf(md)
		}
		at := slices.IndexFunc(fields, func(fd protoreflect.FieldDescriptor) bool { return slices.Contains(Names(fd), name) })
		if at < 0 {
			return "", noField(md.FullName(), name, firstNames(fields))
		}
		fd := fields[at]
		if i == len(names)-1 {
			return fd.FullName(), nil
		}
		of := fd
		if fd.IsMap() {
			of = fd.MapValue()
		}
		if of.Message() == nil {
			return "", noField(fd.FullName(), names[i+1], nil)
		}
		md = of.Message()
	}
	return "", noField(md.FullName(), "", nil) // a path has at least one name
}

func firstNames(fields []protoreflect.FieldDescriptor) []string {
	var out []string
	for _, fd := range fields {
		out = append(out, Names(fd)[0])
	}
	return out
}

// wrappedName is what Options.Words call the one member of an input that is wrapped.
func wrappedName(md protoreflect.MessageDescriptor) protoreflect.FullName {
	return md.FullName().Append(wrappedMember)
}
