// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// Names of the rules that are no rule of a policy file.
const (
	ruleGate   = "destructive_gate"
	ruleGrants = "grants"
	// ruleTakeover is that of a call which another replica was allowed to begin.
	ruleTakeover = "takeover"
)

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

// auditor writes the audit trail.
type auditor struct {
	directory *directory
	payloads  *trail.Payloads

	gate  *policy.Gate
	trail *trail.Audit
	noted *zap.Logger
}

// newInvocation begins a line. in are the arguments, if they have been kept.
func (a *auditor) newInvocation(req *Request, who *identity.Identity, in *trail.Input) *invocation {
	id := a.trail.NewID()
	inv := &invocation{id: id, event: trail.Event{
		ID: id, Caller: auditCaller(who, req), Route: req.Route, Era: req.Era,
		Edge:      telemetry.EdgeOf(req.Transport, req.Route, req.Procedure != "").String(),
		Operation: req.audited(), Target: req.target(), Trust: a.gate.TrustOf(who, req.Caller).String(),
		RequestID: req.ID.Raw(), TraceID: req.TraceID(),
		BytesIn: req.size(),
	}}
	if req.part != nil {
		inv.event.Program = &req.part.program
	}
	if most, ok := a.trail.HasPayloads(); ok {
		if inv.input = in; in == nil {
			inv.input = newInput(req, most)
		}
	}
	return inv
}

// auditCaller is a caller as the trail names it.
func auditCaller(who *identity.Identity, req *Request) trail.Caller {
	out := trail.Caller{Address: peer.Address(req.Peer), Operator: req.console.Name()}
	if who == nil {
		if req.Peer == "" {
			out.Address = req.Caller
		}
		return out
	}
	facts := who.Facts()
	out.Name, out.Subject, out.Issuer, out.ClientID, out.Source = who.Name(), facts.Subject, facts.Issuer, facts.ClientID, string(facts.Source)
	return out
}

// target is what a request names beside a tool that exists.
func (r *Request) target() string {
	switch m := r.Message.(type) {
	case interface{ GetUri() string }:
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
	return cmp.Or(r.name(), targetOf(r.Message))
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
	i.event.Destructive = policy.Verbs.Holds(tool)
	i.tool = tool
	if i.event.Operation == OpCall.String() { // a read that runs an RPC keeps its URI
		i.event.Target = ""
	}
}

// preview notes that the backend is asked what the call would do.
func (i *invocation) preview() { i.isPreview(true) }

// isPreview notes whether the request is a preview.
func (i *invocation) isPreview(is bool) {
	if i != nil {
		i.mu.Lock()
		defer i.mu.Unlock()
		i.event.Preview = is
	}
}

// recordCall writes the first line of a call that is about to reach the backend, where the
// trail has one. It refuses the call where that must be recorded and cannot be.
func (a *auditor) recordCall(ctx context.Context, c *toolCall) *errmap.Error {
	inv := c.req.invocation()
	if inv == nil {
		return nil
	}
	inv.found(c.tool)
	inv.consented = inv.consented || c.blocked != nil && c.state != nil && c.state.confirmed
	return a.recordBegin(ctx, c.req, inv)
}

// recordAsk is recordCall for a question to a native backend.
func (a *auditor) recordAsk(ctx context.Context, req *Request) *errmap.Error {
	if inv := req.invocation(); inv != nil {
		return a.recordBegin(ctx, req, inv)
	}
	return nil
}

func (a *auditor) recordBegin(ctx context.Context, req *Request, inv *invocation) *errmap.Error {
	defer req.Span.Step(telemetry.StepAudit, req.Span.Now())
	inv.mu.Lock()
	inv.event.Decision = trail.Allowed
	if inv.consented {
		inv.event.Decision, inv.event.Rule = trail.Consented, ruleGate
	}
	switch {
	case inv.asks:
		inv.event.Decision = trail.Asked
	case inv.approved:
		inv.event.Decision = trail.Approved
	}
	if a.trail.HasBegins() {
		a.addArguments(inv)
	}
	begun := inv.event
	inv.mu.Unlock()
	err := a.trail.Begin(ctx, &begun) // this may wait for the disk
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
	a.noted.Error("call refused: it cannot be recorded in the audit trail (--audit-required)",
		append(TraceFields(req.Span, req.Header), RequestID(req.ID), logkey.Error(err))...)
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
		errmap.Message("Tool service unavailable: the call cannot be recorded in the audit trail, so the backend was not called"))
}

// ended implements [observer]: it writes the line of the request.
func (a *auditor) ended(f *finished) {
	inv := f.meter.invoked
	if inv == nil {
		if f.code != errmap.PermissionDenied {
			return
		}
		inv = a.newInvocation(f.req, f.who, nil)
	}
	inv.found(f.resp.Tool)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.isOver {
		return
	}
	inv.isOver = true
	e := &inv.event
	e.Edge, e.Duration = f.edge.String(), f.took
	e.Decision, e.Rule = inv.decision(f.req, f.resp, f.code)
	a.addArguments(inv)
	a.addOutcome(e, f.resp, f.code)
	a.trail.End(e)
}

