// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// purposeOperation is that of the handles of operations, which are the ids of their tasks too.
const purposeOperation = "operation"

// operationTTL is how long a handle is good for: as long as the id of a native backend's task. How long an operation is kept is
// the backend's decision.
const operationTTL = nativeTaskTTL

// sealOperation seals what any replica needs to go on with an operation, for its caller.
func (b *Bridge) sealOperation(caller string, h longrunning.Handle) (string, *errmap.Error) {
	plain, err := encodeHandle(h)
	if err != nil {
		return "", errmap.Wrap(errmap.InvalidToolOutput, err, errmap.Message("Invalid tool output: "+strings.TrimPrefix(err.Error(), "longrunning: ")))
	}
	token, err := b.opts.Sealer.Seal(operationBinding(caller), plain)
	if err != nil {
		return "", errmap.Wrap(errmap.InternalError, err)
	}
	return token, nil
}

func operationBinding(caller string) seal.Binding {
	return seal.Binding{Purpose: purposeOperation, Principal: caller, TTL: operationTTL}
}

// openOperation reads a handle that a caller brought back. One of another caller, an expired one and one that is none are the
// same.
func (b *Bridge) openOperation(caller, token string) (longrunning.Handle, bool) {
	if !strings.HasPrefix(token, sealedPrefix) {
		return longrunning.Handle{}, false
	}
	plain, err := b.opts.Sealer.Open(operationBinding(caller), token)
	if err != nil {
		return longrunning.Handle{}, false
	}
	h, err := longrunning.ParseHandle(plain)
	return h, err == nil
}

// operationTool is the tool that started an operation, which the caller must still be allowed to use. Nil without an error: the
// tool is not there any more, or starts no operations.
func (b *Bridge) operationTool(ctx context.Context, cat *catalog.Catalog, h longrunning.Handle) (*catalog.Tool, *errmap.Error) {
	tool, failed := b.find(ctx, cat, &Request{Op: OpCall, Tool: h.Tool})
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

// fetching is a request that may fetch the result of an operation: for whoever comes for it, the result is as the call wanted it
// that began the operation. A budget of the request itself can only lower that.
func fetching(req *Request, tool *catalog.Tool, cat *catalog.Catalog, h longrunning.Handle) *toolCall {
	own := req.copied()
	first := fit.Wanted{Fields: h.Fields, Budget: h.Budget, ForModel: h.ForModel}
	own.Wanted = first.FetchedBy(req.Wanted)
	c := &toolCall{req: own, tool: tool, catalog: cat, isFetch: true}
	if h.IsMaskLost {
		c.note(fit.MaskLost)
	}
	c.maskAgain()
	return c
}

// taskOfOperation answers what is asked about a task that is an operation of the backend. Any replica can, because the id says
// which one.
func (b *Bridge) taskOfOperation(ctx context.Context, req *Request, cat *catalog.Catalog, h longrunning.Handle) *Response {
	tool, failed := b.operationTool(ctx, cat, h)
	if failed != nil {
		return &Response{Err: failed}
	}
	if tool == nil {
		return &Response{Err: unknownTask(req)}
	}
	if inv := req.invocation(); inv != nil {
		inv.found(tool)
	}
	if failed = b.recordAsk(ctx, req); failed != nil {
		return &Response{Err: failed}
	}
	c := fetching(req, tool, cat, h)
	switch req.Message.(type) {
	case *outriggerv1.GetTaskRequest:
		op, failed := b.getOperation(ctx, c, h)
		if failed != nil {
			return &Response{Err: failed}
		}
		t, failed := b.operationTask(ctx, c, h, op)
		if failed != nil {
			return &Response{Err: failed}
		}
		return &Response{Message: t}
	case *outriggerv1.UpdateTaskRequest: // it asks nothing, so that every answer is one too many
		if _, failed := b.getOperation(ctx, c, h); failed != nil {
			return &Response{Err: failed}
		}
		return &Response{Message: &outriggerv1.UpdateTaskResponse{}}
	default:
		if _, failed := b.cancelOperation(ctx, c, h); failed != nil {
			return &Response{Err: b.missingOperation(req, failed)}
		}
		return &Response{Message: &outriggerv1.CancelTaskResponse{}}
	}
}

// getOperation asks for the operation of a task once.
func (b *Bridge) getOperation(ctx context.Context, c *toolCall, h longrunning.Handle) (*longrunning.Operation, *errmap.Error) {
	op, failed := b.pollOperation(ctx, c.req, c.tool, c.tool.Operation.Get, longrunning.NameRequest(h.Name), c.req.Timeout)
	if failed != nil {
		return nil, b.missingOperation(c.req, failed)
	}
	return op, nil
}

// missingOperation is the error for a task whose operation the backend does not have any more, or any other as it is.
func (b *Bridge) missingOperation(req *Request, failed *errmap.Error) *errmap.Error {
	if isBackend(failed, notFound) {
		return unknownTask(req)
	}
	return failed
}

// handleOf is the argument of a tool that goes on with an operation.
func handleOf(c *toolCall) string {
	raw, _ := jsontext.Lookup(c.arguments(), catalog.HandleArgument)
	token, _ := jsontext.Text(raw)
	return token
}

// keywordHandle is the keyword of the violation for a handle that is none.
const keywordHandle = "handle"

func unknownHandle(tool *catalog.Tool) *errmap.Error {
	return errmap.InvalidInput(tool.Name, false, errmap.Violation{
		Path: "/" + catalog.HandleArgument, Keyword: keywordHandle,
		Message: "there is no operation with this handle; use the one that the call returned, unchanged",
	})
}
