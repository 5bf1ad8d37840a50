// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
)

// invokeOperation calls an RPC that starts a long-running operation. For a client that knows tasks the call becomes one at once,
// or after the time that its tool says. For others it waits until the operation is done, and returns at the end of its time
// that it is still running, with a handle: the deadline is that of the call, and not of the operation.
func (b *Bridge) invokeOperation(ctx context.Context, c *toolCall) *errmap.Error {
	var failed *errmap.Error
	if c.req, failed = c.req.complete(); failed != nil {
		return failed
	}
	if failed = requireTaskSupport(c); failed != nil {
		return failed
	}
	isTask := c.req.Context.GetCapabilities().GetTasks() && (c.tool.TaskSupport == taskOptional || c.tool.TaskSupport == taskRequired)
	ctx, cancel := context.WithTimeout(ctx, b.timeout(c))
	defer cancel()
	c.deadline, _ = ctx.Deadline()
	now := time.Now()
	defer c.req.waited(now)
	w := b.watcher(ctx, c, now.Add(streamTime(b.timeout(c), 0)))
	c.forgetArguments()
	failed = b.callRPC(ctx, c)
	if c.pooled {
		b.buffers.Put(c.wire)
		c.wire, c.pooled = nil, false
	}
	b.keepMetadata(c)
	if failed != nil {
		return failed
	}
	op, err := longrunning.Parse(c.answer.Body)
	if err != nil {
		return errmap.Wrap(errmap.SerializationError, err)
	}
	c.answer = nil
	if op.Done {
		return b.endOperation(ctx, c, op)
	}
	if op.Name == "" {
		return errmap.Because(errmap.InvalidToolOutput, "the operation that the tool returned has no name")
	}
	w.handle = longrunning.Handle{Name: op.Name, Tool: c.tool.Name, Created: now.Truncate(time.Millisecond), Budget: c.req.Wanted.Budget, ForModel: c.req.Wanted.ForModel}
	if c.mask != nil {
		w.handle.Fields = c.req.Wanted.Fields
	}
	if w.token, failed = b.sealOperation(c.req.Caller, w.handle); failed != nil {
		return failed
	}
	w.last = op
	if isTask {
		return b.announceOperation(ctx, w)
	}
	if failed = w.follow(ctx, w.until); failed != nil {
		w.abandon(ctx)
		return failed
	}
	if w.last.Done {
		return b.endOperation(ctx, c, w.last)
	}
	return w.stillRunning(ctx)
}

// announceOperation makes a task of an operation, as soon as the backend knows it under its name: nobody is told of a task that
// cannot be asked for. One that is done by then is the result of the call.
func (b *Bridge) announceOperation(ctx context.Context, w *watcher) *errmap.Error {
	until := w.until
	if after := w.call.tool.TaskAfter; after > 0 {
		until = w.handle.Created.Add(after)
		if w.until.Before(until) {
			until = w.until
		}
	}
	w.once = w.call.tool.TaskAfter <= 0
	if failed := w.follow(ctx, until); failed != nil {
		w.abandon(ctx)
		return failed
	}
	switch {
	case w.last.Done:
		return b.endOperation(ctx, w.call, w.last)
	case !w.isResolved:
		return w.stillRunning(ctx)
	}
	t, failed := b.operationTask(ctx, w.call, w.handle, w.last)
	if failed != nil {
		return failed
	}
	t.TaskId = w.token
	w.call.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: t}}
	return nil
}

// watcher follows one operation while its caller waits.
type watcher struct {
	bridge *Bridge
	// call is the call that waits, of the tool that started the operation.
	call   *toolCall
	events func(*outriggerv1.ToolEvent)
	handle longrunning.Handle
	token  string
	// until is when the caller is answered, whatever has become of the operation.
	until time.Time
	// once ends it with the first answer.
	once bool
	// last is what is known of the operation. isResolved: the backend knows it under its name.
	last       *longrunning.Operation
	isResolved bool
	// isBlind: the backend cannot be asked.
	isBlind bool
	polls   int
}

func (b *Bridge) watcher(ctx context.Context, c *toolCall, until time.Time) *watcher {
	return &watcher{bridge: b, call: c, events: b.events(ctx, c), until: until}
}

// waitTime is how long one WaitOperation may take: so often there is progress to report, and a drain is noticed.
const waitTime = 2 * time.Second

