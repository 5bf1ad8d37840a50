// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Violation is one fault of a document: a JSON Pointer to the value (for an unknown member, to that member), the
// keyword of the schema that it breaks, and a sentence.
type Violation struct {
	Path    string `json:"path"`
	Keyword string `json:"keyword"`
	Message string `json:"message"`
}

// Error is a canonical error: a code, and facts about this failure. Empty fields have the values of the code's row.
// Build one with [New], [Wrap] or one of the other constructors.
type Error struct {
	Code Code
	// Message is the message for the caller; "" is the row's. INTERNAL_ERROR always shows the row's message, and so does
	// every Fixed row in the canonical dialect.
	Message string
	// ErrorType overrides the row's error type.
	ErrorType string
	// Retryable overrides the row and the backend's code.
	Retryable *bool
	// RetryAfter is the time to wait before a retry, if known. Conversions cap it at 24 hours.
	RetryAfter time.Duration
	// Tool is the name as the caller gave it.
	Tool string
	// Line and Column are where in a program the call of Tool is that failed; 0 for the error of any other call.
	Line, Column int
	// Violations are the violations of the input or output.
	Violations []Violation
	// Document is the message that the paths of Violations lead into, or with TOOL_EXECUTION_FAILED the request; nil if it is
	// not known or none. It gives callers over Connect, gRPC and gRPC-Web the paths of fields, and models the names of arguments.
	Document protoreflect.MessageDescriptor
	// Broken are the broken rules of protovalidate, for the same callers; nil for none.
	Broken *validate.Violations
	// Advice is a sentence on what to do next, for the text of a tool result; "" is the code's.
	Advice string
	// Nearest are the known names that are nearest to an unknown Tool.
	Nearest []string
	// BackendCode is the backend's status as a Connect code, "unknown" for a number that Connect does not define.
	BackendCode string
	// Details are the backend's own error details.
	Details []*anypb.Any
	// URI is the resource that was not found.
	URI string
	// Requested is the unsupported protocol version, verbatim. Supported are the supported ones.
	Requested string
	Supported []string
	// RequiredCapabilities is what the client would have to declare, with MISSING_CLIENT_CAPABILITY.
	RequiredCapabilities *outriggerv1.ClientCapabilities
	// Challenge is the value of WWW-Authenticate. On PERMISSION_DENIED it says that a scope is missing.
	Challenge string
	// Rule is the policy rule that refused the call, with PERMISSION_DENIED.
	Rule string
	// Approval is the id of the approval that a call waits for, and Handle what its caller sends with the repetition; empty for none.
	Approval, Handle string
	// Denial says whether asking for approval can help a denied call: one of the words of the draft SEP-2643, empty where that is
	// not said.
	Denial string
	// MissingMeta: the INVALID_PARAMS is about a missing member of _meta, so its MCP status is 400.
	MissingMeta bool
	// NoSession: the SESSION_NOT_FOUND is for a request without a session id, so its MCP status is 400.
	NoSession bool
	// Limit is the exceeded limit, if no other code counts it; see [Over].
	Limit Limit

	// ItemsSent is how many items of a stream of requests were sent before the failure, so that the backend may have them; nil
	// if the call sends no stream.
	ItemsSent *int

	// Partial is what a stream had sent before it failed: the tool's result in JSON, marked incomplete. It goes to callers
	// beside the error, and not to records of it; nil for none. PartialIs says to models what it is, if it is something else.
	Partial   json.RawMessage
	PartialIs string

	// BackendStatus is the backend's status if Connect does not define its number, else 0.
	BackendStatus uint32

	cause error
	types DetailTypes // of Details that are not linked in; nil for none
	safe  redaction   // of Message, once it was redacted
}

// Naming returns a copy of the error with the name of a tool. Several calls may share one error, which stays as it is.
// The copy is [Error.Redacted].
func (e *Error) Naming(tool string) *Error {
	named := *e
	named.Tool = tool
	named.safe = e.redaction()
	return &named
}

// InProgram returns a copy of the error with the place in a program of the call that failed, which its message and its violations name
// with the tool.
func (e *Error) InProgram(tool string, line, column int) *Error {
	placed := e.Naming(cmp.Or(e.Tool, tool))
	placed.Line, placed.Column = line, column
	placed.Violations = slices.Clone(e.Violations)
	for i, v := range placed.Violations {
		placed.Violations[i].Message = placed.called() + v.Message
	}
	return placed
}

// called is the place in a program and the tool that is called there, as the beginning of a sentence; empty for any other call.
func (e *Error) called() string {
	if e.Line == 0 {
		return ""
	}
	return fmt.Sprintf("line %d, column %d, %s: ", e.Line, e.Column, clip(e.Tool, maxNameBytes))
}

// With returns a copy of the error with what a stream had sent before it failed. Several calls may share one error.
func (e *Error) With(partial json.RawMessage) *Error {
	failed := *e
	failed.Partial = partial
	return &failed
}

// PartialText is Partial as a text for models; empty for none.
func (e *Error) PartialText() string {
	if len(e.Partial) == 0 {
		return ""
	}
	return cmp.Or(e.PartialIs, "Before it failed, the stream sent this, which is incomplete") + ": " + string(e.Partial)
}

