// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"fmt"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"

	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// InputError means that a document or message does not match its descriptor or breaks its rules. From ToWire, the caller
// made the mistake, and Violations list what to fix. From ToJSON and CheckWire, the bytes are a message of the type but
// break a rule. The texts may repeat parts of the document.
type InputError struct {
	// Violations are sorted by path and at most Options.MaxViolations; there is at least one.
	Violations []schema.Violation
	// Structural is set if the document does not match the structure of the message. Otherwise it breaks rules.
	Structural bool
	// Broken are the broken rules as protovalidate reports them, as many as Options.MaxViolations; nil if the document does
	// not match the structure.
	Broken *validate.Violations
}

// Error names the first violation and counts the others.
func (e *InputError) Error() string {
	what := "breaks a rule"
	if e.Structural {
		what = "does not match the form of the message"
	}
	if len(e.Violations) == 0 {
		return "transcode: document " + what
	}
	first := e.Violations[0]
	text := fmt.Sprintf("transcode: document %s: at %q: %s", what, first.Path, first.Message)
	if more := len(e.Violations) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// OutputError means that wire bytes are not an encoding of the message, or hold what JSON cannot express. The most common
// cause is a sender with another version of the .proto file.
type OutputError struct {
	// Step is "decode" if the bytes could not be read, and "encode" if the message could not be written as JSON.
	Step string
	// Err is the cause. Its text is for logs: it comes from the Protobuf library and changes with its version.
	Err error
	// Where is the place of the first fault, as a path of JSON names, with what is wrong there and the first bytes in
	// hexadecimal. Bytes of fields that are marked secret are withheld. It is for logs too.
	Where string
}

// Error names the step, the cause and the place.
func (e *OutputError) Error() string {
	text := "transcode: " + e.Step + " answer: " + e.Err.Error()
	if e.Where != "" {
		text += " (" + e.Where + ")"
	}
	return text
}

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }

// RuleError means that the rules of a message are invalid themselves. It is found when the message is compiled or, for a
// CEL rule that fails on a value, when the rule runs. The service's .proto files have to be fixed.
type RuleError struct {
	// Message is the full name of the message that was compiled. The rule may belong to a message below it.
	Message string
	// Err is the error of protovalidate.
	Err error
}

// Error names the message and the problem with its rules.
func (e *RuleError) Error() string {
	return "transcode: rules of " + e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *RuleError) Unwrap() error { return e.Err }
