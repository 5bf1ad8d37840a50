// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"strconv"
	"time"
)

// Because returns an error whose message is the row's, followed by a reason: "Method not found: prompts are not offered
// here".
func Because(code Code, reason string, options ...Option) *Error {
	row, err := Lookup(code)
	if err != nil {
		return Wrap(InternalError, err)
	}
	return New(code, append([]Option{Message(row.Message + ": " + reason)}, options...)...)
}

// OverShare returns RATE_LIMITED for a caller that has used up its share of something.
func OverShare(reason string) *Error {
	return Because(RateLimited, reason, RetryAfter(time.Second))
}

// Unwritable returns INVALID_TOOL_OUTPUT for an answer of the backend that MCP has no form for.
func Unwritable(err error) *Error {
	return Wrap(InvalidToolOutput, err, WithViolations(Violation{Keyword: "mcp", Message: err.Error()}))
}

// maxQuoted bounds how much of a caller's own text an error message repeats.
const maxQuoted = 128

// Quote quotes a caller's text for an error message. It escapes the text, so that
// it cannot break a log line or a header, and truncates it.
func Quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}
