// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// tasks runs calls on as tasks.
type tasks struct {
	auditor    *auditor
	documents  *documents
	rulebook   *rulebook
	sender     *sender
	decoder    *decoder
	natives    *natives
	rpcs       *rpcs
	panics     *panics
	directory  *directory
	operations *operations
	approvals  *approvals

	manager *task.Manager
	after   time.Duration // of tools that say nothing; zero is never
	tracer  *telemetry.Tracer
	// discloses has denied tasks say whether asking for approval can help.
	discloses bool
}

// invokeTask calls a plain RPC that may run on as a task: at once, or when it
// takes longer than its tool says. What ends before is an ordinary result. Once
// it is a task, neither the caller's deadline nor the end of its connection
// concerns it; the tool's own deadline does.
func (t *tasks) invokeTask(ctx context.Context, c *toolCall) *errmap.Error {
	after, _ := c.tool.RunsOn(t.after)
	err := t.start(ctx, c, after)
	c.completed(err)
	return err
}

func (t *tasks) start(ctx context.Context, c *toolCall, after time.Duration) *errmap.Error {
	var failed *errmap.Error
	if c.req, failed = c.req.Complete(); failed != nil {
		return failed
	}
	if !c.req.Context.GetCapabilities().GetTasks() {
		if err := requireTaskSupport(c); err != nil {
			return err
		}
		return t.rpcs.invoke(ctx, c)
	}
	defer c.req.waited(time.Now())
	if ctx, failed = t.sender.of(c).onBehalf(ctx, c.req); failed != nil {
		return failed
	}
	line := t.taskLine(c)
	call := t.prepared(ctx, c, line)
	work, keep, view := t.background(c, call, line, after)
	started, err := t.manager.Start(ctx, task.Spec{
		Principal: c.req.Caller, Tool: c.tool.Name, After: after, Timeout: t.sender.deadlines.timeout(c),
		About: errmap.About{ToolCall: true, Idempotent: c.tool.IsIdempotent()}, Origin: c.req.origin(),
		Again: t.again(ctx, c, call), Began: line.began, Ended: line.ended, View: view,
	}, work)
	if err != nil {
		c.sent = after > 0 && ctx.Err() != nil
		keep()
		return task.Canonical(ctx, err)
	}
	switch {
	case started.Err != nil:
		c.sent = true
		return started.Err
	case started.Task != nil:
		c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: started.Task}}
	default:
		c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: started.Result}}
	}
	return nil
}

// prepared is a call that has been checked, as a task makes it: it shares nothing with the request that began it.
func (t *tasks) prepared(ctx context.Context, c *toolCall, line *taskLine) *statev1.TaskCall {
	out := &statev1.TaskCall{
		Tool: c.tool.Name, Procedure: c.tool.Method.Procedure, Wire: c.wire,
		Caller: c.req.Caller, Transport: c.req.Transport, Route: c.req.Route, Method: c.req.Method, Who: line.who(),
		Fields: c.req.Wanted.Fields, Budget: int64(c.req.Wanted.Budget), ForModel: c.req.Wanted.ForModel,
		StreamTime: int64(c.req.Wanted.StreamTime),
	}
	if t.sender.treats() {
		out.Identity, out.View = identityAgain(identity.FromContext(ctx)), t.rulebook.kept(ctx, c.tool)
	}
	if c.tool.Native {
		out.Native = nativeCallOf(c.req)
	}
	if in := c.input; in != nil {
		out.HasFirst, out.Header, out.Items = in.hasFirst, bytes.Clone(in.header), in.keptItems()
	}
	return out
}

// identityAgain is an identity as a task keeps it; nil for none.
func identityAgain(who *identity.Identity) *statev1.TaskIdentity {
	if who == nil {
		return nil
	}
	f := who.Facts()
	return &statev1.TaskIdentity{
		Name: who.Name(), Source: string(f.Source), Entry: f.Entry, Issuer: f.Issuer, Subject: f.Subject, ClientId: f.ClientID,
		Groups: f.Groups, Scopes: f.Scopes, GroupsUnknown: f.GroupsUnknown, Standing: who.Standing(),
	}
}

