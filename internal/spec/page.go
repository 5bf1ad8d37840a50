// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"encoding/json"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
)

// Options are the facts about a sidecar that a tool does not know. Zero ones are left out of the page.
type Options struct {
	// Timeout bounds a call of a tool that has no timeout of its own.
	Timeout time.Duration
	// Trust is the trust state, "untrusted" or "trusted".
	Trust string
	// Held reports whether the gate holds a tool back from callers that are not trusted; nil for one that holds back what
	// is marked destructive.
	Held func(t *catalog.Tool) bool
	// MaxMessageBytes, MaxResultBytes and MaxDepth are the limits on a request, a result and the nesting of arguments.
	MaxMessageBytes, MaxResultBytes, MaxDepth int
	// CallerRate and ToolRate are the calls a second that one caller may make, and all callers of one tool together.
	CallerRate, ToolRate float64
}

// Page is a tool's specification. Every section is always there.
type Page struct {
	Tool        string      `json:"tool"`
	Version     string      `json:"version"`
	Fingerprint string      `json:"fingerprint"`
	Purpose     Purpose     `json:"purpose"`
	Invocation  Invocation  `json:"invocation"`
	Input       Side        `json:"input"`
	Output      Side        `json:"output"`
	Errors      Errors      `json:"errors"`
	Idempotency Idempotency `json:"idempotency"`
	Examples    []Example   `json:"examples"`
	Security    Security    `json:"security"`
	// Missing is what is not documented, by section in their order.
	Missing []Gap `json:"missing"`
}

// Purpose says what the tool is for.
type Purpose struct {
	Title        string   `json:"title"`
	Description  string   `json:"description"`
	Module       string   `json:"module"`
	Tags         []string `json:"tags"`
	DeprecatedIn *string  `json:"deprecated_in"`
}

// Invocation says under which names it is called, and how.
type Invocation struct {
	// Canonical is the name everywhere, MCP the one that MCP shows, RPC the path of the method behind them.
	Canonical string `json:"canonical"`
	MCP       string `json:"mcp"`
	RPC       string `json:"rpc"`
	// RequestType and ResponseType are the full names of its messages.
	RequestType  string `json:"request_type"`
	ResponseType string `json:"response_type"`
	// ClientStreaming and ServerStreaming say whether the RPC takes or sends more than one message.
	ClientStreaming bool `json:"client_streaming"`
	ServerStreaming bool `json:"server_streaming"`
	// TaskSupport is "forbidden", "optional" or "required".
	TaskSupport string `json:"task_support"`
}

// Side is the input or the output.
type Side struct {
	// Fields are the members of the advertised schema's root, in their order.
	Fields []Field `json:"fields"`
	// Schema is what clients see, Canonical what is enforced.
	Schema    json.RawMessage `json:"schema"`
	Canonical json.RawMessage `json:"canonical_schema"`
}

// Field is one member.
type Field struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    bool   `json:"required"`
	Description string `json:"description"`
}

// Errors are what a call may be answered with instead of a result.
type Errors struct {
	// Canonical are the sidecar's, Own what the tool itself answers: both as the canonical table has them.
	Canonical []Failure `json:"canonical"`
	Own       []Failure `json:"own"`
}

// Failure is one way in which a call fails.
type Failure struct {
	// Code is the canonical code, or the status of the tool service for its own.
	Code      string `json:"code"`
	ErrorType string `json:"error_type"`
	HTTP      int    `json:"http"`
	JSONRPC   int    `json:"json_rpc"`
	// Retryable says whether the same call of this tool may be sent again.
	Retryable bool   `json:"retryable"`
	When      string `json:"when"`
}

// Idempotency says what a second call does.
type Idempotency struct {
	// Level is "no_side_effects", "idempotent", "not_idempotent" or "unknown".
	Level string `json:"level"`
	Text  string `json:"text"`
}

// Example is a call to learn from.
type Example = catalog.Example

// Security says who may call it, what it may do, and what bounds it.
type Security struct {
	// Destructive is the mark that makes the gate hold it back; Trust what a caller needs, TrustNow what the sidecar is
	// set to.
	Destructive bool   `json:"destructive"`
	Trust       string `json:"trust_needed"`
	TrustNow    string `json:"trust_now,omitempty"`
	// Hints are MCP's annotations as clients read them.
	Hints []Hint `json:"hints"`
	// Limits bound a call.
	Limits []Limit `json:"limits"`
	// Sensitive are the fields that are marked debug_redact, which logs and records should not show.
	Sensitive []string `json:"sensitive_fields"`
}

// Hint is one annotation. Declared is false where the value is MCP's default.
type Hint struct {
	Name     string `json:"name"`
	Value    bool   `json:"value"`
	Declared bool   `json:"declared"`
}

// Limit is one bound, with its unit.
type Limit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Gap is something that is missing, with the way to add it.
type Gap struct {
	Section string `json:"section"`
	Text    string `json:"text"`
}

// New writes the page of a tool. It keeps nothing of what it is given, except the schemas' bytes.
func New(t *catalog.Tool, o Options) *Page {
	p := &Page{
		Tool: t.Name, Version: t.Version, Fingerprint: t.Fingerprint(),
		Purpose: Purpose{Title: t.Title, Description: t.Description, Module: t.Metadata.Module, Tags: nonNil(t.Tags)},
		Invocation: Invocation{
			Canonical: t.Name, MCP: t.MCPName, RPC: t.Method.Procedure,
			RequestType:     string(t.Method.Descriptor.Input().FullName()),
			ResponseType:    string(t.Method.Descriptor.Output().FullName()),
			ClientStreaming: t.Method.ClientStreaming, ServerStreaming: t.Method.ServerStreaming,
			TaskSupport: t.TaskSupport,
		},
		Input:       sideOf(t.Input),
		Output:      sideOf(t.Output),
		Errors:      errorsOf(t, o),
		Idempotency: idempotencyOf(t),
		Examples:    nonNil(t.Examples),
		Security:    securityOf(t, o),
	}
	if since := t.Metadata.DeprecatedIn; since != "" {
		p.Purpose.DeprecatedIn = &since
	}
	p.Missing = gaps(t, p)
	return p
}

// nonNil makes an empty list of none, which JSON then shows as [].
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
