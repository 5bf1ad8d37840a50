// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"
)

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
		Code: ParseError, HTTP: 400, JSONRPC: rpcParse, Exit: 10,
		Modern: protocol(400, rpcParse), Legacy: protocol(400, rpcParse),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Parse error", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The caller sent what is no JSON: look at its own log.",
			"`outrigger_http_refused_total` says from which edge such messages come.",
		},
	},
	{
		Code: InvalidEnvelope, HTTP: 400, JSONRPC: rpcInvalidRequest, Exit: 11,
		Modern: protocol(400, rpcInvalidRequest), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Invalid MCP envelope", Retryable: RetryNo, BlamesCaller: true, Fixed: true, Hop: true,
		operators: [maxAdvice]string{
			"The caller sent JSON that is no request: its message says which member is wrong.",
			"Check that the client uses the path of its protocol: /mcp for MCP, /rpc for plain JSON-RPC.",
		},
	},
	{
		Code: MethodNotFound, HTTP: 404, JSONRPC: rpcMethodNotFound, Exit: 12,
		Modern: protocol(404, rpcMethodNotFound), Legacy: protocol(200, rpcMethodNotFound),
		Connect: connect.CodeUnimplemented, ErrorType: TypeToolNotFound,
		Message: "Method not found", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The caller asked for a method that its revision of MCP, or this sidecar, does not have.",
			"If the backend is to offer it, such as resources, check --native and `sidecar doctor`.",
		},
	},
	{
		Code: InvalidParams, HTTP: 400, JSONRPC: rpcInvalidParams, Exit: 13,
		Modern: alt(protocol(200, rpcInvalidParams), 400), Legacy: protocol(200, rpcInvalidParams),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Invalid params", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"The request is wrong beside the arguments of its tool: its message names the member.",
			"An unknown task ended too long ago (--task-ttl), or was in the memory of another process: for several replicas set --state.",
		},
	},
	{
		Code: InvalidToolInput, HTTP: 422, JSONRPC: rpcInvalidParams, Exit: 14,
		Modern: onCall(200, rpcInvalidParams), Legacy: onCall(200, rpcInvalidParams),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeSchema,
		Message: "Invalid tool input", Retryable: RetryNo, BlamesCaller: true, Fixed: true,
		operators: [maxAdvice]string{
			"The page Try shows each violation at its field: enter the arguments there.",
			"If one tool has many of these, its description or schema misleads models: see `sidecar lint` and `sidecar tools NAME`.",
		},
	},
	{
		Code: ToolNotFound, HTTP: 404, JSONRPC: -32001, Exit: 15,
		Modern: protocol(200, rpcInvalidParams), Legacy: protocol(200, rpcInvalidParams),
		Connect: connect.CodeNotFound, ErrorType: TypeToolNotFound,
		Message: "Unknown tool", Retryable: RetryNo, BlamesCaller: true, Fixed: true,
		operators: [maxAdvice]string{
			"The key `outrigger.tool.requested` of the log has the name; `sidecar tools` lists those that exist, `sidecar diff` those that went away.",
			"Check --include, --exclude and which tools the caller's entry permits (--tokens).",
		},
	},
	{
		Code: ResourceNotFound, HTTP: 404, JSONRPC: rpcLegacyNoResource, Exit: 16,
		Modern: protocol(200, rpcInvalidParams), Legacy: protocol(200, rpcLegacyNoResource),
		Connect: connect.CodeNotFound, ErrorType: TypeResourceNotFound,
		Message: "Resource not found", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"The backend has no such resource: ask it for its list.",
			"A held result ends after --held-ttl.",
		},
	},
	{
		Code: InternalError, HTTP: 500, JSONRPC: rpcInternal, Exit: 17,
		Modern: protocol(200, rpcInternal), Legacy: protocol(200, rpcInternal),
		Connect: connect.CodeInternal, ErrorType: TypeToolExecution,
		Message: "Internal error", Retryable: RetryNo, Fixed: true,
		operators: [maxAdvice]string{
			"This is a bug in the sidecar: the log has the cause, and of a panic the stack.",
			"Report the line and the version; if a new version began it, roll back.",
		},
	},
	{
		Code: HeaderMismatch, HTTP: 400, JSONRPC: rpcInvalidRequest, Exit: 18,
		Modern: protocol(400, rpcHeaderMismatch), Legacy: absent(400, rpcInvalidRequest),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeValidation,
		Message: "Header mismatch", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The client, or a proxy before the sidecar, sends Mcp-Method or Mcp-Name that differ from the message: correct it there.",
		},
	},
	{
		Code: MissingClientCapability, HTTP: 400, JSONRPC: rpcInvalidRequest, Exit: 19,
		Modern: protocol(400, rpcMissingCap), Legacy: onCall(200, rpcInvalidRequest),
		Connect: connect.CodeFailedPrecondition, ErrorType: TypeValidation,
		Message: "Missing required client capability", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"The tool asks its user or runs as a task, and the client can do neither: use a client that can.",
			"For destructive tools, --destructive block refuses in place of asking.",
		},
	},
	{
		Code: UnsupportedProtocolVersion, HTTP: 400, JSONRPC: rpcInvalidRequest, Exit: 20,
		Modern: protocol(400, rpcUnsupportedProto), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeFailedPrecondition, ErrorType: TypeValidation,
		Message: "Unsupported protocol version", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The client speaks a revision of MCP that this version does not know: update the older of the two.",
			"The error lists the revisions that are known.",
		},
	},
	{
		Code: SessionNotFound, HTTP: 404, JSONRPC: rpcInvalidRequest, Exit: 21,
		Modern: absent(400, rpcInvalidRequest), Legacy: alt(protocol(404, rpcInvalidRequest), 400),
		Connect: connect.CodeNotFound, ErrorType: TypeValidation,
		Message: "Session not found", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The session ended by its age (--session-age), or with the process: clients begin another one.",
			"If it happens often with several replicas, set --state, or have the proxy send a client to one replica.",
		},
	},
	{
		Code: DuplicateRequestID, HTTP: 409, JSONRPC: rpcInvalidRequest, Exit: 22,
		Modern: protocol(400, rpcInvalidRequest), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeAlreadyExists, ErrorType: TypeValidation,
		Message: "Request id already in flight", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The client used the id of a request that is in flight: correct it there.",
			"Behind a proxy, make sure that each client has its own connection or session.",
		},
	},
	{
		Code: OriginForbidden, HTTP: 403, JSONRPC: rpcInvalidRequest, Exit: 23,
		Modern: protocol(403, rpcInvalidRequest), Legacy: protocol(403, rpcInvalidRequest),
		Connect: connect.CodePermissionDenied, ErrorType: TypePermission,
		Message: "Origin or host not allowed", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"If the page or the name is yours, add it to --allowed-origins or --allowed-hosts.",
			"Otherwise a web page tried to reach the sidecar from a browser: this refusal is right.",
		},
	},
	{
		Code: MethodNotAllowed, HTTP: 405, JSONRPC: rpcInvalidRequest, Exit: 24,
		Modern: protocol(405, rpcInvalidRequest), Legacy: protocol(405, rpcInvalidRequest),
		Connect: connect.CodeUnimplemented, ErrorType: TypeValidation,
		Message: "HTTP method not allowed", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The client used an HTTP method that the path does not have: check the path and the transport in its settings.",
		},
	},
	{
		Code: NotAcceptable, HTTP: 406, JSONRPC: rpcInvalidRequest, Exit: 25,
		Modern: protocol(406, rpcInvalidRequest), Legacy: protocol(406, rpcInvalidRequest),
		Connect: connect.CodeUnimplemented, ErrorType: TypeValidation,
		Message: "Not acceptable", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The client does not accept application/json or text/event-stream: correct its Accept header.",
		},
	},
	{
		Code: UnsupportedMediaType, HTTP: 415, JSONRPC: rpcInvalidRequest, Exit: 26,
		Modern: protocol(415, rpcInvalidRequest), Legacy: protocol(415, rpcInvalidRequest),
		Connect: connect.CodeUnimplemented, ErrorType: TypeValidation,
		Message: "Unsupported media type", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The client does not send application/json, or another type of its protocol: correct its Content-Type header.",
		},
	},
	{
		Code: Unauthenticated, HTTP: 401, JSONRPC: -32006, Exit: 27,
		Modern: protocol(401, -32006+outOfReserved), Legacy: protocol(401, -32006+outOfReserved),
		Connect: connect.CodeUnauthenticated, ErrorType: TypeAuthentication,
		Message: "Authentication required", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"`outrigger_unauthenticated_total` says why, such as missing, unknown or expired.",
			"Check the caller's entry in --tokens, or issuer and audience with --oauth-issuer.",
			"With missing, the client sends no header: see docs/clients.md.",
		},
	},
	{
		Code: InvalidAuthorization, HTTP: 400, JSONRPC: rpcInvalidRequest, Exit: 28,
		Modern: protocol(400, rpcInvalidRequest), Legacy: protocol(400, rpcInvalidRequest),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeAuthentication,
		Message: "Malformed credentials", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The client sends credentials that cannot be read, or two of them: a token belongs in one Authorization header, after Bearer.",
		},
	},
	{
		Code: PermissionDenied, HTTP: 403, JSONRPC: -32007, Exit: 29,
		Modern: onCall(403, -32007+outOfReserved), Legacy: onCall(403, -32007+outOfReserved),
		Connect: connect.CodePermissionDenied, ErrorType: TypePermission,
		Message: "Permission denied", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"The audit line names the rule: `grants` is the caller's entry in --tokens, another name a rule of --policy.",
			"`/readyz?verbose` names globs in entries that match no tool.",
		},
	},
	{
		Code: ApprovalRequired, HTTP: 403, JSONRPC: -32005, Exit: 42,
		Modern: onCall(200, -32005+outOfReserved), Legacy: onCall(200, -32005+outOfReserved),
		Connect: connect.CodeFailedPrecondition, ErrorType: TypePermission,
		Message: "Approval required", Retryable: RetryYes, BlamesCaller: true,
		operators: [maxAdvice]string{
			"A policy rule asks others to approve the call: `sidecar approvals list` shows those that wait, docs/approvals.md how they go on.",
			"If none of its approvers can be reached, change the rule's `approve`, or its effect.",
		},
	},
	{
		Code: DestructiveBlocked, HTTP: 403, JSONRPC: -32008, Exit: 30,
		Modern: onCall(200, -32008+outOfReserved), Legacy: onCall(200, -32008+outOfReserved),
		Connect: connect.CodePermissionDenied, ErrorType: TypePermission,
		Message: "Destructive tool blocked", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"If the caller may run destructive tools, add it to --trusted-callers, or set trust for all on the page Live or with --trust.",
			"With --destructive confirm its user is asked instead.",
		},
	},
	{
		Code: RateLimited, HTTP: 429, JSONRPC: -32009, Exit: 31,
		Modern: onCall(429, -32009+outOfReserved), Legacy: onCall(429, -32009+outOfReserved),
		Connect: connect.CodeResourceExhausted, ErrorType: TypeAPILimitExceeded,
		Message: "Rate limit exceeded", Retryable: RetryYes, BlamesCaller: true,
		operators: [maxAdvice]string{
			"The message says which limit: --caller-rate, --tool-rate, --caller-share, --tool-share, or a shared rate (--rate-service).",
			"The limits on the page Live show their use and what they refused.",
		},
	},
	{
		Code: ResourceExhausted, HTTP: 502, JSONRPC: -32010, Exit: 32,
		Modern: onCall(200, -32010+outOfReserved), Legacy: onCall(200, -32010+outOfReserved),
		Connect: connect.CodeResourceExhausted, ErrorType: TypeToolExecution,
		Message: "Result too large", Retryable: RetryNo,
		operators: [maxAdvice]string{
			"The result is above --max-result-bytes or --max-items: have callers choose fields or a smaller page.",
			"Raise the limit if the memory is there; --result-budget cuts results for models instead.",
		},
	},
	{
		Code: PayloadTooLarge, HTTP: 413, JSONRPC: -32011, Exit: 33,
		Modern: protocol(413, -32011+outOfReserved), Legacy: protocol(413, rpcInvalidRequest),
		Connect: connect.CodeResourceExhausted, ErrorType: TypeValidation,
		Message: "Payload too large", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"The message is above --max-message-bytes: have the caller send less, or raise the limit.",
		},
	},
	{
		Code: Timeout, HTTP: 504, JSONRPC: -32012, Exit: 34,
		Modern: onCall(200, -32012+outOfReserved), Legacy: onCall(200, -32012+outOfReserved),
		Connect: connect.CodeDeadlineExceeded, ErrorType: TypeTimeout,
		Message: "Tool execution timed out", Retryable: RetryIdempotent,
		operators: [maxAdvice]string{
			"If upstream is nearly all of the time, the backend is slow: follow the trace id there.",
			"If the step admit is long, calls wait for a slot: see --max-calls.",
			"A tool that needs the time gets its own timeout, or runs on as a task (--task-after).",
		},
	},
	{
		Code: Cancelled, HTTP: 499, JSONRPC: -32013, Exit: 35,
		Modern: silent(499, -32013+outOfReserved), Legacy: silent(499, -32013+outOfReserved),
		Connect: connect.CodeCanceled, ErrorType: TypeToolExecution,
		Message: "Request cancelled", Retryable: RetryNo, BlamesCaller: true, Hop: true,
		operators: [maxAdvice]string{
			"The caller cancelled the call or went away: nothing is wrong here.",
			"If it happens at a regular time, the client or a proxy has a shorter timeout than --timeout.",
		},
	},
	{
		Code: Unavailable, HTTP: 503, JSONRPC: -32014, Exit: 36,
		Modern: onCall(503, -32014+outOfReserved), Legacy: onCall(503, -32014+outOfReserved),
		Connect: connect.CodeUnavailable, ErrorType: TypeTransport,
		Message: "Tool service unavailable", Retryable: RetryYes,
		operators: [maxAdvice]string{
			"The backend was not called. The checks on the page Live and `sidecar doctor` say whether it can be reached, and how to fix it.",
			"\"shedding load\" and \"too many\" are limits of the sidecar: the limits on the page Live show which.",
			"An open breaker closes by itself once the backend answers; \"shutting down\" is a drain.",
		},
	},
	{
		Code: TransportError, HTTP: 502, JSONRPC: -32015, Exit: 37,
		Modern: onCall(200, -32015+outOfReserved), Legacy: onCall(200, -32015+outOfReserved),
		Connect: connect.CodeUnavailable, ErrorType: TypeTransport,
		Message: "Transport error", Retryable: RetryIdempotent,
		operators: [maxAdvice]string{
			"The connection broke after the call was sent, so it may have run: look for a restart of the backend, or a proxy that closes idle connections.",
			"\"an HTTP server answered in place of the service\": correct --backend, or the route of the proxy.",
		},
	},
	{
		Code: InvalidToolOutput, HTTP: 502, JSONRPC: -32016, Exit: 38,
		Modern: onCall(200, -32016+outOfReserved), Legacy: onCall(200, -32016+outOfReserved),
		Connect: connect.CodeInternal, ErrorType: TypeSchema,
		Message: "Invalid tool output", Retryable: RetryNo,
		operators: [maxAdvice]string{
			"The backend violates its own schema: correct the backend, its descriptors, or an output schema that is outdated.",
			"`sidecar doctor` says whether descriptors and backend differ.",
		},
	},
	{
		Code: SerializationError, HTTP: 500, JSONRPC: -32017, Exit: 39,
		Modern: onCall(200, -32017+outOfReserved), Legacy: onCall(200, -32017+outOfReserved),
		Connect: connect.CodeInternal, ErrorType: TypeSerialization,
		Message: "Serialization error", Retryable: RetryNo,
		operators: [maxAdvice]string{
			"The response cannot be read, or has no form in JSON: the key `exception.message` of the log has the path of the field.",
			"Descriptors of another version than the backend cause this: update --descriptors, or refresh the catalog.",
		},
	},
	{
		Code: RegistrationConflict, HTTP: 409, JSONRPC: -32018, Exit: 40,
		Modern: absent(200, -32018+outOfReserved), Legacy: absent(200, -32018+outOfReserved),
		Connect: connect.CodeAlreadyExists, ErrorType: TypeRegistration,
		Message: "Tool already registered with a different schema", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"A tool of this name has another schema: register a new version, or another name.",
			"See docs/registering-tools.md.",
		},
	},
	{
		Code: RegistrationInvalid, HTTP: 422, JSONRPC: rpcInvalidParams, Exit: 41,
		Modern: absent(200, rpcInvalidParams), Legacy: absent(200, rpcInvalidParams),
		Connect: connect.CodeInvalidArgument, ErrorType: TypeRegistration,
		Message: "Invalid tool registration", Retryable: RetryNo, BlamesCaller: true,
		operators: [maxAdvice]string{
			"The registration has no schema, or one that does not compile: its message says where.",
			"See docs/registering-tools.md.",
		},
	},
	{
		Code: ToolExecutionFailed, HTTP: 500, JSONRPC: -32019, Exit: 1,
		Modern: onCall(200, -32019+outOfReserved), Legacy: onCall(200, -32019+outOfReserved),
		Connect: connect.CodeUnknown, ErrorType: TypeToolExecution,
		Message: "Tool execution failed", Retryable: RetryByBackend, ByBackend: true,
		operators: [maxAdvice]string{
			"The backend itself answered with an error: the key `outrigger.backend.status_code` of the log has its code.",
			"Follow the trace id into the backend's log; the page Try makes the same call again, if that does no harm.",
		},
	},
}

