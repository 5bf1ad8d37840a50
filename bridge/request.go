// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge/access"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/bytepool"
)

// Op is what a request asks for, in no dialect's words.
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

// Encoding says how the bytes of a [Payload] are encoded.
type Encoding uint8

// The encodings. The zero value is JSON, which every dialect but the typed
// pass-through uses.
const (
	EncodingJSON Encoding = iota
	EncodingProtobuf
)

// NameForm is the form of tool names in a request.
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

// Payload is a message as bytes: arguments on the way in, a result on the way
// out. Nil JSON bytes mean "no arguments", which reads as the empty object.
type Payload struct {
	Encoding Encoding
	Bytes    []byte
	// Repaired tells that arguments stood in a JSON string.
	Repaired bool

	// lent is set where Bytes are of the bridge's buffers.
	lent bool
}

// release gives the bytes back, after which there are none.
func (p *Payload) release(to *bytepool.Pool) {
	if p.lent {
		to.Put(p.Bytes)
		p.Bytes, p.lent = nil, false
	}
}

// Request is one request after its edge has read it. Its fields are facts; the
// pipeline never writes them back.
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
	// Caller is who asks, for the policy: what [CallerOf] finds out, or "stdio".
	// What a caller may do is said by the identity in the context (package access).
	Caller string
	// Transport and Route say where the request came in, for logs.
	Transport, Route string

	// Context says for whom the request is made and what their client can do;
	// nil where the caller's protocol knows nothing of that. A JSON-RPC message
	// leaves it nil: it is read from the message when it is needed.
	Context *outriggerv1.RequestContext
	// Meta is the caller's MCP _meta, a JSON object, for a backend that wants it.
	Meta []byte
	// InputResponses and RequestState repeat an OpCall after an InputRequired.
	// The state is sealed, as the caller got it.
	InputResponses map[string]*outriggerv1.InputResponse
	RequestState   []byte
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

	// enveloped is set where the request was the params of a JSON-RPC message:
	// then violations point into params, else at a field of outrigger.v1.
	enveloped bool
	// paced is set where the caller waits by itself, see [Inbound].
	paced bool
	// mirrored is set where HTTP headers have to repeat arguments.
	mirrored bool
	// repeated is set where the message brings something back from an earlier
	// round.
	repeated bool
	// meter measures the request; nil for what runs on behind one.
	meter *meter
	// rest reads from the message what most requests do not need; nil where
	// there is no message.
	rest lazyReader
	// message is what the request was read from; nil where there is no message.
	message forgetter
}

// forgetter lets go of the bytes of a message that nothing more is to be read
// from.
type forgetter interface{ forget() }

// lazyReader reads, on first need, the parts of a message that only few
// requests need, into the fields Context, Meta, InputResponses and RequestState.
type lazyReader interface {
	readRest(r *Request) *errmap.Error
}

// complete reads what has not been read yet. It must come before the first use
// of Context, Meta, InputResponses and RequestState.
func (r *Request) complete() *errmap.Error {
	if r.rest == nil {
		return nil
	}
	rest := r.rest
	r.rest = nil
	return rest.readRest(r)
}

// member is the JSON Pointer of a member of the request, as its caller wrote
// the request.
func (r *Request) member(name string) string {
	if r.enveloped {
		return "/params/" + name
	}
	return "/" + name
}

// stateMember is the JSON Pointer of the request state.
func (r *Request) stateMember() string {
	if r.enveloped {
		return "/params/requestState"
	}
	return "/request_state"
}

// nameMember is the member that named the tool.
func (r *Request) nameMember() string {
	if r.enveloped && r.Names != NamesCanonicalOnly {
		return "name"
	}
	return "tool_name"
}

// Response is the outcome of one request.
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

// About says what the response's error is the answer to, for the words of an
// edge. id is the request's id as it came, nil where there is none.
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
