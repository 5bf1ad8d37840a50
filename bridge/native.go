// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// natives calls tools of a backend that implements outrigger.v1.ToolService.
type natives struct {
	auditor *auditor
	rounds  *rounds
	sender  *sender
	decoder *decoder
}

// invokeNative has a native backend run the tool, under the shortest of the
// three deadlines.
func (n *natives) invokeNative(ctx context.Context, c *toolCall) *errmap.Error {
	err := n.call(ctx, c)
	c.completed(err)
	return err
}

func (n *natives) call(ctx context.Context, c *toolCall) *errmap.Error {
	ctx, cancel := context.WithTimeout(ctx, n.sender.deadlines.timeout(c))
	defer cancel()
	if err := requireTaskSupport(c); err != nil {
		return err
	}
	call := &outriggerv1.ToolCall{
		ToolName:       c.tool.NativeName,
		ArgumentsForm:  &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: c.arguments()},
		InputResponses: c.req.InputResponses,
		RequestState:   c.state.backend,
		Context:        c.req.Context,
	}
	if len(c.req.Meta) > 0 {
		call.MetaForm = &outriggerv1.ToolCall_MetaJson{MetaJson: c.req.Meta}
	}
	var server *backend.Affinity
	if c.req.Context.GetCapabilities().GetTasks() {
		server = new(backend.Affinity)
		ctx = backend.WithAffinity(ctx, server)
	}
	start := time.Now()
	outcome, err := n.callNative(ctx, c, call)
	c.req.waited(start)
	n.sender.keepMetadata(c)
	if err != nil {
		return err
	}
	return n.settleOutcome(ctx, c, outcome, server)
}

// nativeCallOf is what a native backend is sent of a request beside the arguments, as a task keeps it: the client cannot be asked by then,
// and has a task.
func nativeCallOf(req *Request) *statev1.NativeCall {
	out := &statev1.NativeCall{MetaJson: bytes.Clone(req.Meta)}
	if req.Context != nil {
		out.Context = proto.CloneOf(req.Context)
		out.Context.Capabilities = nil
	}
	return out
}

// callNative has a native backend run a tool, and repeats that where it may be
// and nothing has happened yet.
func (n *natives) callNative(ctx context.Context, c *toolCall, call *outriggerv1.ToolCall) (*outriggerv1.ToolOutcome, *errmap.Error) {
	at := n.sender.of(c)
	seen := n.sender.seenBy(ctx, c)
	header, risk, events := at.Metadata.OfCall(c.req.Header), n.sender.risk(c), seen.events(c.events(ctx))
	if events != nil {
		began, pass := false, events
		events = func(e *outriggerv1.ToolEvent) {
			began = true
			pass(e)
		}
		risk.Answered = func() bool { return began }
	}
	return guarded(ctx, at, c.req, risk, func(ctx context.Context) (*outriggerv1.ToolOutcome, *errmap.Error) {
		var outcome *outriggerv1.ToolOutcome
		var err *errmap.Error
		c.sent = true
		outcome, c.answer, err = at.Native.CallTool(ctx, call, header, events)
		if seen != nil {
			c.answer = seen.answer(c.answer)
			err = seen.failed(err)
		}
		if seen != nil && outcome.GetResult() != nil {
			err = seen.result(ctx, outcome.GetResult())
		}
		return outcome, err
	})
}

// settleOutcome checks what a native backend answered, and seals what the
// caller has to bring back. A task is at the server that answered.
func (n *natives) settleOutcome(ctx context.Context, c *toolCall, outcome *outriggerv1.ToolOutcome, server *backend.Affinity) *errmap.Error {
	if err := n.decoder.limit.check(proto.Size(outcome)); err != nil {
		return err
	}
	switch o := outcome.GetOutcome().(type) {
	case *outriggerv1.ToolOutcome_Result:
		if e := o.Result.GetError(); e != nil {
			e.ErrorMessage = errmap.Redact(e.GetErrorMessage())
		}
		if err := c.declaredData(ctx, o.Result); err != nil {
			return err
		}
		if err := n.decoder.reduceNative(ctx, c, o.Result); err != nil {
			return err
		}
	case *outriggerv1.ToolOutcome_InputRequired:
		if c.approved.hasWaited() {
			return errmap.Because(errmap.InvalidToolOutput, "the tool asks its caller something, and a task that waited for approval cannot; "+
				"call without the tasks capability, and come back with the handle once others approved")
		}
		if err := n.settleInput(c, o.InputRequired); err != nil {
			return err
		}
	case *outriggerv1.ToolOutcome_Task:
		if !c.req.Context.GetCapabilities().GetTasks() {
			return errmap.Because(errmap.InvalidToolOutput, "the tool returned a task, but the client does not support tasks")
		}
		if err := task.SealNative(n.rounds.sealer, c.req.Caller, o.Task, n.nativeResultOf(c, server.Used)); err != nil {
			return err
		}
		// It may have ended already.
		task.Redact(o.Task)
		n.settleTaskOf(ctx, c, o.Task)
	default:
		return errmap.Because(errmap.SerializationError, fmt.Sprintf("the tool returned an unknown outcome (%T)", o))
	}
	c.resp.Outcome = outcome
	return nil
}