// identityOf undoes identityAgain. Of a task that keeps none it is that of a caller without authentication, who sees the least.
func identityOf(kept *statev1.TaskIdentity) *identity.Identity {
	if kept == nil {
		return nil
	}
	return identity.NewIdentityOf(identity.Grant{Name: kept.GetName()}, factsOf(kept))
}

func factsOf(kept *statev1.TaskIdentity) identity.Facts {
	return identity.Facts{
		Source: identity.Source(kept.GetSource()), Entry: kept.GetEntry(), Issuer: kept.GetIssuer(), Subject: kept.GetSubject(),
		ClientID: kept.GetClientId(), Groups: kept.GetGroups(), Scopes: kept.GetScopes(), GroupsUnknown: kept.GetGroupsUnknown(),
	}
}

// ofPrepared is a prepared call on its way to the backend.
func ofPrepared(call *statev1.TaskCall, tool *catalog.Tool, cat *catalog.Catalog, header http.Header) *toolCall {
	out := &toolCall{
		tool: tool, catalog: cat, wire: call.GetWire(),
		req: &Request{
			Op: OpCall, Tool: tool.Name, Header: header,
			Caller: call.GetCaller(), Transport: call.GetTransport(), Route: call.GetRoute(), Method: call.GetMethod(),
			Wanted: content.Wanted{
				Fields: call.GetFields(), Budget: int(call.GetBudget()), ForModel: call.GetForModel(), StreamTime: time.Duration(call.GetStreamTime()),
			},
		},
	}
	if native := call.GetNative(); native != nil {
		out.state = &state{}
		out.req.Arguments = Payload{Encoding: EncodingJSON, Bytes: call.GetWire()}
		out.req.Meta, out.req.Context = native.GetMetaJson(), native.GetContext()
	}
	if tool.TakesStream() {
		out.input = &streamInput{header: call.Header, items: call.GetItems(), hasFirst: call.GetHasFirst()}
	}
	return out
}

// background is the rest of a call as the work of a task. The line is written when it ends. An approval goes with the work, which knows
// how it ended, and stays with the call by keep where the work has not begun.
func (t *tasks) background(c *toolCall, call *statev1.TaskCall, line *taskLine, after time.Duration) (work task.Run, keep func(), view func() string) {
	own := ofPrepared(call, c.tool, c.catalog, t.sender.of(c).Metadata.OfCall(c.req.Header).Clone())
	own.fit.mask, own.req.Tool, own.req.Through, own.req.Span = c.fit.mask, c.req.Tool, c.req.Through, c.req.Span
	work, view = t.runTask(own, line, after), func() string { return own.madeFor(call.GetView()) }
	approved := c.approved
	if approved == nil {
		return work, func() {}, view
	}
	c.approved = nil
	var isTaken atomic.Bool
	take := func(by *toolCall) {
		if isTaken.CompareAndSwap(false, true) {
			by.approved = approved
		}
	}
	run := work
	return func(ctx context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
		take(own)
		return run(ctx, report)
	}, func() { take(c) }, view
}

// madeFor is what the caller of a call that has ended as a task saw of its result, as the record of the task has it. first is what it
// saw when it made the call.
func (c *toolCall) madeFor(first string) string {
	if !c.sent {
		return task.OwnWords // the backend said nothing
	}
	return c.view.AsKept(first)
}

// runTask is a call that shares nothing with a request, as the work of a task.
func (t *tasks) runTask(own *toolCall, line *taskLine, after time.Duration) task.Run {
	return func(ctx context.Context, report func(string)) (result *outriggerv1.ToolResult, failed *errmap.Error) {
		if after <= 0 { // it is a task from the start, and no part of the call
			own.req.Span = line.span
		}
		own.req.Events = func(e *outriggerv1.ToolEvent) {
			if text := e.GetProgress().GetMessage(); text != "" {
				report(text)
			}
		}
		end := &Response{Tool: own.tool, Err: errmap.New(errmap.InternalError)} // of a panic
		defer func() {
			if p := recover(); p != nil {
				failed = t.panics.recovered(p, append(TraceFields(own.req.Span, own.req.Header), zap.String(logkey.CanonicalTool, own.tool.Name))...)
				own.approved.end(ctx, failed)
			}
			line.response = end
		}()
		defer own.endTurn()
		err := own.approved.wait(ctx, report)
		if err == nil {
			err = t.invoke(ctx, own)
			own.approved.end(ctx, err)
		}
		if err == nil {
			err = t.decoder.result(ctx, own)
		}
		if err != nil {
			end.Err = t.decoder.explained(ctx, own, own.named(err, own.shownName()))
			if t.discloses {
				end.Err = disclosed(end.Err)
			}
			return nil, end.Err
		}
		own.resp.Tool = own.tool
		end = &own.resp
		return own.resp.ToolOutcome().GetResult(), nil
	}
}

