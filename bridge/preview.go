// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/source/shown"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/redact"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// previews calls the backend for what calls would do, without their effects.
type previews struct {
	auditor  *auditor
	sender   *sender
	decoder  *decoder
	rulebook *rulebook
}

// choose makes a call the preview of one, as its caller wants.
func (p *previews) choose(_ context.Context, c *toolCall) *errmap.Error {
	if c.tool.Preview == nil {
		return c.req.Wanted.RefusePreview("tool " + c.tool.Name + " has no preview; call it without this member")
	}
	c.req = c.req.copied()
	c.becomePreview(c.req)
	return nil
}

// becomePreview makes a call a preview. The request is its own. The key stays behind: a backend that remembers what it answered to it would
// give the call itself the answer of its preview.
func (c *toolCall) becomePreview(own *Request) {
	c.previewed = c.tool.Preview
	if by := c.previewed.Tool; by != nil {
		c.tool = by
	}
	if backend.IdempotencyKey(own.Header) != "" {
		own.Header = own.Header.Clone()
		delete(own.Header, backend.IdempotencyHeader)
	}
}

// mark makes the wire bytes of a call those of its preview: other bytes, so that no attempt of the one can be one of the other.
func (p *previews) mark(_ context.Context, c *toolCall) *errmap.Error {
	wire := c.previewed.Request(nil, c.wire)
	if c.tool.RequestID != nil {
		wire = c.tool.WithRequestID(nil, wire, previewID(c.tool.RequestIDOf(wire)))
	}
	p.sender.recycle(c)
	c.wire = wire
	return nil
}

// result is the result of a preview that its caller wanted.
func (p *previews) result(ctx context.Context, c *toolCall) *errmap.Error {
	if err := p.decoder.result(ctx, c); err != nil {
		return err
	}
	c.explain(previewNote)
	if r := c.resp.Outcome.GetResult(); r != nil {
		r.Explanation = strings.TrimSpace(r.GetExplanation() + " " + previewNote)
	}
	return nil
}

// previewNote is what the result of a preview says.
const previewNote = "This was a preview: nothing was changed."

// maxPreview bounds what is shown of a preview, in bytes.
const maxPreview = 600

// ask runs the preview of a call, and notes what it says for those who decide about the call: its result as the caller sees it, or its
// error. A tool without a preview has nothing to say. The error is one of the audit trail.
func (p *previews) ask(ctx context.Context, c *toolCall) *errmap.Error {
	if c.tool.Preview == nil || c.input != nil {
		return nil
	}
	if p.auditor.trail.IsOn() { // the backend hears of it
		if err := p.auditor.recordCall(ctx, c); err != nil {
			return err
		}
	}
	own := *c.req
	own.of, own.Envelope, own.Events, own.Wanted = nil, nil, nil, content.Wanted{}
	one := &toolCall{req: &own, tool: c.tool, catalog: c.catalog, wire: c.wire, place: policy.Place{Waited: c.place.Waited}, state: &state{}}
	one.becomePreview(&own)
	defer one.endTurn()
	said, err := p.run(ctx, one)
	if err != nil {
		text, _ := shown.CutBytes(err.ModelText(errmap.About{ToolCall: true, Idempotent: true}), maxPreview)
		said = "it failed: " + text
	}
	c.preview = said
	return nil
}

// run is the result of a preview as text.
func (p *previews) run(ctx context.Context, c *toolCall) (string, *errmap.Error) {
	for _, one := range []step{p.mark, p.rulebook.permit, p.sender.unary, p.decoder.wholeResult} {
		if err := one(ctx, c); err != nil {
			return "", p.decoder.explained(ctx, c, c.named(err, c.shownName()))
		}
	}
	defer c.resp.Release(p.decoder.buffers)
	data := c.resp.JSON()
	if len(data) > maxPreview {
		cut, _, ok := content.AppendCut(nil, data, maxPreview, schema.View{})
		if !ok {
			return "its result is too large to be shown", nil
		}
		return string(cut) + " (shortened)", nil
	}
	return string(data), nil
}

// looksLikePreview reports whether the arguments of a call set the field that makes it a preview. What is sent decides.
func (c *toolCall) looksLikePreview() bool {
	p := c.tool.Preview
	if p == nil || p.Field == nil {
		return false
	}
	if c.req.Arguments.Encoding != EncodingJSON {
		return p.Is(c.req.Arguments.Bytes)
	}
	for _, name := range [...]string{p.Field.JSONName(), string(p.Field.Name())} {
		if value, ok := jsontext.Lookup(c.arguments(), name); ok && string(value) == "true" {
			return true
		}
	}
	return false
}