// addArguments adds the arguments to the line, once.
func (a *auditor) addArguments(inv *invocation) {
	if inv.input == nil || inv.input.Size == 0 {
		return
	}
	most, _ := a.trail.HasPayloads()
	inv.event.Arguments, inv.input = a.payloads.Arguments(inv.tool, inv.input, most), nil
}

// addOutcome adds what the caller got.
func (a *auditor) addOutcome(e *trail.Event, resp *Response, code errmap.Code) {
	e.Code, e.Outcome, e.BytesOut = string(code), "result", resp.size()+resp.passed.out
	e.BytesIn += resp.passed.in
	if code == "" {
		e.Code = telemetry.OK
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
	if most, ok := a.trail.HasPayloads(); ok {
		e.Result = resp.payload(a.payloads, most)
	}
}

// decision is what the policy said in the end, and by which rule.
func (i *invocation) decision(req *Request, resp *Response, code errmap.Code) (trail.Decision, string) {
	rule := resp.Decision.Rule
	switch {
	case i.isRunning && i.consented:
		return trail.Consented, ruleGate
	case i.isRunning:
		return trail.Allowed, i.event.Rule
	case code == errmap.DestructiveBlocked:
		return trail.Denied, cmp.Or(rule, ruleGate)
	case code == errmap.PermissionDenied:
		return trail.Denied, cmp.Or(rule, ruleGrants)
	case resp.asksConsent():
		return trail.Asked, cmp.Or(rule, ruleGate)
	case i.asks, code == errmap.ApprovalRequired:
		return trail.Asked, rule
	case i.approved:
		return trail.Approved, rule
	case resp.Decision.Effect == effectApprove:
		return trail.Asked, rule
	case i.consented:
		return trail.Consented, cmp.Or(rule, ruleGate)
	case i.reached, req.Op == OpCall && resp.Tool != nil, resp.Err == nil:
		return trail.Allowed, rule
	}
	return "", rule
}

// asksConsent reports whether a response is the sidecar's own question.
func (r *Response) asksConsent() bool {
	_, ok := r.inputRequired().GetInputRequests()[confirmKey]
	return ok
}

// operationUnknown is the operation of a message that could not be read.
const operationUnknown = "unknown"

// refused writes the line of a message that was refused before it became a request; see [Bridge.AuditRefused].
func (a *auditor) refused(ctx context.Context, req *Request, operation string, err *errmap.Error) {
	if !a.trail.IsOn() || err.Code == errmap.Unauthenticated {
		return
	}
	req.console = identity.ConsoleOf(ctx)
	inv := a.newInvocation(req, identity.FromContext(ctx), nil)
	if cat := a.directory.loaded(ctx); cat != nil && req.Op == OpCall && req.name() != "" {
		if tool, unknown := lookup(cat, req); unknown == nil {
			inv.found(tool)
		}
	}
	inv.event.Operation, inv.event.Code, inv.event.Outcome = operation, string(err.Code), "error"
	a.trail.End(&inv.event)
}

// denied writes the line of an operation that is no request; see [Bridge.AuditDenied].
func (a *auditor) denied(ctx context.Context, req *Request, operation string, err *errmap.Error) {
	if !a.trail.IsOn() || err.Code != errmap.PermissionDenied {
		return
	}
	req.console = identity.ConsoleOf(ctx)
	inv := a.newInvocation(req, identity.FromContext(ctx), nil)
	e := &inv.event
	e.Operation, e.Decision, e.Rule = operation, trail.Denied, ruleGrants
	e.Code, e.Outcome = string(err.Code), "error"
	a.addArguments(inv)
	a.trail.End(e)
}

// recordSubscription writes the line of a subscription to a watch: it has the backend called in the name of its caller.
func (a *auditor) recordSubscription(ctx context.Context, req *Request, tool *catalog.Tool, uri string, said Decision) *errmap.Error {
	if !a.trail.IsOn() {
		return nil
	}
	inv := a.newInvocation(req, identity.FromContext(ctx), nil)
	inv.found(tool)
	inv.event.Operation, inv.event.Target = OpListen.String(), uri
	if err := a.recordBegin(ctx, req, inv); err != nil {
		return err
	}
	inv.event.Decision, inv.event.Rule = trail.Allowed, said.Rule
	a.addOutcome(&inv.event, &Response{}, "")
	a.trail.End(&inv.event)
	return nil
}

// targetOf is what the message of a stream or of an event names; "" for other messages.
func targetOf(m proto.Message) string {
	switch m := m.(type) {
	case *outriggerv1.ChangeFilter:
		return strings.Join(m.GetResourceUris(), " ")
	case *outriggerv1.EventFilter:
		return strings.Join(m.GetMethods(), " ")
	case *outriggerv1.Notification:
		return m.GetMethod()
	}
	return ""
}

// audited is the operation of a request as the trail names it: that of which the request is
// a part.
func (r *Request) audited() string {
	if r.PartOf != OpInvalid {
		return r.PartOf.String()
	}
	return r.Op.String()
}

// unfinished writes the line of a request that began at a time, from beside the goroutine that runs it. A request
// that is not audited has none.
func (a *auditor) unfinished(inv *invocation, start time.Time) {
	if inv == nil {
		return
	}
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.isOver {
		return
	}
	inv.isOver = true
	e := &inv.event
	e.Code, e.Outcome, e.Duration = string(errmap.Unavailable), "unknown", time.Since(start)
	a.trail.End(e)
}
