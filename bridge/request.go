// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/trail"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// Op is an operation that a request asks for.
type Op uint8

// The operations. OpServer covers everything that only describes the sidecar
// (discover, initialize, describe): one snapshot answers all of them.
const (
	OpInvalid Op = iota
	OpCall
	OpList
	OpGet
	OpServer
	OpPing
	// The following take their parameters from Request.Message and leave their
	// answer in Response.Message, both in the words of outrigger.v1; which
	// messages those are is beside each.
	OpListResources // ListResourcesRequest, ListResourcesResponse
	OpListTemplates // ListResourceTemplatesRequest, ListResourceTemplatesResponse
	OpReadResource  // ReadResourceRequest, ResourceOutcome
	OpListPrompts   // ListPromptsRequest, ListPromptsResponse
	OpGetPrompt     // GetPromptRequest, PromptOutcome
	OpComplete      // CompleteRequest, CompleteResponse
	OpGetTask       // GetTaskRequest, Task
	OpUpdateTask    // UpdateTaskRequest, UpdateTaskResponse
	OpCancelTask    // CancelTaskRequest, CancelTaskResponse
	OpListSkills    // ListSkillsRequest, ListSkillsResponse
	OpGetSkill      // GetSkillRequest, GetSkillResponse
	OpReadDirectory // ReadDirectoryRequest, ReadDirectoryResponse
	// OpOpen is the first request of a legacy client. It waits for the catalog, to
	// list the capabilities, but continues without one.
	OpOpen
	// OpListen streams changes to Request.Changes until one side ends it. Its
	// parameter is a ChangeFilter; it has no response.
	OpListen
)

// isFree reports whether an operation is counted and permitted otherwise than others: a call by its tool, and a ping never, because
// one that is refused would look like a server that is gone.
func (o Op) isFree() bool { return o == OpCall || o == OpPing }

// maxURI is the maximum length of the URI of a resource, as in outrigger.v1.ReadResourceRequest.
const maxURI = 8192

// Encoding is the encoding of the bytes of a [Payload].
type Encoding uint8

// The encodings. The zero value is JSON, which every dialect but the typed
// pass-through uses.
const (
	EncodingJSON Encoding = iota
	EncodingProtobuf
)

// NameForm is the form of tool names that a caller knows: canonical
// ("fleet.get_vehicle") or MCP ("fleet_get_vehicle").
type NameForm uint8

const (
	// NamesCanonical is for callers who are shown canonical names; both forms
	// are understood.
	NamesCanonical NameForm = iota
	// NamesCanonicalOnly is for the message form of a call, which admits no
	// other.
	NamesCanonicalOnly
	// NamesMCP is for callers who are shown MCP names; both forms are
	// understood.
	NamesMCP
)

// Payload is a message as bytes: the arguments of a call or its result. Nil bytes in
// JSON are the empty object.
type Payload struct {
	Bytes    []byte
	Encoding Encoding
	// Repaired is set if the arguments were in a JSON string.
	Repaired bool

	// pooled is set where Bytes are of the bridge's buffers.
	pooled bool
}