// invoke calls the backend for a call that may have waited first, and so be of any kind. Who waited for it is gone: an operation that
// takes longer than its call is handed on, and a native backend can ask no one.
func (t *tasks) invoke(ctx context.Context, own *toolCall) *errmap.Error {
	switch {
	case own.tool.Native:
		return t.natives.invokeNative(ctx, own)
	case own.tool.Operation != nil:
		return t.operations.run(ctx, own, false)
	}
	return t.rpcs.invoke(ctx, own)
}

// maxAgain bounds what is stored of a call to run it again, which is stored twice at most:
// when the task begins, and with each of its changes.
const maxAgain = 512 << 10

// again is what another replica needs to run a prepared call again if this one stops; nil where
// no one may: the tool is not idempotent, the call has credentials that end with it, or it
// is too large to be kept.
func (t *tasks) again(ctx context.Context, c *toolCall, call *statev1.TaskCall) []byte {
	// A call that waits for approval did not run yet, and its record knows whether it was begun.
	mayRepeat := c.tool.IsRepeatable() || call.GetApproval() != ""
	if !t.manager.IsShared() || !mayRepeat || t.sender.of(c).OnBehalf != nil || backend.HasAuthorization(ctx) {
		return nil
	}
	for name, values := range t.sender.of(c).Metadata.OfCall(c.req.Header) {
		name = strings.ToLower(name)
		if backend.LooksSecret(name) {
			return nil // as mayBeStored says
		}
		call.Headers = append(call.Headers, &statev1.Header{Name: name, Values: values})
	}
	if proto.Size(call) > maxAgain {
		return nil
	}
	out, err := proto.Marshal(call)
	if err != nil {
		return nil // a header that is not UTF-8
	}
	return out
}

// mayBeStored reports whether nothing that is sent with a call is a secret.
func (t *tasks) mayBeStored(c *toolCall) bool {
	for name := range t.sender.of(c).Metadata.OfCall(c.req.Header) {
		if backend.LooksSecret(strings.ToLower(name)) {
			return false
		}
	}
	return true
}

// resume makes the work of a task that another replica began; see [Bridge.ResumeTask].
func (t *tasks) resume(r task.Record) (task.Run, task.Spec, error) {
	call := &statev1.TaskCall{}
	if err := proto.Unmarshal(r.Again, call); err != nil {
		return nil, task.Spec{}, fmt.Errorf("bridge: a stored call: %w", err)
	}
	var tool *catalog.Tool
	cat := t.directory.catalogs.Current()
	if cat != nil {
		if found, ok := cat.Lookup(call.GetTool()); ok && found.Native == (call.GetNative() != nil) && found.Method.Procedure == call.GetProcedure() {
			tool = found
		}
	}
	switch {
	case tool == nil && time.Since(r.Task.GetLastUpdatedAt().AsTime()) < t.sender.deadlines.most:
		return nil, task.Spec{}, task.ErrNotYet // another replica may have it, or this one after a reload
	case tool == nil:
		return nil, task.Spec{}, fmt.Errorf("bridge: there is no tool %s of %s any more", call.GetTool(), call.GetProcedure())
	case !tool.IsRepeatable() && call.GetApproval() == "":
		return nil, task.Spec{}, fmt.Errorf("bridge: tool %s is not idempotent any more", tool.Name)
	}
	header := make(http.Header, len(call.GetHeaders()))
	for _, h := range call.GetHeaders() {
		header[http.CanonicalHeaderKey(h.GetName())] = h.GetValues()
	}
	who := identityOf(call.GetIdentity())
	own := ofPrepared(call, t.directory.seen(identity.NewContext(context.Background(), who), tool), cat, header)
	own.maskAgain()
	line := t.resumedLine(call, tool, r.Origin)
	spec := task.Spec{
		About: errmap.About{ToolCall: true, Idempotent: tool.IsIdempotent()}, Origin: r.Origin, Ended: line.ended,
		View: func() string { return own.madeFor(call.GetView()) },
	}
	if call.GetApproval() != "" {
		var err error
		if spec.Waits, err = t.approvals.resume(own, call); err != nil {
			return nil, task.Spec{}, err
		}
	}
	run := t.runTask(own, line, 0)
	resumed := func(ctx context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
		return run(identity.NewContext(ctx, who), report)
	}
	return resumed, spec, nil
}

