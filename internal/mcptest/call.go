// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// Call is a request without a dialect, as the edges of Protobuf make them: a call of a tool, or a question.
type Call struct {
	// Tool and Version are as the caller writes them; Procedure is the RPC of a typed call.
	Tool, Version, Procedure string
	// Names is the form of names that the caller uses, canonical by default.
	Names NameForm
	// Arguments are JSON; "" is the empty object. Wire, where IsWire is set, is a Protobuf message instead.
	Arguments string
	Wire      []byte
	IsWire    bool
	// Buffer, where set, has the Arguments, and belongs to the caller, who may use it again.
	Buffer []byte
	// Items brings more items for a tool that takes a stream.
	Items func(context.Context) ([]byte, error)
	// Events takes the events of the call.
	Events func(*outriggerv1.ToolEvent)
	// Question, where set, is asked instead of a call: a ReadResourceRequest, a ListPromptsRequest and so on.
	Question proto.Message

	// ID is that of the request; "" is none. The zero Origin is that of requests without one.
	ID      string
	Origin  Origin
	Caller  string
	Header  http.Header
	Timeout time.Duration
	// Tasks: the client knows tasks.
	Tasks bool
	// Budget and Fields are what the caller wants of the result.
	Budget int
	Fields string
	// Preview: the caller wants the preview of the call.
	Preview bool
}

// NameForm is a form of the names of tools.
type NameForm = bridge.NameForm

// The forms of names that callers use.
const (
	NamesCanonical     = bridge.NamesCanonical
	NamesCanonicalOnly = bridge.NamesCanonicalOnly
	NamesMCP           = bridge.NamesMCP
)

// Outcome is what came of a [Call].
type Outcome struct {
	Err *errmap.Error
	// Result is the result of a call, or the answer to a question.
	Result []byte
	IsWire bool
	Answer proto.Message
	// Scope says who may share a list of tools.
	Scope outriggerv1.CacheScope
	// Outcome is all that a call came to.
	Outcome         *outriggerv1.ToolOutcome
	Truncated       bool
	Explanation     string
	Repaired        []string
	Header, Trailer http.Header
	// Rule and Effect are the policy rule that decided.
	Rule, Effect string
	// IsSilent: no reply may be written.
	IsSilent bool
}

// Handle makes a request and waits for its outcome.
func (r *Rig) Handle(ctx context.Context, c *Call) *Outcome { return r.BeginCall(ctx, c)() }

// BeginCall registers a request, and returns what runs it.
func (r *Rig) BeginCall(ctx context.Context, c *Call) func() *Outcome {
	flight := r.app.Bridge().Begin(ctx, c.request(ctx))
	return func() *Outcome { return outcomeOf(flight.Run()) }
}

// Cancel cancels a request that has begun.
func (r *Rig) Cancel(c *Call) bool {
	return r.app.Bridge().Flights().Cancel(c.Origin, jsonrpc.StringID(c.ID), "")
}

// ErrTaskCancelled is the cause with which the call behind a cancelled task ends.
var ErrTaskCancelled = task.ErrCancelled

// TakeOver runs a stored call of another replica to its end.
func (r *Rig) TakeOver(ctx context.Context, stored []byte) (*outriggerv1.ToolResult, error) {
	run, _, err := r.app.Bridge().ResumeTask(task.Record{Again: stored, Task: &outriggerv1.Task{}})
	if err != nil {
		return nil, err
	}
	result, failed := run(ctx, func(string) {})
	if failed != nil {
		return nil, failed
	}
	return result, nil
}

func (c *Call) request(ctx context.Context) *bridge.Request {
	req := &bridge.Request{
		Op: operation(c.Question), Origin: c.Origin, Tool: c.Tool, Names: c.Names, Version: c.Version, Procedure: c.Procedure, Caller: bridge.CallerOf(ctx, c.Caller), Header: c.Header,
		Timeout: c.Timeout, Items: c.Items, Events: c.Events, Message: c.Question, Wanted: content.Wanted{Budget: c.Budget, Fields: c.Fields, Preview: c.Preview},
	}
	switch {
	case c.IsWire:
		req.Arguments = bridge.Payload{Bytes: c.Wire, Encoding: bridge.EncodingProtobuf}
	case c.Buffer != nil:
		req.Arguments = bridge.Payload{Bytes: c.Buffer}
	case c.Arguments != "":
		req.Arguments = bridge.Payload{Bytes: []byte(c.Arguments)}
	}
	if c.ID != "" {
		req.ID = jsonrpc.StringID(c.ID)
	}
	if c.Tasks {
		req.Context = &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
	}
	return req
}

// operation is what a question asks for; nil is a call.
func operation(question proto.Message) bridge.Op {
	switch question.(type) {
	case nil:
		return bridge.OpCall
	case *outriggerv1.ListToolsRequest:
		return bridge.OpList
	case *outriggerv1.GetToolRequest:
		return bridge.OpGet
	case *outriggerv1.ListResourcesRequest:
		return bridge.OpListResources
	case *outriggerv1.ListResourceTemplatesRequest:
		return bridge.OpListTemplates
	case *outriggerv1.ReadResourceRequest:
		return bridge.OpReadResource
	case *outriggerv1.ListPromptsRequest:
		return bridge.OpListPrompts
	case *outriggerv1.GetPromptRequest:
		return bridge.OpGetPrompt
	case *outriggerv1.CompleteRequest:
		return bridge.OpComplete
	case *outriggerv1.GetTaskRequest:
		return bridge.OpGetTask
	case *outriggerv1.ListSkillsRequest:
		return bridge.OpListSkills
	case *outriggerv1.GetSkillRequest:
		return bridge.OpGetSkill
	}
	return bridge.OpInvalid
}

func outcomeOf(resp *bridge.Response) *Outcome {
	out := &Outcome{
		Err: resp.Err, Result: resp.Result.Bytes, IsWire: resp.Result.Encoding == bridge.EncodingProtobuf, Answer: resp.Message, Outcome: resp.ToolOutcome(),
		Truncated: resp.Truncated, Explanation: resp.Explanation, Repaired: resp.Repaired, Header: resp.Header, Trailer: resp.Trailer,
		Rule: resp.Decision.Rule, Effect: resp.Decision.Effect, IsSilent: resp.Silent,
	}
	if resp.Catalog != nil {
		out.Scope = resp.CacheScope()
	}
	return out
}
