// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// newInput keeps arguments that are not too large to be recorded.
func newInput(req *Request, size, most int) input {
	in := input{encoding: req.Arguments.Encoding, size: size}
	switch {
	case size > most:
	case req.Message != nil:
		in.bytes = messageJSON(req.Message)
		in.size = len(in.bytes)
	default:
		in.bytes = slices.Clone(req.Arguments.Bytes)
	}
	return in
}

// payloads shows arguments and results as JSON without what is secret in them.
type payloads struct{ secrets redact.Messages }

// addArguments adds the arguments to the line, as JSON.
func (p *payloads) addArguments(inv *invocation) {
	in := &inv.input
	if in.isAdded || in.size == 0 {
		return
	}
	in.isAdded = true
	inv.event.Arguments = p.argumentsOf(in, in.tool)
}

// argumentsOf is what came as arguments of a tool, as JSON. The tool may be nil.
func (p *payloads) argumentsOf(in *input, tool *catalog.Tool) trail.Payload {
	text := in.bytes
	if in.encoding == EncodingProtobuf && in.bytes != nil {
		text = tool.ArgumentsJSON(in.bytes)
	}
	out := trail.Payload{JSON: text, Size: in.size, Secret: p.secretInput(tool)}
	if text != nil {
		out.Size = len(text)
	}
	return out
}

// secretInput and secretOutput are what is secret in the messages of a tool. Those of a
// native tool have no type.
func (p *payloads) secretInput(t *catalog.Tool) *redact.Message {
	if t == nil || t.Native {
		return nil
	}
	in := p.secrets.Of(t.Method.Descriptor.Input())
	if !t.TakesStream() {
		return in
	}
	header := ""
	if fd := t.Stream.Header(); fd != nil {
		header = string(fd.Name())
	}
	return redact.Arguments(in, header)
}

func (p *payloads) secretOutput(t *catalog.Tool) *redact.Message {
	if t == nil || t.Native {
		return nil
	}
	out := p.secrets.Of(t.Method.Descriptor.Output())
	if t.Streams() {
		return redact.Items(out)
	}
	return out
}

// outputOf is the result of a response as JSON. Nothing is made of one that is too large.
func (p *payloads) outputOf(resp *Response, size, most int) trail.Payload {
	out := trail.Payload{Size: size}
	if size > most || resp.Err != nil {
		return out
	}
	switch {
	case resp.Outcome != nil:
		out.JSON = outcomeJSON(resp)
	case resp.Message != nil:
		out.JSON = messageJSON(resp.Message)
	case resp.Result.Encoding == EncodingProtobuf:
		out.JSON = resp.Tool.ResultJSON(resp.Result.Bytes)
	default:
		out.JSON = resp.Result.Bytes
	}
	out.Size, out.Secret = len(out.JSON), p.secretOutput(resp.Tool)
	return out
}

// documents records the document {tool, input, output} of each call.
type documents struct {
	payloads *payloads
	trail    *trail.Documents
}

// newDocument begins the document of a request that calls a tool.
func (w *documents) newDocument(req *Request) *callDocument {
	if w.trail == nil || req.Op != OpCall {
		return nil
	}
	d := &callDocument{id: req.ID.Raw(), document: w.trail.Begin(req.ID.Raw())}
	d.input = newInput(req, req.size(), w.trail.MaxPayloadBytes())
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

// ended implements [observer].
func (w *documents) ended(f *finished) { w.endDocument(f.meter.document, f.resp, f.code) }

// taskEnded writes the document of a call that has run on as a task.
func (w *documents) taskEnded(d *callDocument, resp *Response, code errmap.Code) {
	if d != nil {
		own := *d // the request has its own end
		own.document = w.trail.Begin(d.id)
		w.endDocument(&own, resp, code)
	}
}

// endDocument writes the document of a call that has ended. A request that named no tool that
// exists has none.
func (w *documents) endDocument(d *callDocument, resp *Response, code errmap.Code) {
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
	call := trail.Call{
		Tool: d.tool.Name, IsFailed: code != "" || resp.Silent || resp.inputRequired() != nil || resp.Outcome.GetTask() != nil,
		Input: w.payloads.argumentsOf(&d.input, d.tool),
	}
	if !call.IsFailed {
		call.Output = w.payloads.outputOf(resp, resp.size(), w.trail.MaxPayloadBytes())
	}
	d.document.End(&call)
}
