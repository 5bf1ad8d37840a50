// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
)

const notFound = connect.CodeNotFound

// continueOperation runs a tool of the sidecar's own that goes on with an operation. The caller must be allowed to use the tool
// that started it too.
func (b *Bridge) continueOperation(ctx context.Context, c *toolCall) *errmap.Error {
	token := handleOf(c)
	h, ok := b.openOperation(c.req.Caller, token)
	if !ok {
		return unknownHandle(c.tool)
	}
	tool, failed := b.operationTool(ctx, c.catalog, h)
	if failed != nil {
		return failed
	}
	if tool == nil {
		return unknownHandle(c.tool)
	}
	ctx, cancel := context.WithTimeout(ctx, b.timeout(c))
	defer cancel()
	now := time.Now()
	defer c.req.waited(now)
	of := fetching(c.req, tool, c.catalog, h)
	of.isFetch, of.under = false, longrunning.ResponseMember
	of.deadline, _ = ctx.Deadline()
	if failed = of.chooseFields(&c.req.Wanted); failed != nil {
		return failed
	}
	if c.tool.Continues == catalog.CancelOperation {
		return b.cancelByHandle(ctx, c, of, h, token)
	}
	w := b.watcher(ctx, of, now.Add(streamTime(b.timeout(c), 0)))
	w.handle, w.token, w.last = h, token, &longrunning.Operation{Name: h.Name}
	w.isResolved = true // so that one that is not there is not waited for
	if failed = w.follow(ctx, w.until); failed != nil {
		return failed
	}
	if !w.last.Done {
		return c.settle(StatusPartial, b.operationState(ctx, w), w.advice())
	}
	if failed = b.endOperation(ctx, of, w.last); failed == nil {
		failed = b.checked(ctx, of)
	}
	if failed == nil {
		failed = b.reduce(ctx, of)
	}
	if failed != nil {
		return failed
	}
	result := doneResult(of)
	if limit, size := b.opts.MaxResult, len(result.GetDataJson()); limit > 0 && size > limit {
		return b.tooLargeResult(size)
	}
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: result}}
	return nil
}

// chooseFields applies the field mask of the call that fetches a result. It replaces the mask of the call that began the operation.
func (c *toolCall) chooseFields(w *fit.Wanted) *errmap.Error {
	switch {
	case w.Fields == "" || !c.isJSON():
		return nil
	case c.tool.IsDocument():
		return w.RefuseFields("the result of " + c.tool.Name + " is a document, which has no fields")
	}
	var failed *errmap.Error
	c.mask, failed = w.MaskUnder(c.under, resultView(c.tool))
	c.noted = "" // it was about the other mask
	return failed
}

// doneResult is the result of the tool that fetches an operation's result: data that say that it is done, and have the response.
func doneResult(of *toolCall) *outriggerv1.ToolResult {
	if cut := of.resp.Outcome.GetResult(); cut != nil {
		before := string(cut.GetDataJson())
		fit.SetData(cut, longrunning.AppendDone(nil, cut.GetDataJson()), func(text string) bool { return text == before }, "", nil)
		return cut
	}
	return &outriggerv1.ToolResult{
		Status: StatusSuccess, Explanation: of.resp.Explanation,
		DataForm: &outriggerv1.ToolResult_DataJson{DataJson: longrunning.AppendDone(nil, of.resp.Result.Bytes)},
	}
}

// settle makes data the outcome of a call.
func (c *toolCall) settle(status string, data []byte, explanation string) *errmap.Error {
	c.resp.Outcome = &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Result{Result: &outriggerv1.ToolResult{
		Status: status, Explanation: explanation, DataForm: &outriggerv1.ToolResult_DataJson{DataJson: data},
	}}}
	return nil
}

func (b *Bridge) cancelByHandle(ctx context.Context, c, of *toolCall, h longrunning.Handle, token string) *errmap.Error {
	isSupported, failed := b.cancelOperation(ctx, of, h)
	if failed != nil {
		return failed
	}
	explanation := ""
	if !isSupported {
		explanation = "The service does not support cancellation, so the operation may go on."
	}
	return c.settle(StatusSuccess, longrunning.AppendCancelRequested(nil, token), explanation)
}

// cancelOperation asks the backend to cancel an operation. That a backend cannot, or that the operation has ended, is no error:
// a cancellation is a request. isSupported is false if it said so.
func (b *Bridge) cancelOperation(ctx context.Context, c *toolCall, h longrunning.Handle) (isSupported bool, failed *errmap.Error) {
	_, failed = b.operationRPC(ctx, c.req, c.tool, c.tool.Operation.Cancel, longrunning.NameRequest(h.Name), c.req.Timeout)
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

// operationState is an operation that is still running, as JSON. Metadata that would make too large a result are left out.
func (b *Bridge) operationState(ctx context.Context, w *watcher) []byte {
	report, metadata := b.operationReport(ctx, w.call, w.last)
	if limit := b.opts.MaxResult; limit > 0 && len(metadata) > limit/2 {
		metadata = nil
	}
	token := w.token
	if w.isBlind {
		token = ""
	}
	return longrunning.AppendPending(nil, token, report, metadata)
}