// findTask is [task.OpenRef] for an id whose changes can be followed. The error says that no one can tell now whether the task
// exists.
func (t *tasks) findTask(ctx context.Context, caller, id string) (task.Ref, bool, *errmap.Error) {
	ref, ok := task.OpenRef(t.operations.sealer, caller, id)
	if !ok || ref.Native != nil {
		return ref, ok, nil
	}
	if t.manager == nil || ref.Operation != nil {
		return ref, false, nil
	}
	_, err := t.manager.Get(ctx, caller, ref.ID)
	if err != nil && !errors.Is(err, task.ErrNotFound) {
		return ref, false, task.Canonical(ctx, err)
	}
	return ref, err == nil, nil
}

// requireTasks refuses what is about tasks where there are none, or the caller's
// client has none.
func requireTasks(req *Request, areOffered bool) *errmap.Error {
	if !areOffered {
		return errmap.NotOffered("tasks")
	}
	req, err := req.Complete()
	if err != nil {
		return err
	}
	if !req.Context.GetCapabilities().GetTasks() {
		return missingTasks("")
	}
	return nil
}

// areOffered reports whether calls of a catalog's tools may go on as tasks.
func (t *tasks) areOffered(cat *catalog.Catalog) bool {
	if t.manager != nil && t.approvals.areAsked() {
		return true
	}
	return cat.Description().GetCapabilities().GetTasks() || cat.HasOperations() || t.manager != nil && slices.ContainsFunc(cat.Tools(), func(tool *catalog.Tool) bool {
		_, ok := tool.RunsOn(t.after)
		return ok && !tool.Native
	})
}

// answer answers the three questions about a task.
func (t *tasks) answer(ctx context.Context, req *Request) *Response {
	cat, err := t.directory.catalog(ctx)
	if err != nil {
		return &Response{Err: err}
	}
	resp := t.answerFrom(ctx, req, cat)
	resp.Catalog = cat
	return resp
}

func (t *tasks) answerFrom(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if err := requireTasks(req, t.areOffered(cat)); err != nil {
		return &Response{Err: err}
	}
	req, err := req.Complete()
	if err != nil {
		return &Response{Err: err}
	}
	named, _ := req.Message.(interface{ GetTaskId() string })
	ref, ok := task.OpenRef(t.operations.sealer, req.Caller, named.GetTaskId())
	var resp *Response
	switch {
	case !ok:
		return &Response{Err: unknownTask(req)}
	case ref.Operation != nil:
		resp = t.operations.answer(ctx, req, cat, ref)
	case ref.Native != nil:
		resp = t.nativeTask(ctx, req, cat, ref)
	case t.manager == nil:
		return &Response{Err: unknownTask(req)}
	default:
		resp = t.ownTask(ctx, req, ref.ID)
	}
	if t, ok := resp.Message.(*outriggerv1.Task); ok && resp.Err == nil {
		t.TaskId = named.GetTaskId()
	}
	return resp
}