// Request is one request, as its edge has read it. It does not change once it has
// begun: what is read or answered later is in a copy.
type Request struct {
	Op Op
	// PartOf is the operation that the request is a part of, if it is a step towards one:
	// the caller must be allowed to run that too.
	PartOf Op
	// List is the form of an OpList.
	List compact.List
	// Names is the form of names that the caller uses.
	Names NameForm
	// Protocol is how the caller is shown errors, for telemetry.
	Protocol errmap.Protocol
	// Paced is set if the caller has flow control. Then a call waits for a slot
	// without a limit, and is not rejected because of a full queue.
	Paced bool
	// Repeated is set if the Envelope has InputResponses and RequestState.
	Repeated bool
	// HasPlace is set if the edge has called [Bridge.OpenStream] for this OpListen.
	HasPlace bool
	// isWhole is set in a copy that has what the Envelope holds.
	isWhole bool
	// Origin is the scope in which ID is unique.
	Origin correlate.Origin
	// ID is zero if the caller's protocol has no ids (unary Connect calls).
	ID jsonrpc.ID
	// Tool is the tool's name as the caller wrote it, for OpCall and OpGet.
	Tool string
	// Through is the name of the tool of a compact catalog by which the call came, as the caller wrote it; empty if it came
	// by its own name. [Bridge.Begin] sets it.
	Through string
	// Procedure ("/pkg.Service/Method") identifies the tool in a typed pass-through,
	// instead of Tool.
	Procedure string
	// Version is the caller's version constraint, empty for any.
	Version string
	// Arguments are the arguments of an OpCall. The result has the same encoding.
	Arguments Payload
	// Items brings further items for an OpCall of a tool that takes a stream, behind those of the arguments: each call returns
	// the JSON of the next one. It waits for the item, returns io.EOF when there are no more, and returns when its context
	// ends. Only one goroutine calls it. If it is nil, the arguments have all items.
	Items func(ctx context.Context) ([]byte, error)
	// Timeout is the caller's timeout; zero means none. The shortest of it, the
	// tool's and the default applies.
	Timeout time.Duration
	// Header has the caller's metadata; only headers on the allow-list are forwarded
	// to the backend.
	Header http.Header
	// Caller identifies the caller for the policy: the result of [CallerOf], or
	// "stdio". Its permissions are in the identity of the context (package identity).
	Caller string
	// Peer is the address of the caller's connection, or "stdio"; empty if there is none.
	Peer string
	// Transport and Route describe the origin of the request, for logs. Era is the
	// revision of the caller's protocol, for the audit trail; empty if it has none.
	Transport, Route, Era string

	// Method is the operation in the words of the caller's protocol, such as "tools/call", for telemetry. It is never a
	// text of the caller that names no operation. Empty for what no caller asked for.
	Method string
	// Revision is the revision of the caller's protocol, for metrics: one of a known few, or empty.
	Revision string
	// Span is the request's span, which its edge started and ends; nil without tracing.
	Span *telemetry.Span

	// Context describes the original caller and its client's capabilities; nil if the
	// caller's protocol has no such information, or if the Envelope has it.
	Context *outriggerv1.RequestContext
	// Meta is the caller's MCP _meta, a JSON object, for a backend that wants it.
	Meta []byte
	// InputResponses and RequestState belong to an OpCall that is repeated after an
	// InputRequired. The state is sealed, as the caller got it.
	InputResponses map[string]*outriggerv1.InputResponse
	RequestState   []byte
	// Exchange is the caller's side of a streaming RPC, for an OpCall of a Procedure that is one; nil for all others. Arguments
	// has no bytes then, and the encoding of all messages.
	Exchange Exchange
	// Events receives the events of an OpCall, in order and never concurrently; nil
	// discards them. It is not called after Run has returned.
	Events func(*outriggerv1.ToolEvent)
	// AskClient asks the caller's client questions while the request waits. If it is
	// nil, the questions are the result.
	AskClient func(ctx context.Context, in *outriggerv1.InputRequired) (map[string]*outriggerv1.InputResponse, *errmap.Error)
	// Changes receives the notifications of an OpListen in the same way; its error
	// ends the stream.
	Changes func(*outriggerv1.Notification) error
	// Message has the parameters of the operations that use a message.
	Message proto.Message
	// Cursor is the start of a page of an OpList; nil is the first page. PageSize is
	// the maximum number of tools, within the sidecar's own limit; zero lists all.
	Cursor   *string
	PageSize int

	// Wanted is how much of the result of an OpCall the caller wants.
	Wanted content.Wanted

	// Envelope is the message of the request, if its edge reads parts of it on
	// demand; nil if everything has been read.
	Envelope Envelope
	// Pointer returns the JSON Pointer of a field of outrigger.v1 in the form in
	// which the caller wrote the request. Nil uses the field names.
	Pointer func(field string) string

	// console is the console in which an operator made the request, nil for all others; [Bridge.Begin] finds it in the context. items are
	// those of a stream that the operator sees as they come; nil for requests that were made elsewhere.
	console *identity.Console
	items   *shownItems
	// meter measures the request; nil for what runs on behind one.
	meter *meter
	// of is the request that this one is a copy of; nil for one that began.
	of *Request
	// part is what makes the request a part of a program; nil for all others.
	part *part
}

// part is a call of a program.
type part struct {
	program trail.Program
	// isConsented is set if the user agreed to the call before the program ran.
	isConsented bool
}

// Envelope is the message that a request was read from, for edges that read parts of it
// on demand. The goroutine that runs the request calls its methods.
type Envelope interface {
	// Rest reads the parts that only few requests need; nil if there are none.
	Rest() (*Rest, *errmap.Error)
	// Check is called as soon as the tool of a call is known. It checks that other
	// parts of the message, such as headers, agree with the arguments.
	Check(tool *catalog.Tool, arguments []byte) *errmap.Error
	// Forget frees the bytes of the message. Nothing is read from it afterwards.
	Forget()
}

// Rest holds those fields of a [Request] that an [Envelope] reads on demand.
type Rest struct {
	Context        *outriggerv1.RequestContext
	Meta           []byte
	InputResponses map[string]*outriggerv1.InputResponse
	RequestState   []byte
}

// copied returns a copy to write to, which knows what it was copied from.
func (r *Request) copied() *Request {
	out := *r
	out.of = r
	return &out
}

// again is the request with the answers to what its caller was asked.
func (r *Request) again(answers map[string]*outriggerv1.InputResponse, state []byte) *Request {
	out := r.copied()
	out.InputResponses, out.RequestState, out.Repeated = answers, state, true
	return out
}

