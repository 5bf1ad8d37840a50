// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Bounds of a JSON document. Zero members mean the defaults.
type Bounds struct {
	MaxDepth        int // nesting of objects and arrays
	MaxNumberLength int // bytes of one number
	MaxValues       int // values in the whole document
	MaxViolations   int // violations reported
}

const (
	// DefaultMaxDepth is the nesting that the envelope parser admits as well.
	DefaultMaxDepth = 64
	// DefaultMaxNumberLength is above what the exact decimal form of most doubles needs; longer numbers only cost time,
	// which is quadratic in arbitrary-precision arithmetic.
	DefaultMaxNumberLength = 1024
	// DefaultMaxValues keeps what a 4 MiB document becomes in memory to some tens of megabytes.
	DefaultMaxValues = 1 << 18
	// DefaultMaxViolations is more than a reader repairs in one go, and bounds the error.
	DefaultMaxViolations = 32

	// maxExponent bounds the exponent of a number: beyond it a double is zero or infinite for every mantissa of
	// DefaultMaxNumberLength digits, and arbitrary-precision libraries fail.
	maxExponent = 2000
)

func (b Bounds) withDefaults() Bounds {
	if b.MaxDepth <= 0 {
		b.MaxDepth = DefaultMaxDepth
	}
	if b.MaxNumberLength <= 0 {
		b.MaxNumberLength = DefaultMaxNumberLength
	}
	if b.MaxValues <= 0 {
		b.MaxValues = DefaultMaxValues
	}
	if b.MaxViolations <= 0 {
		b.MaxViolations = DefaultMaxViolations
	}
	return b
}

// Inspect reads a document once, strictly, before anything else touches it, and reports what no schema has to be asked
// for. The keywords are syntax (not JSON, not UTF-8, a lone surrogate, text after the end), duplicate (a name twice in
// one object, however escaped), maxDepth, maxValues, maxNumberLength and range (a number that no double can hold).
// The result is nil for a document that is in order. Inspect keeps nothing of the document.
func Inspect(doc []byte, bounds Bounds) []Violation {
	in := inspector{doc: doc, bounds: bounds.withDefaults(), watch: -1}
	in.document()
	return SortViolations(in.found, in.bounds.MaxViolations)
}

// PointerAt returns the JSON Pointer of the value, or of the member whose name, starts at a byte of the document. It
// turns the position in another reader's error into the form that all violations have. Unknown places give "".
func PointerAt(doc []byte, offset int) string {
	in := inspector{doc: doc, bounds: Bounds{}.withDefaults(), watch: offset}
	in.document()
	if in.watched == nil {
		return ""
	}
	return *in.watched
}

// note remembers the current path where it is the one that is looked for.
func (in *inspector) note(start int) {
	if start == in.watch && in.watched == nil {
		p := in.pointer()
		in.watched = &p
	}
}

// inspector is a recursive-descent reader; MaxDepth bounds the recursion. All methods return false to stop.
type inspector struct {
	doc    []byte
	pos    int
	bounds Bounds
	values int
	path   []step
	found  []Violation

	watch   int     // offset of interest, or -1
	watched *string // pointer of the value or name that starts there
}

// step is one level of the way to the current value. The pointer is only built where something is wrong.
type step struct {
	name  []byte // decoded; nil in an array
	index int
}

func (in *inspector) pointer() string {
	p := ""
	for _, s := range in.path {
		if s.name == nil {
			p += "/" + strconv.Itoa(s.index)
			continue
		}
		p = AppendPointer(p, string(s.name))
	}
	return p
}

// report adds a violation at the current path and says whether there is room for more.
func (in *inspector) report(keyword, format string, args ...any) bool {
	in.found = append(in.found, Violation{Path: in.pointer(), Keyword: keyword, Message: fmt.Sprintf(format, args...)})
	return len(in.found) < in.bounds.MaxViolations
}

// stop reports and ends the reading: what follows cannot be understood.
func (in *inspector) stop(keyword, format string, args ...any) bool {
	in.report(keyword, format, args...)
	return false
}

