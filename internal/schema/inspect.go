// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

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
