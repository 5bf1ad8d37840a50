// SPDX-License-Identifier: Apache-2.0

package trail

import (
	"bytes"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
)

// Payload is JSON, and which parts of it are secret.
type Payload struct {
	JSON []byte
	// Size is the size of the payload where JSON lacks it because it is too large; 0 means
	// the length of JSON.
	Size   int
	Secret *redact.Message
}

func (p *Payload) append(dst []byte, red redact.Redactor, limit int) []byte {
	return red.AppendMessage(dst, p.JSON, max(p.Size, len(p.JSON)), limit, p.Secret)
}

// Call is what a document says of one call of a tool. An Input of size 0 is recorded as {},
// an Output of size 0 as null.
type Call struct {
	// Tool is the canonical name of the tool.
	Tool          string
	Input, Output Payload
	// IsFailed: the call has no result, and its input may be anything.
	IsFailed bool
	// Error says why, as an error detail in JSON; nil where the call did not fail, but asks for input or goes on. Secrets are the names
	// of what is secret in it.
	Error   []byte
	Secrets []redact.Names
	// IsPreview: the caller wanted the preview of the call alone.
	IsPreview bool
}

// Documents are the documents {tool, input, output} of the calls of a run, one in each
// line of calls.jsonl. A nil Documents records nothing.
type Documents struct{ run *Run }

// Documents returns the documents of a run, nil if payloads are not recorded.
func (r *Run) Documents() *Documents {
	if r == nil || r.documents == nil {
		return nil
	}
	return &Documents{run: r.documents}
}

// MaxPayloadBytes bounds each of input and output; what is larger is left out, with a note
// of its size. It is 0 for nil.
func (d *Documents) MaxPayloadBytes() int {
	if d == nil {
		return 0
	}
	return d.run.opts.MaxPayloadBytes
}

// Document is one call between its arrival and its end. A nil Document is not recorded.
type Document struct{ entry *Entry }

// Begin begins the document of a call, in arrival order. It must be ended or dropped.
// requestID is the id of the request as JSON; Begin does not keep it.
func (d *Documents) Begin(requestID []byte) *Document {
	if d == nil {
		return nil
	}
	buf := d.run.buffer()
	buf.line = append(buf.line, timestampOpen+noTimestamp+`","requestId":`...)
	buf.line = appendID(buf.line, requestID)
	if e := d.run.join(&Entry{run: d.run, buf: buf}, 0); e != nil {
		return &Document{entry: e}
	}
	return nil
}

// End writes the document. Only the first call of End and Drop counts. It does not keep the
// bytes of the call.
func (d *Document) End(c *Call) {
	if d == nil || d.entry.ended.Swap(true) {
		return
	}
	e := d.entry
	tail := appendText(append(e.buf.tail, `,"tool":`...), c.Tool)
	tail = e.run.appendInput(append(tail, `,"input":`...), c)
	tail = append(tail, `,"output":`...)
	if c.IsFailed {
		tail = append(tail, "null"...)
	} else {
		tail = e.run.appendObject(tail, &c.Output)
	}
	tail = append(tail, `,"error":`...)
	failure := Payload{JSON: c.Error, Size: len(c.Error)}
	tail = failure.append(tail, redact.Redactor{Base: e.run.names, Extra: c.Secrets}, e.run.opts.MaxPayloadBytes)
	tail = append(tail, `,"durationMs":`...)
	tail = appendMillis(tail, e.run.took(e))
	if c.IsPreview {
		tail = append(tail, `,"preview":true`...)
	}
	e.buf.tail = jsontext.Visible(append(tail, "}\n"...), 0)
	e.run.finish(e)
}

// Drop ends a document that is not written, because the request called no tool.
func (d *Document) Drop() {
	if d == nil || d.entry.ended.Swap(true) {
		return
	}
	r := d.entry.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.entry.place != placeGone {
		r.reorder.endEntry(d.entry, false)
		r.recycle(d.entry.buf)
		signal(r.wake)
	}
}

func (r *Run) appendInput(dst []byte, c *Call) []byte {
	switch {
	case c.Input.Size == 0 && len(c.Input.JSON) == 0:
		return append(dst, "{}"...)
	case c.IsFailed: // as it came, whatever it is
		return r.appendPayload(dst, &c.Input)
	}
	return r.appendObject(dst, &c.Input)
}