// Forget frees the memory of what nothing needs any more once the arguments are
// wire bytes: the backend may take its time, and many requests wait. It is the one
// change to requests that have begun.
func (r *Request) Forget() {
	if r.Envelope != nil {
		r.Envelope.Forget()
	}
	for ; r != nil; r = r.of {
		r.Arguments.Bytes, r.InputResponses, r.RequestState, r.Meta, r.Message = nil, nil, nil, nil, nil
	}
}

// Complete returns the request with what its Envelope holds, which is read on the
// first need of Context, Meta, InputResponses or RequestState.
func (r *Request) Complete() (*Request, *errmap.Error) {
	if r.Envelope == nil || r.isWhole {
		return r, nil
	}
	rest, err := r.Envelope.Rest()
	if err != nil || rest == nil {
		return r, err
	}
	out := r.copied()
	out.isWhole = true
	out.Context, out.Meta, out.InputResponses, out.RequestState = rest.Context, rest.Meta, rest.InputResponses, rest.RequestState
	return out, nil
}

// At returns the JSON Pointer of a field, as the caller wrote the request.
func (r *Request) At(field string) string {
	if r.Pointer != nil {
		return r.Pointer(field)
	}
	return "/" + field
}

// name is what a request is called where people read of it.
func (r *Request) name() string {
	return cmp.Or(r.Tool, r.Procedure)
}

// Response is the outcome of one request. Which fields are set depends on the
// operation.
type Response struct {
	// Err is the canonical error, nil on success.
	Err *errmap.Error
	// Tool is the resolved tool, nil if none was named or found.
	Tool *catalog.Tool
	// Result is the result of a successful OpCall, in the encoding of the request, if
	// it is only the response of a plain RPC.
	Result Payload
	// Truncated is set if Result is incomplete.
	Truncated bool
	// Silent means that the caller cancelled: no reply may be written.
	Silent bool
	// Explanation is the reason, for people, why Result is incomplete; empty if it is
	// complete.
	Explanation string
	// Repaired says which arguments were decoded from strings, as JSON Pointers into
	// the arguments, for a result of an OpCall; "" are the arguments as a whole.
	Repaired []string
	// Outcome of a successful OpCall that is more than that: nil where Result
	// says it all.
	Outcome *outriggerv1.ToolOutcome
	// Message is the response of the operations that use a message.
	Message proto.Message
	// First and Next are the bounds of the page of an OpList: tools First up to, but
	// not including, Next of the catalog. NextCursor is the cursor of the next page,
	// nil at the end.
	First, Next int
	NextCursor  *string
	// Catalog is the snapshot that answered OpList, OpGet, OpServer and OpOpen; nil
	// for OpOpen if no catalog has been loaded.
	Catalog *catalog.Catalog
	// Header and Trailer are the backend's metadata that the allow-list permits.
	// Either may be nil.
	Header, Trailer http.Header
	// Decision is what policy rules said about a call or the read of a resource.
	Decision Decision

	// passed are the bytes of messages that are no part of the arguments or of Result: those of a stream, as they came and went.
	passed struct{ in, out int }
	// who asked, where that decides about the answer of OpList and OpServer; nil
	// without authentication.
	who *identity.Identity
}

// Release returns the buffer of Result to the pool of [Bridge.Buffers] and clears
// Result. Call it once the bytes have been copied.
func (r *Response) Release(to *bytepool.Pool) {
	if r.Result.pooled {
		to.Put(r.Result.Bytes)
		r.Result.Bytes, r.Result.pooled = nil, false
	}
}

// Take moves the bytes of Result to the caller. If pooled is set, the caller may return
// them to the pool of [Bridge.Buffers].
func (r *Response) Take() (result []byte, pooled bool) {
	result, pooled = r.Result.Bytes, r.Result.pooled
	if pooled {
		r.Result.Bytes, r.Result.pooled = nil, false
	}
	return result, pooled
}

// MayRead returns PERMISSION_DENIED if the caller of an OpServer may not read the
// resource, else nil.
func (r *Response) MayRead(uri string) *errmap.Error {
	if !r.who.MayRead(uri) {
		return policy.NotPermitted(r.who, "this resource")
	}
	return nil
}

// CacheScope returns whether the answer to an OpList or OpServer may be cached for all
// callers or for this one alone.
func (r *Response) CacheScope() outriggerv1.CacheScope {
	isPart := r.Catalog != nil && r.Next > 0 && r.Next-r.First < len(r.Catalog.Tools())
	if r.who != nil || isPart || r.Catalog.IsLimited() {
		return outriggerv1.CacheScope_CACHE_SCOPE_PRIVATE
	}
	return outriggerv1.CacheScope_CACHE_SCOPE_PUBLIC
}

// About returns what an edge needs to show the error of the response. The id is that of
// the request, as it came; nil if there is none.
func (r *Response) About(id []byte) errmap.About {
	return errmap.About{RequestID: id, ToolCall: r.Tool != nil, Idempotent: r.Tool.IsIdempotent()}
}