// ErrUnknownCode is returned by [Lookup], wrapped with the code, for a code that is not in the table.
var ErrUnknownCode = errors.New("errmap: unknown canonical code")

// Form is the form in which an error reaches an MCP client.
type Form uint8

const (
	// ProtocolError is a JSON-RPC error.
	ProtocolError Form = iota + 1
	// ToolResult is a result with isError, sent with HTTP 200.
	ToolResult
	// Silent means that nothing is sent.
	Silent
)

// String returns the form's name, for logs.
func (f Form) String() string {
	switch f {
	case ProtocolError:
		return "protocol error"
	case ToolResult:
		return "tool result"
	case Silent:
		return "silent"
	default:
		return "unknown form"
	}
}

// Retry is a row's answer to whether the same call may be sent again.
type Retry uint8

const (
	// RetryNo: the same call fails again.
	RetryNo Retry = iota + 1
	// RetryYes: the call did not run, or the peer asks for a retry.
	RetryYes
	// RetryIdempotent: the outcome is unknown, so only idempotent calls.
	RetryIdempotent
	// RetryByBackend: the backend's code decides.
	RetryByBackend
)

// String returns the value as docs/errors.md shows it.
func (r Retry) String() string {
	switch r {
	case RetryNo:
		return "no"
	case RetryYes:
		return "yes"
	case RetryIdempotent:
		return "idempotent tools only"
	case RetryByBackend:
		return "by the backend's code"
	default:
		return "unknown"
	}
}

