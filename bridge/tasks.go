// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/seal"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// nativeTaskTTL is how long the sealed id of a backend's task can be used where
// the task says nothing: as long as the longest that a task of the sidecar's own
// may be remembered.
const nativeTaskTTL = 7 * 24 * time.Hour

// sealedPrefix begins every sealed id; no id of the sidecar's own does.
const sealedPrefix = "v1."

// taskRef is a task behind an id that a caller was given.
type taskRef struct {
	// native: the backend has the task, else the sidecar.
	native bool
	id     string
	// of says how the results of a native tool are settled.
	of nativeResult
}

// key is the task's id on the change feed, where the two kinds meet.
func (r taskRef) key() string {
	if r.native {
		return nativeTaskKey(r.id)
	}
	return r.id
}

// nativeTaskKey is the id of a backend's task on the change feed.
func nativeTaskKey(id string) string { return sealedPrefix + id }

// NativeTask returns a copy of a native backend's task with the id that the change feed
// uses for it, and with its error redacted. Code that publishes what a backend reports
// calls it.
func NativeTask(t *outriggerv1.Task) *outriggerv1.Task {
	out, _ := proto.Clone(t).(*outriggerv1.Task)
	out.TaskId = nativeTaskKey(t.GetTaskId())
	redactTask(out)
	return out
}

// redactTask makes what went wrong with a backend's task fit to leave, as that of
// a call is made.
func redactTask(t *outriggerv1.Task) {
	if failed := t.GetResult().GetError(); failed != nil {
		failed.ErrorMessage = errmap.Redact(failed.GetErrorMessage())
	}
	if failed := t.GetError(); failed != nil {
		failed.Message = errmap.Redact(failed.GetMessage())
	}
}

// NativeTaskID returns the backend's own id of a task, given the one that the change
// feed uses. It reports false for a task of the sidecar's own.
func NativeTaskID(key string) (string, bool) { return strings.CutPrefix(key, sealedPrefix) }

// sealTask replaces the backend's id of a task by a sealed one, which only this
// caller can use.
func (b *Bridge) sealTask(c *toolCall, t *outriggerv1.Task) *errmap.Error {
	ttl := nativeTaskTTL
	if t.GetTtl() != nil {
		ttl = min(ttl, time.Until(t.GetCreatedAt().AsTime().Add(t.GetTtl().AsDuration())))
	}
	token, err := b.opts.Sealer.Seal(taskBinding(c.req.Caller, max(ttl, time.Second)), encodeTask(t.GetTaskId(), b.nativeResultOf(c)))
	if err != nil {
		return errmap.Wrap(errmap.InternalError, err)
	}
	t.TaskId = token
	return nil
}

func taskBinding(caller string, ttl time.Duration) seal.Binding {
	return seal.Binding{Purpose: purposeTask, Principal: caller, TTL: ttl}
}

// openTask tells whose task an id stands for. It does not tell whether the task
// still exists.
func (b *Bridge) openTask(caller, id string) (taskRef, bool) {
	if !strings.HasPrefix(id, sealedPrefix) {
		return taskRef{id: id}, b.opts.Tasks != nil
	}
	plain, err := b.opts.Sealer.Open(taskBinding(caller, 0), id)
	own, of := parseTask(plain)
	return taskRef{native: true, id: own, of: of}, err == nil
}

// findTask is openTask for an id whose task has to exist. The error says that nobody can
// tell now.
func (b *Bridge) findTask(ctx context.Context, caller, id string) (taskRef, bool, *errmap.Error) {
	ref, ok := b.openTask(caller, id)
	if !ok || ref.native {
		return ref, ok, nil
	}
	_, err := b.opts.Tasks.Get(ctx, caller, ref.id)
	if err != nil && !errors.Is(err, task.ErrNotFound) {
		return ref, false, taskError(ctx, err)
	}
	return ref, err == nil, nil
}

// requireTasks refuses what is about tasks where there are none, or the caller's
// client has none.
func requireTasks(req *Request, f Features) *errmap.Error {
	if !f.Tasks {
		return errmap.NotOffered("tasks")
	}
	req, err := req.complete()
	if err != nil {
		return err
	}
	if !req.Context.GetCapabilities().GetTasks() {
		return missingTasks("")
	}
	return nil
}

// missingTasks is the error for a client without the tasks extension.
func missingTasks(tool string) *errmap.Error {
	return errmap.MissingCapability(tool, &outriggerv1.ClientCapabilities{Tasks: true})
}

// task answers the three questions about a task.
func (b *Bridge) task(ctx context.Context, req *Request, cat *catalog.Catalog) *Response {
	if err := requireTasks(req, b.Features(cat)); err != nil {
		return &Response{Err: err}
	}
	req, err := req.complete()
	if err != nil {
		return &Response{Err: err}
	}
	named, _ := req.Message.(interface{ GetTaskId() string })
	if h, ok := b.openOperation(req.Caller, named.GetTaskId()); ok {
		resp := b.taskOfOperation(ctx, req, cat, h)
		if t, ok := resp.Message.(*outriggerv1.Task); ok && resp.Err == nil {
			t.TaskId = named.GetTaskId()
		}
		return resp
	}
	ref, ok := b.openTask(req.Caller, named.GetTaskId())
	if !ok {
		return &Response{Err: unknownTask(req)}
	}
	var resp *Response
	if ref.native {
		resp = b.nativeTask(ctx, req, ref.id)
		if t, ok := resp.Message.(*outriggerv1.Task); ok && resp.Err == nil {
			b.settleTask(req, cat, &ref.of, t)
		}
	} else {
		resp = b.ownTask(ctx, req, ref.id)
	}
	if t, ok := resp.Message.(*outriggerv1.Task); ok && resp.Err == nil {
		t.TaskId = named.GetTaskId()
	}
	return resp
}