// Operations returns the names of the operations for logs and metrics, indexed by [Op].
// The first is empty: it represents messages that never became a request.
func Operations() []string {
	return []string{
		OpInvalid: "", OpCall: "call_tool", OpList: "list_tools", OpGet: "get_tool", OpServer: "describe", OpPing: "ping",
		OpListResources: "list_resources", OpListTemplates: "list_resource_templates", OpReadResource: "read_resource",
		OpListPrompts: "list_prompts", OpGetPrompt: "get_prompt", OpComplete: "complete",
		OpGetTask: "get_task", OpUpdateTask: "update_task", OpCancelTask: "cancel_task",
		OpListSkills: "list_skills", OpGetSkill: "get_skill", OpReadDirectory: "read_directory",
		OpOpen: "initialize", OpListen: "listen",
	}
}

// String is the operation's name.
func (o Op) String() string {
	if names := Operations(); int(o) < len(names) {
		return names[o]
	}
	return ""
}

// Exchange is the caller's side of a streaming RPC in the typed pass-through. Receive is
// called by one goroutine, and Begin and Send by another; Stop by any.
type Exchange interface {
	// Receive returns the caller's next message, valid until the next message, and io.EOF
	// when none follows. An *errmap.Error is what the caller sent wrong; any other error
	// means that the caller has gone.
	Receive() (Payload, error)
	// Begin sends the header of the response. It is called at most once, before Send.
	Begin(header http.Header) error
	// Send sends a message of the backend in the encoding of the request, and does not
	// keep it. It waits for a caller that does not read.
	Send(message []byte) error
	// Stop ends a Receive under way, and lets later ones fail.
	Stop()
}

// Decision is what policy rules said about a call. It is empty if none decided.
type Decision struct {
	// Rule is the name of the rule, Effect what it did: "allow" or "deny".
	Rule, Effect string
}

// meter is what is measured of one request while it runs. It is written by the
// goroutine that runs the request.
type meter struct {
	// tool counts the calls of the tool; nil until it has been found.
	tool *telemetry.Series
	// upstream is how long the request waited for others.
	upstream time.Duration
	// invoked is what the audit trail says of the request; nil where it says nothing.
	invoked *invocation
	// input is what came as arguments, where something records it, and document that of a call, where those are recorded.
	input    *trail.Input
	document *trail.CallDocument
	// stages are the steps that the request takes, and when; nil where no one watched when it began.
	stages *stages
}

// invocation is what the audit trail says of a request while it runs. It is written by the
// goroutine that runs the request.
type invocation struct {
	// id is that of its lines. It does not change.
	id trail.ID
	// mu guards event, which the end of a drain reads; isOver: its line is written.
	mu     sync.Mutex
	isOver bool
	event  trail.Event
	// reached: the request is about to reach the backend, or has.
	reached bool
	// consented: the user agreed to the call. asks: others are asked about it. approved: they agreed.
	consented, asks, approved bool
	// isRunning is set once a program runs: what its calls meet is theirs, and has their own lines.
	isRunning bool
	// input is what came as arguments, where payloads are recorded, until the line has it. The tool says what is secret in it.
	input *trail.Input
	tool  *catalog.Tool
}

// waited adds the time since start to what was spent waiting for others.
func (r *Request) waited(start time.Time) {
	if r.meter != nil {
		r.meter.upstream += time.Since(start)
	}
}

// enter notes that the request enters a stage, where somebody watches.
func (r *Request) enter(s stage) {
	if r.meter != nil && r.meter.stages != nil {
		r.meter.stages.enter(s)
	}
}

// invocation is what the trail says of a request, nil where it says nothing.
func (r *Request) invocation() *invocation {
	if r.meter == nil {
		return nil
	}
	return r.meter.invoked
}

// traceTool names the tool of a request in its span.
func (r *Request) traceTool(tool *catalog.Tool) {
	if !r.Span.IsRecording() {
		return
	}
	if r.Op != OpCall {
		r.Span.Set(telemetry.Text(telemetry.CanonicalTool, tool.Name))
		return
	}
	name := r.toolName(tool)
	r.Span.Found(name)
	r.Span.Set(telemetry.Text(telemetry.ToolName, name), telemetry.Text(telemetry.CanonicalTool, tool.Name),
		telemetry.Text(telemetry.OperationName, telemetry.ExecuteTool))
}

// toolName is the name by which callers of the request's edge know a tool.
func (r *Request) toolName(tool *catalog.Tool) string {
	if r.Names == NamesMCP {
		return tool.MCPName
	}
	return tool.Name
}

// origin is the span of a call as the task that it may become knows it; nil without tracing.
func (r *Request) origin() []byte {
	if r.Span == nil {
		return nil
	}
	return telemetry.AppendContext(make([]byte, 0, telemetry.ContextSize), r.Span.Context())
}