// appendObject appends a payload, in an object where it is none: the JSON of a Timestamp is a
// string, and tools describe it as {"value": ...}.
func (r *Run) appendObject(dst []byte, p *Payload) []byte {
	text := bytes.TrimLeft(p.JSON, " \t\r\n")
	if len(text) == 0 || text[0] == '{' || max(p.Size, len(text)) > r.opts.MaxPayloadBytes {
		return r.appendPayload(dst, p)
	}
	dst = r.appendPayload(append(dst, `{"value":`...), p)
	return append(dst, '}')
}

func (r *Run) appendPayload(dst []byte, p *Payload) []byte {
	return p.append(dst, redact.Redactor{Base: r.names}, r.opts.MaxPayloadBytes)
}

// unfinishedDocument ends a document whose call had not ended when the run was closed.
const unfinishedDocument = `,"tool":null,"input":null,"output":null,"error":null,"durationMs":null}` + "\n"

// Input are the arguments of a request, kept for what records them: the request forgets its own once the backend is called.
type Input struct {
	// Bytes are JSON, or else Protobuf. They are nil if there are too many to be recorded.
	Bytes      []byte
	IsProtobuf bool
	Size       int
}

// Payloads makes payloads of what tools took and returned, and knows what is secret in them. The zero value is ready.
type Payloads struct {
	secrets redact.Messages
	paths   func(t *catalog.Tool) []string
}

// NewPayloads returns Payloads that also leave out other fields than those that are marked as secret, and what is at paths of the
// results of tools.
func NewPayloads(others func() *redact.Others, paths func(t *catalog.Tool) []string) *Payloads {
	return &Payloads{secrets: redact.Messages{Others: others}, paths: paths}
}

// Secrets are the names of what is secret in the messages of a tool, and in those of more types.
func (p *Payloads) Secrets(tool *catalog.Tool, more ...protoreflect.MessageDescriptor) []redact.Names {
	out := make([]redact.Names, 0, 2+len(more))
	if !tool.Native {
		out = append(out, p.secrets.Of(tool.Method.Descriptor.Input()).Secrets())
	}
	out = append(out, p.ofResult(tool).Secrets())
	for _, md := range more {
		out = append(out, p.secrets.Of(md).Secrets())
	}
	return out
}

// ofResult is what is secret in the messages that a tool answers with.
func (p *Payloads) ofResult(tool *catalog.Tool) *redact.Message {
	var out *redact.Message
	if !tool.Native {
		out = p.secrets.Of(tool.Method.Descriptor.Output())
		if op := tool.Operation; op != nil && op.Response != nil {
			out = p.secrets.Of(op.Response.Out.Descriptor())
		}
	}
	if p.paths != nil {
		out = out.With(p.paths(tool)...)
	}
	return out
}

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
	if tool == nil {
		return out
	}
	out.Secret = p.ofResult(tool)
	if out.Secret != nil && tool.IsDocument() {
		return Payload{Size: len(text)} // it has the bytes of the message, and not its fields
	}
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
	isPreview bool
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
	if d != nil && d.document != nil && tool != nil {
		d.tool = tool
	}
}

// Preview notes that the call is a preview.
func (d *CallDocument) Preview() {
	if d != nil {
		d.isPreview = true
	}
}

// IsTask leaves the document to the end of the task, which may come after any number of other calls: see [CallDocument.Again]. From now on
// the end of the request does not touch it.
func (d *CallDocument) IsTask() {
	if d != nil {
		d.document.Drop()
		d.document = nil
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

// End writes the document. That of a call that named no tool is dropped. isFailed: there is no result. failure is an error detail in
// JSON, nil for none, and secrets are the names of what is secret in it.
func (d *CallDocument) End(result Payload, isFailed bool, failure []byte, secrets []redact.Names) {
	if d.document == nil {
		return
	}
	if d.tool == nil {
		d.document.Drop()
		return
	}
	d.document.End(&Call{
		Tool: d.tool.Name, IsFailed: isFailed, Error: failure, Secrets: secrets, IsPreview: d.isPreview, Input: d.payloads.Arguments(d.tool, d.input, d.documents.MaxPayloadBytes()), Output: result,
	})
}