// Shown is what a row says of one era of MCP.
type Shown struct {
	// Form is the form of the error for a tools/call. For other requests a ToolResult is a ProtocolError.
	Form Form
	// HTTP and Code are those of the protocol error.
	HTTP, Code int
	// AltHTTP is the status in the special case of the column, else 0: INVALID_PARAMS for a missing _meta field,
	// SESSION_NOT_FOUND if no session id was sent.
	AltHTTP int
	// Absent: the error cannot occur in this era. The other members have values that are safe to send.
	Absent bool
}

// Row is one row of the canonical table: what a code is on each edge.
type Row struct {
	Code      Code
	HTTP      int // for a ByBackend row the status of an unknown backend code
	JSONRPC   int
	Exit      int   // exit code of a command that calls a running sidecar; it never changes, and 0 is that of all canonical errors, 3
	Modern    Shown // MCP 2026-07-28
	Legacy    Shown // MCP 2025-11-25 and before
	Connect   connect.Code
	ErrorType string
	Message   string
	Retryable Retry
	// BlamesCaller: the caller can mend this, or chose it. Telemetry does not count it as a failure of the sidecar.
	BlamesCaller bool
	// Fixed: the product's contract fixes HTTP, JSONRPC and Message; the canonical dialect always sends this message.
	Fixed bool
	// ByBackend: HTTP, Connect, ErrorType and BlamesCaller follow the backend's code.
	ByBackend bool
	// Hop: the error describes one connection. If a backend reports one about its connection to the sidecar, it is not
	// forwarded as if it were about the caller's.
	Hop bool
	// operators is what [Row.ForOperators] returns.
	operators [maxAdvice]string
}

