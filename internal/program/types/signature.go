// SPDX-License-Identifier: Apache-2.0

package types

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Wanted is what a signature is wanted of: a tool with the types that it needs, or one of these types.
type Wanted struct {
	Tool *catalog.Tool
	// Type is the name of a type, as signatures have it, or its full name; empty for the tool.
	Type string
}

// TypeOf is between the name of a tool and that of one of its types, where only the type is to be described.
const TypeOf = "#"

// resultName gives a result without a name one.
const resultName = "result"

const (
	// maxSignature bounds the types that are written for one tool, in bytes. The arguments of tools, the fields of their results and
	// what is asked for by name are written in any case.
	maxSignature = 4096
	// maxNote bounds the comment of an argument, in characters, maxResultNote that of another field, and maxLeftOut the names of types that
	// are left out.
	maxNote, maxResultNote, maxLeftOut = 120, 80, 20
	// maxCompared bounds the steps of a comparison of two types, and maxFound the types among which one is looked for by its name.
	maxCompared, maxFound = 2000, 4000
)

// legend explains the signs.
const legend = "# T! is required, T? may be None, 'a' | 'b' are strings\n"

// Signatures writes the signatures of tools as programs call them: the arguments, the fields of results, and the messages and enums that
// these need, once each, nearest first. What is written is what package check knows. Types beyond a bound are left out and named.
func Signatures(wanted []Wanted) string {
	s := newSigner(nil, maxSignature*len(wanted))
	for _, w := range wanted {
		if w.Type != "" {
			s.want(w)
		}
	}
	s.out.WriteString(legend)
	for _, w := range wanted {
		if w.Type == "" {
			s.function(w.Tool)
		}
	}
	s.rest()
	return s.out.String()
}

// signer writes signatures.
type signer struct {
	out strings.Builder
	// queue has the types in the order in which they are met.
	queue    []*named
	byFields map[typeKey]*named
	byName   map[string][]*named
	labels   map[string]bool
	tool     *catalog.Tool // whose types are met
	left     int
}

func newSigner(of *catalog.Tool, left int) *signer {
	return &signer{tool: of, left: left, byFields: map[typeKey]*named{}, byName: map[string][]*named{}, labels: map[string]bool{}}
}

// typeKey identifies the fields of a message, as arguments or as results.
type typeKey struct {
	of      *fields
	isInput bool
}

// named is a type that has a name in the text.
type named struct {
	typ     *Type
	key     typeKey
	tool    *catalog.Tool
	base    string // the name without a number
	label   string
	isAsked bool // written whatever its size
	isDone  bool
}

// function writes a tool.
func (s *signer) function(t *catalog.Tool) {
	s.tool = t
	if about := aboutTool(t); about != "" {
		s.out.WriteString("# " + about + "\n")
	}
	name := t.Name
	if !catalog.Callable(name) {
		name = fmt.Sprintf("tools[%q]", name)
	}
	in := Input(t)
	arguments := ""
	switch {
	case in == nil || in.Kind != Message:
		arguments = "..."
	default:
		arguments = s.fields(in, true, true)
	}
	if strings.Contains(arguments, "\n") || strings.Contains(arguments, "#") {
		arguments = "\n" + arguments + "\n"
	} else {
		arguments = strings.TrimSpace(arguments)
	}
	out := Output(t)
	s.out.WriteString(name + "(" + arguments + ") -> ")
	if out == nil || out.Kind != Message || len(out.Fields()) == 0 {
		s.out.WriteString(s.typeText(out, false, resultName) + "\n")
		return
	}
	n := s.meet(out, false, resultName)
	s.out.WriteString(n.label)
	if n.isDone {
		s.out.WriteString("\n")
		return
	}
	n.isDone = true
	s.out.WriteString(":\n" + s.fields(out, false, false) + "\n")
}

