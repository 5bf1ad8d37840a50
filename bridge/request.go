// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
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
	// messages those are stands beside each.
	OpListResources // ListResourcesRequest, ListResourcesResponse
	OpListTemplates // ListResourceTemplatesRequest, ListResourceTemplatesResponse
	OpReadResource  // ReadResourceRequest, ResourceOutcome
	OpListPrompts   // ListPromptsRequest, ListPromptsResponse
	OpGetPrompt     // GetPromptRequest, PromptOutcome
	OpComplete      // CompleteRequest, CompleteResponse
	OpGetTask       // GetTaskRequest, Task
	OpUpdateTask    // UpdateTaskRequest, UpdateTaskResponse
	OpCancelTask    // CancelTaskRequest, CancelTaskResponse
	// OpOpen is the first thing that a legacy client sends. It waits for the
	// catalog, to say what is offered, but goes on without one.
	OpOpen
	// OpListen streams changes to Request.Changes until somebody ends it. Its
	// parameter is a ChangeFilter; there is no answer.
	OpListen
)

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
	Encoding Encoding
	Bytes    []byte
	// Repaired tells that arguments stood in a JSON string.
	Repaired bool

	// pooled is set where Bytes are of the bridge's buffers.
	pooled bool
}

// Request is one request, as its edge has read it. It does not change once it has
// begun: what is read or answered later is in a copy.
type Request struct {
	Op Op
	// Origin is the scope in which ID is unique.
	Origin correlate.Origin
	// ID is zero where the caller's protocol has no ids (unary Connect calls).
	ID jsonrpc.ID
	// Tool is the tool's name as the caller wrote it, for OpCall and OpGet.
	Tool string
	// Names is the form of names that the caller knows.
	Names NameForm
	// Procedure ("/pkg.Service/Method") names the tool instead of Tool in a
	// typed pass-through.
	Procedure string
	// Version is the caller's wish, empty for any.
	Version string
	// Arguments of an OpCall. The result comes back in the same encoding.
	Arguments Payload
	// Timeout is what the caller allows for the call; zero leaves the tool's
	// own and the default. The shortest of the three wins.
	Timeout time.Duration
	// Header holds the caller's metadata; only what the allow-list admits goes
	// on to the backend.
	Header http.Header
	// Paced is set where the caller waits by itself: then a call waits for a place
	// as long as it takes, and is not refused because many calls wait.
	Paced bool
	// Caller is who asks, for the policy: what [CallerOf] finds out, or "stdio".
	// What a caller may do is said by the identity in the context (package access).
	Caller string
	// Transport and Route say where the request came in, for logs.
	Transport, Route string

	// Context says for whom the request is made and what their client can do;
	// nil where the caller's protocol knows nothing of that, or the Envelope holds
	// it.
	Context *outriggerv1.RequestContext
	// Meta is the caller's MCP _meta, a JSON object, for a backend that wants it.
	Meta []byte
	// InputResponses and RequestState repeat an OpCall after an InputRequired.
	// The state is sealed, as the caller got it.
	InputResponses map[string]*outriggerv1.InputResponse
	RequestState   []byte
	// Repeated is set where the Envelope holds these two.
	Repeated bool
	// Events takes what happens during an OpCall, in order and never at the same
	// time; nil wants nothing. It is not called after Run has returned.
	Events func(*outriggerv1.ToolEvent)
	// AskClient puts questions to the caller's client while the request waits; nil
	// where that cannot be done, and then the questions are the answer.
	AskClient func(ctx context.Context, in *outriggerv1.InputRequired) (map[string]*outriggerv1.InputResponse, *errmap.Error)
	// HasPlace: the edge has called [Bridge.OpenStream] for this OpListen.
	HasPlace bool
	// Changes takes the notifications of an OpListen in the same way; its error
	// ends the stream.
	Changes func(*outriggerv1.Notification) error
	// Message holds the parameters of the operations that say so.
	Message proto.Message
	// Cursor is where an OpList goes on; nil starts it. PageSize is how many
	// tools it lists at most, within the sidecar's own bound; zero lists all.
	Cursor   *string
	PageSize int

	// Envelope is the message that the request was read from, where its edge reads
	// parts of it on demand; nil where all of it is here.
	Envelope Envelope
	// Pointer returns the JSON Pointer of a field of outrigger.v1 in the words in
	// which the caller wrote the request. Nil stands for the fields' own names.
	Pointer func(field string) string

	// meter measures the request; nil for what runs on behind one.
	meter *meter
	// of is the request that this one is a copy of; nil for one that began.
	of *Request
	// isWhole is set in a copy that has what the Envelope holds.
	isWhole bool
}

