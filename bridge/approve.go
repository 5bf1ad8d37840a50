// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
)

const (
	// purposeApproval is the purpose of the handle of an approval.
	purposeApproval = "approval"
	// askAgain is when the caller of a call that waits for people may come back.
	askAgain = 15 * time.Second
	// maxAsks bounds how often one task asks anew because rules or tools changed.
	maxAsks = 64
	// lookAgain is between two looks at a call that another replica runs.
	lookAgain = time.Second
)

// approvals has calls wait until others approve them.
type approvals struct {
	service   *approval.Service // nil: there are none
	rulebook  *rulebook
	directory *directory
	auditor   *auditor
	previews  *previews
	tasks     *tasks
	sealer    *keys.Sealer
	// named returns a caller as it is now, by the name of its entry; nil if there is none.
	named func(name string) *identity.Identity
	// again returns a caller of OAuth as it is now, by what its token said and its standing then; nil if that is not known.
	again func(f identity.Facts, standing []byte) *identity.Identity
}

// permit asks the rules about a plain call, and others where they say so.
func (a *approvals) permit(ctx context.Context, c *toolCall) *errmap.Error {
	err := a.rulebook.permitCall(ctx, c)
	if err == nil && c.asks != "" {
		err = a.approve(ctx, c)
	}
	return err
}

// approve lets a call run that others approved. For others it asks: a caller with tasks gets one that waits, and others are told to
// come back.
func (a *approvals) approve(ctx context.Context, c *toolCall) *errmap.Error {
	if c.asks == "" {
		return nil
	}
	asks, ok := a.rulebook.rules.Asks(c.asks)
	if !ok || a.service == nil {
		return needsOneMessage(c.tool, c.asks) // it was replaced a moment ago
	}
	var err *errmap.Error
	if c.req, err = c.req.Complete(); err != nil {
		return err
	}
	of, err := callToApprove(ctx, c, asks)
	if err != nil {
		return err
	}
	if isUsed, err := a.goesOn(ctx, c, of); isUsed || err != nil {
		return err
	}
	known, err := a.knownBy(c.req)
	if err != nil {
		return err
	}
	if err = a.showPreview(ctx, c, of, known); err != nil {
		return err
	}
	for range maxAsks {
		r, err := a.service.Ask(ctx, of, known)
		if err != nil {
			return err
		}
		if isFresh := r.GetState() == approval.Waiting || r.GetState() == approval.Approved; isFresh && a.isTask(ctx, c) {
			if isTask, err := a.startTask(ctx, c, of, r); isTask || err != nil {
				return err
			}
		}
		if r.GetState() == approval.Waiting {
			return a.required(c, r)
		}
		claim, err := a.service.Claim(ctx, of, r.GetId(), c.tool.IsIdempotent())
		switch {
		case err == nil:
			c.approved = &approvedCall{service: a.service, claim: claim}
			c.isApproved()
			return nil
		case errors.Is(err, approval.ErrChanged) && r.GetState() == approval.Approved:
			known = "" // the old one is cancelled
			continue
		case err.Code == errmap.ApprovalRequired:
			return a.required(c, r)
		}
		err.Approval = r.GetId()
		return err
	}
	return errmap.Because(errmap.Unavailable, "the policy changes too often to ask for approval")
}

// isApproved notes for the audit trail that others agreed to the call.
func (c *toolCall) isApproved() {
	if inv := c.req.invocation(); inv != nil {
		inv.approved, inv.asks = true, false
		inv.isPreview(false)
	}
}

// goesOn reports whether a call is a further round of one that others approved, which is one call: its state, which counts once, has the
// approval.
func (a *approvals) goesOn(ctx context.Context, c *toolCall, of *approval.Call) (bool, *errmap.Error) {
	if c.state == nil || c.state.approval == "" {
		return false, nil
	}
	isUsed, err := a.service.IsUsed(ctx, of, c.state.approval)
	if !isUsed || err != nil {
		c.state.approval = ""
		return false, err
	}
	c.isApproved()
	return true, nil
}

// showPreview has approvers see what a call would do that they are about to be asked about.
func (a *approvals) showPreview(ctx context.Context, c *toolCall, of *approval.Call, known string) *errmap.Error {
	if c.tool.Preview == nil || c.preview != "" || a.service.IsAsked(ctx, of, known) {
		return nil
	}
	if inv := c.req.invocation(); inv != nil {
		inv.asks = true
	}
	err := a.previews.ask(ctx, c)
	of.Preview = c.preview
	return err
}

