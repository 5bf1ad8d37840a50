// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// Input are the arguments of a request, kept for what records them: the request forgets its own once the backend is called.
type Input struct {
	// Bytes are JSON, or else Protobuf. They are nil if there are too many to be recorded.
	Bytes      []byte
	IsProtobuf bool
	Size       int
}

// Payloads makes payloads of what tools took and returned, and knows what is secret in them. The zero value is ready.
type Payloads struct{ secrets redact.Messages }

// Arguments returns the arguments of a tool. Nothing is made of more than most bytes. The tool may be nil.
func (p *Payloads) Arguments(tool *catalog.Tool, in *Input, most int) Payload {
	if in.Size > most || in.Bytes == nil {
		return Payload{Size: in.Size}
	}
	out := Payload{JSON: in.Bytes, Size: in.Size}
	if in.IsProtobuf {
		out.JSON = tool.ArgumentsJSON(in.Bytes)
	}
	if out.JSON != nil {
		out.Size = len(out.JSON)
	}
	if tool == nil || tool.Native { // the messages of a native tool have no type
		return out
	}
	out.Secret = p.secrets.Of(tool.Method.Descriptor.Input())
	if tool.TakesStream() {
		header := ""
		if fd := tool.Stream.Header(); fd != nil {
			header = string(fd.Name())
		}
		out.Secret = redact.Arguments(out.Secret, header)
	}
	return out
}

// Result returns the result of a tool, which may be nil.
func (p *Payloads) Result(tool *catalog.Tool, text []byte) Payload {
	out := Payload{JSON: text, Size: len(text)}
	if tool == nil || tool.Native {
		return out
	}
	out.Secret = p.secrets.Of(tool.Method.Descriptor.Output())
	if tool.Streams() {
		out.Secret = redact.Items(out.Secret)
	}
	return out
}

// CallDocument is the document of one call while it runs. A nil one is not recorded. One goroutine at a time uses it.
type CallDocument struct {
	documents *Documents
	payloads  *Payloads
	document  *Document
	id        []byte
	tool      *catalog.Tool
	input     *Input
}

// BeginCall begins the document of a call; nil for nil. It must be ended.
func (d *Documents) BeginCall(p *Payloads, requestID []byte, in *Input) *CallDocument {
	if d == nil {
		return nil
	}
	return &CallDocument{documents: d, payloads: p, document: d.Begin(requestID), id: requestID, input: in}
}

// Found notes the tool, if there is one. A response does not have it after a panic.
func (d *CallDocument) Found(tool *catalog.Tool) {
	if d != nil && tool != nil {
		d.tool = tool
	}
}

// IsTask leaves the document to the end of the task, which may come after any number of other calls: see [CallDocument.Again].
func (d *CallDocument) IsTask() {
	if d != nil {
		d.document.Drop()
	}
}

// Again begins the document anew.
func (d *CallDocument) Again() *CallDocument {
	if d == nil {
		return nil
	}
	own := *d
	own.document = d.documents.Begin(d.id)
	return &own
}

// End writes the document. That of a call that named no tool is dropped. isFailed: there is no result.
func (d *CallDocument) End(result Payload, isFailed bool) {
	if d.tool == nil {
		d.document.Drop()
		return
	}
	d.document.End(&Call{
		Tool: d.tool.Name, IsFailed: isFailed, Input: d.payloads.Arguments(d.tool, d.input, d.documents.MaxPayloadBytes()), Output: result,
	})
}