func (in *inspector) syntax(wanted string) bool {
	found := "the end of the text"
	if in.pos < len(in.doc) {
		r, size := utf8.DecodeRune(in.doc[in.pos:])
		found = fmt.Sprintf("%q", r)
		if r == utf8.RuneError && size <= 1 {
			found = fmt.Sprintf("byte 0x%02x", in.doc[in.pos])
		}
	}
	return in.stop("syntax", "wanted %s at byte %d, found %s", wanted, in.pos, found)
}

func (in *inspector) document() {
	in.space()
	if !in.value(0) {
		return
	}
	in.space()
	if in.pos < len(in.doc) {
		in.syntax("the end of the text")
	}
}

func (in *inspector) space() {
	for in.pos < len(in.doc) {
		switch in.doc[in.pos] {
		case ' ', '\t', '\n', '\r':
			in.pos++
		default:
			return
		}
	}
}

func (in *inspector) peek() byte {
	if in.pos < len(in.doc) {
		return in.doc[in.pos]
	}
	return 0
}

func (in *inspector) value(depth int) bool {
	if in.values++; in.values > in.bounds.MaxValues {
		return in.stop("maxValues", "wanted at most %d values in one document", in.bounds.MaxValues)
	}
	in.note(in.pos)
	switch c := in.peek(); {
	case c == '{' || c == '[':
		if depth >= in.bounds.MaxDepth {
			return in.stop("maxDepth", "wanted at most %d levels of objects and arrays", in.bounds.MaxDepth)
		}
		in.pos++
		if c == '{' {
			return in.object(depth)
		}
		return in.array(depth)
	case c == '"':
		_, ok := in.text()
		return ok
	case c == '-' || '0' <= c && c <= '9':
		return in.number()
	case c == 't':
		return in.word("true")
	case c == 'f':
		return in.word("false")
	case c == 'n':
		return in.word("null")
	default:
		return in.syntax("a JSON value")
	}
}

func (in *inspector) word(w string) bool {
	if !bytes.HasPrefix(in.doc[in.pos:], []byte(w)) {
		return in.syntax(w)
	}
	in.pos += len(w)
	return true
}

func (in *inspector) array(depth int) bool {
	in.space()
	if in.peek() == ']' {
		in.pos++
		return true
	}
	in.path = append(in.path, step{})
	at := len(in.path) - 1
	for i := 0; ; i++ {
		in.path[at].index = i
		in.space()
		if !in.value(depth + 1) {
			return false
		}
		in.space()
		switch in.peek() {
		case ',':
			in.pos++
		case ']':
			in.pos++
			in.path = in.path[:at]
			return true
		default:
			return in.syntax("',' or ']'")
		}
	}
}

// manyNames is where a set of names is cheaper than comparing with each of them.
const manyNames = 16

func (in *inspector) object(depth int) bool {
	in.space()
	if in.peek() == '}' {
		in.pos++
		return true
	}
	at := len(in.path)
	names := make([][]byte, 0, 8)
	var set map[string]struct{}
	for {
		in.space()
		if in.peek() != '"' {
			return in.syntax("a member name")
		}
		start := in.pos
		name, ok := in.text()
		if !ok {
			return false
		}
		in.path = append(in.path[:at], step{name: name})
		in.note(start)
		if len(names) == manyNames && set == nil {
			set = make(map[string]struct{}, 2*manyNames)
			for _, n := range names {
				set[string(n)] = struct{}{}
			}
		}
		if isRepeated(name, names, set) && !in.report("duplicate", "wanted each name once, found %s again", quote(string(name))) {
			return false
		}
		if set != nil {
			set[string(name)] = struct{}{}
		} else {
			names = append(names, name)
		}
		in.space()
		if in.peek() != ':' {
			return in.syntax("':'")
		}
		in.pos++
		in.space()
		if !in.value(depth + 1) {
			return false
		}
		in.space()
		switch in.peek() {
		case ',':
			in.pos++
			in.path = in.path[:at]
		case '}':
			in.pos++
			in.path = in.path[:at]
			return true
		default:
			return in.syntax("',' or '}'")
		}
	}
}

