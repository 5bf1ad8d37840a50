// SPDX-License-Identifier: Apache-2.0

package jsonrpc

// FaultCode says which stage refused the input.
type FaultCode uint8

const (
	// FaultParse: the bytes are not JSON as this package accepts it. No id is
	// reported with it, because half a document proves nothing about its id.
	FaultParse FaultCode = iota + 1
	// FaultEnvelope: JSON, but no message of the profile in use.
	FaultEnvelope
	// FaultTooLarge: more bytes than Limits.MaxBytes. Nothing was read.
	FaultTooLarge
)

// String returns a name for logs.
func (c FaultCode) String() string {
	switch c {
	case FaultParse:
		return "parse"
	case FaultEnvelope:
		return "envelope"
	case FaultTooLarge:
		return "too large"
	default:
		return "none"
	}
}

// Fault is what is wrong with an input. It is an error.
type Fault struct {
	Code FaultCode
	// Reason is one short sentence that says what to fix. It is bounded in
	// length and holds no control characters.
	Reason string
	// Path is the JSON Pointer of the faulty value, or "" for the whole
	// document and where the pointer would be longer than maxPathBytes.
	Path string
	// Over is the limit that was met, where there is one.
	Over Bound
}

// Bound is one of the limits of a message.
type Bound uint8

// The bounds, by the fields of [Limits]. Unbounded is the zero value: the fault
// is about something else.
const (
	Unbounded Bound = iota
	OverBytes
	OverDepth
	OverIDBytes
)

// Error returns the reason, with the path where there is one.
func (f *Fault) Error() string {
	if f.Path == "" {
		return f.Reason
	}
	return f.Path + ": " + f.Reason
}

// maxPathBytes bounds a pointer: names come from the sender and go into
// replies and logs.
const maxPathBytes = 256

// within adds the name of the enclosing member in front of the path. The
// scanner calls it while it unwinds, so a good document pays nothing for it.
func (f *Fault) within(segment string) *Fault {
	if f == nil || f.Path == longPath {
		return f
	}
	escaped := make([]byte, 0, len(segment)+1)
	escaped = append(escaped, '/')
	for i := 0; i < len(segment) && len(escaped) <= maxPathBytes; i++ {
		switch c := segment[i]; c { // RFC 6901, section 3
		case '~':
			escaped = append(escaped, "~0"...)
		case '/':
			escaped = append(escaped, "~1"...)
		default:
			escaped = append(escaped, c)
		}
	}
	if len(escaped)+len(f.Path) > maxPathBytes {
		f.Path = longPath
		return f
	}
	f.Path = string(escaped) + f.Path
	return f
}

// longPath marks a path that outgrew its bound while the scanner unwinds.
// It is no JSON Pointer, so it cannot be met by chance, and is removed before
// the fault is handed out.
const longPath = "-"

// done ends the collection of the path. It takes nil, too.
func (f *Fault) done() *Fault {
	if f != nil && f.Path == longPath {
		f.Path = ""
	}
	return f
}

func envelopeFault(path, reason string) *Fault {
	return &Fault{Code: FaultEnvelope, Reason: reason, Path: path}
}
