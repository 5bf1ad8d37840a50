// SPDX-License-Identifier: Apache-2.0

package errmap

// Code is a canonical error code. It is also what logs, metrics, traces and run records call the error.
type Code string

// The canonical codes, in the order of the table. The rows say what each of them means on each edge.
const (
	// ParseError: the bytes are not JSON.
	ParseError Code = "PARSE_ERROR"
	// InvalidEnvelope: JSON, but not a message of the dialect.
	InvalidEnvelope Code = "INVALID_ENVELOPE"
	// MethodNotFound: the envelope names a method that is not served here.
	MethodNotFound Code = "METHOD_NOT_FOUND"
	// InvalidParams: the params do not fit the method. What concerns a tool's arguments is InvalidToolInput.
	InvalidParams Code = "INVALID_PARAMS"
	// InvalidToolInput: the arguments break the tool's schema or its rules.
	InvalidToolInput Code = "INVALID_TOOL_INPUT"
	// ToolNotFound: no such tool, or no version of it that satisfies the caller.
	ToolNotFound Code = "TOOL_NOT_FOUND"
	// ResourceNotFound: no such resource.
	ResourceNotFound Code = "RESOURCE_NOT_FOUND"
	// InternalError: a fault of the sidecar. Its message is fixed; the cause is in the log.
	InternalError Code = "INTERNAL_ERROR"
	// HeaderMismatch: an MCP header is missing, malformed or differs from the body.
	HeaderMismatch Code = "HEADER_MISMATCH"
	// MissingClientCapability: the tool needs something that the client did not declare.
	MissingClientCapability Code = "MISSING_CLIENT_CAPABILITY"
	// UnsupportedProtocolVersion: a protocol revision that is not served.
	UnsupportedProtocolVersion Code = "UNSUPPORTED_PROTOCOL_VERSION"
	// SessionNotFound: the legacy session is gone, or none was named.
	SessionNotFound Code = "SESSION_NOT_FOUND"
	// DuplicateRequestID: the id is that of a call in flight of the same origin.
	DuplicateRequestID Code = "DUPLICATE_REQUEST_ID"
	// OriginForbidden: the Origin or Host header is not allowed.
	OriginForbidden Code = "ORIGIN_FORBIDDEN"
	// MethodNotAllowed: the HTTP method is not served on this path.
	MethodNotAllowed Code = "METHOD_NOT_ALLOWED"
	// NotAcceptable: the caller does not accept what would be sent.
	NotAcceptable Code = "NOT_ACCEPTABLE"
	// UnsupportedMediaType: the body's content type is not served.
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	// Unauthenticated: no credentials, or none that hold.
	Unauthenticated Code = "UNAUTHENTICATED"
	// PermissionDenied: the caller is known and may not do this.
	PermissionDenied Code = "PERMISSION_DENIED"
	// DestructiveBlocked: the tool is marked destructive and the trust state does not allow it.
	DestructiveBlocked Code = "DESTRUCTIVE_BLOCKED"
	// RateLimited: a limit of the sidecar on the caller or the tool.
	RateLimited Code = "RATE_LIMITED"
	// ResourceExhausted: a result over its limit.
	ResourceExhausted Code = "RESOURCE_EXHAUSTED"
	// PayloadTooLarge: a request over its limit.
	PayloadTooLarge Code = "PAYLOAD_TOO_LARGE"
	// Timeout: the call did not end within its time.
	Timeout Code = "TIMEOUT"
	// Cancelled: the caller withdrew the call. No answer is expected.
	Cancelled Code = "CANCELLED"
	// Unavailable: the backend was not reached, or the sidecar sheds load or drains. The tool did not run.
	Unavailable Code = "UNAVAILABLE"
	// TransportError: the connection broke after the call was sent. Its outcome is unknown.
	TransportError Code = "TRANSPORT_ERROR"
	// InvalidToolOutput: the backend's answer breaks its own schema.
	InvalidToolOutput Code = "INVALID_TOOL_OUTPUT"
	// SerializationError: a message could not be encoded or decoded.
	SerializationError Code = "SERIALIZATION_ERROR"
	// RegistrationConflict: the name is taken by a tool with another schema.
	RegistrationConflict Code = "REGISTRATION_CONFLICT"
	// RegistrationInvalid: the registration lacks a schema, or has one that does not compile.
	RegistrationInvalid Code = "REGISTRATION_INVALID"
	// ToolExecutionFailed: what a backend's own status becomes.
	ToolExecutionFailed Code = "TOOL_EXECUTION_FAILED"
)

// The error types of the table's column. A native backend may use names of its own in the same style.
const (
	TypeValidation       = "ValidationError"
	TypeSchema           = "SchemaError"
	TypeToolNotFound     = "ToolNotFoundError"
	TypeResourceNotFound = "ResourceNotFound"
	TypeFileNotFound     = "FileNotFoundError"
	TypeAuthentication   = "AuthenticationError"
	TypePermission       = "PermissionError"
	TypeAPILimitExceeded = "ApiLimitExceeded"
	TypeTimeout          = "TimeoutError"
	TypeToolExecution    = "ToolExecutionError"
	TypeTransport        = "TransportError"
	TypeSerialization    = "SerializationError"
	TypeRegistration     = "RegistrationError"
)
