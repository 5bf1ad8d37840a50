// SPDX-License-Identifier: Apache-2.0

package errmap

import "connectrpc.com/connect"

// JSON-RPC codes. The -327xx and -326xx ones are JSON-RPC 2.0, section 5.1; -32020 to -32022 are MCP 2026-07-28.
const (
	rpcParse            = -32700
	rpcInvalidRequest   = -32600
	rpcMethodNotFound   = -32601
	rpcInvalidParams    = -32602
	rpcInternal         = -32603
	rpcHeaderMismatch   = -32020
	rpcMissingCap       = -32021
	rpcUnsupportedProto = -32022
	rpcLegacyNoResource = -32002 // MCP 2025-11-25; MCP 2026-07-28 forbids it
)

// outOfReserved moves one of our codes out of the range that JSON-RPC reserves: MCP 2026-07-28 asks new servers to stay
// out of -32000..-32019 and keeps -32020..-32099 for itself.
const outOfReserved = 1000

// protocol is a column for an error that stays a JSON-RPC error, whatever it concerns.
func protocol(http, code int) Shown { return Shown{Form: ProtocolError, HTTP: http, Code: code} }

// onCall is a column for an error that is a result with isError where it concerns a tools/call. Outside of one it is the
// protocol error given here.
func onCall(http, code int) Shown { return Shown{Form: ToolResult, HTTP: http, Code: code} }

// absent is a column for an error that cannot arise in the era.
func absent(http, code int) Shown {
	return Shown{Form: ProtocolError, HTTP: http, Code: code, Absent: true}
}

// silent is a column for an error that is never sent. The numbers are never sent; they are there so that none is 0.
func silent(http, code int) Shown { return Shown{Form: Silent, HTTP: http, Code: code} }

// alt is a column with a second status.
func alt(s Shown, http int) Shown {
	s.AltHTTP = http
	return s
}

