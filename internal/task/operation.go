// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/keys"
)

// Pipeline is what the pipeline of a call does for the operation that the call began or goes on with.
type Pipeline interface {
	// Ask calls an RPC of google.longrunning.Operations, with the caller's metadata and credentials. The timeout bounds this one
	// question; zero is that of a call of the tool.
	Ask(ctx context.Context, m *catalog.Method, in []byte, timeout time.Duration) ([]byte, *errmap.Error)
	// JSON is the JSON of what the operation holds in an Any: of the declared message, or with its type if none was declared.
	JSON(ctx context.Context, declared *catalog.OperationValue, held *anypb.Any) ([]byte, *errmap.Error)
	// Result makes the response of an operation that is done the result that the call would have returned.
	Result(ctx context.Context, o *Operation) (*outriggerv1.ToolResult, *errmap.Error)
}

// Operation follows one long-running operation of the backend (AIP-151) on behalf of a call.
type Operation struct {
	Pipeline Pipeline
	// Tool is the tool whose call began the operation, and Shown how the caller is shown the name of a tool.
	Tool   *catalog.Tool
	Shown  func(*catalog.Tool) string
	Events func(*outriggerv1.ToolEvent)
	// Handle says which operation it is; Token is the sealed handle.
	Handle longrunning.Handle
	Token  string
	// Draining is closed when the sidecar begins to drain: another replica can go on.
	Draining <-chan struct{}
	// MaxResult is the maximum size of a result in bytes; zero is none.
	MaxResult int

	// once ends it with the first answer.
	once bool
	// last is what is known of the operation. isResolved: the backend knows it under its name.
	last       *longrunning.Operation
	isResolved bool
	// isBlind: the backend cannot be asked.
	isBlind bool
	polls   int
}

// waitTime is how long one WaitOperation may take: so often there is progress to report, and a drain is noticed. The RPC has
// answerReserve more.
const (
	waitTime      = 2 * time.Second
	answerReserve = time.Second
)

// Begin reads what the RPC of the tool has answered, and follows the operation. For a client that knows tasks the call becomes
// one as soon as the backend knows the operation under its name, or after the time that its tool says: a client learns of no
// task that cannot be asked for. Other callers wait until the operation is done or the time is over. Without an outcome the
// operation is done.
func (o *Operation) Begin(ctx context.Context, answer []byte, sealer *keys.Sealer, caller string, until time.Time, isTask bool) (*outriggerv1.ToolOutcome, *errmap.Error) {
	op, err := longrunning.Parse(answer)
	if err != nil {
		return nil, errmap.Wrap(errmap.SerializationError, err)
	}
	if o.last = op; op.Done {
		return nil, nil //nolint:nilnil // said above
	}
	if op.Name == "" {
		return nil, errmap.Because(errmap.InvalidToolOutput, "the operation that the tool returned has no name")
	}
	o.Handle.Name = op.Name
	var failed *errmap.Error
	if o.Token, failed = sealOperation(sealer, caller, o.Handle); failed != nil {
		return nil, failed
	}
	if isTask {
		if after := o.Tool.TaskAfter; after > 0 {
			if early := o.Handle.Created.Add(after); early.Before(until) {
				until = early
			}
		}
		o.once = o.Tool.TaskAfter <= 0
	}
	if failed = o.follow(ctx, until); failed != nil {
		o.abandon(ctx)
		return nil, failed
	}
	switch {
	case o.last.Done:
		return nil, nil //nolint:nilnil // said above
	case !isTask || !o.isResolved: // no error, because nothing has failed
		return content.Outcome(content.StatusPartial, longrunning.AppendMember(nil, catalog.OperationProperty, o.state(ctx)), o.advice()), nil
	}
	t := o.task(ctx)
	t.TaskId = o.Token
	return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: t}}, nil
}

// Continue follows an operation whose caller brought its handle back, until it is done or the time is over. Without an outcome it
// is done.
func (o *Operation) Continue(ctx context.Context, until time.Time) (*outriggerv1.ToolOutcome, *errmap.Error) {
	o.last = &longrunning.Operation{Name: o.Handle.Name}
	o.isResolved = true // so that one that is not there is not waited for
	if failed := o.follow(ctx, until); failed != nil || o.last.Done {
		return nil, failed
	}
	return content.Outcome(content.StatusPartial, o.state(ctx), o.advice()), nil
}

// Answer answers a request about the task that the operation is. The task lacks its id.
func (o *Operation) Answer(ctx context.Context, req proto.Message, timeout time.Duration) (proto.Message, *errmap.Error) {
	if _, isCancel := req.(*outriggerv1.CancelTaskRequest); isCancel {
		_, failed := o.cancel(ctx, timeout)
		return &outriggerv1.CancelTaskResponse{}, failed
	}
	op, failed := o.get(ctx, timeout)
	if failed != nil {
		return nil, failed
	}
	if _, isUpdate := req.(*outriggerv1.UpdateTaskRequest); isUpdate { // it asks nothing, so that every answer is one too many
		return &outriggerv1.UpdateTaskResponse{}, nil
	}
	o.last = op
	return o.task(ctx), nil
}

