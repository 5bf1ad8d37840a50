// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/anypb"
)

// Message sets the message for the caller.
func Message(text string) Option { return func(e *Error) { e.Message = text } }

// Messagef is Message with a format.
func Messagef(format string, args ...any) Option {
	return func(e *Error) { e.Message = fmt.Sprintf(format, args...) }
}

// Tool sets the tool of the error, by the name that the caller used.
func Tool(name string) Option { return func(e *Error) { e.Tool = name } }

// Type overrides the error type of the row.
func Type(errorType string) Option { return func(e *Error) { e.ErrorType = errorType } }

// WithViolations appends violations of the input or output.
func WithViolations(v ...Violation) Option {
	return func(e *Error) { e.Violations = append(e.Violations, v...) }
}

// Advice overrides the code's advice on what to do next.
func Advice(text string) Option { return func(e *Error) { e.Advice = text } }

// Retryable overrides whether the call can be retried.
func Retryable(yes bool) Option { return func(e *Error) { e.Retryable = &yes } }

// RetryAfter sets the time to wait before a retry.
func RetryAfter(d time.Duration) Option { return func(e *Error) { e.RetryAfter = d } }

// BackendCode sets the backend's status, as a Connect code.
func BackendCode(name string) Option { return func(e *Error) { e.BackendCode = name } }

// Details appends the backend's own error details.
func Details(d ...*anypb.Any) Option {
	return func(e *Error) { e.Details = append(e.Details, d...) }
}

// Challenge sets the value of WWW-Authenticate. With PERMISSION_DENIED it means that a scope is missing.
func Challenge(value string) Option { return func(e *Error) { e.Challenge = value } }

// MissingMeta marks an INVALID_PARAMS that is about a missing member of _meta.
func MissingMeta() Option { return func(e *Error) { e.MissingMeta = true } }

// NoSession marks a SESSION_NOT_FOUND for a request without a session id.
func NoSession() Option { return func(e *Error) { e.NoSession = true } }

// UnknownTool returns TOOL_NOT_FOUND for a name, with the nearest known names.
func UnknownTool(name string, nearest ...string) *Error {
	return &Error{Code: ToolNotFound, Tool: name, Nearest: nearest}
}

// InvalidInput returns INVALID_TOOL_INPUT. structural means that the arguments violate the structure of the schema
// (SchemaError); otherwise they are well-formed and violate a rule (ValidationError).
func InvalidInput(tool string, structural bool, v ...Violation) *Error {
	e := &Error{Code: InvalidToolInput, Tool: tool, Violations: v, ErrorType: TypeValidation}
	if structural {
		e.ErrorType = TypeSchema
	}
	return e
}

// UnknownResource returns RESOURCE_NOT_FOUND for a URI.
func UnknownResource(uri string) *Error { return &Error{Code: ResourceNotFound, URI: uri} }

// UnsupportedVersion returns UNSUPPORTED_PROTOCOL_VERSION. requested is echoed verbatim.
func UnsupportedVersion(requested string, supported []string) *Error {
	return &Error{Code: UnsupportedProtocolVersion, Requested: requested, Supported: supported}
}

// MissingCapability returns MISSING_CLIENT_CAPABILITY. required is a JSON object of the form of MCP's
// ClientCapabilities, for example {"elicitation":{}}.
func MissingCapability(tool string, required json.RawMessage) *Error {
	return &Error{Code: MissingClientCapability, Tool: tool, RequiredCapabilities: required}
}