// rows is the canonical table. It is written here and nowhere else: nothing assigns to it, and Lookup returns copies.
//
// An isError row names the status and code that it has outside of a tools/call. Where the page that the table renders
// gives no status there, it is 200: the error is in-band, and in a legacy session a 404 means that the session is gone.
var rows = [...]Row{
	{
		Code: ParseError, HTTP: 400, JSONRPC: rpcParse,
		Modern: protocol(400, rpcParse), Legacy: protocol(400, rpcParse),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Parse error", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: InvalidEnvelope, HTTP: 400, JSONRPC: rpcInvalidRequest,
		Modern: protocol(400, rpcInvalidRequest), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Invalid MCP envelope", Retryable: RetryNo, BlamesCaller: true, Fixed: true, Hop: true,
	},
	{
		Code: MethodNotFound, HTTP: 404, JSONRPC: rpcMethodNotFound,
		Modern: protocol(404, rpcMethodNotFound), Legacy: protocol(200, rpcMethodNotFound),
		Connect: connect.CodeUnimplemented, ErrorType: TypeToolNotFound,
		Message: "Method not found", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: InvalidParams, HTTP: 400, JSONRPC: rpcInvalidParams,
		Modern: alt(protocol(200, rpcInvalidParams), 400), Legacy: protocol(200, rpcInvalidParams),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Invalid params", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: InvalidToolInput, HTTP: 422, JSONRPC: rpcInvalidParams,
		Modern: onCall(200, rpcInvalidParams), Legacy: onCall(200, rpcInvalidParams),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeSchema,
		Message: "Invalid tool input", Retryable: RetryNo, BlamesCaller: true, Fixed: true,
	},
	{
		Code: ToolNotFound, HTTP: 404, JSONRPC: -32001,
		Modern: protocol(200, rpcInvalidParams), Legacy: protocol(200, rpcInvalidParams),
		Connect: connect.CodeNotFound, ErrorType: TypeToolNotFound,
		Message: "Unknown tool", Retryable: RetryNo, BlamesCaller: true, Fixed: true,
	},
	{
		Code: ResourceNotFound, HTTP: 404, JSONRPC: rpcLegacyNoResource,
		Modern: protocol(200, rpcInvalidParams), Legacy: protocol(200, rpcLegacyNoResource),
		Connect: connect.CodeNotFound, ErrorType: TypeResourceNotFound,
		Message: "Resource not found", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: InternalError, HTTP: 500, JSONRPC: rpcInternal,
		Modern: protocol(200, rpcInternal), Legacy: protocol(200, rpcInternal),
		Connect: connect.CodeInternal, ErrorType: TypeToolExecution,
		Message: "Internal error", Retryable: RetryNo, Fixed: true,
	},
	{
		Code: HeaderMismatch, HTTP: 400, JSONRPC: rpcInvalidRequest,
		Modern: protocol(400, rpcHeaderMismatch), Legacy: absent(400, rpcInvalidRequest),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Header mismatch", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: MissingClientCapability, HTTP: 400, JSONRPC: rpcInvalidRequest,
		Modern: protocol(400, rpcMissingCap), Legacy: onCall(200, rpcInvalidRequest),
		Connect: connect.CodeFailedPrecondition, ErrorType: TypeValidation,
		Message: "Missing required client capability", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: UnsupportedProtocolVersion, HTTP: 400, JSONRPC: rpcInvalidRequest,
		Modern: protocol(400, rpcUnsupportedProto), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeFailedPrecondition, ErrorType: TypeValidation,
		Message: "Unsupported protocol version", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: SessionNotFound, HTTP: 404, JSONRPC: rpcInvalidRequest,
		Modern: absent(400, rpcInvalidRequest), Legacy: alt(protocol(404, rpcInvalidRequest), 400),
		Connect: connect.CodeNotFound, ErrorType: TypeValidation,
		Message: "Session not found", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: DuplicateRequestID, HTTP: 409, JSONRPC: rpcInvalidRequest,
		Modern: protocol(400, rpcInvalidRequest), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeAlreadyExists, ErrorType: TypeValidation,
		Message: "Request id already in flight", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: OriginForbidden, HTTP: 403, JSONRPC: rpcInvalidRequest,
		Modern: protocol(403, rpcInvalidRequest), Legacy: protocol(403, rpcInvalidRequest),
		Connect: connect.CodePermissionDenied, ErrorType: TypePermission,
		Message: "Origin or host not allowed", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: MethodNotAllowed, HTTP: 405, JSONRPC: rpcInvalidRequest,
		Modern: protocol(405, rpcInvalidRequest), Legacy: protocol(405, rpcInvalidRequest),
		Connect: connect.CodeUnimplemented, ErrorType: TypeValidation,
		Message: "HTTP method not allowed", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: NotAcceptable, HTTP: 406, JSONRPC: rpcInvalidRequest,
		Modern: protocol(406, rpcInvalidRequest), Legacy: protocol(406, rpcInvalidRequest),
		Connect: connect.CodeUnimplemented, ErrorType: TypeValidation,
		Message: "Not acceptable", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: UnsupportedMediaType, HTTP: 415, JSONRPC: rpcInvalidRequest,
		Modern: protocol(415, rpcInvalidRequest), Legacy: protocol(415, rpcInvalidRequest),
		Connect: connect.CodeUnimplemented, ErrorType: TypeValidation,
		Message: "Unsupported media type", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: Unauthenticated, HTTP: 401, JSONRPC: -32006,
		Modern: protocol(401, -32006+outOfReserved), Legacy: protocol(401, -32006+outOfReserved),
		Connect: connect.CodeUnauthenticated, ErrorType: TypeAuthentication,
		Message: "Authentication required", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: InvalidAuthorization, HTTP: 400, JSONRPC: rpcInvalidRequest,
		Modern: protocol(400, rpcInvalidRequest), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeAuthentication,
		Message: "Malformed credentials", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: PermissionDenied, HTTP: 403, JSONRPC: -32007,
		Modern: onCall(403, -32007+outOfReserved), Legacy: onCall(403, -32007+outOfReserved),
		Connect: connect.CodePermissionDenied, ErrorType: TypePermission,
		Message: "Permission denied", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: DestructiveBlocked, HTTP: 403, JSONRPC: -32008,
		Modern: onCall(200, -32008+outOfReserved), Legacy: onCall(200, -32008+outOfReserved),
		Connect: connect.CodePermissionDenied, ErrorType: TypePermission,
		Message: "Destructive tool blocked", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: RateLimited, HTTP: 429, JSONRPC: -32009,
		Modern: onCall(429, -32009+outOfReserved), Legacy: onCall(429, -32009+outOfReserved),
		Connect: connect.CodeResourceExhausted, ErrorType: TypeAPILimitExceeded,
		Message: "Rate limit exceeded", Retryable: RetryYes, BlamesCaller: true,
	},
	{
		Code: ResourceExhausted, HTTP: 502, JSONRPC: -32010,
		Modern: onCall(200, -32010+outOfReserved), Legacy: onCall(200, -32010+outOfReserved),
		Connect: connect.CodeResourceExhausted, ErrorType: TypeToolExecution,
		Message: "Result too large", Retryable: RetryNo,
	},
	{
		Code: PayloadTooLarge, HTTP: 413, JSONRPC: -32011,
		Modern: protocol(413, -32011+outOfReserved), Legacy: protocol(413, rpcInvalidRequest),
		Connect: connect.CodeResourceExhausted, ErrorType: TypeValidation,
		Message: "Payload too large", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: Timeout, HTTP: 504, JSONRPC: -32012,
		Modern: onCall(200, -32012+outOfReserved), Legacy: onCall(200, -32012+outOfReserved),
		Connect: connect.CodeDeadlineExceeded, ErrorType: TypeTimeout,
		Message: "Tool execution timed out", Retryable: RetryIdempotent,
	},
	{
		Code: Cancelled, HTTP: 499, JSONRPC: -32013,
		Modern: silent(499, -32013+outOfReserved), Legacy: silent(499, -32013+outOfReserved),
		Connect: connect.CodeCanceled, ErrorType: TypeToolExecution,
		Message: "Request cancelled", Retryable: RetryNo, BlamesCaller: true, Hop: true,
	},
	{
		Code: Unavailable, HTTP: 503, JSONRPC: -32014,
		Modern: onCall(503, -32014+outOfReserved), Legacy: onCall(503, -32014+outOfReserved),
		Connect: connect.CodeUnavailable, ErrorType: TypeTransport,
		Message: "Tool service unavailable", Retryable: RetryYes,
	},
	{
		Code: TransportError, HTTP: 502, JSONRPC: -32015,
		Modern: onCall(200, -32015+outOfReserved), Legacy: onCall(200, -32015+outOfReserved),
		Connect: connect.CodeUnavailable, ErrorType: TypeTransport,
		Message: "Transport error", Retryable: RetryIdempotent,
	},
	{
		Code: InvalidToolOutput, HTTP: 502, JSONRPC: -32016,
		Modern: onCall(200, -32016+outOfReserved), Legacy: onCall(200, -32016+outOfReserved),
		Connect: connect.CodeInternal, ErrorType: TypeSchema,
		Message: "Invalid tool output", Retryable: RetryNo,
	},
	{
		Code: SerializationError, HTTP: 500, JSONRPC: -32017,
		Modern: onCall(200, -32017+outOfReserved), Legacy: onCall(200, -32017+outOfReserved),
		Connect: connect.CodeInternal, ErrorType: TypeSerialization,
		Message: "Serialization error", Retryable: RetryNo,
	},
	{
		Code: RegistrationConflict, HTTP: 409, JSONRPC: -32018,
		Modern: absent(200, -32018+outOfReserved), Legacy: absent(200, -32018+outOfReserved),
		Connect: connect.CodeAlreadyExists, ErrorType: TypeRegistration,
		Message: "Tool already registered with a different schema", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: RegistrationInvalid, HTTP: 422, JSONRPC: rpcInvalidParams,
		Modern: absent(200, rpcInvalidParams), Legacy: absent(200, rpcInvalidParams),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeRegistration,
		Message: "Invalid tool registration", Retryable: RetryNo, BlamesCaller: true,
	},
	{
		Code: ToolExecutionFailed, HTTP: 500, JSONRPC: -32019,
		Modern: onCall(200, -32019+outOfReserved), Legacy: onCall(200, -32019+outOfReserved),
		Connect: connect.CodeUnknown, ErrorType: TypeToolExecution,
		Message: "Tool execution failed", Retryable: RetryByBackend, ByBackend: true,
	},
}
