// SPDX-License-Identifier: Apache-2.0

package transcode

import (
	"fmt"

	"github.com/outrigger-mcp/outrigger/bridge/schema"
)

// InputError says that a document or message is not what its descriptor or rules ask for.
type InputError struct {
	// Violations are sorted by path and at most Options.MaxViolations; there is at least one.
	Violations []schema.Violation
	// Structural is set where the document does not have the form of the message; else rules were broken.
	Structural bool
}

// Error names the first violation and counts the others.
func (e *InputError) Error() string {
	what := "breaks a rule"
	if e.Structural {
		what = "does not have the form of the message"
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

// OutputError says that wire bytes are not an encoding of the message, or hold what JSON cannot say.
type OutputError struct {
	Step string // decode or encode
	Err  error
}

func (e *OutputError) Error() string { return "transcode: " + e.Step + " answer: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *OutputError) Unwrap() error { return e.Err }

// RuleError says that the rules of a message are themselves at fault, found when the message is compiled or, for a CEL
// rule that fails on a value, when it runs.
type RuleError struct {
	Message string // full name
	Err     error
}

func (e *RuleError) Error() string {
	return "transcode: rules of " + e.Message + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *RuleError) Unwrap() error { return e.Err }
