// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
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
	c.req.invocation().preview()
	if c.req.meter != nil {
		c.req.meter.document.Preview()
	}
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
	c.req.invocation().preview()
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
		said = "it failed: " + content.CutText(err.ModelText(errmap.About{ToolCall: true, Idempotent: true}), maxPreview)
	}
	c.preview = said
	return nil
}

// run is the result of a preview as text.
func (p *previews) run(ctx context.Context, c *toolCall) (string, *errmap.Error) {
	for _, one := range []step{p.mark, p.rulebook.permitCall, p.sender.unary, p.decoder.wholeResult} {
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

// argumentsShown are the arguments of a call for the user who is asked: without secrets and what the caller does not see in results,
// and with the words of the schema for those at the top.
func (c *toolCall) argumentsShown(ctx context.Context, rules Rules) (arguments []byte, words string) {
	arguments = c.arguments()
	if c.requestID != "" {
		arguments = c.withoutRequestID()
	}
	if c.tool.Native || c.tool.TakesStream() {
		return arguments, content.Worded(c.tool.Input.Advertised(), arguments)
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
	arguments = content.Visible(arguments, c.tool.Method.Descriptor.Input(), hides)
	return arguments, content.Worded(c.tool.Input.Advertised(), arguments)
}