func isRepeated(name []byte, names [][]byte, set map[string]struct{}) bool {
	if set != nil {
		_, ok := set[string(name)]
		return ok
	}
	for _, n := range names {
		if bytes.Equal(n, name) {
			return true
		}
	}
	return false
}

// text reads a string and returns it decoded; without escapes the result aliases the document.
func (in *inspector) text() ([]byte, bool) {
	start := in.pos
	in.pos++
	escaped := false
	for in.pos < len(in.doc) {
		switch c := in.doc[in.pos]; {
		case c == '"':
			in.pos++
			if !escaped {
				return in.doc[start+1 : in.pos-1 : in.pos-1], true
			}
			var s string
			if err := json.Unmarshal(in.doc[start:in.pos], &s); err != nil {
				in.pos = start
				return nil, in.syntax("a JSON string")
			}
			return []byte(s), true
		case c == '\\':
			escaped = true
			if !in.escape() {
				return nil, false
			}
		case c < 0x20:
			return nil, in.syntax("an escaped control character")
		case c < utf8.RuneSelf:
			in.pos++
		default:
			r, size := utf8.DecodeRune(in.doc[in.pos:])
			if r == utf8.RuneError && size <= 1 {
				return nil, in.syntax("valid UTF-8")
			}
			in.pos += size
		}
	}
	return nil, in.syntax("'\"'")
}

func (in *inspector) escape() bool {
	if in.pos+1 >= len(in.doc) {
		in.pos = len(in.doc)
		return in.syntax("an escape")
	}
	switch in.doc[in.pos+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		in.pos += 2
		return true
	case 'u':
	default:
		return in.syntax("an escape")
	}
	unit, ok := hexUnit(in.doc, in.pos)
	switch {
	case !ok:
		return in.syntax("four hexadecimal digits")
	case unit >= 0xdc00 && unit <= 0xdfff:
		return in.syntax("a high surrogate before a low one")
	case unit >= 0xd800 && unit <= 0xdbff:
		low, ok := hexUnit(in.doc, in.pos+6)
		if !ok || low < 0xdc00 || low > 0xdfff {
			return in.syntax("a low surrogate after a high one")
		}
		in.pos += 12
	default:
		in.pos += 6
	}
	return true
}

// hexUnit reads \uXXXX at a position.
func hexUnit(doc []byte, at int) (uint64, bool) {
	if at+6 > len(doc) || doc[at] != '\\' || doc[at+1] != 'u' {
		return 0, false
	}
	for _, c := range doc[at+2 : at+6] {
		if c == '+' || c == '-' || c == '_' {
			return 0, false
		}
	}
	u, err := strconv.ParseUint(string(doc[at+2:at+6]), 16, 32)
	return u, err == nil
}

func (in *inspector) number() bool {
	start := in.pos
	if in.peek() == '-' {
		in.pos++
	}
	if c := in.peek(); c == '0' {
		in.pos++
	} else if !in.digits() {
		return in.syntax("a digit")
	}
	if in.peek() == '.' {
		in.pos++
		if !in.digits() {
			return in.syntax("a digit")
		}
	}
	exponent := -1
	if c := in.peek(); c == 'e' || c == 'E' {
		in.pos++
		exponent = in.pos
		if c := in.peek(); c == '+' || c == '-' {
			in.pos++
		}
		if !in.digits() {
			return in.syntax("a digit")
		}
	}
	return in.magnitude(in.doc[start:in.pos], exponent-start)
}

func (in *inspector) digits() bool {
	n := 0
	for _, c := range in.doc[in.pos:] {
		if c < '0' || c > '9' {
			break
		}
		n++
	}
	in.pos += n
	return n > 0
}

// magnitude checks a number without computing with it first. Numbers up to 300 bytes without an exponent always fit.
func (in *inspector) magnitude(raw []byte, exponent int) bool {
	if len(raw) > in.bounds.MaxNumberLength {
		return in.report("maxNumberLength", "wanted a number of at most %d bytes, found %d", in.bounds.MaxNumberLength, len(raw))
	}
	if exponent > 0 {
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
