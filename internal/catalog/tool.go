// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
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

// Tool is a callable method, with everything that callers and the pipeline need to know about it. It is immutable.
type Tool struct {
	// Name is the canonical name ("route_guide.get_feature"). MCPName is the name that MCP callers see.
	Name, MCPName string
	// Alias is the alternative canonical name, with or without the service's Service suffix. Callers, policies and globs may
	// use it too, also in its MCP form. It is empty if there is none or another tool has that name.
	Alias string
	// Native means that a backend that implements the tool API declared the tool and runs it itself, under NativeName. In
	// and Out are then nil: arguments and results stay JSON.
	Native     bool
	NativeName string
	// Title is for people. Description helps a model choose the tool. Neither is ever empty.
	Title, Description string
	// Undescribed means that nothing describes the method: Description was generated from its name and its messages.
	Undescribed bool
	// Method is the RPC behind the tool; never nil. For native tools, it is CallTool of the tool API.
	Method *Method
	// Input and Output are the schemas of request and response; never nil. If the tool has no output schema (see HasOutput),
	// both forms of Output are nil. A method that answers with a stream has the schema of {"items": [...], "truncated": ...},
	// where each item is one response as Out writes it. A method that takes a stream has the input {"items": [...]}, where each
	// item is one request as In reads it; if the options name a stream header, also "header".
	Input, Output *schema.Lazy
	// In turns arguments into the bytes of the request. Out turns the bytes of the response into JSON. For a method that takes
	// a stream, they are of one message of it.
	In, Out *transcode.Message
	// Stream reads the arguments of a method that takes a stream of requests, {"items": [...]}, with In for each message. It
	// is nil for all other tools.
	Stream *transcode.Stream
	// OutputNotObject is set if the response's ProtoJSON form is not an object (a Timestamp, a StringValue, a ListValue).
	// Callers that accept only objects must get it wrapped as {"value": ...}. If the request is such a message, Input and In
	// already accept the wrapped form. It is not set for a stream, because its responses are items.
	OutputNotObject bool
	// Words are the descriptions of arguments that the overlay has, by full names of fields. Do not modify them.
	Words map[protoreflect.FullName]string
	// HTTPBody is set for a method that responds with google.api.HttpBody, or a stream of them. Its result is a document
	// with a media type, and has no output schema.
	HTTPBody bool
	// BytesField is the number of the only field of the responses of a server-streaming method, if that is of type bytes,
	// else 0. Its result is the document that they are the parts of, and has no output schema.
	BytesField protowire.Number
	// HeaderParams are the arguments that an MCP client repeats in headers, sorted by pointer. Only declared schemas can
	// ask for them.
	HeaderParams []HeaderParam
	// Declared holds the validators of schemas declared by an overlay entry, a registration or a native backend. Input and
	// Output are then the declared schemas. It is nil if all schemas are derived.
	Declared *Declared
	// Registered means that the tool comes from a registration: a second name for an RPC that already has a tool.
	Registered bool
	// Base is the RPC's own tool, for a registered one: what a policy says of it applies under every name. Else nil.
	Base        *Tool
	Annotations Annotations
	// Version is a semantic version.
	Version  string
	Metadata Metadata
	// Timeout bounds one call; 0 means the sidecar's setting.
	Timeout time.Duration
	// Verb is the verb of its name for which the tool is shown as destructive; empty if that is declared, or not so.
	Verb string
	// Hidden tools are not offered. Lookup and ByProcedure do not find them, and Tools does not list them.
	Hidden bool
	// Examples are sample calls whose arguments the input schema accepts.
	Examples []Example
	// Errors are the statuses that the tool declares, in declaration order.
	Errors []ToolError
	// Tags are words for grouping.
	Tags []string
	// Scopes are the OAuth scopes that the tool's options ask for; nil if they say nothing.
	Scopes []string
	// Icons are images for a user interface. Do not modify them.
	Icons []*outriggerv1.Icon
	// Meta is MCP's _meta of the tool as a native backend declared it, a compact JSON object; nil if there is none.
	Meta json.RawMessage
	// TaskSupport is "forbidden", "optional" or "required". TaskAfter is the time after which a call becomes a task.
	TaskSupport string
	// TaskUnsaid means that task support is unset: the sidecar's own setting may let calls become tasks.
	TaskUnsaid bool
	TaskAfter  time.Duration
	// Operation is set for a method that starts a long-running operation; else nil. Out is then of the RPC's own response, the
	// operation, and Output of what the operation ends with.
	Operation *Operation
	// Paging is set for a method that lists in pages (AIP-158); else nil.
	Paging *Paging
	// Continues is set for a tool of the sidecar's own by which callers go on with operations. Native is then set too, but
	// no backend runs the tool.
	Continues Continuation
	// Compact is set for the tools that stand for a whole catalog. Native is then set too, but no backend runs the tool.
	Compact Compact
	// StreamTime is how long a call of a streaming RPC collects messages; 0 means the default, which follows the deadline.
	StreamTime time.Duration
	// ResultBudget is the size of a result for a model above which it is cut, in bytes; 0 cuts none. Nil means the sidecar's
	// setting.
	ResultBudget *int
	// Watch is the URI template of the resource that has the newest message of the stream; empty if there is none.
	Watch string

	print *fingerprint
	// isPlain tells that the tool was made of its method alone: no overlay entry, no declared name, nothing that is odd. The
	// next catalog may take it over. alias is Alias as it was derived.
	isPlain bool
	alias   string
	// isNamed tells that an option or the overlay declares the name.
	isNamed bool
	// isTyped tells that the tool is for typed callers alone.
	isTyped bool
	// id is "service/name" of a native tool, by which globs choose it and errors name it.
	id string
	// behind is the procedure that a sidecar runs for a native tool; empty where it is not said.
	behind string
	// sealed is the SHA-256 over all that callers can see of the tool, kept because every new tool of a catalog needs
	// those of all others. Digest, which clients can compute too, covers less.
	sealed [sha256.Size]byte
}

