// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

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
	// document and where the pointer would be longer than 256 bytes.
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

// faultOf is what is wrong with a text that is no JSON as it is accepted here.
func faultOf(e *jsontext.Error) *Fault {
	if e == nil {
		return nil
	}
	f := &Fault{Code: FaultParse, Reason: e.Reason, Path: e.Path}
	if e.Kind == jsontext.TooDeep {
		f.Over = OverDepth
	}
	return f
}

func envelopeFault(path, reason string) *Fault {
	return &Fault{Code: FaultEnvelope, Reason: reason, Path: path}
}
