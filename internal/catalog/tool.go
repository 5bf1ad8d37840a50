// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

const (
	// defaultVersion is the version of a tool that names none, as the contract says.
	defaultVersion = "1.0.0"
	// defaultCacheTTL is how long a client may rely on a tool's description, as the contract says.
	defaultCacheTTL = 300 * time.Second
	// unknownVersion is when a tool was deprecated whose descriptor says only that it was.
	unknownVersion = "unknown"
)

// Tool is one callable thing: a method, and everything that callers and the pipeline need to know about it. Immutable.
type Tool struct {
	// Name is the canonical name ("route_guide.get_feature"), MCPName the one that MCP shows.
	Name, MCPName string
	// Alias is the other spelling of the canonical name, with the service's Service suffix or without it, which callers,
	// policies and globs may use as well, also in MCP's form. Empty where there is none or another tool has that name.
	Alias string
	// Native tells that a backend which speaks the tool API declared the tool and runs it itself, under NativeName. In
	// and Out are nil then: arguments and results stay JSON.
	Native     bool
	NativeName string
	// Title is for people, Description for a model to choose by; neither is ever empty.
	Title, Description string
	// Method is the RPC behind the tool; never nil. All native tools have CallTool of the tool API.
	Method *Method
	// Input and Output are the schemas of request and response. Neither is nil; where nothing is promised about the
	// output (see HasOutput), both forms of Output are. A method that answers with a stream has the schema of
	// {"items": [...], "truncated": ...}, where each item is one answer as Out writes it.
	Input, Output *schema.Lazy
	// In turns arguments into the request's bytes, Out the response's bytes into JSON.
	In, Out *transcode.Message
	// OutputNotObject is set where the response's ProtoJSON form is not an object (a Timestamp, a StringValue, a
	// ListValue), which callers that admit only objects must get wrapped as {"value": ...}. Where the request is such a
	// message, Input and In already take the wrapped form. A stream's answers are items, so it is not set there.
	OutputNotObject bool
	// HTTPBody is set for a unary method that answers with google.api.HttpBody: its result is a document with a media
	// type, and has no output schema.
	HTTPBody bool
	// HeaderParams are the arguments that an MCP client repeats in headers, sorted by pointer. Only schemas that somebody
	// declared ask for that.
	HeaderParams []HeaderParam
	// Declared holds the validators of schemas that an overlay entry, a registration or a native backend declared, which
	// Input and Output then are; nil where all is derived.
	Declared *Declared
	// Registered tells that the tool comes from a registration: a second name for an RPC that has a tool already.
	Registered  bool
	Annotations Annotations
	// Version is a semantic version.
	Version  string
	Metadata Metadata
	// Timeout bounds one call; 0 leaves it to the sidecar's setting.
	Timeout time.Duration
	// Hidden tools are not offered. Lookup and ByProcedure do not find them, and Tools does not list them.
	Hidden bool
	// Unlisted tools are not listed, but found: what asks for one by name hears why it cannot be called.
	Unlisted bool
	// Examples are calls to learn from, whose arguments the input schema accepts.
	Examples []Example
	// Errors are the statuses that the tool is declared to answer with, in the order of the declaration.
	Errors []ToolError
	// Tags are words to group by.
	Tags []string
	// Icons are pictures for a user interface. Not to be changed.
	Icons []*outriggerv1.Icon
	// Meta is MCP's _meta of the tool as a native backend declared it, a compact JSON object; nil where there is none.
	Meta json.RawMessage
	// TaskSupport is "forbidden", "optional" or "required"; TaskAfter is when a call becomes a task.
	TaskSupport string
	// TaskUnsaid tells that it is not set: the sidecar's own setting may let calls become tasks.
	TaskUnsaid bool
	TaskAfter  time.Duration
	// StreamTime is how long a call of a streaming RPC gathers messages; zero is the default, which goes by the deadline.
	StreamTime time.Duration

	print *fingerprint
	// isPlain tells that the tool was made of its method alone: no overlay entry, no declared name, nothing that is odd. The
	// next catalog may take it over. alias is Alias as it was derived.
	isPlain bool
	alias   string
	// isTyped tells that the tool is for typed callers alone.
	isTyped bool
	// id is "service/name" of a native tool, by which globs choose it and errors name it.
	id string
	// behind is the procedure that a sidecar runs for a native tool; empty where it is not said.
	behind string
	// digest is the SHA-256 over all that callers can see of the tool, kept because every new tool of a catalog needs
	// those of all others.
	digest [sha256.Size]byte
}

