// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Names of the rules that are no rule of a policy file.
const (
	ruleGate   = "destructive_gate"
	ruleGrants = "grants"
	// ruleTakeover is that of a call which another replica was allowed to begin.
	ruleTakeover = "takeover"
)

// invocation is what the audit trail says of a request while it runs. It is written by the
// goroutine that runs the request.
type invocation struct {
	// mu guards event, which the end of a drain reads; isOver: its line is written.
	mu     sync.Mutex
	isOver bool
	event  audit.Event
	// reached: the request is about to reach the backend, or has.
	reached bool
	// consented: the user agreed to the call.
	consented bool
	// input is what came as arguments, where payloads are recorded.
	input input
}

// isAudited holds for operations that leave a line whatever becomes of them: invocations
// of tools, resources and prompts, completions, and what is about a task. Others leave one
// where the caller was refused.
func (o Op) isAudited() bool {
	switch o {
	case OpCall, OpReadResource, OpGetPrompt, OpComplete, OpGetTask, OpUpdateTask, OpCancelTask:
		return true
	case OpInvalid, OpList, OpGet, OpServer, OpPing, OpListResources, OpListTemplates, OpListPrompts, OpListSkills, OpGetSkill, OpReadDirectory, OpOpen, OpListen:
	}
	return false
}

// invoked begins the line of a request; nil for operations that leave none.
func (b *Bridge) invoked(f *Flight) *invocation {
	if !f.req.Op.isAudited() {
		return nil
	}
	return b.newInvocation(f)
}

func (b *Bridge) newInvocation(f *Flight) *invocation {
	req := f.req
	inv := &invocation{event: audit.Event{
		ID: b.opts.Audit.NewID(), Caller: auditCaller(f.who, req.Peer, req.Caller), Route: req.Route, Era: req.Era,
		Edge:      stats.EdgeOf(req.Transport, req.Route, req.Procedure != "").String(),
		Operation: req.audited(), Target: req.target(), Trust: b.trustOf(f.who, req.Caller).String(),
		RequestID: req.ID.Raw(), TraceID: req.TraceID(),
		BytesIn: req.size(),
	}}
	if most, ok := b.opts.Audit.HasPayloads(); ok {
		inv.input = newInput(req, inv.event.BytesIn, most)
	}
	return inv
}

// auditCaller is a caller as the trail names it.
func auditCaller(who *access.Identity, peer, caller string) audit.Caller {
	out := audit.Caller{Address: CallerAddress(peer)}
	if who == nil {
		if peer == "" {
			out.Address = caller
		}
		return out
	}
	facts := who.Facts()
	out.Name, out.Subject, out.Issuer, out.ClientID, out.Source = who.Name(), facts.Subject, facts.Issuer, facts.ClientID, string(facts.Source)
	return out
}

// trustOf is the permission of a caller to run destructive tools.
func (b *Bridge) trustOf(who *access.Identity, caller string) policy.Trust {
	switch who.Trust() {
	case access.Trusted:
		return policy.Trusted
	case access.Untrusted:
		return policy.Untrusted
	case access.Unsaid:
	}
	if b.opts.Gate.Trusts(caller) {
		return policy.Trusted
	}
	return policy.Untrusted
}

// target is what a request names beside a tool that exists.
func (r *Request) target() string {
	switch m := r.Message.(type) {
	case *outriggerv1.ReadResourceRequest:
		return m.GetUri()
	case *outriggerv1.GetSkillRequest:
		return m.GetUri()
	case *outriggerv1.ReadDirectoryRequest:
		return m.GetUri()
	case *outriggerv1.GetPromptRequest:
		return m.GetName()
	case *outriggerv1.CompleteRequest:
		if prompt := m.GetPrompt(); prompt != "" {
			return prompt
		}
		return m.GetResource()
	case interface{ GetTaskId() string }:
		return m.GetTaskId()
	}
	return orElse(r.name(), targetOf(r.Message))
}

// found notes the tool of an invocation. The name that the caller wrote is of no interest
// any more.
func (i *invocation) found(tool *catalog.Tool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if tool == nil || i.event.Tool != "" {
		return
	}
	i.event.Tool, i.event.Version, i.event.Fingerprint = tool.Name, tool.Version, tool.Fingerprint()
	i.event.Destructive = tool.Metadata.Destructive || tool.Annotations.Destructive != nil && *tool.Annotations.Destructive
	i.input.tool = tool
	if i.event.Operation == OpCall.String() { // a read that runs an RPC keeps its URI
		i.event.Target = ""
	}
}

// recordCall writes the first line of a call that is about to reach the backend, where the
// trail has one. It refuses the call where that must be recorded and cannot be.
func (b *Bridge) recordCall(ctx context.Context, c *toolCall) *errmap.Error {
	inv := c.req.invocation()
	if inv == nil {
		return nil
	}
	inv.found(c.tool)
	inv.consented = inv.consented || c.blocked != nil && c.state.confirmed
	return b.recordBegin(ctx, c.req, inv)
}

// recordAsk is recordCall for a question to a native backend.
func (b *Bridge) recordAsk(ctx context.Context, req *Request) *errmap.Error {
	if inv := req.invocation(); inv != nil {
		return b.recordBegin(ctx, req, inv)
	}
	return nil
}

// invocation is what the trail says of a request, nil where it says nothing.
func (r *Request) invocation() *invocation {
	if r.meter == nil {
		return nil
	}
	return r.meter.invoked
}

