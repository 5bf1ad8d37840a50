// SPDX-License-Identifier: Apache-2.0

package jsontext

// Kind says which rule a document breaks.
type Kind uint8

// The kinds of an Error, with what Pos and Start are.
const (
	Empty         Kind = iota + 1 // no value at all; Pos is the end
	ByteOrderMark                 // before the value
	Trailing                      // text behind the value; Pos is where it begins
	WantValue                     // no value where one is expected
	WantName                      // no quote where a name is expected
	WantColon
	WantComma       // neither comma nor closing bracket
	WantDigit       // a number without the digit that is expected at Pos
	LeadingZero     // Start is the zero, Pos the digit behind it
	BadLiteral      // Start is the beginning of true, false or null, Pos the byte that differs
	Unclosed        // a string without its closing quote; Pos is the end
	BareControl     // a control character in a string that is not escaped
	NotUTF8         // the byte at Pos
	UnclosedEscape  // the text ends behind a backslash; Pos is the end
	BadEscape       // Start is the backslash, Pos the byte behind it
	BadHex          // Start is the backslash of a \u without four hexadecimal digits
	LoneLow         // Start is the backslash of a low surrogate without a high one
	LoneHigh        // Start is the backslash of a high surrogate without a low one
	TooDeep         // Pos is the bracket that is one too many
	Repeated        // Start is the quote of a name that its object has already
	VisitorStopped  // a Visitor returned false
	DocumentTooLong // more than 2 GiB
)

// Error is the first thing that is wrong with a document.
type Error struct {
	Kind Kind
	// Pos is the byte at which the document stopped being right.
	Pos int
	// Start is where the token or escape with the fault begins; Pos where there is
	// none.
	Start int
	// InName: the fault is in the name of a member or where one should be.
	InName bool
	// Reason is one short sentence that says what to fix. It is bounded in length
	// and holds no control characters.
	Reason string
	// Path is the JSON Pointer of the value with the fault, "" for the whole
	// document and where the pointer would be longer than 256 bytes.
	Path string
}

// Error returns the reason, with the path where there is one.
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

// Within puts a name or an index in front of a JSON Pointer (RFC 6901, section 3).
// It returns false where the result would be longer than 256 bytes.
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
