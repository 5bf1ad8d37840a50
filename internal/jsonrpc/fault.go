// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import "github.com/outrigger-mcp/outrigger/internal/jsontext"

// FaultCode is the stage that refused the input.
type FaultCode uint8

const (
	// FaultParse means that the bytes are not JSON as this package accepts it. It has
	// no id, because an incomplete document does not reliably contain its id.
	FaultParse FaultCode = iota + 1
	// FaultEnvelope means that the JSON is not a message of the profile in use.
	FaultEnvelope
	// FaultTooLarge means more bytes than Limits.MaxBytes. Nothing was read.
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

// Fault describes what is wrong with an input. It is an error.
type Fault struct {
	Code FaultCode
	// Reason is one short sentence that says what to fix. Its length is
	// bounded, and it contains no control characters.
	Reason string
	// Path is the JSON Pointer of the faulty value. It is "" for the whole
	// document, and if the pointer would be longer than 256 bytes.
	Path string
	// Over is the limit that was exceeded, if any.
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

// Error returns the reason, with the path if there is one.
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