// follow asks until the operation is done, the time is over, or the sidecar drains. What
// may pass by itself is no end of it, because the operation goes on meanwhile.
func (o *Operation) follow(ctx context.Context, until time.Time) *errmap.Error {
	var pace longrunning.Pace
	var missing *errmap.Error
	mayWait := !o.once
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
		op, failed := o.ask(ctx, patience)
		switch {
		case failed == nil:
			o.last, o.isResolved, missing = op, true, nil
			if op.Done || o.once {
				return nil
			}
			o.report(ctx)
		case ctx.Err() != nil:
			continue
		case mayWait && (isBackend(failed, connect.CodeUnimplemented) || failed.Code == errmap.Timeout):
			mayWait = false // it has no WaitOperation, or one that waits for the end
			continue
		case isBackend(failed, connect.CodeUnimplemented):
			o.isBlind = true
			return nil
		case !o.isResolved && isBackend(failed, connect.CodeNotFound):
			missing = failed // it has begun a moment ago
		case !failed.CanRetry(true):
			return failed
		}
		pause := pace.Next()
		if failed == nil && patience > 0 {
			pause = min(pause, patience-time.Since(asked)) // it has been waited for
		}
		if !o.pause(ctx, min(pause, time.Until(until))) {
			return nil
		}
	}
}

// ask asks for the operation once, and lets the backend wait for a change so long.
func (o *Operation) ask(ctx context.Context, patience time.Duration) (*longrunning.Operation, *errmap.Error) {
	o.polls++
	if patience > 0 {
		return parsed(o.Pipeline.Ask(ctx, o.Tool.Operation.Wait, longrunning.WaitRequest(o.Handle.Name, patience), patience+answerReserve))
	}
	return o.get(ctx, 0)
}

func (o *Operation) get(ctx context.Context, timeout time.Duration) (*longrunning.Operation, *errmap.Error) {
	return parsed(o.Pipeline.Ask(ctx, o.Tool.Operation.Get, longrunning.NameRequest(o.Handle.Name), timeout))
}

func parsed(answer []byte, failed *errmap.Error) (*longrunning.Operation, *errmap.Error) {
	if failed != nil {
		return nil, failed
	}
	op, err := longrunning.Parse(answer)
	if err != nil {
		return nil, errmap.Wrap(errmap.SerializationError, err)
	}
	return op, nil
}

// pause waits before the next question. False means that there is to be none, because the sidecar drains.
func (o *Operation) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-o.Draining:
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
	case <-o.Draining:
		return false
	}
	return true
}

// report tells the caller how far the operation is.
func (o *Operation) report(ctx context.Context) {
	if o.Events == nil {
		return
	}
	r, _ := o.progress(ctx)
	p := &outriggerv1.Progress{Progress: float64(o.polls), Message: r.Text}
	if r.HasPercent {
		total := 100.0
		p.Progress, p.Total = r.Percent, &total
	}
	o.Events(&outriggerv1.ToolEvent{Event: &outriggerv1.ToolEvent_Progress{Progress: p}})
}

// abandonTime bounds the cancellation of an operation that no one can ask for.
const abandonTime = 2 * time.Second

// abandon has the backend cancel an operation whose caller has cancelled the call before it got the handle. A call that the end
// of a drain cut off is another matter, and so is the work of a task that another replica goes on with.
func (o *Operation) abandon(ctx context.Context) {
	cause := context.Cause(ctx)
	if errors.Is(ctx.Err(), context.Canceled) && !errors.Is(cause, correlate.ErrDrainCut) && !errors.Is(cause, ErrClosed) && !errors.Is(cause, ErrTaken) {
		_, _ = o.cancel(context.WithoutCancel(ctx), abandonTime)
	}
}

// Cancel asks the backend to cancel the operation, for a caller that brought its handle back.
func (o *Operation) Cancel(ctx context.Context, timeout time.Duration) (*outriggerv1.ToolOutcome, *errmap.Error) {
	isSupported, failed := o.cancel(ctx, timeout)
	if failed != nil {
		return nil, failed
	}
	explanation := ""
	if !isSupported {
		explanation = "The service does not support cancellation, so the operation may go on."
	}
	return content.Outcome(content.StatusSuccess, longrunning.AppendCancelRequested(nil, o.Token), explanation), nil
}

