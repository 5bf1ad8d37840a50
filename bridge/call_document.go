// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/record"
)

// callDocument is the document {tool, input, output} of a call while it runs. A nil one is
// not recorded. It is written by the goroutine that runs the request.
type callDocument struct {
	document *record.Document
	id       []byte
	tool     *catalog.Tool
	input    input
}

// newDocument begins the document of a request that calls a tool.
func (b *Bridge) newDocument(req *Request) *callDocument {
	if b.opts.Documents == nil || req.Op != OpCall {
		return nil
	}
	d := &callDocument{id: req.ID.Raw(), document: b.opts.Documents.Begin(req.ID.Raw())}
	d.input = newInput(req, req.size(), b.opts.Documents.MaxPayloadBytes())
	return d
}

// found notes the tool, which a response does not have after a panic.
func (d *callDocument) found(tool *catalog.Tool) {
	if d != nil {
		d.tool = tool
	}
}

// isTask leaves the document to the end of the task, which may come after any number of
// other calls.
func (d *callDocument) isTask() {
	if d != nil {
		d.document.Drop()
		d.document = nil
	}
}

// taskEnded writes the document of a call that has run on as a task.
func (b *Bridge) taskEnded(d *callDocument, resp *Response, code errmap.Code) {
	if d != nil {
		own := *d // the request has its own end
		own.document = b.opts.Documents.Begin(d.id)
		b.endDocument(&own, resp, code)
	}
}

// endDocument writes the document of a call that has ended. A request that named no tool that
// exists has none.
func (b *Bridge) endDocument(d *callDocument, resp *Response, code errmap.Code) {
	if d == nil || d.document == nil {
		return
	}
	if resp.Tool != nil {
		d.tool = resp.Tool
	}
	if d.tool == nil {
		d.document.Drop()
		return
	}
	call := record.Call{
		Tool: d.tool.Name, IsFailed: code != "" || resp.Silent || resp.inputRequired() != nil || resp.Outcome.GetTask() != nil,
		Input: record.Payload(b.argumentsOf(&d.input, d.tool)),
	}
	if !call.IsFailed {
		call.Output = record.Payload(b.outputOf(resp, resp.size(), b.opts.Documents.MaxPayloadBytes()))
	}
	d.document.End(&call)
}
