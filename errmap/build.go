// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"fmt"
	"strings"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/protobuf/types/known/anypb"
)

// Message replaces the row's message for the caller.
func Message(text string) Option { return func(e *Error) { e.Message = text } }

// Messagef is Message with a format.
func Messagef(format string, args ...any) Option {
	return func(e *Error) { e.Message = fmt.Sprintf(format, args...) }
}

// Tool sets the name of the tool, as the caller wrote it.
func Tool(name string) Option { return func(e *Error) { e.Tool = name } }

// Type overrides the error type of the row.
func Type(errorType string) Option { return func(e *Error) { e.ErrorType = errorType } }

// WithViolations appends violations of a schema or a rule.
func WithViolations(v ...Violation) Option {
	return func(e *Error) { e.Violations = append(e.Violations, v...) }
}

// Advice replaces the sentence that says what to do next, in the text for models.
func Advice(text string) Option { return func(e *Error) { e.Advice = text } }

// Retryable replaces the row's answer to whether the call may be sent again.
func Retryable(yes bool) Option { return func(e *Error) { e.Retryable = &yes } }

// RetryAfter sets how long the caller should wait before it tries again.
func RetryAfter(d time.Duration) Option { return func(e *Error) { e.RetryAfter = d } }

// BackendCode sets the backend's status, by its name in Connect ("not_found").
func BackendCode(name string) Option { return func(e *Error) { e.BackendCode = name } }

// Details appends the backend's own error details.
func Details(d ...*anypb.Any) Option {
	return func(e *Error) { e.Details = append(e.Details, d...) }
}

// Challenge sets the value of WWW-Authenticate. With PERMISSION_DENIED it says which scope is missing.
func Challenge(value string) Option { return func(e *Error) { e.Challenge = value } }

// MissingMeta marks INVALID_PARAMS as the lack of a required member of _meta, for which MCP has another HTTP status.
func MissingMeta() Option { return func(e *Error) { e.MissingMeta = true } }

// NoSession marks SESSION_NOT_FOUND as the lack of a session id, for which MCP has another HTTP status.
func NoSession() Option { return func(e *Error) { e.NoSession = true } }

// UnknownTool returns TOOL_NOT_FOUND for a name, with the most similar names that exist.
func UnknownTool(name string, nearest ...string) *Error {
	return &Error{Code: ToolNotFound, Tool: name, Nearest: nearest}
}

// NoSuchTool returns the violation for a name that no tool has: it lists similar names that exist, or says where to
// look. The path is a JSON Pointer to the name in the request.
func NoSuchTool(path string, nearest ...string) Violation {
	v := Violation{Path: path, Keyword: "tool", Message: "tools/list shows the available names"}
	if len(nearest) > 0 {
		v.Message = "the nearest names are " + strings.Join(nearest, ", ")
	}
	return v
}

// NotOffered returns METHOD_NOT_FOUND for something that is not offered here, named in the plural ("prompts").
func NotOffered(what string) *Error {
	return Because(MethodNotFound, what+" are not available; server/discover lists what is")
}

// InvalidInput returns INVALID_TOOL_INPUT. Set structural for arguments of the wrong structure (error type SchemaError)
// and not for values that break a rule (ValidationError).
func InvalidInput(tool string, structural bool, v ...Violation) *Error {
	e := &Error{Code: InvalidToolInput, Tool: tool, Violations: v, ErrorType: TypeValidation}
	if structural {
		e.ErrorType = TypeSchema
	}
	return e
}

// UnknownResource returns RESOURCE_NOT_FOUND for a URI.
func UnknownResource(uri string) *Error { return &Error{Code: ResourceNotFound, URI: uri} }

// UnsupportedVersion returns UNSUPPORTED_PROTOCOL_VERSION. The requested version is shown verbatim, beside those that
// are supported.
func UnsupportedVersion(requested string, supported []string) *Error {
	return &Error{Code: UnsupportedProtocolVersion, Requested: requested, Supported: supported}
}

// MissingCapability returns MISSING_CLIENT_CAPABILITY; required is what the client would have to declare. The tool may
// be empty.
func MissingCapability(tool string, required *outriggerv1.ClientCapabilities) *Error {
	return &Error{Code: MissingClientCapability, Tool: tool, RequiredCapabilities: required}
}