// cancel asks the backend to cancel the operation. That a backend cannot, or that the operation has ended, is no error:
// a cancellation is a request. isSupported is false if it said so.
func (o *Operation) cancel(ctx context.Context, timeout time.Duration) (isSupported bool, failed *errmap.Error) {
	_, failed = o.Pipeline.Ask(ctx, o.Tool.Operation.Cancel, longrunning.NameRequest(o.Handle.Name), timeout)
	switch {
	case failed == nil:
		return true, nil
	case isBackend(failed, connect.CodeUnimplemented):
		return false, nil
	case isBackend(failed, connect.CodeFailedPrecondition):
		return true, nil
	}
	return false, failed
}

// advice says in words what the caller can do.
func (o *Operation) advice() string {
	if o.isBlind {
		return fmt.Sprintf("The operation %q has begun, but the service has no GetOperation, so its outcome cannot be asked for here.", o.Handle.Name)
	}
	op, text := o.Tool.Operation, "The operation is still running."
	if op.GetTool != nil {
		text += " To go on with it, call " + o.Shown(op.GetTool) + " with the handle."
	}
	if op.CancelTool != nil {
		text += " To cancel it, call " + o.Shown(op.CancelTool) + "."
	}
	return text + " Do not start it again."
}

// isBackend reports whether the backend itself answered with a code.
func isBackend(err *errmap.Error, code connect.Code) bool {
	return err.Code == errmap.ToolExecutionFailed && err.BackendCode == code.String()
}

// Response is the JSON of what an operation that is done has ended with, as a result of its tool, or the error of the call.
func (o *Operation) Response(ctx context.Context) ([]byte, *errmap.Error) {
	if e := o.last.Error; e != nil {
		code := connect.Code(e.GetCode())
		if code == 0 {
			code = connect.CodeUnknown // an error that says that there is none
		}
		return nil, errmap.FromBackendStatus(code, e.GetMessage(), e.GetDetails())
	}
	body, failed := o.Pipeline.JSON(ctx, o.Tool.Operation.Response, o.last.Response)
	if failed == nil && o.Tool.OutputNotObject {
		body = catalog.CloseValue(append(catalog.OpenValue(nil), body...))
	}
	return body, failed
}

// progress is what an operation's metadata say, and the metadata as JSON, nil where there are none. Metadata that cannot
// be read say nothing: the operation goes on all the same.
func (o *Operation) progress(ctx context.Context) (longrunning.Report, []byte) {
	if o.last.Metadata == nil {
		return longrunning.Report{}, nil
	}
	metadata, failed := o.Pipeline.JSON(ctx, o.Tool.Operation.Metadata, o.last.Metadata)
	if failed != nil || !jsontext.IsObject(metadata) {
		return longrunning.Report{}, nil
	}
	r := longrunning.ReportOf(metadata)
	r.Text = errmap.Redact(r.Text)
	return r, metadata
}

// state is an operation that is still running, as JSON. Metadata that would make too large a result are left out.
func (o *Operation) state(ctx context.Context) []byte {
	report, metadata := o.progress(ctx)
	if limit := o.MaxResult; limit > 0 && len(metadata) > limit/2 {
		metadata = nil
	}
	token := o.Token
	if o.isBlind {
		token = ""
	}
	return longrunning.AppendPending(nil, token, report, metadata)
}

// task is the operation as a task, which lacks its id. What the call would have returned is its result.
func (o *Operation) task(ctx context.Context) *outriggerv1.Task {
	now := time.Now()
	report, _ := o.progress(ctx)
	t := &outriggerv1.Task{
		Status: outriggerv1.TaskStatus_TASK_STATUS_WORKING, StatusMessage: report.Text,
		CreatedAt: timestamppb.New(o.Handle.Created), LastUpdatedAt: timestamppb.New(now), Ttl: durationpb.New(refTTL),
		PollInterval: durationpb.New(longrunning.IntervalAt(now.Sub(o.Handle.Created))),
	}
	if !o.last.Done {
		return t
	}
	t.PollInterval = nil
	if o.last.Error.GetCode() == int32(connect.CodeCanceled) {
		t.Status, t.StatusMessage = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED, errmap.Redact(o.last.Error.GetMessage())
		return t
	}
	t.Status = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
	result, failed := o.Pipeline.Result(ctx, o)
	if failed != nil {
		Fail(t, failed)
		return t
	}
	t.Completion = &outriggerv1.Task_Result{Result: result}
	return t
}

// ResponseMember is the member of the data of [Done] that has the response.
const ResponseMember = longrunning.ResponseMember

// Done returns the result of the tool that fetches an operation's result: data that say that it is done, and have the response. cut
// is the response as a result that was cut; nil if it is whole, as JSON.
func Done(cut *outriggerv1.ToolResult, whole []byte, explanation string) *outriggerv1.ToolResult {
	if cut != nil {
		before := string(cut.GetDataJson())
		content.SetData(cut, longrunning.AppendDone(nil, cut.GetDataJson()), func(text string) bool { return text == before }, "", nil)
		return cut
	}
	return content.Outcome(content.StatusSuccess, longrunning.AppendDone(nil, whole), explanation).GetResult()
}