// advisePreview adds to a refusal that the caller may still have a preview.
func advisePreview(c *toolCall, refused *errmap.Error) *errmap.Error {
	if refused != nil && c.tool.Preview != nil {
		refused.Advice = "Do not call it again until an operator allows it. A preview changes nothing and may run: set " + content.PreviewKey +
			" to true in _meta."
	}
	return refused
}

// Bounds of the words about arguments in a question.
const (
	maxWorded = 16
	maxWords  = 120
)

// argumentsShown are the arguments of a call for the user who is asked: without secrets and what the caller does not see in results,
// and with the words of the schema for those at the top.
func (c *toolCall) argumentsShown(ctx context.Context, rules Rules) (arguments []byte, words string) {
	arguments = c.arguments()
	if c.requestID != "" {
		arguments = c.withoutRequestID()
	}
	if c.tool.Native || c.tool.TakesStream() {
		return arguments, worded(c.tool.Input.Advertised(), arguments)
	}
	var view *policy.View
	if rules != nil {
		view = rules.View(identity.FromContext(ctx), c.tool)
	}
	hides := func(fd protoreflect.FieldDescriptor) bool {
		if redact.IsSecret(fd) {
			return true
		}
		if view == nil {
			return false
		}
		how, varies := view.Treatment("", fd)
		return varies || how != transcode.Treatment{}
	}
	arguments = appendVisible(nil, arguments, c.tool.Method.Descriptor.Input(), hides)
	return arguments, worded(c.tool.Input.Advertised(), arguments)
}

// appendVisible appends the JSON of a message without the fields that are to be hidden.
func appendVisible(dst, object []byte, md protoreflect.MessageDescriptor, hides func(protoreflect.FieldDescriptor) bool) []byte {
	if md == nil || !jsontext.IsObject(object) {
		return append(dst, object...)
	}
	dst = append(dst, '{')
	empty := true
	for name, value := range jsontext.Members(object) {
		fd := md.Fields().ByJSONName(name)
		if fd == nil {
			fd = md.Fields().ByName(protoreflect.Name(name))
		}
		if fd != nil && hides(fd) {
			continue
		}
		if !empty {
			dst = append(dst, ',')
		}
		empty = false
		dst = append(jsontext.AppendString(dst, name), ':')
		switch {
		case fd == nil || fd.Message() == nil:
			dst = append(dst, value...)
		case fd.IsMap():
			dst = appendEach(dst, value, fd.MapValue().Message(), hides)
		case fd.IsList():
			dst = appendEach(dst, value, fd.Message(), hides)
		default:
			dst = appendVisible(dst, value, fd.Message(), hides)
		}
	}
	return append(dst, '}')
}

// appendEach is appendVisible for each value of a map or of a list of messages.
func appendEach(dst, values []byte, md protoreflect.MessageDescriptor, hides func(protoreflect.FieldDescriptor) bool) []byte {
	if jsontext.IsObject(values) {
		dst = append(dst, '{')
		n := 0
		for name, value := range jsontext.Members(values) {
			if n++; n > 1 {
				dst = append(dst, ',')
			}
			dst = appendVisible(append(jsontext.AppendString(dst, name), ':'), value, md, hides)
		}
		return append(dst, '}')
	}
	if len(values) == 0 || values[0] != '[' {
		return append(dst, values...)
	}
	dst = append(dst, '[')
	n := 0
	for value := range jsontext.Elements(values) {
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = appendVisible(dst, value, md, hides)
	}
	return append(dst, ']')
}

// worded is what the schema says of the arguments that are there: the title of each, else the first sentence of its description.
func worded(input, arguments []byte) string {
	properties, _ := jsontext.Lookup(input, "properties")
	var out []string
	for name := range jsontext.Members(arguments) {
		property, ok := jsontext.Lookup(properties, name)
		if !ok || len(out) == maxWorded {
			continue
		}
		title, _ := jsontext.Lookup(property, "title")
		text, _ := jsontext.Text(title)
		if text == "" {
			described, _ := jsontext.Lookup(property, "description")
			text, _ = jsontext.Text(described)
			text, _, _ = strings.Cut(text, "\n")
			text, _, _ = strings.Cut(text, ". ")
		}
		if text = strings.TrimSuffix(strings.TrimSpace(text), "."); text != "" {
			text, _ = shown.CutBytes(text, maxWords)
			out = append(out, name+": "+text)
		}
	}
	return strings.Join(out, "; ")
}