// aboutTool is a line about a tool: what it does, and how programs call it.
func aboutTool(t *catalog.Tool) string {
	var parts []string
	if !t.Undescribed {
		parts = append(parts, t.Summary())
	}
	if t.Metadata.Destructive {
		parts = append(parts, "Destructive: asks the user.")
	}
	if t.TakesStream() {
		parts = append(parts, "Takes a stream: items.")
	}
	if t.IsDocument() {
		parts = append(parts, "Returns a document.")
	} else if t.Streams() {
		parts = append(parts, "Returns a stream: items.")
	}
	if t.Paging != nil {
		parts = append(parts, "paginate returns its "+itemsOf(t)+".")
	}
	return strings.Join(parts, " ")
}

func itemsOf(t *catalog.Tool) string {
	if f := Output(t).Field(t.Paging.Items); f != nil {
		return f.Name
	}
	return "items"
}

// rest writes the types that were met, as far as there is room, and names the others.
func (s *signer) rest() {
	var leftOut []*named
	for i := 0; i < len(s.queue); i++ {
		n := s.queue[i]
		if n.isDone {
			continue
		}
		s.tool, n.isDone = n.tool, true
		met := len(s.queue)
		text := s.definition(n)
		if !n.isAsked {
			if len(text) > s.left {
				s.forget(met)
				leftOut = append(leftOut, n)
				continue
			}
			s.left -= len(text)
		}
		s.out.WriteString(text)
	}
	s.nameLeftOut(leftOut)
}

