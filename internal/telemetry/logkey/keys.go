// SPDX-License-Identifier: Apache-2.0

package logkey

// Keys of OpenTelemetry's semantic conventions.
const (
	TraceID = "trace_id"
	SpanID  = "span_id"

	Method    = "mcp.method.name"
	Tool      = "gen_ai.tool.name" // the name by which callers of the edge know it
	RequestID = "jsonrpc.request.id"

	RPCMethod = "rpc.method" // package.Service/Method
	RPCSystem = "rpc.system.name"
	Status    = "rpc.response.status_code"
	HTTPRoute = "http.route"

	ErrorType           = "error.type"
	ExceptionMessage    = "exception.message"
	ExceptionStacktrace = "exception.stacktrace"
	CodeStacktrace      = "code.stacktrace" // of a process that hangs

	ClientAddress = "client.address"
	ClientPort    = "client.port"
	URL           = "url.full"
	FilePath      = "file.path"
	FileDirectory = "file.directory"
)

// Keys of our own. Spans have most of them, too.
const (
	Edge          = "outrigger.edge"       // as in metrics
	Operation     = "outrigger.operation"  // as in metrics
	CanonicalTool = "outrigger.tool.name"  // the canonical name
	ErrorCode     = "outrigger.error.code" // the canonical code
	Caller        = "outrigger.caller"     // the authenticated name, or the address
	Operator      = "outrigger.operator"   // in whose console a call was made
	RequestedTool = "outrigger.tool.requested"
	BackendStatus = "outrigger.backend.status_code"
)