func (b *Bridge) recordBegin(ctx context.Context, req *Request, inv *invocation) *errmap.Error {
	defer req.Span.Step(tracing.StepAudit, req.Span.Now())
	inv.mu.Lock()
	inv.event.Decision = audit.Allowed
	if inv.consented {
		inv.event.Decision, inv.event.Rule = audit.Consented, ruleGate
	}
	if b.opts.Audit.HasBegins() {
		b.addArguments(inv)
	}
	begun := inv.event
	inv.mu.Unlock()
	err := b.opts.Audit.Begin(ctx, &begun) // this may wait for the disk
	inv.mu.Lock()
	inv.event = begun
	inv.mu.Unlock()
	inv.reached = err == nil
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, err)
	}
	b.noted.Error("call refused: it cannot be recorded in the audit trail (--audit-required)",
		append(TraceFields(req.Span, req.Header), RequestID(req.ID), logkey.Error(err))...)
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
		errmap.Message("Tool service unavailable: the call cannot be recorded in the audit trail, so the backend was not called"))
}

// audit writes the line of a request that has ended.
func (f *Flight) audit(resp *Response, edge stats.Edge, code errmap.Code, took time.Duration) {
	b, inv := f.bridge, f.meter.invoked
	if !b.opts.Audit.IsOn() {
		return
	}
	if inv == nil {
		if code != errmap.PermissionDenied {
			return
		}
		inv = b.newInvocation(f)
	}
	inv.found(resp.Tool)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.isOver {
		return
	}
	inv.isOver = true
	e := &inv.event
	e.Edge, e.Duration = edge.String(), took
	e.Decision, e.Rule = inv.decision(f.req, resp, code)
	b.addArguments(inv)
	b.addOutcome(e, resp, code)
	b.opts.Audit.End(e)
}

// AuditUnfinished writes the lines of the invocations that have not ended although the grace
// period of a drain has, whatever they are doing. What becomes of them later leaves no line.
func (b *Bridge) AuditUnfinished() {
	for _, owner := range b.flights.Owners() {
		if f, ok := owner.(*Flight); ok {
			f.auditUnfinished()
		}
	}
}

// auditUnfinished writes the line of a request from beside the goroutine that runs it.
func (f *Flight) auditUnfinished() {
	inv := f.meter.invoked
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.isOver {
		return
	}
	inv.isOver = true
	e := &inv.event
	e.Code, e.Outcome, e.Duration = string(errmap.Unavailable), "unknown", time.Since(f.start)
	f.bridge.opts.Audit.End(e)
}

// addOutcome adds what the caller got.
func (b *Bridge) addOutcome(e *audit.Event, resp *Response, code errmap.Code) {
	e.Code, e.Outcome, e.BytesOut = string(code), "result", resp.size()+resp.passed.out
	e.BytesIn += resp.passed.in
	if code == "" {
		e.Code = stats.OK
	}
	switch {
	case resp.Silent:
		e.Outcome = "cancelled"
	case resp.Err != nil:
		e.Outcome, e.Cause = "error", causeOf(resp.Err)
	case resp.inputRequired() != nil:
		e.Outcome = "input_required"
	case resp.Outcome.GetTask() != nil:
		e.Outcome = "task"
	}
	if most, ok := b.opts.Audit.HasPayloads(); ok {
		e.Result = b.outputOf(resp, resp.size(), most)
	}
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

// decision is what the policy said in the end, and by which rule.
func (i *invocation) decision(req *Request, resp *Response, code errmap.Code) (audit.Decision, string) {
	rule := resp.Decision.Rule
	switch {
	case code == errmap.DestructiveBlocked:
		return audit.Denied, orElse(rule, ruleGate)
	case code == errmap.PermissionDenied:
		return audit.Denied, orElse(rule, ruleGrants)
	case resp.asksConsent():
		return audit.Asked, orElse(rule, ruleGate)
	case i.consented:
		return audit.Consented, orElse(rule, ruleGate)
	case i.reached, req.Op == OpCall && resp.Tool != nil, resp.Err == nil:
		return audit.Allowed, rule
	}
	return "", rule
}

func orElse(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// asksConsent reports whether a response is the sidecar's own question.
func (r *Response) asksConsent() bool {
	_, ok := r.inputRequired().GetInputRequests()[confirmKey]
	return ok
}

// AuditRefused writes the line of a message that an edge refused before it became a
// request, if it asked for what leaves a line: req says as much of it as is known. A
// caller without valid credentials leaves no line, so that no stranger can fill a disk.
func (b *Bridge) AuditRefused(ctx context.Context, req *Request, err *errmap.Error) {
	if req.Op.isAudited() {
		b.auditRefused(ctx, req, req.audited(), err)
	}
}

// AuditUnread is AuditRefused for a message that could not be read, so that it may have
// asked for anything.
func (b *Bridge) AuditUnread(ctx context.Context, req *Request, err *errmap.Error) {
	b.auditRefused(ctx, req, operationUnknown, err)
}

// operationUnknown is the operation of a message that could not be read.
const operationUnknown = "unknown"

func (b *Bridge) auditRefused(ctx context.Context, req *Request, operation string, err *errmap.Error) {
	if !b.opts.Audit.IsOn() || err.Code == errmap.Unauthenticated {
		return
	}
	inv := b.newInvocation(&Flight{bridge: b, req: req, who: access.FromContext(ctx)})
	if cat := b.CatalogFor(ctx); cat != nil && req.Op == OpCall && req.name() != "" {
		if tool, unknown := lookup(cat, req); unknown == nil {
			inv.found(tool)
		}
	}
	inv.event.Operation, inv.event.Code, inv.event.Outcome = operation, string(err.Code), "error"
	b.opts.Audit.End(&inv.event)
}
