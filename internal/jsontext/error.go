// SPDX-License-Identifier: Apache-2.0

package jsontext

// Kind is the rule that a document breaks.
type Kind uint8

// The kinds of an Error. The comments define Pos and Start.
const (
	Empty         Kind = iota + 1 // no value at all; Pos is the end
	ByteOrderMark                 // before the value
	Trailing                      // text after the value; Pos is where it begins
	WantValue                     // no value where one is expected
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

// Error returns the reason, with the path if there is one.
func (e *Error) Error() string {
	if e.Path == "" {
		return e.Reason
	}
	return e.Path + ": " + e.Reason
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
