// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/logkey"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// taskPoll is how often a client may want to look at a task of the sidecar's
// own.
const taskPoll = time.Second

// taskAfter is after how long a call of a tool runs on as a task; false where it
// never does. What the tool says comes before the sidecar's setting.
func (b *Bridge) taskAfter(tool *catalog.Tool) (time.Duration, bool) {
	switch {
	case b.opts.Tasks == nil:
		return 0, false
	case tool.TaskSupport == taskOptional, tool.TaskSupport == taskRequired:
		return tool.TaskAfter, true
	case tool.TaskUnsaid && b.opts.TaskAfter > 0:
		return b.opts.TaskAfter, true
	}
	return 0, false
}

// Values of ToolOptions.task_support.
const (
	taskOptional = "optional"
	taskRequired = "required"
)

// invokeTask calls a plain RPC that may run on as a task: at once, or when it
// takes longer than its tool says. What ends before is an ordinary result. Once
// it is a task, neither the caller's deadline nor the end of its connection
// concerns it; the tool's own deadline does.
func (b *Bridge) invokeTask(ctx context.Context, c *toolCall, after time.Duration) *errmap.Error {
	var failed *errmap.Error
	if c.req, failed = c.req.complete(); failed != nil {
		return failed
	}
	if !c.req.Context.GetCapabilities().GetTasks() {
		if err := requireTaskSupport(c); err != nil {
			return err
		}
		return b.invokeRPC(ctx, c)
	}
	defer c.req.waited(time.Now())
	if ctx, failed = b.onBehalf(ctx, c.req); failed != nil {
		return failed
	}
	line := b.taskLine(c)
	started, err := b.opts.Tasks.Start(ctx, task.Spec{
		Principal: c.req.Caller, Tool: c.tool.Name, After: after, Timeout: b.timeout(c), PollInterval: taskPoll,
		About: errmap.About{ToolCall: true, Idempotent: c.tool.IsIdempotent()}, Origin: c.req.origin(),
		Again: b.again(ctx, c, line),
	}, b.background(c, line, after))
	if err != nil {
		return taskError(ctx, err)
	}
	if started.Err != nil {
		return started.Err
	}
	if started.Task != nil {
		line.isTask()
		c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: started.Task}}
		return nil
	}
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: started.Result}}
	return nil
}

// requireTaskSupport refuses a call that could only become a task, where the
// caller's client has no tasks.
func requireTaskSupport(c *toolCall) *errmap.Error {
	if c.tool.TaskSupport != taskRequired || c.req.Context.GetCapabilities().GetTasks() {
		return nil
	}
	return missingTasks(c.tool.Name)
}

// background is the rest of a call as the work of a task: a call of its own,
// which shares nothing with the request that began it. The line is written when it ends.
func (b *Bridge) background(c *toolCall, line *taskLine, after time.Duration) task.Run {
	own := &toolCall{tool: c.tool, catalog: c.catalog, wire: c.wire, hasFirst: c.hasFirst, header: bytes.Clone(c.header), items: c.keepItems(), mask: c.mask, req: &Request{
		Op: OpCall, Tool: c.req.Tool, Through: c.req.Through, Header: b.sentHeader(c.req.Header).Clone(), Wanted: c.req.Wanted,
		Caller: c.req.Caller, Transport: c.req.Transport, Route: c.req.Route, Method: c.req.Method, Span: c.req.Span,
	}}
	return b.runTask(own, line, after)
}

// runTask is a call that shares nothing with a request, as the work of a task.
func (b *Bridge) runTask(own *toolCall, line *taskLine, after time.Duration) task.Run {
	return func(ctx context.Context, report func(string)) (result *outriggerv1.ToolResult, failed *errmap.Error) {
		if after <= 0 { // it is a task from the start, and no part of the call
			own.req.Span = line.began()
		}
		own.req.Events = func(e *outriggerv1.ToolEvent) {
			if text := e.GetProgress().GetMessage(); text != "" {
				report(text)
			}
		}
		end := &Response{Tool: own.tool, Err: errmap.New(errmap.InternalError)} // of a panic
		defer func() {
			if p := recover(); p != nil {
				failed = b.Panicked(p, append(TraceFields(own.req.Span, own.req.Header), zap.String(logkey.CanonicalTool, own.tool.Name))...)
			}
			line.ended(end)
		}()
		defer own.endTurn()
		err := b.invokeRPC(ctx, own)
		if err == nil {
			err = b.result(ctx, own)
		}
		if err != nil {
			end.Err = b.explained(ctx, own, own.named(err, own.shownName()))
			return nil, end.Err
		}
		own.resp.Tool = own.tool
		end = &own.resp
		return own.resp.ToolOutcome().GetResult(), nil
	}
}