// settleInput lets questions through that the caller's client can answer.
func (n *natives) settleInput(c *toolCall, in *outriggerv1.InputRequired) *errmap.Error {
	if err := askable(c.tool.Name, c.req.Context.GetCapabilities(), in); err != nil {
		return err
	}
	settled := state{confirmed: c.state.confirmed, approval: c.state.approval}
	if c.approved != nil && c.approved.claim != nil {
		settled.approval = c.approved.claim.ID
	}
	return n.rounds.sealInput(c.req, c.digest(), settled, in)
}

// askable refuses questions that the caller's client did not declare to answer.
func askable(name string, capabilities *outriggerv1.ClientCapabilities, in *outriggerv1.InputRequired) *errmap.Error {
	missing := content.MissingAny(capabilities, in.GetInputRequests())
	if missing == nil {
		return nil
	}
	return errmap.MissingCapability(name, missing)
}

// nativeResultOf is what the id of the task of a call has to say.
func (n *natives) nativeResultOf(c *toolCall, server string) *task.NativeResult {
	out := &task.NativeResult{Address: server, IsReduced: c.fit.mask != nil || n.decoder.budget(c) > 0}
	if out.IsReduced {
		out.Wanted = content.Wanted{Budget: c.req.Wanted.Budget, ForModel: c.req.Wanted.ForModel}
		if c.fit.mask != nil {
			out.Wanted.Fields = c.req.Wanted.Fields
		}
	}
	if out.IsReduced || n.sender.treats() || c.tool.HasOutput() || c.tool.Method.Backend != "" {
		out.Digest = task.ToolDigest(c.tool)
	}
	return out
}

// settleTask validates the result of a backend's task against the current output schema of its tool, like the result of a call, and
// reduces it as that call wanted it. An invalid result fails the task, like a task of the sidecar itself. If the tool is gone, nothing
// is done.
func (n *natives) settleTask(ctx context.Context, req *Request, cat *catalog.Catalog, of *task.NativeResult, t *outriggerv1.Task) {
	if t.GetResult() == nil && !n.sender.treats() {
		return
	}
	if tool := nativeTool(cat, of); tool != nil {
		c := fetched(req, tool, cat, of.Wanted, of.IsMaskLost)
		n.settleTaskOf(context.WithoutCancel(ctx), c, t) // a reader who leaves fails no task
		return
	}
	if n.sender.treats() {
		withholdTask(t)
	}
}

// shownError is an error that a backend answered a question about a task with, as the caller may see it.
func (n *natives) shownError(ctx context.Context, req *Request, cat *catalog.Catalog, of *task.NativeResult, err *errmap.Error) *errmap.Error {
	if err == nil || !n.sender.treats() {
		return err
	}
	if tool := nativeTool(cat, of); tool != nil {
		if seen := n.sender.seenBy(ctx, fetched(req, tool, cat, of.Wanted, of.IsMaskLost)); seen != nil {
			return seen.failed(err)
		}
	}
	return err
}

// nativeTool is the tool of a task; nil where the id of the task says none, or it is gone.
func nativeTool(cat *catalog.Catalog, of *task.NativeResult) *catalog.Tool {
	if len(of.Digest) == 0 {
		return nil
	}
	for _, tool := range cat.All() {
		if tool.Native && bytes.Equal(task.ToolDigest(tool), of.Digest) {
			return tool
		}
	}
	return nil
}

