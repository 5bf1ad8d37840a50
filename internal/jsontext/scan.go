// SPDX-License-Identifier: Apache-2.0

package jsontext

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// maxBytes keeps offsets within the 32 bits that the scanner stores.
const maxBytes = math.MaxInt32

// scanner walks one document once. It recurses once per nesting level, which
// maxDepth bounds. It never moves past the end of raw.
type scanner struct {
	raw      []byte
	pos      int
	maxDepth int
	names    names
	visitor  Visitor
	outlines bool     // take note of the members of the outermost object
	outline  Outlined // by value: the scanner stays on the stack, and so does this
	inner    string   // the member of it whose members are noted as well
	innerAt  int      // where the value of that member begins while it is read, else 0
}

// Check returns the first reason to refuse raw as strict JSON with at most maxDepth
// levels of objects and arrays, the outermost included, or nil.
func Check(raw []byte, maxDepth int) *Error {
	s := scanner{raw: raw, maxDepth: maxDepth}
	return s.document()
}

// Visitor receives the events of a [Walk]. A method that returns false ends the
// walk. Start is the position of a value's first byte or a name's opening quote.
type Visitor interface {
	// Value is called before a value is read. The text at start may not be a valid
	// value: the walk checks that next. It may also be the end of the document.
	Value(start int) bool
	// Name is called after the name of a member. The name is decoded, and valid until
	// its object ends. If Name returns true, the walk continues after a repeated name.
	Name(start int, name []byte, repeated bool) bool
	// End is called after a number, an object or an array.
	End(start, end int) bool
}

// Walk is Check that reports what it reads to v, and leaves the handling of
// duplicate names to v.
func Walk(raw []byte, maxDepth int, v Visitor) *Error {
	s := scanner{raw: raw, maxDepth: maxDepth, visitor: v}
	return s.document()
}

// Outlined is the result of [Outline].
type Outlined struct {
	Start, End int   // the value, without surrounding space
	Whole      Index // its members, if it is an object
	Inner      Index // those of the requested member
}

// Outline is Check that also records the positions of the members of the outermost
// object, and of the members of its member named inner. The result is meaningless
// if there is an error.
func Outline(raw []byte, maxDepth int, inner string) (Outlined, *Error) {
	s := scanner{raw: raw, maxDepth: maxDepth, outlines: true, inner: inner}
	e := s.document()
	return s.outline, e
}

// byteOrderMark is U+FEFF in UTF-8. RFC 8259, section 8.1 forbids to send it.
const byteOrderMark = "\ufeff"

func (s *scanner) document() *Error {
	if len(s.raw) > maxBytes {
		return s.fault(DocumentTooLong, 0, "Send at most %d bytes.", maxBytes)
	}
	if bytes.HasPrefix(s.raw, []byte(byteOrderMark)) {
		return s.fault(ByteOrderMark, 0, "Remove the byte order mark before the JSON text.")
	}
	s.space()
	if s.pos == len(s.raw) {
		if s.visitor != nil && !s.visitor.Value(s.pos) {
			return s.stopped()
		}
		return s.fault(empty, s.pos, "The message is empty; send one JSON object.")
	}
	start := s.pos
	s.outline.Start = start
	if e := s.value(0); e != nil {
		return e.done()
	}
	s.outline.End, s.outline.Whole.size = s.pos, s.pos-start
	s.space()
	if s.pos < len(s.raw) {
		return s.fault(Trailing, s.pos, "Remove what follows the JSON value, from byte %d on.", s.pos)
	}
	return nil
}

// fault is an error about what begins at start and went wrong at pos.
func (s *scanner) fault(kind Kind, start int, format string, args ...any) *Error {
	return &Error{Kind: kind, Pos: s.pos, Start: start, Reason: fmt.Sprintf(format, args...)}
}

// stopped is the error of a walk that its visitor ended.
func (s *scanner) stopped() *Error {
	return s.fault(VisitorStopped, s.pos, "The reader of the JSON text stopped at byte %d.", s.pos)
}

// unexpected is the error of a byte that the grammar does not allow here.
func (s *scanner) unexpected(kind Kind, start int, want string) *Error {
	if s.pos >= len(s.raw) {
		return s.fault(kind, start, "The JSON text ends at byte %d, where %s is expected.", len(s.raw), want)
	}
	return s.fault(kind, start, "Byte %d is %s, where %s is expected.", s.pos, shown(s.raw[s.pos]), want)
}

// shown is a byte in a form that is safe in replies and logs.
func shown(c byte) string {
	if c > ' ' && c < utf8.RuneSelf-1 {
		return strconv.QuoteRune(rune(c))
	}
	return fmt.Sprintf("0x%02X", c)
}