// maxAgain bounds what is stored of a call to run it again, which is stored twice at most:
// when the task begins, and with each of its changes.
const maxAgain = 512 << 10

// again is what another replica needs to run the call again if this one stops; nil where
// nobody may: the tool is not idempotent, the call has credentials that end with it, or it
// is too large to be kept.
func (b *Bridge) again(ctx context.Context, c *toolCall, line *taskLine) []byte {
	if !b.opts.Tasks.IsShared() || !c.tool.IsIdempotent() || b.opts.OnBehalf != nil || backend.HasAuthorization(ctx) {
		return nil
	}
	call := &statev1.TaskCall{
		Tool: c.tool.Name, Procedure: c.tool.Method.Procedure, Wire: c.wire, HasFirst: c.hasFirst, Header: c.header, Items: c.items,
		Caller: c.req.Caller, Transport: c.req.Transport, Route: c.req.Route, Method: c.req.Method, Who: line.who(),
		Fields: c.req.Wanted.Fields, Budget: int64(c.req.Wanted.Budget), ForModel: c.req.Wanted.ForModel,
		StreamTime: int64(c.req.Wanted.StreamTime),
	}
	for name, values := range b.sentHeader(c.req.Header) {
		name = strings.ToLower(name)
		if metadata.LooksSecret(name) {
			return nil
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

// ResumeTask makes the work of a task that another replica began, for
// [task.Manager.Run]. The tool must be the same RPC, and still idempotent.
func (b *Bridge) ResumeTask(r task.Record) (task.Run, task.Spec, error) {
	call := &statev1.TaskCall{}
	if err := proto.Unmarshal(r.Again, call); err != nil {
		return nil, task.Spec{}, fmt.Errorf("bridge: a stored call: %w", err)
	}
	tool := b.toolOf(call)
	switch {
	case tool == nil && time.Since(r.Task.GetLastUpdatedAt().AsTime()) < b.opts.Timeout:
		return nil, task.Spec{}, task.ErrNotYet // another replica may have it, or this one after a reload
	case tool == nil:
		return nil, task.Spec{}, fmt.Errorf("bridge: there is no tool %s of %s any more", call.GetTool(), call.GetProcedure())
	case !tool.IsIdempotent():
		return nil, task.Spec{}, fmt.Errorf("bridge: tool %s is not idempotent any more", tool.Name)
	}
	header := make(http.Header, len(call.GetHeaders()))
	for _, h := range call.GetHeaders() {
		header[http.CanonicalHeaderKey(h.GetName())] = h.GetValues()
	}
	own := &toolCall{
		tool: tool, catalog: b.catalogs.Current(), wire: call.GetWire(), hasFirst: call.GetHasFirst(), header: call.Header, items: call.GetItems(),
		req: &Request{
			Op: OpCall, Tool: tool.Name, Header: header,
			Caller: call.GetCaller(), Transport: call.GetTransport(), Route: call.GetRoute(), Method: call.GetMethod(),
			Wanted: fit.Wanted{
				Fields: call.GetFields(), Budget: int(call.GetBudget()), ForModel: call.GetForModel(), StreamTime: time.Duration(call.GetStreamTime()),
			},
		},
	}
	own.maskAgain()
	return b.runTask(own, b.resumedLine(call, tool, r.Origin), 0), task.Spec{
		About: errmap.About{ToolCall: true, Idempotent: true}, Origin: r.Origin,
	}, nil
}

// toolOf is the tool of a stored call, if it still is that RPC.
func (b *Bridge) toolOf(call *statev1.TaskCall) *catalog.Tool {
	cat := b.catalogs.Current()
	if cat == nil {
		return nil
	}
	tool, ok := cat.Lookup(call.GetTool())
	if !ok || tool.Native || tool.Method.Procedure != call.GetProcedure() {
		return nil
	}
	return tool
}

// taskError is why a call could not become a task.
func taskError(ctx context.Context, err error) *errmap.Error {
	switch {
	case errors.Is(err, task.ErrFull):
		full := unavailable("too many tasks (--max-tasks)")
		full.Limit = errmap.LimitTasks
		return full
	case errors.Is(err, task.ErrShare):
		return errmap.OverShare("this caller's tasks exceed its share (--max-tasks, --caller-share)")
	case errors.Is(err, task.ErrClosed):
		return unavailable("the sidecar is shutting down; try another replica")
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // that of the caller, who gives up on a slow store
		return errmap.Wrap(errmap.Timeout, err)
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	case errors.Is(err, task.ErrUnavailable):
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
			errmap.Message("Tool service unavailable: tasks cannot be reached now (--state); try again"))
	}
	return errmap.Wrap(errmap.InternalError, err)
}