// settleTaskOf is settleTask where the tool is known.
func (n *natives) settleTaskOf(ctx context.Context, c *toolCall, t *outriggerv1.Task) {
	var failed *errmap.Error
	if seen := n.sender.seenBy(ctx, c); seen != nil {
		failed = seen.task(ctx, t)
	}
	if t.GetResult() == nil {
		return
	}
	if failed == nil {
		failed = c.declaredData(ctx, t.GetResult())
	}
	if failed == nil {
		failed = n.decoder.reduceNative(ctx, c, t.GetResult())
	}
	if failed != nil {
		failed.Tool = c.tool.Name
		task.Fail(t, failed)
	}
}

// backendOf is the backend that has a task, of several; empty for the only one, and where its tool is gone.
func (n *natives) backendOf(cat *catalog.Catalog, of *task.NativeResult) string {
	if len(n.sender.named) < 2 || of == nil || cat == nil {
		return ""
	}
	if tool := nativeTool(cat, of); tool != nil {
		return tool.Method.Backend
	}
	return ""
}

// ask puts one question to the native backend, under the shorter of the
// caller's deadline and the default.
func (n *natives) ask(ctx context.Context, req *Request, in proto.Message) *Response {
	return n.askAt(ctx, req, "", in)
}

// askAt is ask for one of several backends, by its name.
func (n *natives) askAt(ctx context.Context, req *Request, name string, in proto.Message) *Response {
	at := n.sender.at(name)
	timeout := n.sender.deadlines.most
	if req.Timeout > 0 {
		timeout = min(timeout, req.Timeout)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := n.auditor.recordAsk(ctx, req); err != nil {
		return &Response{Err: err}
	}
	message, answer, err := n.sender.askNative(ctx, at, req, in)
	resp := &Response{Err: err}
	if err == nil {
		resp.Message = message
	} else {
		locate(req, err)
	}
	if _, isHeld := at.Native.(OwnRules); answer != nil && isHeld {
		resp.Header, resp.Trailer = answer.Header, answer.Trailer
	} else if answer != nil {
		resp.Header = at.Metadata.Outbound(answer.Header)
		resp.Trailer = at.Metadata.Outbound(answer.Trailer)
	}
	if err == nil {
		if err := n.decoder.limit.check(proto.Size(message)); err != nil {
			return &Response{Err: err}
		}
	}
	return resp
}

// askRound puts a question that may take several rounds with the caller; see [Host.AskRound].
func (n *natives) askRound(ctx context.Context, req *Request, name string, arguments []byte, ask func(state []byte) proto.Message) *Response {
	digest := requestDigest(req.Op, name, arguments)
	opened, err := n.rounds.openState(ctx, req.Caller, digest, req.RequestState, req.At("request_state"))
	if err != nil {
		return &Response{Err: err}
	}
	req.Span.Link(opened.asker)
	resp := n.ask(ctx, req, ask(opened.backend))
	if in := resp.inputRequired(); resp.Err == nil && in != nil {
		if resp.Err = askable("", req.Context.GetCapabilities(), in); resp.Err == nil {
			resp.Err = n.rounds.sealInput(req, digest, state{}, in)
		}
	}
	return resp
}

// locate says where the request names what does not exist, in the words of its
// caller: a backend knows another form of it, or none.
func locate(req *Request, err *errmap.Error) {
	if !namesNothing(err) {
		return
	}
	v := &err.Violations[0]
	switch {
	case v.Keyword == keywordPrompt:
		v.Path = req.At("name")
	case v.Keyword == keywordReference && req.Pointer != nil:
		v.Path = req.At("ref")
	}
}

// askNative puts a question to a native backend. Those that change nothing there
// are repeated.
func (s *sender) askNative(ctx context.Context, at *Backend, req *Request, in proto.Message) (out proto.Message, answer *Answer, err *errmap.Error) {
	risk := backend.GuardedCall{Key: questionKey + string(in.ProtoReflect().Descriptor().Name()), Repeatable: true, Hurried: req.Timeout > 0 && req.Timeout < s.deadlines.most}
	switch in.(type) {
	case *outriggerv1.UpdateTaskRequest, *outriggerv1.CancelTaskRequest:
		risk.Repeatable = false
	}
	header := req.Header
	if _, isHeld := at.Native.(OwnRules); !isHeld {
		header = at.Metadata.Inbound(header)
	}
	out, err = guarded(ctx, at, req, risk, func(ctx context.Context) (out proto.Message, err *errmap.Error) {
		out, answer, err = at.Native.Ask(ctx, in, header)
		return out, err
	})
	return out, answer, err
}

// questionKey begins what the guard knows questions to a native backend by; no tool's
// name has a slash.
const questionKey = "/"