// nativeTask puts the question to the backend.
func (t *tasks) nativeTask(ctx context.Context, req *Request, cat *catalog.Catalog, ref task.Ref) *Response {
	var ask proto.Message
	switch m := req.Message.(type) {
	case *outriggerv1.GetTaskRequest:
		ask = &outriggerv1.GetTaskRequest{TaskId: ref.ID, Context: req.Context}
	case *outriggerv1.UpdateTaskRequest:
		ask = &outriggerv1.UpdateTaskRequest{TaskId: ref.ID, InputResponses: m.GetInputResponses(), Context: req.Context}
	default:
		ask = &outriggerv1.CancelTaskRequest{TaskId: ref.ID, Context: req.Context}
	}
	ctx = backend.WithAffinity(ctx, &backend.Affinity{Wanted: ref.Native.Address})
	resp := t.natives.askAt(ctx, req, t.natives.backendOf(cat, ref.Native), ask)
	resp.Err = t.natives.shownError(ctx, req, cat, ref.Native, resp.Err)
	if resp.IsMissing() || resp.NamesNothing() {
		resp.Err = unknownTask(req)
	}
	if found, ok := resp.Message.(*outriggerv1.Task); ok {
		task.Redact(found)
		if resp.Err == nil {
			t.natives.settleTask(ctx, req, cat, ref.Native, found)
		}
	}
	return resp
}

// ownTask answers from the sidecar's own tasks.
func (t *tasks) ownTask(ctx context.Context, req *Request, id string) *Response {
	if req.Span.IsRecording() {
		req.Span.Link(telemetry.ReadContext(t.manager.Origin(ctx, req.Caller, id)))
	}
	message, err := t.manager.Answer(ctx, req.Caller, id, req.Message, func(r *task.Record) { t.show(ctx, r) })
	switch {
	case errors.Is(err, task.ErrNotFound):
		return &Response{Err: unknownTask(req)}
	case err != nil:
		return &Response{Err: task.Canonical(ctx, err)}
	}
	return &Response{Message: message}
}

// show takes out of the copy of a task what was made for another view than its reader has.
func (t *tasks) show(ctx context.Context, r *task.Record) {
	if r.View == task.OwnWords || r.Task.GetCompletion() == nil {
		return
	}
	var tool *catalog.Tool
	if cat := t.directory.catalogs.Current(); cat != nil {
		tool, _ = cat.Lookup(r.Tool)
	}
	if failed := t.rulebook.mayRead(ctx, tool, r.Tool, r.View); failed != nil {
		r.Task.StatusMessage = ""
		task.Fail(r.Task, failed)
	}
}

// changed is a task on the feed as its reader is shown it. A copy that has ended is looked at again, for whom that was made.
func (t *tasks) changed(ctx context.Context, caller, id string, own *outriggerv1.Task) {
	if t.rulebook.rules == nil || own.GetCompletion() == nil {
		return
	}
	r, err := t.manager.Record(ctx, caller, id)
	if err != nil {
		r = task.Record{Task: own}
	}
	r.Task = own
	t.show(ctx, &r)
}

// unknownTask is the one answer for an id that is unknown, forgotten, tampered
// with or another caller's.
func unknownTask(req *Request) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.Message("Invalid params: unknown task"), errmap.WithViolations(errmap.Violation{
		Path: req.At("task_id"), Keyword: keywordTask, Message: "there is no task with this id",
	}))
}

// taskLine is the line about the end of a call that runs on as a task, and its document. A
// call that ends before it is one leaves those of its request alone.
type taskLine struct {
	via       *tasks
	event     trail.Event
	isAudited bool
	document  *trail.CallDocument
	start     time.Time
	// call is the span of the call, span that of the task; nil before it is one.
	call, span *telemetry.Span
	response   *Response
}

// taskLine begins the line of a call that may run on.
func (t *tasks) taskLine(c *toolCall) *taskLine {
	line := &taskLine{via: t, document: c.req.meter.document, start: time.Now(), call: c.req.Span}
	if inv := c.req.invocation(); inv != nil {
		line.event, line.isAudited = inv.event, true
	}
	return line
}