// nativeTask puts the question to the backend.
func (b *Bridge) nativeTask(ctx context.Context, req *Request, id string) *Response {
	var ask proto.Message
	switch m := req.Message.(type) {
	case *outriggerv1.GetTaskRequest:
		ask = &outriggerv1.GetTaskRequest{TaskId: id, Context: req.Context}
	case *outriggerv1.UpdateTaskRequest:
		ask = &outriggerv1.UpdateTaskRequest{TaskId: id, InputResponses: m.GetInputResponses(), Context: req.Context}
	default:
		ask = &outriggerv1.CancelTaskRequest{TaskId: id, Context: req.Context}
	}
	resp := b.ask(ctx, req, ask)
	if resp.Err != nil && (isMissing(resp.Err) || namesNothing(resp.Err)) {
		resp.Err = unknownTask(req)
	}
	if t, ok := resp.Message.(*outriggerv1.Task); ok {
		redactTask(t)
	}
	return resp
}

// ownTask answers from the sidecar's own tasks.
func (b *Bridge) ownTask(ctx context.Context, req *Request, id string) *Response {
	var message proto.Message
	var err error
	if req.Span.IsRecording() {
		req.Span.Link(tracing.ReadContext(b.opts.Tasks.Origin(ctx, req.Caller, id)))
	}
	switch m := req.Message.(type) {
	case *outriggerv1.GetTaskRequest:
		message, err = b.opts.Tasks.Get(ctx, req.Caller, id)
	case *outriggerv1.UpdateTaskRequest:
		message, err = &outriggerv1.UpdateTaskResponse{}, b.opts.Tasks.Update(ctx, req.Caller, id, m.GetInputResponses())
	default:
		message, err = &outriggerv1.CancelTaskResponse{}, b.opts.Tasks.Cancel(ctx, req.Caller, id)
	}
	switch {
	case errors.Is(err, task.ErrNotFound):
		return &Response{Err: unknownTask(req)}
	case err != nil:
		return &Response{Err: taskError(ctx, err)}
	}
	return &Response{Message: message}
}

// unknownTask is the one answer for an id that is unknown, forgotten, tampered
// with or another caller's.
func unknownTask(req *Request) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.Message("Invalid params: unknown task"), errmap.WithViolations(errmap.Violation{
		Path: req.pointer("task_id"), Keyword: keywordTask, Message: "there is no task with this id",
	}))
}

// nativeResultOf is what the id of the task of a call has to say.
func (b *Bridge) nativeResultOf(c *toolCall) nativeResult {
	out := nativeResult{isReduced: c.mask != nil || b.budget(c) > 0}
	if out.isReduced {
		out.wanted = fit.Wanted{Budget: c.req.Wanted.Budget, ForModel: c.req.Wanted.ForModel}
		if c.mask != nil {
			out.wanted.Fields = c.req.Wanted.Fields
		}
	}
	if out.isReduced || c.tool.HasOutput() {
		out.digest = toolDigest(c.tool)
	}
	return out
}

// settleTask validates the result of a backend's task against the current output schema of its tool, like the result of a call, and
// reduces it as that call wanted it. An invalid result fails the task, like a task of the sidecar itself. If the tool is gone, nothing
// is done.
func (b *Bridge) settleTask(req *Request, cat *catalog.Catalog, of *nativeResult, t *outriggerv1.Task) {
	if len(of.digest) == 0 || t.GetResult() == nil {
		return
	}
	for _, tool := range cat.All() {
		if tool.Native && bytes.Equal(toolDigest(tool), of.digest) {
			own := req.copied()
			own.Wanted = of.wanted
			c := &toolCall{req: own, tool: tool, catalog: cat, isFetch: true}
			if of.isMaskLost {
				c.note(fit.MaskLost)
			}
			c.maskAgain()
			b.settleTaskOf(context.Background(), c, t) // a reader who leaves fails no task
			return
		}
	}
}

// settleTaskOf is settleTask where the tool is known.
func (b *Bridge) settleTaskOf(ctx context.Context, c *toolCall, t *outriggerv1.Task) {
	if t.GetResult() == nil {
		return
	}
	failed := declaredData(ctx, c.tool, t.GetResult())
	if failed == nil {
		failed = b.reduceNative(ctx, c, t.GetResult())
	}
	if failed != nil {
		failed.Tool = c.tool.Name
		endWith(t, failed)
	}
}

// endWith replaces the end of a task by an error.
func endWith(t *outriggerv1.Task, failed *errmap.Error) {
	about := errmap.About{ToolCall: true}
	if result := task.ErrorResult(failed, about); result != nil {
		t.Completion = &outriggerv1.Task_Result{Result: result}
		return
	}
	t.Status = outriggerv1.TaskStatus_TASK_STATUS_FAILED
	t.Completion = &outriggerv1.Task_Error{Error: task.ErrorObject(failed, about)}
}