// ToolOutcome returns the outcome of a successful OpCall as a message of the contract:
// Outcome, or else a result made of Result.
func (r *Response) ToolOutcome() *outriggerv1.ToolOutcome {
	if r.Outcome != nil {
		return r.Outcome
	}
	status := content.StatusSuccess
	if r.Truncated {
		status = content.StatusPartial
	}
	return content.Outcome(status, r.Result.Bytes, r.Explanation)
}

// JSON returns the result of a successful OpCall in JSON: its data, or where it has none, such as a document, all of the
// outcome.
func (r *Response) JSON() []byte {
	if r.Outcome == nil {
		return r.Result.Bytes
	}
	return outcomeJSON(r)
}

// outcomeJSON is the data of a result, or all of an outcome that is none or has no data.
func outcomeJSON(resp *Response) []byte {
	if result := resp.Outcome.GetResult(); result != nil {
		if data, err := content.FreeForm(result.GetDataJson(), result.GetData()); err == nil && len(data) > 0 {
			return data
		}
	}
	return messageJSON(resp.Outcome)
}

// messageJSON is the JSON of a message of the contract, nil where it has none.
func messageJSON(m proto.Message) []byte {
	out, err := protojson.Marshal(m)
	if err != nil {
		return nil
	}
	return out
}

// inputRequired is the question that a response is, nil where it is none.
func (r *Response) inputRequired() *outriggerv1.InputRequired {
	if in := r.Outcome.GetInputRequired(); in != nil {
		return in
	}
	if asks, ok := r.Message.(interface {
		GetInputRequired() *outriggerv1.InputRequired
	}); ok {
		return asks.GetInputRequired()
	}
	return nil
}

// size is the size of what came as the arguments of a request.
func (r *Request) size() int {
	if r.Message != nil {
		return proto.Size(r.Message)
	}
	return len(r.Arguments.Bytes)
}

// size is the size of the result of a response.
func (r *Response) size() int {
	switch {
	case r.Err != nil:
		return 0
	case r.Outcome != nil:
		return proto.Size(r.Outcome)
	case r.Message != nil:
		return proto.Size(r.Message)
	}
	return len(r.Result.Bytes)
}

// NamesNothing reports whether the error of the response means that the request names a
// task, a prompt, a reference, a skill or a directory that does not exist. Its code is
// INVALID_PARAMS, because MCP has no code for that; an edge whose protocol has
// one (not_found in Connect) can use it.
func (r *Response) NamesNothing() bool { return namesNothing(r.Err) }

// IsMissing reports whether the error of the response means that the backend said that there is no such thing.
func (r *Response) IsMissing() bool { return isMissing(r.Err) }

// TraceID returns the id of the request's trace: that of its span, or without tracing the one that its caller sent; "" for
// none.
func (r *Request) TraceID() string { return traceID(r.Span, r.Header) }

func traceID(span *telemetry.Span, h http.Header) string {
	if span != nil {
		return span.TraceID()
	}
	return trail.TraceID(h.Get(traceparent))
}

// traceparent is the header of the W3C trace context that names the trace.
const traceparent = "traceparent"

// toolCall is one tools/call on its way: each step adds a fact.
type toolCall struct {
	req *Request
	// claim is the right to be given up for another attempt.
	claim backend.Claim
	tool  *catalog.Tool
	// catalog is what the tool was found in.
	catalog *catalog.Catalog
	// deadline is when the caller stops waiting, once the backend is called.
	deadline time.Time
	// learnUntil bounds all look-ups of types for this call; see learnFor.
	learnUntil time.Time
	// wire is what the backend is sent, pooled where it is of the bridge's buffers. For an RPC that takes a stream it is the
	// first message, if there is one.
	wire []byte
	// checking is the context of the check of the arguments.
	checking timely
	answer   *backend.Answer
	resp     Response
	// place is the call's right to run. Its deadline counts the time that it waited for it.
	place policy.Place
	// turn is the answer's right to the CPU, from the answer to the end of the call.
	turn   policy.Turn
	pooled bool
	// isPart is set if the call is within a request that was counted for its caller before.
	isPart bool
	// sent is set once the backend may have the call.
	sent bool
	// worked is set if the tool answered, with a result or its own error, so that its latency counts.
	worked bool
	// alone is set if the call runs alone, because memory is short.
	alone bool
	// blocked is what the gate said where the user may still be asked; nil for most calls.
	blocked *errmap.Error
	// asks is the policy rule that has others approve the call; empty for most. approved is the call once they did.
	asks     string
	approved *approvedCall
	// preview says what the call would do, as its tool's preview answered its caller; empty where it has none.
	preview string
	// previewed is how the call is a preview, made by the sidecar; nil for a call with its effects.
	previewed *catalog.Preview
	// requestID is the id that the sidecar gave the request; empty where it gave none.
	requestID string
	// claimed is set for a call whose answer is to be kept; isOver if it has the answer of an earlier one.
	claimed *claimed
	isOver  bool
	// isFirm is set if the call is held back, and its user cannot be asked.
	isFirm bool
	// isSeen is set where a view treats the answer: it was checked before, and what is left of it is not checked again.
	isSeen bool
	// view is what the caller sees of the answer; nil where that is all, or before it is asked for.
	view *policy.View
	// state is what the caller brought back from an earlier round; nil in a plain call.
	state  *state
	repair repair
	fit    fit
	input  *streamInput // nil for an RPC that takes one message
}

