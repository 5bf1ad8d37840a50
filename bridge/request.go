// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"net/http"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
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
	// Caller is who asks, for the policy: until callers have identities it is
	// what [CallerAddress] makes of the peer's address, or "stdio".
	Caller string
	// Transport and Route say where the request came in, for logs.
	Transport, Route string
	// enveloped is set where the request was the params of a JSON-RPC message:
	// then violations point into params, else at a field of outrigger.v1.
	enveloped bool
}

// member is the JSON Pointer of a member of the request, as its caller wrote
// the request.
func (r *Request) member(name string) string {
	if r.enveloped {
		return "/params/" + name
	}
	return "/" + name
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
	// Result of a successful OpCall, in the encoding of the request.
	Result Payload
	// Catalog is the snapshot that answered OpList, OpGet and OpServer; nil
	// for OpServer while no catalog has been loaded.
	Catalog *catalog.Catalog
	// Header and Trailer are the backend's metadata that the allow-list
	// admits. Either may be nil.
	Header, Trailer http.Header
	// Silent means that the caller cancelled: no reply may be written.
	Silent bool
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