// resumedLine is the line of a task that another replica began.
func (t *tasks) resumedLine(call *statev1.TaskCall, tool *catalog.Tool, origin []byte) *taskLine {
	line := &taskLine{via: t, start: time.Now()}
	if t := t.tracer; t.IsOn() {
		line.span = t.StartIn(context.Background(), telemetry.TaskSpan)
		line.span.Link(telemetry.ReadContext(origin))
	}
	if !t.auditor.trail.IsOn() {
		return line
	}
	who := call.GetWho()
	inv := &invocation{event: trail.Event{
		ID: t.auditor.trail.NewID(), Route: call.GetRoute(), Edge: telemetry.EdgeOf(call.GetTransport(), call.GetRoute(), false).String(),
		Operation: OpCall.String(), Trust: who.GetTrust(), Decision: trail.Allowed, Rule: ruleTakeover, BytesIn: len(call.GetWire()),
		Caller: trail.Caller{
			Name: who.GetName(), Subject: who.GetSubject(), Issuer: who.GetIssuer(), ClientID: who.GetClientId(), Address: who.GetAddress(),
			Source: who.GetSource(), Operator: who.GetOperator(),
		},
	}}
	inv.found(tool)
	line.event, line.isAudited = inv.event, true
	return line
}

// who is the caller as a task keeps it for the trail of another replica.
func (l *taskLine) who() *statev1.TaskCaller {
	if !l.isAudited {
		return nil
	}
	c := &l.event.Caller
	return &statev1.TaskCaller{
		Name: c.Name, Subject: c.Subject, Issuer: c.Issuer, ClientId: c.ClientID, Address: c.Address, Source: c.Source, Trust: l.event.Trust,
		Operator: c.Operator,
	}
}

// began notes that the call becomes a task.
func (l *taskLine) began() {
	l.span = l.call.RunOn(telemetry.TaskSpan)
	l.document.IsTask()
}

// ended writes the line, and ends the span, of a call that has run on as a task.
func (l *taskLine) ended() {
	code := outcomeCode(l.response)
	EndSpan(l.span, l.response, errmap.ModernMCP, errmap.About{ToolCall: true})
	l.via.documents.end(l.document.Again(), l.response, code)
	if !l.isAudited {
		return
	}
	e := &l.event
	e.Duration = time.Since(l.start)
	l.via.auditor.addOutcome(e, l.response, code)
	l.via.auditor.trail.EndTask(e)
}

// operations calls RPCs that answer with a long-running operation. A [task.Operation] follows what they began.
type operations struct {
	directory *directory
	auditor   *auditor
	sender    *sender
	decoder   *decoder

	sealer *keys.Sealer
	// draining is closed when the sidecar begins to drain.
	draining <-chan struct{}
}

// operation is an operation on whose behalf a call of its tool goes to the backend.
func (o *operations) operation(ctx context.Context, c *toolCall, ref task.Ref, token string) *task.Operation {
	return &task.Operation{
		Pipeline: pipeline{o, c}, Tool: c.tool, Shown: c.req.toolName, Events: c.events(ctx), Handle: *ref.Operation, Token: token,
		Draining: o.draining, MaxResult: o.decoder.limit.most,
	}
}

// invokeOperation calls an RPC that starts a long-running operation. The deadline is that of the call, and not of the operation.
func (o *operations) invokeOperation(ctx context.Context, c *toolCall) *errmap.Error {
	var failed *errmap.Error
	if c.req, failed = c.req.Complete(); failed != nil {
		return failed
	}
	if failed = requireTaskSupport(c); failed != nil {
		return failed
	}
	isTask := c.req.Context.GetCapabilities().GetTasks() && (c.tool.TaskSupport == catalog.TaskOptional || c.tool.TaskSupport == catalog.TaskRequired)
	return o.run(ctx, c, isTask)
}

// run is the rest of invokeOperation, for a caller that is to have a task or not.
func (o *operations) run(ctx context.Context, c *toolCall, isTask bool) *errmap.Error {
	ctx, cancel := context.WithTimeout(ctx, o.sender.deadlines.timeout(c))
	defer cancel()
	c.deadline, _ = ctx.Deadline()
	now := time.Now()
	defer c.req.waited(now)
	until := now.Add(streamTime(o.sender.deadlines.timeout(c), 0))
	failed := o.sender.once(ctx, c)
	if failed != nil {
		return failed
	}
	wanted := c.req.Wanted
	if c.fit.mask == nil {
		wanted.Fields = ""
	}
	op, body := o.operation(ctx, c, task.Begun(c.tool.Name, now, wanted), ""), c.answer.Body
	c.answer = nil
	if c.resp.Outcome, failed = op.Begin(ctx, body, o.sealer, c.req.Caller, until, isTask); failed != nil || c.resp.Outcome != nil {
		return failed
	}
	return finish(ctx, c, op)
}