// callToApprove is the call as approvers see it.
func callToApprove(ctx context.Context, c *toolCall, asks policy.Asks) (*approval.Call, *errmap.Error) {
	arguments := c.wire
	if c.tool.Native {
		arguments = c.arguments()
	}
	who := identity.FromContext(ctx)
	requester := c.req.Caller
	switch {
	case who != nil:
		requester = who.Name()
	case c.req.console.Name() != "":
		requester = c.req.console.Name()
	}
	out := toApprove(c.tool, arguments, asks)
	if out == nil {
		return nil, errmap.Because(errmap.InternalError, "the arguments of the call cannot be read")
	}
	out.Requester, out.Principal, out.Preview = requester, c.req.Caller, c.preview
	return out, nil
}

// toApprove is a call of a tool, without its caller; nil where its arguments cannot be read.
func toApprove(tool *catalog.Tool, arguments []byte, asks policy.Asks) *approval.Call {
	out := &approval.Call{
		Tool: tool.Name, Title: tool.Title, ToolDigest: sha256.Sum256([]byte(tool.Fingerprint())),
		Rule: approval.Rule{
			Name: asks.Rule, Callers: asks.Callers, Groups: asks.Groups, Count: asks.Count, Within: asks.Within, Bound: asks.Bound, Digest: asks.Digest,
		},
	}
	paths := pathsOf(asks.Bound)
	if tool.Native {
		out.ArgumentsJSON = shownArguments(arguments)
		var value any
		d := json.NewDecoder(bytes.NewReader(arguments))
		d.UseNumber()
		if d.Decode(&value) != nil {
			return nil
		}
		if paths != nil {
			value = paths.ofJSON(value)
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil
		}
		out.Arguments = sha256.Sum256(text)
		return out
	}
	m := dynamicpb.NewMessage(tool.Method.Descriptor.Input())
	if (proto.UnmarshalOptions{AllowPartial: true}).Unmarshal(arguments, m) != nil {
		return nil
	}
	if id := tool.RequestID; id != nil { // each repetition of the call may have another one
		m.Clear(m.Descriptor().Fields().ByNumber(id.Number()))
	}
	text, err := protojson.MarshalOptions{AllowPartial: true}.Marshal(m)
	if err != nil { // an Any of a type that is not linked in
		text = content.Omitted("have no JSON form")
	}
	out.ArgumentsJSON = shownArguments(text)
	if paths != nil {
		paths.ofMessage(m)
	}
	wire, err := proto.MarshalOptions{AllowPartial: true, Deterministic: true}.Marshal(m)
	if err != nil {
		return nil
	}
	out.Arguments = sha256.Sum256(wire)
	return out
}

// maxShown bounds the arguments that approvers see.
const maxShown = 64 << 10

// shownArguments are arguments as approvers see them.
func shownArguments(text []byte) []byte {
	if len(text) > maxShown {
		return content.Omitted(fmt.Sprintf("have %d bytes; up to %d are shown", len(text), maxShown))
	}
	return content.SortedJSON(text)
}

// paths are names of members and what is in them; an empty one is all of a member.
type paths map[string]paths

// pathsOf is a tree of paths; nil for none.
func pathsOf(list []string) paths {
	var out paths
	for _, path := range list {
		if out == nil {
			out = paths{}
		}
		at := out
		names := strings.Split(path, ".")
		for i, name := range names {
			next, known := at[name]
			switch {
			case known && len(next) == 0: // all of it
			case i+1 == len(names):
				at[name] = nil
			case !known:
				next = paths{}
				at[name] = next
			}
			if at = next; at == nil {
				break
			}
		}
	}
	return out
}

// ofJSON is what the paths name of a JSON value, through arrays.
func (p paths) ofJSON(value any) any {
	if len(p) == 0 {
		return value
	}
	switch value := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, within := range p {
			if member, ok := value[name]; ok {
				out[name] = within.ofJSON(member)
			}
		}
		return out
	case []any:
		out := make([]any, len(value))
		for i, item := range value {
			out[i] = p.ofJSON(item)
		}
		return out
	}
	return value
}

