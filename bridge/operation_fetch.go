// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/fit"
	"github.com/outrigger-mcp/outrigger/internal/longrunning"
	"github.com/outrigger-mcp/outrigger/internal/seal"
)

// maxTaskID is the maximum length of a task's id (outrigger.v1.Task), and so of a handle.
const maxTaskID = 2048

// encodeHandle is the plaintext of a handle. A mask that would make an id of more than what the contract admits is left out.
func encodeHandle(h longrunning.Handle) ([]byte, error) {
	plain, err := h.Encode()
	if err == nil && h.Fields != "" && seal.SealedLen(len(plain)) > maxTaskID {
		h.Fields, h.IsMaskLost = "", true
		plain, err = h.Encode()
	}
	return plain, err
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

// maskAgain reads the mask of a call that was made some time ago. If the result does not have its fields any more, it is shown whole.
func (c *toolCall) maskAgain() {
	if c.req.Wanted.Fields == "" {
		return
	}
	mask, failed := c.req.Wanted.Mask(resultView(c.tool))
	if failed != nil {
		c.note(fit.OtherFields)
		return
	}
	c.mask = mask
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