// finish makes the response of an operation that is done the result of a call of its tool, or the error that the call has.
func finish(ctx context.Context, c *toolCall, op *task.Operation) *errmap.Error {
	body, failed := op.Response(ctx)
	if failed == nil {
		c.resp.Result = Payload{Encoding: EncodingJSON, Bytes: body}
	}
	return failed
}

// finishChecked is finish for a call that takes no other steps.
func (o *operations) finishChecked(ctx context.Context, c *toolCall, op *task.Operation) *errmap.Error {
	failed := finish(ctx, c, op)
	if failed == nil {
		failed = o.decoder.checked(ctx, c)
	}
	if failed == nil {
		failed = o.decoder.reduce(ctx, c)
	}
	return failed
}

// operationTool is the tool that started an operation, which the caller must still be allowed to use. Nil without an error: the
// tool is not there any more, or starts no operations.
func (o *operations) operationTool(ctx context.Context, cat *catalog.Catalog, ref task.Ref) (*catalog.Tool, *errmap.Error) {
	tool, failed := o.directory.find(ctx, cat, &Request{Op: OpCall, Tool: ref.Operation.Tool})
	switch {
	case failed != nil && failed.Code == errmap.ToolNotFound:
		return nil, nil //nolint:nilnil // said above
	case failed != nil:
		return nil, failed
	case tool.Operation == nil:
		return nil, nil //nolint:nilnil // said above
	}
	return tool, nil
}

// fetching is a request that may fetch the result of an operation: for every caller that fetches it, the result is as the call wanted it
// that began the operation. A budget of the request itself can only lower that.
func fetching(req *Request, tool *catalog.Tool, cat *catalog.Catalog, ref task.Ref) *toolCall {
	first := ref.Wanted()
	return fetched(req, tool, cat, first.FetchedBy(req.Wanted), ref.Operation.IsMaskLost)
}

// answer answers what is asked about a task that is an operation of the backend. Any replica can, because the id says
// which one.
func (o *operations) answer(ctx context.Context, req *Request, cat *catalog.Catalog, ref task.Ref) *Response {
	tool, failed := o.operationTool(ctx, cat, ref)
	if failed != nil {
		return &Response{Err: failed}
	}
	if tool == nil {
		return &Response{Err: unknownTask(req)}
	}
	if inv := req.invocation(); inv != nil {
		inv.found(tool)
	}
	if failed = o.auditor.recordAsk(ctx, req); failed != nil {
		return &Response{Err: failed}
	}
	message, failed := o.operation(ctx, fetching(req, tool, cat, ref), ref, "").Answer(ctx, req.Message, req.Timeout)
	switch {
	case failed == nil:
		return &Response{Message: message}
	case isMissing(failed):
		return &Response{Err: unknownTask(req)}
	}
	return &Response{Err: failed}
}

func unknownHandle(tool *catalog.Tool) *errmap.Error {
	return errmap.InvalidInput(tool.Name, false, errmap.Violation{
		Path: "/" + catalog.HandleArgument, Keyword: "handle",
		Message: "there is no operation with this handle; use the one that the call returned, unchanged",
	})
}

// pipeline is the [task.Pipeline] of a call.
type pipeline struct {
	of   *operations
	call *toolCall
}