// ofMessage clears all of a message that the paths do not name.
func (p paths) ofMessage(m protoreflect.Message) {
	named := map[protoreflect.FieldNumber]paths{}
	for name, within := range p {
		if fd := policy.ArgumentField(m.Descriptor(), name); fd != nil {
			named[fd.Number()] = within
		}
	}
	m.SetUnknown(nil)
	m.Range(func(fd protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		within, ok := named[fd.Number()]
		switch {
		case !ok:
			m.Clear(fd)
		case len(within) == 0:
		case fd.IsMap():
			value.Map().Range(func(_ protoreflect.MapKey, item protoreflect.Value) bool {
				if fd.MapValue().Message() != nil {
					within.ofMessage(item.Message())
				}
				return true
			})
		case fd.Message() == nil:
		case fd.IsList():
			for i := range value.List().Len() {
				within.ofMessage(value.List().Get(i).Message())
			}
		default:
			within.ofMessage(value.Message())
		}
		return true
	})
}

// knownBy is the id of the approval whose handle a request brought back; empty for none.
func (a *approvals) knownBy(req *Request) (string, *errmap.Error) {
	values, ok := req.Header[backend.ApprovalHeader]
	if !ok {
		if hint := req.Header[backend.ApprovalHint]; len(hint) == 1 {
			id, _ := a.sealer.Open(keys.Binding{Purpose: purposeApproval, Principal: req.Caller}, hint[0])
			return string(id), nil
		}
		return "", nil
	}
	if len(values) == 1 {
		if id, err := a.sealer.Open(keys.Binding{Purpose: purposeApproval, Principal: req.Caller}, values[0]); err == nil {
			return string(id), nil
		}
	}
	const message = "the approval handle is not this caller's, or has expired; call again without it"
	return "", errmap.New(errmap.InvalidParams, errmap.Message("Invalid params: "+message), errmap.WithViolations(errmap.Violation{
		Keyword: purposeApproval, Message: backend.ApprovalHeader + ", or " + backend.ApprovalMember + ": " + message,
	}))
}

// required is the answer to the caller of a call that waits.
func (a *approvals) required(c *toolCall, r *statev1.ApprovalRecord) *errmap.Error {
	handle, err := a.sealer.Seal(keys.Binding{
		Purpose: purposeApproval, Principal: c.req.Caller, TTL: max(time.Until(r.GetExpires().AsTime()), 0) + approval.Keep,
	}, []byte(r.GetId()))
	if err != nil {
		return errmap.Wrap(errmap.InternalError, err)
	}
	out := approval.Refusal(r)
	out.Approval, out.Handle, out.RetryAfter = r.GetId(), handle, askAgain
	return out
}

// isTask reports whether a call can wait as a task: its caller knows tasks, and nothing in it ends with its request. One that continues
// something, be it an operation or a dialogue with a native backend, is a step of its caller.
func (a *approvals) isTask(ctx context.Context, c *toolCall) bool {
	t := a.tasks
	if t.manager == nil || !c.isJSON() || c.tool.Continues != catalog.NoContinuation || c.req.Items != nil {
		return false
	}
	if c.tool.Native && (c.tool.TaskSupport == catalog.TaskRequired || len(c.req.InputResponses) > 0 || len(c.state.backend) > 0) {
		return false
	}
	if !c.req.Context.GetCapabilities().GetTasks() || t.sender.of(c).OnBehalf != nil || backend.HasAuthorization(ctx) {
		return false
	}
	return !t.manager.IsShared() || t.mayBeStored(c)
}