// maxAdvice is the most sentences for operators that a row has.
const maxAdvice = 3

// ForOperators returns what to do next for whom operates the sidecar: one to three texts, with flags and commands in them.
func (r *Row) ForOperators() []string {
	texts := r.operators // a copy
	return slices.DeleteFunc(texts[:], func(s string) bool { return s == "" })
}

// Lookup returns the row of a code. For a code that the table does not have, the error wraps [ErrUnknownCode].
func Lookup(code Code) (Row, error) {
	if row := find(code); row != nil {
		return *row, nil
	}
	return Row{}, fmt.Errorf("%w: %q", ErrUnknownCode, clip(string(code), maxNameBytes))
}

// find returns the row of a code, in the table, where nothing writes it; nil if there is none. A copy is large, and one
// conversion asks for the row many times.
func find(code Code) *Row {
	for i := range rows {
		if rows[i].Code == code {
			return &rows[i]
		}
	}
	return nil
}

// Codes returns every canonical code, in the order of the table. The caller may modify the slice.
func Codes() []Code {
	codes := make([]Code, len(rows))
	for i := range rows {
		codes[i] = rows[i].Code
	}
	return codes
}

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
	// ApprovalRequired: a policy rule asks others to approve the call, and they have not. Its data has a handle for the repetition.
	ApprovalRequired Code = "APPROVAL_REQUIRED"
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