// Redacted returns the error with its message redacted, or e itself if that was done before. The conversions redact the
// message of any other error each time. Call it once for an error that is shown more than once.
func (e *Error) Redacted() *Error {
	if e == nil || e.safe.of == e.Message {
		return e
	}
	done := *e
	done.safe = e.redaction()
	return &done
}

// Option sets a field of an [Error].
type Option func(*Error)

// New returns an error with a code. The code is not checked; [From] and every conversion do that.
func New(code Code, opts ...Option) *Error {
	e := &Error{Code: code}
	for _, o := range opts {
		o(e)
	}
	return e
}

// Wrap is New with a cause for the log. No conversion shows the cause.
func Wrap(code Code, cause error, opts ...Option) *Error {
	e := New(code, opts...)
	e.cause = cause
	return e
}

// WithCause returns a copy of the error with a cause for the log. No conversion shows the cause.
func (e *Error) WithCause(cause error) *Error {
	out := *e
	out.cause = cause
	return &out
}

// From converts any error to a canonical one. It returns an *Error in the chain unchanged if its code is in the table.
// Otherwise the result is an INTERNAL_ERROR that wraps [ErrUnknownCode], or err if there is no *Error. From(nil) is
// nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return Wrap(InternalError, err)
	}
	return e.known()
}

// known returns e, or the INTERNAL_ERROR that represents an error without a row. It is never nil.
func (e *Error) known() *Error {
	if e == nil {
		return Wrap(InternalError, errors.New("errmap: nil error"))
	}
	if find(e.Code) == nil {
		_, err := Lookup(e.Code)
		return Wrap(InternalError, errors.Join(err, e.cause))
	}
	return e
}

// row returns the row of e in the table, which is that of INTERNAL_ERROR where e has none.
func (e *Error) row() *Row {
	if e != nil {
		if row := find(e.Code); row != nil {
			return row
		}
	}
	return find(InternalError)
}

// CodeOf returns the code of the first *Error in the chain of err, and false if there is none.
func CodeOf(err error) (Code, bool) {
	var e *Error
	if !errors.As(err, &e) || e == nil {
		return "", false
	}
	return e.Code, true
}

// Error returns the text for logs. It includes the cause, so it is not for callers: use a conversion for them.
func (e *Error) Error() string {
	if e == nil {
		return "<nil>"
	}
	var b strings.Builder
	b.WriteString(string(e.Code))
	if e.Tool != "" {
		b.WriteString(" " + clip(e.Tool, maxNameBytes))
	}
	if e.BackendCode != "" {
		b.WriteString(" (" + e.BackendCode + ")")
	}
	b.WriteString(": " + string(e.message()))
	if e.cause != nil {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String()
}

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error {
	if e == nil {
		return nil
	}
	return e.cause
}

// Is reports whether target is an *Error of the same code, so that errors.Is(err, errmap.New(errmap.Timeout)) asks for the
// code alone.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && e != nil && t != nil && e.Code == t.Code
}

// CanRetry reports whether the same call may be sent again. Set idempotent if a second run of the tool does no harm.
func (e *Error) CanRetry(idempotent bool) bool {
	e = e.known()
	if e.Retryable != nil {
		return *e.Retryable
	}
	retry := e.row().Retryable
	if retry == RetryByBackend {
		retry = e.backend().retry
		if e.RetryAfter > 0 {
			retry = RetryYes // the backend asks for it
		}
	}
	return retry == RetryYes || retry == RetryIdempotent && idempotent
}

// Type returns the error type: the error's own, or else that of the backend's code, or else the row's.
func (e *Error) Type() string {
	e = e.known()
	if validErrorType(e.ErrorType) {
		return e.ErrorType
	}
	row := e.row()
	if row.ByBackend {
		return e.backendErrorType()
	}
	return row.ErrorType
}

// HTTPStatus returns the error's HTTP status in the canonical dialect. That of TOOL_EXECUTION_FAILED follows from the
// backend's code.
func (e *Error) HTTPStatus() int {
	e = e.known()
	row := e.row()
	if row.ByBackend {
		return e.backend().http
	}
	return row.HTTP
}

// JSONRPCCode returns the error's JSON-RPC code in the canonical dialect.
func (e *Error) JSONRPCCode() int { return e.row().JSONRPC }

// FromTool reports whether the tool itself answered with this failure. Canonical JSON-RPC shows such a failure as a
// result.
func (e *Error) FromTool() bool {
	return e != nil && e.Code == ToolExecutionFailed
}

// maxErrorTypeBytes is the bound of error_type in outrigger.v1.ErrorDetail.
const maxErrorTypeBytes = 128

// validErrorType holds an error type to the pattern of outrigger.v1.ErrorDetail: a letter, then letters, digits, _ and dots.
func validErrorType(s string) bool {
	if s == "" || len(s) > maxErrorTypeBytes {
		return false
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c != '_' && c != '.' && (c < '0' || c > '9')) {
			return false
		}
	}
	return true
}

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
	return Because(MethodNotFound, what+" are not available; the server's capabilities list what is")
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