// Ask implements [task.Pipeline]. All that is asked may be repeated.
func (o pipeline) Ask(ctx context.Context, m *catalog.Method, in []byte, timeout time.Duration) ([]byte, *errmap.Error) {
	req, at, most := o.call.req, o.of.sender.of(o.call), o.of.sender.deadlines.allowed(o.call)
	if timeout > 0 {
		most = min(most, timeout)
	}
	header := at.Metadata.Inbound(req.Header)
	// First, so that an exchange of tokens takes none of the question's time.
	ctx, failed := at.onBehalf(ctx, req)
	if failed != nil {
		return nil, failed
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	// A question that was let wait says nothing about the backend where its time is over.
	risk := backend.GuardedCall{Key: m.Procedure, Repeatable: true, Hurried: timeout > 0 || req.Timeout > 0}
	upstream := o.of.sender.upstream(ctx, at, o.call)
	answer, failed := guarded(ctx, at, req, risk, func(ctx context.Context) (*Answer, *errmap.Error) {
		return upstream.Call(ctx, m, in, header)
	})
	if failed != nil {
		return nil, failed
	}
	return answer.Body, nil
}

// JSON implements [task.Pipeline]. What is not there is an empty message. Types that are unknown are asked for.
func (o pipeline) JSON(ctx context.Context, declared *catalog.OperationValue, held *anypb.Any) ([]byte, *errmap.Error) {
	c := o.call
	if declared == nil {
		return o.of.anyJSON(ctx, c, held)
	}
	if held != nil && held.MessageName() != declared.Name {
		return nil, errmap.Because(errmap.InvalidToolOutput, "the operation holds a "+errmap.Quote(string(held.MessageName()))+", but the method declares "+string(declared.Name))
	}
	as := *c.tool
	as.Out = declared.Out
	one := &toolCall{req: c.req, tool: &as, catalog: c.catalog, deadline: c.deadline, fit: fit{under: c.fit.under}, isSeen: c.isSeen}
	body, err := o.of.decoder.answerJSON(ctx, one, nil, held.GetValue())
	if err != nil {
		return nil, outputError(err)
	}
	c.note(one.fit.noted)
	return body, nil
}

// Result implements [task.Pipeline].
func (o pipeline) Result(ctx context.Context, op *task.Operation) (*outriggerv1.ToolResult, *errmap.Error) {
	c := o.call
	if failed := o.of.finishChecked(ctx, c, op); failed != nil {
		return nil, o.of.decoder.explained(ctx, c, c.named(failed, c.tool.Name)).Redacted()
	}
	return c.resp.ToolOutcome().GetResult(), nil
}

// anyJSON is the JSON of an Any, whose types are asked for where they are unknown.
func (o *operations) anyJSON(ctx context.Context, c *toolCall, held *anypb.Any) ([]byte, *errmap.Error) {
	cat := o.decoder.typesOf(c)
	if held == nil || cat == nil {
		return emptyObject, nil
	}
	o.decoder.learnAll(ctx, c, cat, held)
	body, noted, err := cat.Types().AppendJSONNoting(nil, held)
	if err == nil && len(noted.Odd) > 0 {
		err = c.noteOdd(noted)
	}
	if err != nil {
		return nil, outputError(err)
	}
	return body, nil
}

// continueOperation runs a tool of the sidecar's own that goes on with an operation. The caller must be allowed to use the tool
// that started it too.
func (o *operations) continueOperation(ctx context.Context, c *toolCall) *errmap.Error {
	ref, token, ok := task.OpenArguments(o.sealer, c.req.Caller, c.arguments())
	if !ok {
		return unknownHandle(c.tool)
	}
	tool, failed := o.operationTool(ctx, c.catalog, ref)
	if failed != nil {
		return failed
	}
	if tool == nil {
		return unknownHandle(c.tool)
	}
	ctx, cancel := context.WithTimeout(ctx, o.sender.deadlines.timeout(c))
	defer cancel()
	now := time.Now()
	defer c.req.waited(now)
	of := fetching(c.req, tool, c.catalog, ref)
	of.fit.isFetch, of.fit.under = false, task.ResponseMember
	of.deadline, _ = ctx.Deadline()
	if failed = of.chooseFields(&c.req.Wanted); failed != nil {
		return failed
	}
	op := o.operation(ctx, of, ref, token)
	if c.tool.Continues == catalog.CancelOperation {
		c.resp.Outcome, failed = op.Cancel(ctx, c.req.Timeout)
		return failed
	}
	if c.resp.Outcome, failed = op.Continue(ctx, now.Add(streamTime(o.sender.deadlines.timeout(c), 0))); failed != nil || c.resp.Outcome != nil {
		return failed
	}
	if failed = o.finishChecked(ctx, of, op); failed != nil {
		return failed
	}
	result := task.Done(of.resp.Outcome.GetResult(), of.resp.Result.Bytes, of.resp.Explanation)
	if failed = o.decoder.limit.check(len(result.GetDataJson())); failed != nil {
		return failed
	}
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
	return nil
}
