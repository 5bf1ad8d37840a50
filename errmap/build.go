// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"fmt"
	"strings"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"google.golang.org/protobuf/types/known/anypb"
)

// Message sets the sentence for the caller.
func Message(text string) Option { return func(e *Error) { e.Message = text } }

// Messagef is Message with a format.
func Messagef(format string, args ...any) Option {
	return func(e *Error) { e.Message = fmt.Sprintf(format, args...) }
}

// Tool names the tool that the error is about, as the caller gave it.
func Tool(name string) Option { return func(e *Error) { e.Tool = name } }

// Type replaces the row's error type.
func Type(errorType string) Option { return func(e *Error) { e.ErrorType = errorType } }

// WithViolations appends faults of the input or output.
func WithViolations(v ...Violation) Option {
	return func(e *Error) { e.Violations = append(e.Violations, v...) }
}

// Advice replaces what the code says about what to do next.
func Advice(text string) Option { return func(e *Error) { e.Advice = text } }

// Retryable replaces what the row says about sending the call again.
func Retryable(yes bool) Option { return func(e *Error) { e.Retryable = &yes } }

// RetryAfter says how long to wait.
func RetryAfter(d time.Duration) Option { return func(e *Error) { e.RetryAfter = d } }

// BackendCode names the backend's status in Connect's words.
func BackendCode(name string) Option { return func(e *Error) { e.BackendCode = name } }

// Details appends the backend's own error details.
func Details(d ...*anypb.Any) Option {
	return func(e *Error) { e.Details = append(e.Details, d...) }
}

// Challenge sets the value of WWW-Authenticate. On PERMISSION_DENIED it says that a scope is missing.
func Challenge(value string) Option { return func(e *Error) { e.Challenge = value } }

// MissingMeta says that INVALID_PARAMS is about a required member of _meta.
func MissingMeta() Option { return func(e *Error) { e.MissingMeta = true } }

// NoSession says that SESSION_NOT_FOUND is about a request without a session id.
func NoSession() Option { return func(e *Error) { e.NoSession = true } }

// UnknownTool is TOOL_NOT_FOUND for a name, with the known names that are most like it.
func UnknownTool(name string, nearest ...string) *Error {
	return &Error{Code: ToolNotFound, Tool: name, Nearest: nearest}
}

// NoSuchTool is the violation of a name that no tool has: it names the known ones that are most like it, or says where
// to look. The path is where the name stands in the request.
func NoSuchTool(path string, nearest ...string) Violation {
	v := Violation{Path: path, Keyword: "tool", Message: "tools/list shows the names that exist"}
	if len(nearest) > 0 {
		v.Message = "the nearest names are " + strings.Join(nearest, ", ")
	}
	return v
}

// NotOffered is METHOD_NOT_FOUND for something that is not offered here, named in the plural ("prompts").
func NotOffered(what string) *Error {
	return Because(MethodNotFound, what+" are not offered here; server/discover says what is")
}

// InvalidInput is INVALID_TOOL_INPUT. structural says that the arguments break the schema's structure (SchemaError);
// else they break a rule on values that are well-formed (ValidationError).
func InvalidInput(tool string, structural bool, v ...Violation) *Error {
	e := &Error{Code: InvalidToolInput, Tool: tool, Violations: v, ErrorType: TypeValidation}
	if structural {
		e.ErrorType = TypeSchema
	}
	return e
}

// UnknownResource is RESOURCE_NOT_FOUND for a URI.
func UnknownResource(uri string) *Error { return &Error{Code: ResourceNotFound, URI: uri} }

// UnsupportedVersion is UNSUPPORTED_PROTOCOL_VERSION: requested is echoed verbatim.
func UnsupportedVersion(requested string, supported []string) *Error {
	return &Error{Code: UnsupportedProtocolVersion, Requested: requested, Supported: supported}
}

// MissingCapability is MISSING_CLIENT_CAPABILITY: the client would have to declare what is required.
func MissingCapability(tool string, required *outriggerv1.ClientCapabilities) *Error {
	return &Error{Code: MissingClientCapability, Tool: tool, RequiredCapabilities: required}
}