// repair are the arguments after something in them was decoded, and the places where; both nil where nothing was.
type repair struct {
	arguments []byte
	places    []string
}

// streamInput is what is sent to an RPC that takes a stream.
type streamInput struct {
	// header and items are its JSON; the header is nil where there is none.
	header []byte
	items  [][]byte
	// hasFirst is set if the wire bytes of the call are a message.
	hasFirst bool
}

// keptItems copies the items, for a call that outlives its request.
func (in *streamInput) keptItems() [][]byte {
	if len(in.items) == 0 {
		return nil
	}
	out := make([][]byte, len(in.items))
	for i, item := range in.items {
		out[i] = bytes.Clone(item)
	}
	return out
}

// fit is how a result is made to fit what its caller wants.
type fit struct {
	// mask selects the fields of the result that the caller wants; nil for all.
	mask *content.Mask
	// noted is what there is to say about how the result fits; empty for nothing.
	noted string
	// odd counts the values of the result that JSON has no standard form for, and oddMore is set once that is noted without
	// their names. itemNumber is the number of the message of a stream that is being read, zero for none.
	odd, itemNumber int32
	oddMore         bool
	// isFetch: the result of an earlier call is fetched, with the fields which it chose.
	isFetch bool
	// under names the member of the answer that holds the result; empty where the result is the whole answer.
	under string
}

// arguments is the JSON text of the arguments; there is always one.
func (c *toolCall) arguments() []byte {
	if c.repair.arguments != nil {
		return c.repair.arguments
	}
	if c.req.Arguments.Bytes == nil {
		return emptyObject
	}
	return c.req.Arguments.Bytes
}

// digest ties a state to this call.
func (c *toolCall) digest() [32]byte {
	arguments := c.arguments()
	if c.requestID != "" && c.req.Arguments.Encoding == EncodingJSON {
		arguments = c.withoutRequestID() // another one each time that the request is made
	}
	return requestDigest(OpCall, c.tool.Name, arguments)
}

// out is what reads answers of the tool's backend.
func (c *toolCall) out() *transcode.Message {
	if c.isSeen {
		return c.tool.Out.Loose()
	}
	return c.tool.Out
}

// isOfAPart holds for the error of a call of a program, which that call has counted.
func isOfAPart(err *errmap.Error) bool { return err != nil && err.Line > 0 }

// named is an error with the name of the tool and the message that it is about. An argument of catalog.call is none of the tool, and
// the error of a call of a program none of catalog.run.
func (c *toolCall) named(err *errmap.Error, name string) *errmap.Error {
	if c.req.Through != "" && err.Tool == c.req.Through || isOfAPart(err) {
		return err.Naming(err.Tool)
	}
	out := err.Naming(name)
	if out.Document == nil {
		out.Document = c.document(out.Code)
	}
	return out
}

// document is the message that an error is about, nil for none.
func (c *toolCall) document(code errmap.Code) protoreflect.MessageDescriptor {
	rpc := c.tool.Method.Descriptor
	switch {
	case c.tool.Native || c.tool.Compact != catalog.NotCompact || rpc == nil:
		return nil
	case code == errmap.InvalidToolOutput:
		return rpc.Output()
	case code == errmap.ToolExecutionFailed && c.req.Procedure == "":
		return rpc.Input()
	case code == errmap.InvalidToolInput && (c.req.Exchange != nil || !c.tool.TakesStream()):
		return rpc.Input()
	}
	return nil
}

// shownName is the tool's name as the caller wrote it.
func (c *toolCall) shownName() string {
	return cmp.Or(c.req.Tool, c.tool.Name)
}

// response is what has become of the call.
func (c *toolCall) response() *Response {
	c.reportRepairs()
	c.resp.Tool = c.tool
	return &c.resp
}

// completed notes whether the tool answered, with a result or its own error. Only then its latency counts.
func (c *toolCall) completed(err *errmap.Error) { c.worked = err == nil || err.FromTool() }

// forgetArguments frees the arguments: the wire bytes say all that the backend is
// to know.
func (c *toolCall) forgetArguments() {
	c.repair.arguments = nil
	c.req.Forget()
}

// events is what takes the events of a call on behalf of its caller; nil where
// the caller wants none. Nothing is passed on after the call has ended.
func (c *toolCall) events(ctx context.Context) func(*outriggerv1.ToolEvent) {
	if c.req.Events == nil {
		return nil
	}
	return func(e *outriggerv1.ToolEvent) {
		if ctx.Err() == nil {
			c.req.Events(e)
		}
	}
}