// The error types of the table's column. A native backend may use other names in the same style.
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

// Limit is the name of a limit of the configuration: its field in the message Limits.
type Limit string

// The limits that an error can be about and that are not counted elsewhere: the owner of
// one of the others, such as a queue or a rate, counts for itself.
const (
	LimitMessageBytes Limit = "max_message_bytes"
	LimitJSONDepth    Limit = "max_json_depth"
	LimitIDBytes      Limit = "max_id_bytes"
	LimitBatchEntries Limit = "max_batch_entries"
	LimitResultBytes  Limit = "max_result_bytes"
	LimitResultItems  Limit = "max_result_items"
	LimitInputItems   Limit = "max_input_items"
	LimitStreams      Limit = "max_streams"
	LimitSessions     Limit = "max_sessions"
	LimitTasks        Limit = "max_tasks"
	LimitBodyTime     Limit = "read_body_timeout"
	LimitCatalogWait  Limit = "catalog_wait"
	LimitPipelined    Limit = "max_pipelined_requests"
)

// Limits returns every Limit.
func Limits() []Limit {
	return []Limit{
		LimitMessageBytes, LimitJSONDepth, LimitIDBytes, LimitBatchEntries, LimitResultBytes, LimitResultItems, LimitInputItems,
		LimitStreams, LimitSessions, LimitTasks, LimitBodyTime, LimitCatalogWait, LimitPipelined,
	}
}

// Over names the limit that was exceeded. It is counted in metrics and not shown.
func Over(l Limit) Option { return func(e *Error) { e.Limit = l } }