// follow asks until the operation is done, the time is over, or the sidecar drains: another replica can go on. What
// may pass by itself is no end of it, because the operation goes on meanwhile.
func (w *watcher) follow(ctx context.Context, until time.Time) *errmap.Error {
	var pace longrunning.Pace
	var missing *errmap.Error
	mayWait := !w.once
	for {
		if errors.Is(ctx.Err(), context.Canceled) {
			return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		}
		left := time.Until(until)
		if left <= 0 || ctx.Err() != nil {
			return missing
		}
		asked := time.Now()
		patience := time.Duration(0)
		if mayWait {
			patience = min(left, waitTime)
		}
		op, failed := w.ask(ctx, patience)
		switch {
		case failed == nil:
			w.last, w.isResolved, missing = op, true, nil
			if op.Done || w.once {
				return nil
			}
			w.report(ctx)
		case ctx.Err() != nil:
			continue
		case mayWait && (isBackend(failed, connect.CodeUnimplemented) || failed.Code == errmap.Timeout):
			mayWait = false // it has no WaitOperation, or one that waits for the end
			continue
		case isBackend(failed, connect.CodeUnimplemented):
			w.isBlind = true
			return nil
		case !w.isResolved && isBackend(failed, connect.CodeNotFound):
			missing = failed // it has begun a moment ago
		case !failed.CanRetry(true):
			return failed
		}
		pause := pace.Next()
		if failed == nil && patience > 0 {
			pause = min(pause, patience-time.Since(asked)) // it has been waited for
		}
		if !w.pause(ctx, min(pause, time.Until(until))) {
			return nil
		}
	}
}

// ask asks for the operation once, and lets the backend wait for a change so long.
func (w *watcher) ask(ctx context.Context, patience time.Duration) (*longrunning.Operation, *errmap.Error) {
	w.polls++
	if patience > 0 {
		return w.bridge.pollOperation(ctx, w.call.req, w.call.tool, w.call.tool.Operation.Wait, longrunning.WaitRequest(w.handle.Name, patience), patience+streamReserve)
	}
	return w.bridge.pollOperation(ctx, w.call.req, w.call.tool, w.call.tool.Operation.Get, longrunning.NameRequest(w.handle.Name), 0)
}

// pause waits before the next question. False means that there is to be none, because the sidecar drains.
func (w *watcher) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-w.bridge.draining.begun:
		return false
	default:
	}
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.bridge.draining.begun:
		return false
	}
	return true
}

// report tells the caller how far the operation is.
func (w *watcher) report(ctx context.Context) {
	if w.events == nil {
		return
	}
	r, _ := w.bridge.operationReport(ctx, w.call, w.last)
	p := &outriggerv1.Progress{Progress: float64(w.polls), Message: r.Text}
	if r.HasPercent {
		total := 100.0
		p.Progress, p.Total = r.Percent, &total
	}
	w.events(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{Progress: p}})
}

// abandonTime bounds the cancellation of an operation that nobody can ask for.
const abandonTime = 2 * time.Second

// abandon has the backend cancel an operation whose caller has cancelled the call before it got the handle. A call that the end
// of a drain cut off is another matter.
func (w *watcher) abandon(ctx context.Context) {
	if !errors.Is(ctx.Err(), context.Canceled) || errors.Is(context.Cause(ctx), correlate.ErrDrainCut) {
		return
	}
	ctx = context.WithoutCancel(ctx)
	_, _ = w.bridge.operationRPC(ctx, w.call.req, w.call.tool, w.call.tool.Operation.Cancel, longrunning.NameRequest(w.handle.Name), abandonTime)
}

// stillRunning is the outcome of a call whose operation goes on: no error, because nothing has failed.
func (w *watcher) stillRunning(ctx context.Context) *errmap.Error {
	data := longrunning.AppendMember(nil, catalog.OperationProperty, w.bridge.operationState(ctx, w))
	return w.call.settle(StatusPartial, data, w.advice())
}

// advice says in words what the caller can do.
func (w *watcher) advice() string {
	if w.isBlind {
		return fmt.Sprintf("The operation %q has begun, but the service has no GetOperation, so its outcome cannot be asked for here.", w.handle.Name)
	}
	op, text := w.call.tool.Operation, "The operation is still running."
	if op.GetTool != nil {
		text += " To go on with it, call " + w.call.req.shown(op.GetTool) + " with the handle."
	}
	if op.CancelTool != nil {
		text += " To cancel it, call " + w.call.req.shown(op.CancelTool) + "."
	}
	return text + " Do not start it again."
}

// shown is a tool's name in the form that the caller uses.
func (r *Request) shown(t *catalog.Tool) string {
	if r.Names == NamesMCP {
		return t.MCPName
	}
	return t.Name
}

// isBackend reports whether the backend itself answered with a code.
func isBackend(err *errmap.Error, code connect.Code) bool {
	return err.Code == errmap.ToolExecutionFailed && err.BackendCode == code.String()
}