// A step adds facts to a call, ends the round with its outcome, or ends the call with an error.
type step func(ctx context.Context, c *toolCall) *errmap.Error

// named is a step with its name for people.
type named struct {
	stage stage
	run   step
}

// kind is the kind of a call, by what its tool is and how it was called. Each has a list of steps.
type kind uint8

// rpcKind is the kind of a call of an RPC.
func rpcKind(c *toolCall) kind {
	switch {
	case c.tool.TakesStream(), c.tool.Streams():
		return streamCall
	case c.tool.Paging != nil:
		return pagedCall
	}
	return unaryCall
}

// isJSON holds for calls of tools, whose results are for models, and not for typed callers.
func (c *toolCall) isJSON() bool {
	return c.req.Arguments.Encoding == EncodingJSON && c.req.Procedure == ""
}

// endTurn ends the turn of a call, if it has one.
func (c *toolCall) endTurn() {
	c.turn.End()
	c.turn = policy.Turn{}
}

// note adds to what there is to say about how the result fits.
func (c *toolCall) note(text string) { c.fit.noted = strings.TrimSpace(c.fit.noted + " " + text) }

// explain adds to what people and models are told about the result.
func (c *toolCall) explain(text string) {
	c.resp.Explanation = strings.TrimSpace(c.resp.Explanation + " " + text)
}

// noteOdd notes values that ProtoJSON has no form for. A typed caller gets an error instead: its client would misread them.
func (c *toolCall) noteOdd(noted transcode.Noted) error {
	if c.req.Procedure != "" {
		first := noted.Odd[0]
		return &transcode.OutputError{Step: "encode", Err: fmt.Errorf("%s is %s", first.Path, first.What)}
	}
	before := ""
	switch {
	case c.fit.itemNumber > 0:
		before = fmt.Sprintf("/items/%d", c.fit.itemNumber-1)
	case c.fit.under != "":
		before = "/" + c.fit.under
	case c.tool.OutputNotObject:
		before = "/value"
	}
	for _, odd := range noted.Odd {
		if c.fit.odd++; c.fit.odd <= maxOdd {
			c.note(cmp.Or(before+odd.Path, "The result") + " is " + odd.What + ".")
		}
	}
	if c.fit.odd > maxOdd && !c.fit.oddMore {
		c.fit.oddMore = true
		c.note("More values like these follow.")
	}
	return nil
}

// maxOdd bounds the values of a result without a standard form that its explanation names.
const maxOdd = 4

// fetched is a request as a call that fetches the result of an earlier one, as far as that call wanted it. isMaskLost is set if its
// mask was too long to be kept.
func fetched(req *Request, tool *catalog.Tool, cat *catalog.Catalog, wanted content.Wanted, isMaskLost bool) *toolCall {
	own := req.copied()
	own.Wanted = wanted
	c := &toolCall{req: own, tool: tool, catalog: cat, fit: fit{isFetch: true}}
	if isMaskLost {
		c.note(content.MaskLost)
	}
	c.maskAgain()
	return c
}

// maskAgain reads the mask of a call that was made some time ago. If the result does not have its fields any more, it is shown whole.
func (c *toolCall) maskAgain() {
	if c.req.Wanted.Fields == "" {
		return
	}
	mask, failed := c.req.Wanted.Mask(resultView(c.tool))
	if failed != nil {
		c.note(content.OtherFields)
		return
	}
	c.fit.mask = mask
}

// resultView is what the output schema of a tool says about its results.
func resultView(t *catalog.Tool) schema.View { return schema.ViewOf(t.Output.Advertised()) }

// reportRepairs says in the response what was decoded. A question and a task are no
// results: the calls that follow them are of what was decoded.
func (c *toolCall) reportRepairs() {
	if c.resp.Err == nil && c.resp.ToolOutcome().GetResult() != nil {
		c.resp.Repaired = c.repair.places
	}
}

// traceQueue adds the wait for a slot that began at start, and how long it was.
func (c *toolCall) traceQueue(start time.Time) {
	if c.place.Waited > 0 && c.req.Span.IsRecording() {
		c.req.Span.Set(telemetry.Int(telemetry.QueueWait, c.place.Waited.Microseconds()))
	}
	c.req.Span.Step(telemetry.StepQueue, start)
}

// requireTaskSupport refuses a call that could only become a task, where the
// caller's client has no tasks.
func requireTaskSupport(c *toolCall) *errmap.Error {
	if c.tool.TaskSupport != catalog.TaskRequired || c.req.Context.GetCapabilities().GetTasks() {
		return nil
	}
	return missingTasks(c.tool.Name)
}

// missingTasks is the error for a client without the tasks extension.
func missingTasks(tool string) *errmap.Error {
	return errmap.MissingCapability(tool, &outriggerv1.ClientCapabilities{Tasks: true})
}

// timely is a context that also ends at a time. It has no timer, because a check does not wait: it looks at the context as it
// goes on. So the small ones, which are nearly all, pay for reading the clock and no more.
type timely struct {
	context.Context //nolint:containedctx // it is one

	until time.Time
}