// nameLeftOut says which types are not written, and how to get them.
func (s *signer) nameLeftOut(leftOut []*named) {
	if len(leftOut) == 0 {
		return
	}
	names := make([]string, 0, len(leftOut))
	for _, n := range leftOut {
		if name := n.tool.Name + TypeOf + n.base; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	more := ""
	if len(names) > maxLeftOut {
		more = fmt.Sprintf(" and %d more", len(names)-maxLeftOut)
		names = names[:maxLeftOut]
	}
	s.out.WriteString("# Left out, to be described by these names: " + strings.Join(names, ", ") + more + "\n")
}

// forget takes back that the last types were met.
func (s *signer) forget(from int) {
	for _, n := range s.queue[from:] {
		delete(s.labels, n.label)
		list := s.byName[n.nameKey()]
		s.byName[n.nameKey()] = list[:len(list)-1]
	}
	for key, n := range s.byFields {
		if slices.Contains(s.queue[from:], n) {
			delete(s.byFields, key)
		}
	}
	s.queue = s.queue[:from]
}

func (n *named) nameKey() string {
	if n.typ.Name != "" {
		return string(n.typ.Name)
	}
	return " " + n.base
}

// definition is the text of a type.
func (s *signer) definition(n *named) string {
	if n.typ.Kind == Enum {
		values := make([]string, len(n.typ.Values))
		for i, v := range n.typ.Values {
			values[i] = quoted(v)
		}
		return n.label + ": " + strings.Join(values, " | ") + "\n"
	}
	text := s.fields(n.typ, n.key.isInput, false)
	if strings.Contains(text, "\n") {
		return n.label + ":\n" + text + "\n"
	}
	return n.label + ":" + text + "\n"
}

// quoted is a literal for a text.
func quoted(text string) string {
	if strings.ContainsAny(text, `'\`) || strings.ContainsFunc(text, unicode.IsControl) {
		return fmt.Sprintf("%q", text)
	}
	return "'" + text + "'"
}

// fields are the fields of a message: those with a comment on lines of their own, others behind one another.
func (s *signer) fields(t *Type, isInput, isArguments bool) string {
	var lines []string
	isOpen := false // the last line may be continued
	add := func(indent, text, note string) {
		switch {
		case note != "":
			lines, isOpen = append(lines, indent+text+" # "+note), false
		case isOpen && !strings.HasPrefix(lines[len(lines)-1], indent+" ") && strings.HasPrefix(lines[len(lines)-1], indent):
			lines[len(lines)-1] += ", " + text
		default:
			lines, isOpen = append(lines, indent+text), true
		}
	}
	oneof := ""
	for _, f := range t.Fields() {
		indent := " "
		if f.Oneof != oneof && f.Oneof != "" {
			lines, isOpen = append(lines, " one of"+map[bool]string{true: "!"}[isInput && f.mustOneof]+":"), false
		} else if f.Oneof != oneof {
			isOpen = false
		}
		oneof = f.Oneof
		if oneof != "" {
			indent = "  "
		}
		add(indent, s.field(f, isInput, isArguments), f.note(t, isInput))
	}
	if t.Open {
		isOpen = isOpen && oneof == ""
		add(" ", "...", "")
	}
	return strings.Join(lines, "\n")
}

// field is a field with its type.
func (s *signer) field(f *Field, isInput, isArgument bool) string {
	name := f.Name
	if !catalog.IsName(name) {
		name = fmt.Sprintf("%q", name)
	}
	text := name + ": " + s.typeText(f.Type, isInput, f.Name)
	switch {
	case isInput && f.Required:
		text += "!"
	case f.Oneof == "" && !isArgument && f.Type != nil && f.Type.Nullable && f.Type.Kind != Null:
		text += "?"
	}
	return text
}

// typeText is the name of a type. field is the name of the field that has it.
func (s *signer) typeText(t *Type, isInput bool, field string) string {
	if t == nil {
		return "any"
	}
	switch t.Kind {
	case Any:
		return "any"
	case Null:
		return "None"
	case Bool:
		return "bool"
	case Int:
		if t.Unsigned {
			return "uint"
		}
		return "int"
	case Float:
		return "float"
	case String:
		return "str"
	case Bytes:
		return "bytes"
	case Timestamp:
		return "timestamp"
	case Duration:
		return "duration"
	case List:
		return "[" + s.typeText(t.Elem(), isInput, field) + "]"
	case Map:
		return "{" + s.typeText(t.Key(), isInput, field) + ": " + s.typeText(t.Elem(), isInput, field) + "}"
	case Message:
		switch {
		case len(t.Fields()) > 0:
			return s.meet(t, isInput, field).label
		case t.Open:
			return "dict"
		}
		return "{}"
	case Enum:
		return s.meet(t, isInput, field).label
	}
	return "any"
}

// meet is the entry of a message or an enum. Types of one name that are the same to a program have one.
func (s *signer) meet(t *Type, isInput bool, field string) *named {
	n := &named{typ: t, tool: s.tool, base: baseName(t, field), key: typeKey{isInput: isInput}}
	if t.Kind == Message {
		n.key.of = t.fields()
		if known := s.byFields[n.key]; known != nil {
			return known
		}
	}
	for _, known := range s.byName[n.nameKey()] {
		c := comparison{steps: maxCompared, assumed: map[[2]typeKey]bool{}}
		if c.same(t, known.typ, isInput, known.key.isInput) {
			if n.key.of != nil {
				s.byFields[n.key] = known
			}
			return known
		}
	}
	n.label = n.base
	for i := 2; s.labels[n.label]; i++ {
		n.label = fmt.Sprintf("%s%d", n.base, i)
	}
	s.labels[n.label] = true
	s.queue = append(s.queue, n)
	s.byName[n.nameKey()] = append(s.byName[n.nameKey()], n)
	if n.key.of != nil {
		s.byFields[n.key] = n
	}
	return n
}

// baseName is the last part of the name of a type; for one without a name, that of its field.
func baseName(t *Type, field string) string {
	if t.Name != "" {
		return string(t.Name.Name())
	}
	var b strings.Builder
	isStart := true
	for _, r := range field {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			isStart = true
			continue
		}
		if isStart {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		isStart = false
	}
	if b.Len() == 0 {
		return "Value"
	}
	return b.String()
}

// Exists reports whether the tool has a type of the name.
func (w Wanted) Exists() bool { return w.Type == "" || len(w.find()) > 0 }

// find are the types of the tool that have the name.
func (w Wanted) find() (out []*named) {
	s := newSigner(w.Tool, 0)
	if in := Input(w.Tool); in != nil && in.Kind == Message {
		s.fields(in, true, true)
	}
	s.typeText(Output(w.Tool), false, resultName)
	for i := 0; i < len(s.queue) && i < maxFound; i++ {
		n := s.queue[i]
		if n.base == w.Type || n.label == w.Type || n.typ.Name == protoreflect.FullName(w.Type) {
			out = append(out, n)
		}
		s.fields(n.typ, n.key.isInput, false)
	}
	return out
}

// want meets a type that is to be written whatever its size; all types of the name are.
func (s *signer) want(w Wanted) {
	s.tool = w.Tool
	for _, n := range w.find() {
		s.meet(n.typ, n.key.isInput, n.base).isAsked = true
	}
}

// comparison finds out whether two types are the same to a program. Types that contain themselves are the same unless a difference is
// found; where that takes too long they are taken for different, and both are written.
type comparison struct {
	steps   int
	assumed map[[2]typeKey]bool
}

func (c *comparison) same(a, b *Type, isInput, isOtherInput bool) bool {
	if c.steps--; c.steps < 0 {
		return false
	}
	if a == nil || b == nil {
		return a == b
	}
	if a.Kind != b.Kind || a.Name != b.Name || a.Bits != b.Bits || a.Unsigned != b.Unsigned || a.Open != b.Open || a.Schema != b.Schema || !slices.Equal(a.Values, b.Values) {
		return false
	}
	if a.Kind == List || a.Kind == Map {
		return c.same(a.Key(), b.Key(), isInput, isOtherInput) && c.same(a.Elem(), b.Elem(), isInput, isOtherInput)
	}
	if a.fields == nil || b.fields == nil {
		return (a.fields == nil) == (b.fields == nil)
	}
	pair := [2]typeKey{{a.fields(), isInput}, {b.fields(), isOtherInput}}
	if pair[0] == pair[1] || c.assumed[pair] {
		return true
	}
	c.assumed[pair] = true
	return slices.EqualFunc(a.Fields(), b.Fields(), func(f, g *Field) bool {
		return f.Name == g.Name && f.Oneof == g.Oneof && (isInput && f.mustOneof) == (isOtherInput && g.mustOneof) && (isInput && f.Required) == (isOtherInput && g.Required) &&
			(f.Type == nil) == (g.Type == nil) && (f.Type == nil || f.Type.Nullable == g.Type.Nullable) && c.same(f.Type, g.Type, isInput, isOtherInput)
	})
}

// note is what a reader has to know of a field besides its type: its comment, unless that says no more than its name, and for arguments
// its rules.
func (f *Field) note(of *Type, isInput bool) string {
	most := maxNote
	var parts []string
	add := func(text string) {
		if text = strings.TrimSuffix(strings.TrimSpace(text), "."); text != "" && !f.isOfJSON(text) {
			parts = append(parts, text)
		}
	}
	for i, line := range strings.Split(f.words(), "\n") {
		if !isInput {
			most = maxResultNote
			line, _, _ = strings.Cut(line, ". ")
		}
		if i == 0 && !saysNothing(line, f.Name+" "+string(of.Name.Name())) || i > 0 && isInput && f.isScalar() || i > 0 && rules().MatchString(line) && (isInput || !ofValues(line)) {
			add(line)
		}
	}
	if isInput {
		for _, limit := range f.limits() {
			add(limit)
		}
	}
	text := strings.Join(strings.Fields(strings.Join(parts, "; ")), " ")
	if utf8.RuneCountInString(text) > most {
		text = string([]rune(text)[:most-1]) + "…"
	}
	return text
}

// isOfJSON holds for what a description says of the form in JSON, where programs have a value of another.
func (f *Field) isOfJSON(line string) bool {
	t := f.Type
	for t != nil && (t.Kind == List || t.Kind == Map) {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return false
	case t.Kind == Timestamp:
		return strings.HasPrefix(line, "RFC 3339")
	case t.Kind == Duration:
		return strings.HasPrefix(line, "Seconds")
	}
	return t.Kind == Bytes && strings.Contains(line, "ase64")
}

// ofValues holds for a rule about values, which says nothing of those that are there.
func ofValues(rule string) bool {
	return !strings.HasPrefix(rule, "Deprecated") && !strings.HasPrefix(rule, "Masked") && !strings.HasPrefix(rule, "Hashed")
}

// words are the description of a field.
func (f *Field) words() string {
	if f.given != "" {
		return f.given
	}
	raw, _ := f.at.Keyword("description")
	text, _ := jsontext.Text(raw)
	return text
}

// isScalar holds for a field of which all of the description is its own, and not that of its type.
func (f *Field) isScalar() bool {
	t := f.Type
	for t != nil && (t.Kind == List || t.Kind == Map) {
		t = t.Elem()
	}
	return t != nil && t.Kind != Message && t.Kind != Enum
}

// rules are the sentences of descriptions that say which values are right.
var rules = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(At (least|most)|From|Exactly|Must|Deprecated|Masked|Hashed)\b`)
})