// HasOutput reports whether the tool has an output schema to show or check.
func (t *Tool) HasOutput() bool { return t.Output.IsSet() }

// IsDocument reports whether a result is a document with a media type, and no data in JSON.
func (t *Tool) IsDocument() bool { return t.HTTPBody || t.BytesField != 0 }

// Streams reports whether the method answers with a stream, so that a result collects many messages as items.
func (t *Tool) Streams() bool { return t.Method.ServerStreaming }

// TakesStream reports whether the method takes a stream of requests, so that the arguments hold many messages as items.
func (t *Tool) TakesStream() bool { return t.Stream != nil }

// Subject names the tool to people and globs: "pkg.Service/Method", or "service/name" of a native tool.
func (t *Tool) Subject() string {
	if t.Native {
		return t.id
	}
	return strings.TrimPrefix(t.Method.Procedure, "/")
}

// Method is the RPC behind a tool. It is immutable.
type Method struct {
	// Procedure is the path of the RPC, "/pkg.Service/Method".
	Procedure string
	// Service is the full name of the service.
	Service string
	// Source is the name of the source that offers the service.
	Source                           string
	Descriptor                       protoreflect.MethodDescriptor
	ClientStreaming, ServerStreaming bool
	Idempotency                      Idempotency
}

// Idempotency is the effect of repeating a call of a method.
type Idempotency uint8

const (
	// IdempotencyUnknown is the level of a method that declares none.
	IdempotencyUnknown Idempotency = iota
	// NoSideEffects is the level of methods that change nothing.
	NoSideEffects
	// Idempotent is the level of methods where a repeated call has no further effect.
	Idempotent
)

// Annotations are MCP's hints. A nil hint is unset and has MCP's default.
type Annotations struct {
	ReadOnly    *bool `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  *bool `json:"idempotentHint,omitempty"`
	OpenWorld   *bool `json:"openWorldHint,omitempty"`
}

// Metadata is information about a tool for operators.
type Metadata struct {
	// Module is the part of the system that the tool belongs to; the default is the service's full name.
	Module string `json:"module"`
	// Destructive is set if the tool is marked as destructive (by an option, the overlay, a DELETE verb, a native backend's
	// hint, or the verb of its name). Callers see the mark, and the gate holds the tool back.
	Destructive bool `json:"destructive"`
	// DeprecatedIn is the version in which the tool was deprecated, "unknown" if the version is unknown, and empty if the
	// tool is not deprecated.
	DeprecatedIn string `json:"deprecated_in"`
	// CacheTTL is how long a client may cache the description.
	CacheTTL time.Duration `json:"cache_ttl"`
}

// Example is a sample call.
type Example struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Arguments   json.RawMessage `json:"arguments"`
	Data        json.RawMessage `json:"data,omitempty"`
	// Status is the status that the call fails with, such as "NOT_FOUND"; empty if it succeeds.
	Status string `json:"status,omitempty"`
}

// ToolError is a status that a tool declares.
type ToolError struct {
	// Status is the name of a google.rpc.Code, such as "NOT_FOUND".
	Status string
	// When explains in a sentence when the tool returns the status.
	When string
}

func inOrder(a, b *Tool) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Method.Procedure, b.Method.Procedure), cmp.Compare(a.id, b.id))
}

// markShown marks what is shown as destructive, so that hint and gate agree: by an option, by the overlay, by a DELETE
// verb, by a native backend, or by the verb of its name.
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

// IsIdempotent reports whether a second run changes nothing more. A tool that only reads is, unless it says otherwise; nil
// is not.
func (t *Tool) IsIdempotent() bool {
	if t == nil {
		return false
	}
	if hint := t.Annotations.Idempotent; hint != nil {
		return *hint
	}
	return t.Annotations.ReadOnly != nil && *t.Annotations.ReadOnly
}