// HasOutput reports whether anything is promised about the output. Where it is false there is no output schema to show
// or to check.
func (t *Tool) HasOutput() bool { return t.Output.IsSet() }

// Streams reports whether one call is answered with many messages, which its result gathers as items. Methods that take
// a stream of requests are listed, and cannot be called.
func (t *Tool) Streams() bool { return t.Method.ServerStreaming && !t.Method.ClientStreaming }

// IsCallable reports whether a call can reach the method: it has one request, and one that takes a stream of them does
// not fit.
func (t *Tool) IsCallable() bool { return !t.Method.ClientStreaming }

// subject names the tool to people and globs: "pkg.Service/Method", or "service/name" of a native tool.
func (t *Tool) subject() string {
	if t.Native {
		return t.id
	}
	return strings.TrimPrefix(t.Method.Procedure, "/")
}

// Method is the RPC behind a tool. Immutable.
type Method struct {
	// Procedure is the RPC's path, "/pkg.Service/Method".
	Procedure string
	// Service is the service's full name.
	Service string
	// Source is the name of the source that offers the service.
	Source                           string
	Descriptor                       protoreflect.MethodDescriptor
	ClientStreaming, ServerStreaming bool
	Idempotency                      Idempotency
}

// Idempotency is what is known about calling a method again.
type Idempotency uint8

const (
	// IdempotencyUnknown is the level of a method that says nothing.
	IdempotencyUnknown Idempotency = iota
	// NoSideEffects is for methods that change nothing.
	NoSideEffects
	// Idempotent is for methods whose second call changes nothing more.
	Idempotent
)

// Annotations are MCP's hints. A nil one was not said, and has MCP's default.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Metadata is what an operator wants to know about a tool.
type Metadata struct {
	// Module is the part of the system that it belongs to: by default the service's full name.
	Module string `json:"module"`
	// Destructive is set where callers are shown that the tool is destructive (an option, the overlay, a DELETE verb, a
	// native backend's hint), and makes the gate hold it back.
	Destructive bool `json:"destructive"`
	// DeprecatedIn is the version in which the tool was deprecated, "unknown" where only the fact is known, and empty
	// where it was not.
	DeprecatedIn string `json:"deprecated_in"`
	// CacheTTL is how long a client may rely on the description.
	CacheTTL time.Duration `json:"cache_ttl"`
}

// Example is a call to learn from.
type Example struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Arguments   json.RawMessage `json:"arguments"`
	Data        json.RawMessage `json:"data,omitempty"`
	// Status is the status that the call fails with, such as "NOT_FOUND"; empty where it succeeds.
	Status string `json:"status,omitempty"`
}

// ToolError is a status that a tool is declared to answer with.
type ToolError struct {
	// Status is the name of a google.rpc.Code, such as "NOT_FOUND".
	Status string
	// When says in a sentence when the tool answers with it.
	When string
}

func inOrder(a, b *Tool) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Method.Procedure, b.Method.Procedure), cmp.Compare(a.id, b.id))
}

// markShown marks what is shown as destructive, so that hint and gate agree: by an option, by the overlay, by a DELETE
// verb, or by a native backend.
func (t *Tool) markShown() {
	if t.Annotations.Destructive != nil && *t.Annotations.Destructive {
		t.Metadata.Destructive = true
	}
}

// deprecation is the sentence that a deprecated tool's description begins with, where a cut cannot lose it.
func deprecation(since string) string {
	switch since {
	case "":
		return ""
	case unknownVersion:
		return "Deprecated.\n\n"
	}
	return "Deprecated since " + since + ".\n\n"
}

// over is the hints with those of base where nothing is said.
func (a Annotations) over(base Annotations) Annotations {
	return Annotations{
		ReadOnly:    cmp.Or(a.ReadOnly, base.ReadOnly),
		Destructive: cmp.Or(a.Destructive, base.Destructive),
		Idempotent:  cmp.Or(a.Idempotent, base.Idempotent),
		OpenWorld:   cmp.Or(a.OpenWorld, base.OpenWorld),
	}
}

// names are all names that the tool is found by.
func (t *Tool) names() []string {
	out := []string{t.Name, t.MCPName}
	if t.Alias != "" {
		out = append(out, t.Alias, MCPName(t.Alias))
	}
	return out
}