func (s *scanner) space() {
	if s.pos < len(s.raw) && s.raw[s.pos] > ' ' {
		return // the usual case, cheap enough to be inlined
	}
	s.spaces()
}

func (s *scanner) spaces() {
	for s.pos < len(s.raw) {
		switch s.raw[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// value scans the value at pos; depth is the number of open containers.
func (s *scanner) value(depth int) *Error {
	if s.visitor != nil {
		return s.visited(depth)
	}
	return s.unvisited(depth)
}

// visited is value with a visitor.
func (s *scanner) visited(depth int) *Error {
	start := s.pos
	if !s.visitor.Value(start) {
		return s.stopped()
	}
	if e := s.unvisited(depth); e != nil {
		return e
	}
	switch c := s.raw[start]; {
	case c == '"' || c == 't' || c == 'f' || c == 'n':
		return nil
	case s.visitor.End(start, s.pos):
		return nil
	default:
		return s.stopped()
	}
}

func (s *scanner) unvisited(depth int) *Error {
	if s.pos >= len(s.raw) {
		return s.unexpected(wantValue, s.pos, "a value")
	}
	switch c := s.raw[s.pos]; c {
	case '"':
		_, e := s.text()
		return e
	case '{':
		return s.object(depth + 1)
	case '[':
		return s.array(depth + 1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		if c == '-' || isDigit(c) {
			return s.number()
		}
		return s.unexpected(wantValue, s.pos, "a value")
	}
}

func (s *scanner) literal(word string) *Error {
	start := s.pos
	for i := range len(word) {
		if s.pos >= len(s.raw) || s.raw[s.pos] != word[i] {
			return s.unexpected(BadLiteral, start, "the rest of "+word)
		}
		s.pos++
	}
	return nil
}

// number scans by the grammar of RFC 8259, section 6. A sign or digit is at pos.
func (s *scanner) number() *Error {
	if s.raw[s.pos] == '-' {
		s.pos++
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == '0' {
		s.pos++
		if s.pos < len(s.raw) && isDigit(s.raw[s.pos]) {
			return s.fault(LeadingZero, s.pos-1, "Remove the leading zero of the number at byte %d.", s.pos-1)
		}
	} else if e := s.digits(); e != nil {
		return e
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == '.' {
		s.pos++
		if e := s.digits(); e != nil {
			return e
		}
	}
	if s.pos < len(s.raw) && s.raw[s.pos]|0x20 == 'e' {
		s.pos++
		if s.pos < len(s.raw) && (s.raw[s.pos] == '+' || s.raw[s.pos] == '-') {
			s.pos++
		}
		return s.digits()
	}
	return nil
}

func (s *scanner) digits() *Error {
	start := s.pos
	for s.pos < len(s.raw) && isDigit(s.raw[s.pos]) {
		s.pos++
	}
	if s.pos == start {
		return s.unexpected(WantDigit, start, "a digit")
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// enter refuses one level too many; the opening bracket is at pos.
func (s *scanner) enter(depth int) *Error {
	if depth > s.maxDepth {
		return s.fault(TooDeep, s.pos, "Nest objects and arrays at most %d levels deep.", s.maxDepth)
	}
	s.pos++
	s.space()
	return nil
}

func (s *scanner) array(depth int) *Error {
	if e := s.enter(depth); e != nil {
		return e
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == ']' {
		s.pos++
		return nil
	}
	for index := 0; ; index++ {
		if e := s.value(depth); e != nil {
			return e.within(strconv.Itoa(index))
		}
		s.space()
		if s.pos >= len(s.raw) {
			return s.unexpected(WantComma, s.pos, "',' or ']'")
		}
		switch s.raw[s.pos] {
		case ',':
			s.pos++
			s.space()
		case ']':
			s.pos++
			return nil
		default:
			return s.unexpected(WantComma, s.pos, "',' or ']'")
		}
	}
}

func (s *scanner) object(depth int) *Error {
	if e := s.enter(depth); e != nil {
		return e
	}
	if s.pos < len(s.raw) && s.raw[s.pos] == '}' {
		s.pos++
		return nil
	}
	scope := s.names.open()
	for {
		n, e := s.member(&scope)
		if e != nil {
			return e
		}
		start := s.pos
		noted := s.outlines && depth <= 2
		if noted && depth == 1 && string(s.names.bytes(s.raw, n)) == s.inner {
			s.innerAt = start
		}
		if e := s.value(depth); e != nil {
			return e.within(string(s.names.bytes(s.raw, n)))
		}
		if noted {
			s.note(depth, n, start)
		}
		s.space()
		if s.pos >= len(s.raw) {
			return s.unexpected(WantComma, s.pos, "',' or '}'")
		}
		switch s.raw[s.pos] {
		case ',':
			s.pos++
			s.space()
		case '}':
			s.pos++
			s.names.close(scope)
			return nil
		default:
			return s.unexpected(WantComma, s.pos, "',' or '}'")
		}
	}
}

// note takes note of a member of the outermost object, or of the one within, that
// was read. Offsets count from the first byte of the object.
func (s *scanner) note(depth int, n name, start int) {
	switch {
	case depth == 1:
		base := uint32(s.outline.Start)
		s.outline.Whole.note(span{n.start - base, n.end - base}, span{uint32(start) - base, uint32(s.pos) - base}, n.escaped)
		if s.innerAt > 0 {
			s.outline.Inner.size = s.pos - s.innerAt
			s.innerAt = 0
		}
	case s.innerAt > 0:
		base := uint32(s.innerAt)
		s.outline.Inner.note(span{n.start - base, n.end - base}, span{uint32(start) - base, uint32(s.pos) - base}, n.escaped)
	}
}

// shortName scans a name of up to 15 bytes without escapes and its colon, as nearly all are, if it surely was not in its
// object before; else it moves nothing. An equal name has the same bit in scope.seen.
func (s *scanner) shortName(scope *scope) (name, bool) {
	start := s.pos + 1
	if start+18 > len(s.raw) || s.raw[s.pos] != '"' || s.names.count-scope.first > fewNames {
		return name{}, false
	}
	head := s.raw[start : start+18]
	size, bytes := 0, binary.LittleEndian.Uint64(head)
	special, hash := flags(bytes), uint64(0)
	if special == 0 {
		size, hash = 8, bytes
		bytes = binary.LittleEndian.Uint64(head[8:])
		if special = flags(bytes); special == 0 {
			return name{}, false
		}
	}
	shift := bits.TrailingZeros64(special) &^ 7
	size += shift / 8
	if head[size] != '"' || head[size+1] != ':' {
		return name{}, false
	}
	bit := shortBit(hash, bytes&(1<<shift-1))
	if scope.seen&bit != 0 {
		return name{}, false
	}
	scope.seen |= bit
	n := name{start: uint32(start), end: uint32(start + size)}
	s.names.push(n)
	s.pos = start + size + 2
	s.space()
	return n, true
}

// member scans a name and its colon and leaves pos at the value.
func (s *scanner) member(scope *scope) (name, *Error) {
	if s.visitor == nil {
		if n, ok := s.shortName(scope); ok {
			return n, nil
		}
	}
	if s.pos >= len(s.raw) || s.raw[s.pos] != '"' {
		e := s.unexpected(WantName, s.pos, "a name in double quotes")
		e.InName = true
		return name{}, e
	}
	start := s.pos + 1
	escaped, e := s.text()
	if e != nil {
		e.InName = true
		return name{}, e
	}
	n := s.names.add(s.raw, start, s.pos-1, escaped)
	if e := s.known(start-1, n, s.names.duplicate(s.raw, scope, n)); e != nil {
		return name{}, e
	}
	s.space()
	if s.pos >= len(s.raw) || s.raw[s.pos] != ':' {
		return name{}, s.unexpected(WantColon, s.pos, "':'")
	}
	s.pos++
	s.space()
	return n, nil
}

// known refuses a repeated name, or leaves it to the visitor.
func (s *scanner) known(start int, n name, repeated bool) *Error {
	switch {
	case s.visitor != nil:
		if !s.visitor.Name(start, s.names.bytes(s.raw, n), repeated) {
			return s.stopped()
		}
	case repeated:
		e := s.fault(Repeated, start, "The name of this member appears twice in its object; keep one.")
		return e.within(string(s.names.bytes(s.raw, n)))
	}
	return nil
}

// maxIndexed is how many members of one object are noted: more than any envelope or
// params of a known method have.
const maxIndexed = 8

// Index records the positions of an object's members. [Outline] builds it in its
// single pass, because a member may have megabytes, which every later lookup of
// another member would have to skip. The zero Index is empty and scans the bytes.
type Index struct {
	size   int // of the object; zero where nothing was noted
	count  int // above maxIndexed where not all members are noted
	fields [maxIndexed]indexed
}

// indexed is one member: offsets into the object. The name is the text between its
// quotes.
type indexed struct{ name, value span }

type span struct{ start, end uint32 }

// note takes down a member whose name has no escapes. An object that has more
// members, or others, is not whole, and is left to the functions that look at the
// bytes.
func (x *Index) note(name, value span, escaped bool) {
	if escaped || x.count >= maxIndexed {
		x.count = maxIndexed + 1
		return
	}
	x.fields[x.count] = indexed{name, value}
	x.count++
}

// isWhole reports whether all members of object are noted.
func (x *Index) isWhole(object []byte) bool {
	return x.size > 0 && x.size == len(object) && x.count <= maxIndexed
}

// Lookup is the function [Lookup] for the object that x was built from. For an
// object of another size, it scans the bytes.
func (x *Index) Lookup(object []byte, name string) (json.RawMessage, bool) {
	if !x.isWhole(object) {
		return Lookup(object, name)
	}
	for _, f := range x.fields[:x.count] {
		if string(object[f.name.start:f.name.end]) == name {
			return object[f.value.start:f.value.end:f.value.end], true
		}
	}
	return nil, false
}

// Fields is the function [Fields] for the object that x was built from.
func (x *Index) Fields(object []byte) iter.Seq2[[]byte, json.RawMessage] {
	return func(yield func([]byte, json.RawMessage) bool) { x.eachField(object, yield) }
}

func (x *Index) eachField(object []byte, yield func([]byte, json.RawMessage) bool) {
	if !x.isWhole(object) {
		eachField(object, yield)
		return
	}
	for _, f := range x.fields[:x.count] {
		if !yield(object[f.name.start:f.name.end], object[f.value.start:f.value.end:f.value.end]) {
			return
		}
	}
}

// Kind is the rule that a document breaks.
type Kind uint8

// The kinds of an Error. The comments define Pos and Start.
const (
	empty         Kind = iota + 1 // no value at all; Pos is the end
	ByteOrderMark                 // before the value
	Trailing                      // text after the value; Pos is where it begins
	wantValue                     // no value where one is expected
	WantName                      // no quote where a name is expected
	WantColon
	WantComma       // neither comma nor closing bracket
	WantDigit       // a number without the digit that is expected at Pos
	LeadingZero     // Start is the zero, Pos the digit after it
	BadLiteral      // Start is the start of true, false or null, Pos the byte that differs
	Unclosed        // a string without its closing quote; Pos is the end
	BareControl     // a control character in a string that is not escaped
	NotUTF8         // the byte at Pos
	UnclosedEscape  // the text ends after a backslash; Pos is the end
	BadEscape       // Start is the backslash, Pos the byte after it
	BadHex          // Start is the backslash of a \u without four hexadecimal digits
	LoneLow         // Start is the backslash of a low surrogate without a high one
	LoneHigh        // Start is the backslash of a high surrogate without a low one
	TooDeep         // Pos is the bracket that exceeds the depth
	Repeated        // Start is the quote of a name that its object already has
	VisitorStopped  // a Visitor returned false
	DocumentTooLong // more than 2 GiB
)

// Error is the first error in a document.
type Error struct {
	Kind Kind
	// Pos is the offset of the first invalid byte.
	Pos int
	// Start is where the faulty token or escape begins. It equals Pos if there is
	// none.
	Start int
	// InName is set if the fault is in a member name, or where one is expected.
	InName bool
	// Reason is one short sentence that says what to fix. Its length is bounded,
	// and it contains no control characters.
	Reason string
	// Path is the JSON Pointer of the faulty value. It is "" for the whole
	// document, and if the pointer would be longer than 256 bytes.
	Path string
}

// maxPathBytes bounds a pointer: names come from the sender and go into replies
// and logs.
const maxPathBytes = 256

// longPath marks a path that outgrew its bound while the scanner unwinds. It is no
// JSON Pointer, so it cannot be met by chance, and is removed before the error is
// handed out.
const longPath = "-"

// within adds the enclosing member in front of the path. The scanner calls it while
// it unwinds, so a good document pays nothing for it.
func (e *Error) within(segment string) *Error {
	if e == nil || e.Path == longPath {
		return e
	}
	path, ok := Within(segment, e.Path)
	if !ok {
		path = longPath
	}
	e.Path = path
	return e
}

// done ends the collection of the path. It takes nil, too.
func (e *Error) done() *Error {
	if e != nil && e.Path == longPath {
		e.Path = ""
	}
	return e
}

// Within prepends a name or an index to a JSON Pointer (RFC 6901, section 3).
// It returns false if the result would be longer than 256 bytes.
func Within(segment, path string) (string, bool) {
	escaped := make([]byte, 0, len(segment)+1)
	escaped = append(escaped, '/')
	for i := 0; i < len(segment) && len(escaped) <= maxPathBytes; i++ {
		switch c := segment[i]; c {
		case '~':
			escaped = append(escaped, "~0"...)
		case '/':
			escaped = append(escaped, "~1"...)
		default:
			escaped = append(escaped, c)
		}
	}
	if len(escaped)+len(path) > maxPathBytes {
		return "", false
	}
	return string(escaped) + path, true
}