// limits are the rules of an argument that its schema has in keywords alone, in words.
func (f *Field) limits() []string {
	at := f.at
	number := func(keyword string) string {
		raw, _ := at.Keyword(keyword)
		return string(raw)
	}
	between := func(least, most, what string) string {
		least, most = number(least), number(most)
		switch {
		case most != "" && least != "" && least != "0":
			return least + " to " + most + what
		case most != "":
			return "at most " + most + what
		case least == "1" && what != "":
			return "not empty"
		case least != "" && least != "0":
			return "at least " + least + what
		}
		return ""
	}
	t := f.Type
	switch {
	case t == nil:
		return nil
	case t.Kind == String && t.Name == "":
		out := []string{between("minLength", "maxLength", " characters")}
		for _, keyword := range [...]string{"format", "pattern"} {
			raw, _ := at.Keyword(keyword)
			if text, _ := jsontext.Text(raw); text != "" {
				out = append(out, keyword+" "+text)
			}
		}
		return out
	case t.Kind == List:
		return []string{between("minItems", "maxItems", " items")}
	case t.Kind == Map:
		return []string{between("minProperties", "maxProperties", " entries")}
	case t.Kind == Float, t.Kind == Int && t.Schema:
		out := []string{between("minimum", "maximum", "")}
		if above := number("exclusiveMinimum"); above != "" {
			out = append(out, "above "+above)
		}
		if below := number("exclusiveMaximum"); below != "" {
			out = append(out, "below "+below)
		}
		return out
	}
	return nil
}

// filler are words that say nothing beside a name.
const filler = " a an and are at be by for has have how in is it its of on or s that the their they this to was were what when where which who "

// saysNothing reports whether a comment has no word that the names do not have.
func saysNothing(comment, names string) bool {
	has := map[string]bool{}
	for _, word := range wordsOf(names) {
		has[word], has[word+"s"], has[strings.TrimSuffix(word, "s")] = true, true, true
	}
	for _, word := range wordsOf(comment) {
		if !has[word] && !strings.Contains(filler, " "+word+" ") {
			return false
		}
	}
	return true
}

// wordsOf are the words of a text or a name, in lower case.
func wordsOf(text string) []string {
	var b strings.Builder
	was := ' '
	for _, r := range text {
		if unicode.IsUpper(r) && unicode.IsLower(was) {
			b.WriteByte(' ')
		}
		was = r
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