func (t *timely) Deadline() (time.Time, bool) {
	if at, ok := t.Context.Deadline(); ok && at.Before(t.until) {
		return at, true
	}
	return t.until, true
}

func (t *timely) Err() error {
	if err := t.Context.Err(); err != nil || time.Now().Before(t.until) {
		return err //nolint:wrapcheck // a context's error is what it is
	}
	return context.DeadlineExceeded
}

const (
	plainCall     kind = iota // an RPC with one message each way, of a caller who asks for nothing more
	unaryCall                 // the same for a caller who has a field mask, or may be asked for consent
	pagedCall                 // an RPC that lists in pages
	streamCall                // an RPC that takes or answers with a stream, called as a tool
	taskCall                  // an RPC that may run on as a task
	operationCall             // an RPC that answers with a long-running operation
	continuation              // a tool that continues an operation
	nativeCall                // a tool of a backend that implements outrigger.v1.ToolService
	compactCall               // a tool of a compact catalog
	programCall               // the tool that runs programs
	previewCall               // a call whose caller wants its preview alone
	exchangeCall              // a streaming RPC, called as such
	kinds
)

// claimed is a call whose answer is to be kept.
type claimed struct {
	key      string
	revision uint64
	record   *statev1.AnswerRecord
}

// approvedCall is a call that was taken to run, or waits to be.
type approvedCall struct {
	service *approval.Service
	claim   *approval.Claim
	// await, if set, waits for the approval before the call runs.
	await func(ctx context.Context, report func(string)) *errmap.Error
}

// hasWaited reports whether the call waited as a task, which has no one to ask.
func (a *approvedCall) hasWaited() bool { return a != nil && a.await != nil }

// wait waits until the call may run. Most calls do not wait.
func (a *approvedCall) wait(ctx context.Context, report func(string)) *errmap.Error {
	if !a.hasWaited() {
		return nil
	}
	return a.await(ctx, report)
}

// end notes that the call has ended: with an error of calls that were not sent, it may be made again. Of one that another replica goes
// on with, it notes nothing.
func (a *approvedCall) end(ctx context.Context, err *errmap.Error) {
	if a == nil || a.claim == nil {
		return
	}
	if cause := context.Cause(ctx); errors.Is(cause, task.ErrClosed) || errors.Is(cause, task.ErrTaken) {
		return
	}
	a.service.Finish(ctx, a.claim, ctx.Err() == nil && wasNotSent(err))
	a.claim = nil
}

// wasNotSent reports whether an error is that of a call that did not reach the backend. What a backend says itself is no such error: it
// may be a sidecar that was stopped while the call ran.
func wasNotSent(err *errmap.Error) bool {
	if err == nil || err.Code != errmap.Unavailable {
		return false
	}
	said := new(backend.Error)
	return !errors.As(err, &said) || said.Kind != backend.KindStatus
}

// requestIDNames are the names of the field with the id in JSON.
func (c *toolCall) requestIDNames() [2]string {
	return [2]string{c.tool.RequestID.JSONName(), string(c.tool.RequestID.Name())}
}

// withoutRequestID are the arguments of a call without the id of its request.
func (c *toolCall) withoutRequestID() []byte {
	names := c.requestIDNames()
	return content.Without(c.arguments(), names[:]...)
}

// looksLikePreview reports whether the arguments of a call set the field that makes it a preview. What is sent decides.
func (c *toolCall) looksLikePreview() bool {
	p := c.tool.Preview
	if p == nil || p.Field == nil {
		return false
	}
	if c.req.Arguments.Encoding != EncodingJSON {
		return p.Is(c.req.Arguments.Bytes)
	}
	for _, name := range [...]string{p.Field.JSONName(), string(p.Field.Name())} {
		if value, ok := jsontext.Lookup(c.arguments(), name); ok && string(value) == "true" {
			return true
		}
	}
	return false
}

// state is what a caller brings back between the rounds of one request: what
// the backend wants to see again, and how far the sidecar's own question is.
type state struct {
	// asked: this round answers the sidecar's own question. confirmed: an
	// earlier round has.
	asked, confirmed bool
	// backend is the backend's own state, which may be empty.
	backend []byte
	// asker is the span of the request that asked; not valid without tracing.
	asker telemetry.Context
	// requestID is the id that the sidecar gave the request; empty where it gave none.
	requestID string
	// approval is the id of the approval that an earlier round used, which is for this one too; empty where there was none.
	approval string
}

// requestDigest ties a state to a request: its operation, what it names, and its arguments, which a client may write in another
// order when it repeats them.
func requestDigest(operation Op, name string, arguments []byte) [32]byte {
	return keys.Digest(keys.Label(operation.String()), []byte(name), content.SortedJSON(arguments))
}

// emptyObject represents arguments that were not sent.
var emptyObject = content.SortedJSON(nil)
