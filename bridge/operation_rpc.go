// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// pollOperation asks the backend for an operation. The timeout bounds this one question; zero is that of a call of the tool.
func (b *Bridge) pollOperation(ctx context.Context, req *Request, tool *catalog.Tool, m *catalog.Method, in []byte, timeout time.Duration) (*longrunning.Operation, *errmap.Error) {
	answer, failed := b.operationRPC(ctx, req, tool, m, in, timeout)
	if failed != nil {
		return nil, failed
	}
	op, err := longrunning.Parse(answer.Body)
	if err != nil {
		return nil, errmap.Wrap(errmap.SerializationError, err)
	}
	return op, nil
}

// operationRPC calls an RPC of google.longrunning.Operations, with the caller's metadata and credentials as every call of the
// backend. All of them may be repeated.
func (b *Bridge) operationRPC(ctx context.Context, req *Request, tool *catalog.Tool, m *catalog.Method, in []byte, timeout time.Duration) (*Answer, *errmap.Error) {
	most := b.allowed(&toolCall{tool: tool})
	if timeout > 0 {
		most = min(most, timeout)
	}
	header := b.opts.Metadata.Inbound(req.Header)
	ctx, failed := b.onBehalf(ctx, req)
	if failed != nil {
		return nil, failed
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	// A question that was let wait says nothing about the backend where its time is over.
	risk := resilience.Call{Key: m.Procedure, Repeatable: true, Hurried: timeout > 0 || req.Timeout > 0}
	ctx = req.calling(ctx, &risk)
	return resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (*Answer, *errmap.Error) {
		return b.upstream.Call(ctx, m, in, header)
	})
}

// endOperation makes an operation that is done the result of a call of its tool, or the error that the call has.
func (b *Bridge) endOperation(ctx context.Context, c *toolCall, op *longrunning.Operation) *errmap.Error {
	if e := op.Error; e != nil {
		code := connect.Code(e.GetCode())
		if code == 0 {
			code = connect.CodeUnknown // an error that says that there is none
		}
		return errmap.FromBackendStatus(code, e.GetMessage(), e.GetDetails())
	}
	body, failed := b.operationValue(ctx, c, c.tool.Operation.Response, op.Response)
	if failed != nil {
		return failed
	}
	if c.tool.OutputNotObject {
		body = catalog.CloseValue(append(catalog.OpenValue(nil), body...))
	}
	c.resp.Result = Payload{Encoding: EncodingJSON, Bytes: body}
	return nil
}

// operationValue is the JSON of what an operation holds in an Any: of the declared message, or with its type where none was
// declared. What is not there is an empty message.
func (b *Bridge) operationValue(ctx context.Context, c *toolCall, declared *catalog.OperationValue, held *anypb.Any) ([]byte, *errmap.Error) {
	if declared == nil {
		return b.anyJSON(ctx, c, held)
	}
	if held != nil && held.MessageName() != declared.Name {
		return nil, errmap.Because(errmap.InvalidToolOutput, "the operation holds a "+errmap.Quote(string(held.MessageName()))+", but the method declares "+string(declared.Name))
	}
	as := *c.tool
	as.Out = declared.Out
	one := &toolCall{req: c.req, tool: &as, catalog: c.catalog, deadline: c.deadline, under: c.under}
	body, err := b.answerJSON(ctx, one, nil, held.GetValue())
	if err != nil {
		return nil, outputError(err)
	}
	c.note(one.noted)
	return body, nil
}

// anyJSON is the JSON of an Any, whose types are asked for where they are unknown.
func (b *Bridge) anyJSON(ctx context.Context, c *toolCall, held *anypb.Any) ([]byte, *errmap.Error) {
	cat := b.typesOf(c)
	if held == nil || cat == nil {
		return []byte(jsontext.EmptyObject), nil
	}
	for range learnRounds {
		unknown := cat.Types().Unknown(held)
		if len(unknown) == 0 || !b.learnFor(ctx, c, cat, unknown) {
			break
		}
	}
	body, noted, err := cat.Types().AppendJSONNoting(nil, held)
	if err == nil && len(noted.Odd) > 0 {
		err = c.noteOdd(noted)
	}
	if err != nil {
		return nil, outputError(err)
	}
	return body, nil
}

// operationReport is what an operation's metadata say, and the metadata as JSON, nil where there are none. Metadata that cannot
// be read say nothing: the operation goes on all the same.
func (b *Bridge) operationReport(ctx context.Context, c *toolCall, op *longrunning.Operation) (longrunning.Report, []byte) {
	if op.Metadata == nil {
		return longrunning.Report{}, nil
	}
	metadata, failed := b.operationValue(ctx, c, c.tool.Operation.Metadata, op.Metadata)
	if failed != nil || !jsontext.IsObject(metadata) {
		return longrunning.Report{}, nil
	}
	r := longrunning.ReportOf(metadata)
	r.Text = errmap.Redact(r.Text)
	return r, metadata
}

// operationTask is an operation as a task, which lacks its id. What the call would have returned is its result.
func (b *Bridge) operationTask(ctx context.Context, c *toolCall, h longrunning.Handle, op *longrunning.Operation) (*outriggerv1.Task, *errmap.Error) {
	now := time.Now()
	report, _ := b.operationReport(ctx, c, op)
	t := &outriggerv1.Task{
		Status: outriggerv1.TaskStatus_TASK_STATUS_WORKING, StatusMessage: report.Text,
		CreatedAt: timestamppb.New(h.Created), LastUpdatedAt: timestamppb.New(now), Ttl: durationpb.New(operationTTL),
		PollInterval: durationpb.New(longrunning.IntervalAt(now.Sub(h.Created))),
	}
	if !op.Done {
		return t, nil
	}
	t.PollInterval = nil
	if op.Error.GetCode() == int32(connect.CodeCanceled) {
		t.Status, t.StatusMessage = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED, errmap.Redact(op.Error.GetMessage())
		return t, nil
	}
	t.Status = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
	failed := b.endOperation(ctx, c, op)
	if failed == nil {
		failed = b.checked(ctx, c)
	}
	if failed == nil {
		failed = b.reduce(ctx, c)
	}
	if failed != nil {
		endWith(t, b.explained(ctx, c, c.named(failed, c.tool.Name)).Redacted())
		return t, nil
	}
	t.Completion = &outriggerv1.Task_Result{Result: c.resp.ToolOutcome().GetResult()}
	return t, nil
}
