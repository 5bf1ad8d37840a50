// SPDX-License-Identifier: Apache-2.0

package errmap

// Code is a canonical error code. Logs, metrics, traces and run records use it too.
type Code string

// The canonical codes, in the order of the table. The rows say what each of them means on each edge.
const (
	// ParseError: the bytes are not JSON.
	ParseError Code = "PARSE_ERROR"
	// InvalidEnvelope: JSON, but not a message of the dialect.
	InvalidEnvelope Code = "INVALID_ENVELOPE"
	// MethodNotFound: the method of the envelope is not supported.
	MethodNotFound Code = "METHOD_NOT_FOUND"
	// InvalidParams: the params do not match the method. For a tool's arguments, see
	// InvalidToolInput.
	InvalidParams Code = "INVALID_PARAMS"
	// InvalidToolInput: the arguments violate the tool's schema or its rules.
	InvalidToolInput Code = "INVALID_TOOL_INPUT"
	// ToolNotFound: no such tool, or no version of it that satisfies the caller.
	ToolNotFound Code = "TOOL_NOT_FOUND"
	// ResourceNotFound: no such resource.
	ResourceNotFound Code = "RESOURCE_NOT_FOUND"
	// InternalError: a bug in the sidecar. Its message is fixed; the cause is in the log.
	InternalError Code = "INTERNAL_ERROR"
	// HeaderMismatch: an MCP header is missing, malformed or differs from the body.
	HeaderMismatch Code = "HEADER_MISMATCH"
	// MissingClientCapability: the tool needs a capability that the client did not
	// declare.
	MissingClientCapability Code = "MISSING_CLIENT_CAPABILITY"
	// UnsupportedProtocolVersion: the protocol revision is not supported.
	UnsupportedProtocolVersion Code = "UNSUPPORTED_PROTOCOL_VERSION"
	// SessionNotFound: the legacy session has ended, or the request has no session id.
	SessionNotFound Code = "SESSION_NOT_FOUND"
	// DuplicateRequestID: the id is that of a call in flight of the same origin.
	DuplicateRequestID Code = "DUPLICATE_REQUEST_ID"
	// OriginForbidden: the Origin or Host header is not allowed.
	OriginForbidden Code = "ORIGIN_FORBIDDEN"
	// MethodNotAllowed: the path does not support the HTTP method.
	MethodNotAllowed Code = "METHOD_NOT_ALLOWED"
	// NotAcceptable: the caller does not accept the content type of the response.
	NotAcceptable Code = "NOT_ACCEPTABLE"
	// UnsupportedMediaType: the content type of the body is not supported.
	UnsupportedMediaType Code = "UNSUPPORTED_MEDIA_TYPE"
	// Unauthenticated: no credentials, or no valid ones.
	Unauthenticated Code = "UNAUTHENTICATED"
	// InvalidAuthorization: the credentials cannot be read, or there are two.
	InvalidAuthorization Code = "INVALID_AUTHORIZATION"
	// PermissionDenied: the caller is authenticated, but may not do this.
	PermissionDenied Code = "PERMISSION_DENIED"
	// DestructiveBlocked: the tool is marked destructive and the trust state does not allow it.
	DestructiveBlocked Code = "DESTRUCTIVE_BLOCKED"
	// RateLimited: the caller or the tool exceeds a rate limit or a share.
	RateLimited Code = "RATE_LIMITED"
	// ResourceExhausted: the result exceeds a limit.
	ResourceExhausted Code = "RESOURCE_EXHAUSTED"
	// PayloadTooLarge: the request exceeds a limit.
	PayloadTooLarge Code = "PAYLOAD_TOO_LARGE"
	// Timeout: the call timed out.
	Timeout Code = "TIMEOUT"
	// Cancelled: the caller cancelled the call. It expects no response.
	Cancelled Code = "CANCELLED"
	// Unavailable: the backend is unreachable, or the sidecar sheds load or drains. The
	// tool did not run.
	Unavailable Code = "UNAVAILABLE"
	// TransportError: the connection broke after the call was sent. Its outcome is unknown.
	TransportError Code = "TRANSPORT_ERROR"
	// InvalidToolOutput: the backend's response violates its own schema.
	InvalidToolOutput Code = "INVALID_TOOL_OUTPUT"
	// SerializationError: a message could not be encoded or decoded.
	SerializationError Code = "SERIALIZATION_ERROR"
	// RegistrationConflict: the name belongs to a tool with a different schema.
	RegistrationConflict Code = "REGISTRATION_CONFLICT"
	// RegistrationInvalid: the registration has no schema, or one that does not compile.
	RegistrationInvalid Code = "REGISTRATION_INVALID"
	// ToolExecutionFailed: the backend itself returned an error.
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