// startTask makes the call a task that waits. It reports false if the call is too large to be kept.
func (a *approvals) startTask(ctx context.Context, c *toolCall, of *approval.Call, r *statev1.ApprovalRecord) (isTask bool, err *errmap.Error) {
	t := a.tasks
	if c.tool.Native {
		c.wire = c.arguments()
	}
	c.wire = bytes.Clone(c.wire) // the task keeps it
	c.pooled = false
	call := t.prepared(ctx, c, t.taskLine(c))
	call.Approval, call.Who, call.Identity = r.GetId(), whoOf(ctx, c.req), identityAgain(identity.FromContext(ctx))
	again := t.again(ctx, c, call)
	if t.manager.IsShared() && again == nil {
		return false, nil
	}
	if inv := c.req.invocation(); inv != nil {
		isRecorded := inv.asks && inv.reached // with the preview
		inv.asks = true
		if !isRecorded {
			if err = a.auditor.recordCall(ctx, c); err != nil {
				return false, err
			}
		}
		inv.isPreview(false)
	}
	line := t.taskLine(c)
	waiting := &waitingCall{of: of, id: r.GetId(), who: identity.FromContext(ctx), call: call}
	work, waits, view := a.waiting(c, call, line, waiting)
	started, failed := t.manager.Start(ctx, task.Spec{
		Principal: c.req.Caller, Tool: c.tool.Name, Timeout: a.most(c.tool, of.Rule.Within),
		About: errmap.About{ToolCall: true, Idempotent: c.tool.IsIdempotent()}, Origin: c.req.origin(), Message: waitText(r, of),
		Again: again, Began: line.began, Ended: line.ended, View: view, Waits: waits,
	}, work)
	if failed != nil {
		return false, task.Canonical(ctx, failed)
	}
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: started.Task}}
	return true, nil
}

// most is how long a task may take that waits for approval and then runs.
func (a *approvals) most(tool *catalog.Tool, within time.Duration) time.Duration {
	return within + 2*approval.UseWithin + a.tasks.sender.deadlines.allowed(&toolCall{tool: tool})
}

// whoOf is the caller of a request, as a task keeps it.
func whoOf(ctx context.Context, req *Request) *statev1.TaskCaller {
	who := auditCaller(identity.FromContext(ctx), req)
	return &statev1.TaskCaller{
		Name: who.Name, Subject: who.Subject, Issuer: who.Issuer, ClientId: who.ClientID, Address: who.Address, Source: who.Source, Operator: who.Operator,
	}
}

// waiting is the rest of a call as the work of a task that waits first.
func (a *approvals) waiting(c *toolCall, call *statev1.TaskCall, line *taskLine, w *waitingCall) (work task.Run, waits func() bool, view func() string) {
	t := a.tasks
	own := ofPrepared(call, c.tool, c.catalog, t.sender.of(c).Metadata.OfCall(c.req.Header).Clone())
	own.fit.mask, own.req.Tool, own.req.Through, own.req.Names, own.req.Span = c.fit.mask, c.req.Tool, c.req.Through, c.req.Names, c.req.Span
	return t.runTask(a.held(own, w), line, 0), w.waits, func() string { return own.madeFor(call.GetView()) }
}

// held is a call that waits before it runs.
func (a *approvals) held(own *toolCall, w *waitingCall) *toolCall {
	own.approved = &approvedCall{service: a.service}
	own.approved.await = func(ctx context.Context, report func(string)) *errmap.Error { return w.await(ctx, a, own, report) }
	return own
}

// waitText says in a task what it waits for.
func waitText(r *statev1.ApprovalRecord, of *approval.Call) string {
	who := append(append([]string{}, of.Rule.Callers...), of.Rule.Groups...)
	return fmt.Sprintf("waits for approval of %d of [%s] until %s, as %s",
		r.GetNeeded(), strings.Join(who, ", "), r.GetExpires().AsTime().UTC().Format(time.RFC3339), r.GetId())
}

// areAsked reports whether a rule in use has others approve calls.
func (a *approvals) areAsked() bool {
	return a.service != nil && a.rulebook.rules != nil && a.rulebook.rules.HasApprovals()
}

// The words of the draft SEP-2643 for what a denied caller can expect of asking for approval, or for another token.
const (
	denialAvailable   = "available"
	denialUnavailable = "unavailable"
	denialUndisclosed = "undisclosed"
)

// disclosed is an error that says whether asking for approval, or for another token, can help. What a rule denies, neither changes. A
// challenge that names scopes says already that a token with them helps; about grants nothing is said.
func disclosed(err *errmap.Error) *errmap.Error {
	out := *err
	switch {
	case err.Code == errmap.ApprovalRequired:
		out.Denial = denialAvailable
	case err.Code != errmap.PermissionDenied:
		return err
	case err.Rule != "" || err.Approval != "":
		out.Denial = denialUnavailable
	case identity.NamesScopes(err.Challenge):
		out.Denial = denialAvailable
	default:
		out.Denial = denialUndisclosed
	}
	return &out
}
