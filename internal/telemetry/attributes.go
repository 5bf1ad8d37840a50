// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// The library's types that callers of this package handle. No other package of the pipeline imports the library.
type (
	// Attribute is a fact of a span.
	Attribute = attribute.KeyValue
	// Context has the ids of a span.
	Context = trace.SpanContext
	// Carrier is a message or header that has trace context.
	Carrier = propagation.TextMapCarrier
	// Provider makes tracers.
	Provider = trace.TracerProvider
	// Propagator reads and writes trace context.
	Propagator = propagation.TextMapPropagator
)

// Text returns an attribute with a text.
func Text(name, value string) Attribute { return attribute.String(name, value) }

// Int returns an attribute with a number.
func Int(name string, value int64) Attribute { return attribute.Int64(name, value) }

// Names of attributes: OpenTelemetry's semantic conventions for MCP, GenAI, RPC and networks, as of August 2026 (status:
// Development), and our own, which begin with "outrigger.".
const (
	MethodName      = "mcp.method.name"
	ToolName        = "gen_ai.tool.name"
	PromptName      = "gen_ai.prompt.name"
	OperationName   = "gen_ai.operation.name"
	ToolArguments   = "gen_ai.tool.call.arguments"
	ToolResult      = "gen_ai.tool.call.result"
	RequestID       = "jsonrpc.request.id"
	ProtocolVersion = "mcp.protocol.version"
	SessionID       = "mcp.session.id"
	ResourceURI     = "mcp.resource.uri"
	StatusCode      = "rpc.response.status_code"
	RPCMethod       = "rpc.method"
	RPCSystemName   = "rpc.system.name"
	ErrorType       = "error.type"
	Transport       = "network.transport"
	networkProtocol = "network.protocol.name"
	networkVersion  = "network.protocol.version"
	ClientAddress   = "client.address"
	ClientPort      = "client.port"
	ServerAddress   = "server.address"
	ServerPort      = "server.port"

	ErrorCode     = "outrigger.error.code"      // the canonical code
	EdgeName      = "outrigger.edge"            // as in the metrics
	CanonicalTool = "outrigger.tool.name"       // the canonical name
	retryAttempt  = "outrigger.retry.attempt"   // 1 is the first retry
	QueueWait     = "outrigger.queue.wait_us"   // how long a call waited for a slot
	messages      = "outrigger.stream.messages" // how many messages a server stream brought
)

// Names of events.
const (
	// eventHeld: an open circuit breaker kept a call, or a retry, from the backend, so that there is no span of it.
	eventHeld = "outrigger.breaker_open"
	// eventFirstMessage and eventLastMessage are of a server stream.
	eventFirstMessage = "outrigger.stream.first_message"
	eventLastMessage  = "outrigger.stream.last_message"
)

// Values of RPCSystemName. gRPC-Web has no value: its status and framing are those of gRPC.
const (
	SystemGRPC    = "grpc"
	SystemConnect = "connectrpc"
)

// ExecuteTool is the value of OperationName for a tool call.
const ExecuteTool = "execute_tool"

// Names of the steps that have spans of their own when they take long.
const (
	StepCatalog      = "outrigger.catalog" // the wait for the first catalog
	StepAuthenticate = "outrigger.authenticate"
	StepAuthorize    = "outrigger.authorize"
	StepRates        = "outrigger.rates" // the question to the rate limit service
	StepQueue        = "outrigger.queue"
	StepValidate     = "outrigger.validate"
	StepPolicy       = "outrigger.policy"
	StepAsk          = "outrigger.ask_user"
	StepCredentials  = "outrigger.credentials" //nolint:gosec // a name
	StepResult       = "outrigger.result"
	StepAudit        = "outrigger.audit"
)

// TaskSpan is the name of the span of a task: from the moment when a call became one, to the end of its work.
const TaskSpan = "outrigger.task"