// Envelope is the message that a request was read from, for edges that read parts of it
// on demand. The goroutine that runs the request calls its methods.
type Envelope interface {
	// Rest reads what only few requests need; nil where there is nothing.
	Rest() (*Rest, *errmap.Error)
	// Check is asked about a call as soon as its tool is known: what else the
	// message says of the arguments has to agree with them.
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

// forget frees the memory of what nothing needs any more once the arguments are
// wire bytes: the backend may take its time, and many requests wait. It is the one
// change to requests that have begun.
func (r *Request) forget() {
	if r.Envelope != nil {
		r.Envelope.Forget()
	}
	for ; r != nil; r = r.of {
		r.Arguments.Bytes, r.InputResponses, r.RequestState, r.Meta, r.Message = nil, nil, nil, nil, nil
	}
}

// complete returns the request with what its Envelope holds, which is read on the
// first need of Context, Meta, InputResponses or RequestState.
func (r *Request) complete() (*Request, *errmap.Error) {
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

// pointer is the JSON Pointer of a field, as the caller wrote the request.
func (r *Request) pointer(field string) string {
	if r.Pointer != nil {
		return r.Pointer(field)
	}
	return "/" + field
}

// name is what a request is called where people read of it.
func (r *Request) name() string {
	if r.Tool != "" {
		return r.Tool
	}
	return r.Procedure
}

// Response is the outcome of one request. Which fields are set depends on the
// operation.
type Response struct {
	// Err is the canonical error, nil on success.
	Err *errmap.Error
	// Tool is the resolved tool, nil where none was named or found.
	Tool *catalog.Tool
	// Result of a successful OpCall, in the encoding of the request, where the
	// result is the answer of a plain RPC and nothing else.
	Result Payload
	// Truncated tells that Result holds only the beginning of what there was.
	Truncated bool
	// Explanation says in words why Result is not all there was; empty where it is.
	Explanation string
	// Repaired says which arguments were decoded from strings, as JSON Pointers into
	// the arguments, for a result of an OpCall; "" are the arguments as a whole.
	Repaired []string
	// Outcome of a successful OpCall that is more than that: nil where Result
	// says it all.
	Outcome *outriggerv1.ToolOutcome
	// Message is the answer of the operations that say so.
	Message proto.Message
	// First and Next bound the page of an OpList: tools First up to, not
	// including, Next of the catalog; NextCursor is where to go on, nil at the
	// end.
	First, Next int
	NextCursor  *string
	// Catalog is the snapshot that answered OpList, OpGet, OpServer and OpOpen;
	// nil for OpOpen while no catalog has been loaded.
	Catalog *catalog.Catalog
	// Header and Trailer are the backend's metadata that the allow-list
	// admits. Either may be nil.
	Header, Trailer http.Header
	// Silent means that the caller cancelled: no reply may be written.
	Silent bool

	// who asked, where that decides about the answer of OpList and OpServer; nil
	// without authentication.
	who *access.Identity
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
		return notPermitted(r.who, "this resource")
	}
	return nil
}

// About returns what an edge needs to show the error of the response. The id is that of
// the request, as it came; nil if there is none.
func (r *Response) About(id []byte) errmap.About {
	return errmap.About{RequestID: id, ToolCall: r.Tool != nil, Idempotent: isIdempotent(r.Tool)}
}

// isIdempotent reports whether a second run changes nothing more. A tool that
// only reads is, unless it says otherwise.
func isIdempotent(t *catalog.Tool) bool {
	if t == nil {
		return false
	}
	if hint := t.Annotations.Idempotent; hint != nil {
		return *hint
	}
	return t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
}

// Operations returns the names of the operations for logs and metrics, indexed by [Op].
// The first is empty: it stands for messages that never became a request.
func Operations() []string {
	return []string{
		OpInvalid: "", OpCall: "call_tool", OpList: "list_tools", OpGet: "get_tool", OpServer: "describe", OpPing: "ping",
		OpListResources: "list_resources", OpListTemplates: "list_resource_templates", OpReadResource: "read_resource",
		OpListPrompts: "list_prompts", OpGetPrompt: "get_prompt", OpComplete: "complete",
		OpGetTask: "get_task", OpUpdateTask: "update_task", OpCancelTask: "cancel_task",
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
