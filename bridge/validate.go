// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// validate turns the arguments into wire bytes. Where the sidecar repairs
// arguments, objects and arrays that stand in strings may be decoded: only where
// the arguments are wrong as they are, only where an object or array is wanted,
// and once.
func (b *Bridge) validate(ctx context.Context, c *toolCall) *errmap.Error {
	defer c.req.Span.Step(tracing.StepValidate, c.req.Span.Now())
	c.checking = timely{Context: ctx, until: time.Now().Add(b.timeout(c))}
	ctx = &c.checking
	failed := b.encode(ctx, c)
	if !b.opts.RepairArguments || c.req.Arguments.Encoding != EncodingJSON {
		return failed
	}
	if c.req.Arguments.Repaired {
		c.repairs = append(c.repairs, "")
	}
	if failed != nil && failed.Code == errmap.InvalidToolInput {
		if plain, places := c.decoded(c.arguments(), failed); len(places) > 0 {
			c.repaired = plain
			c.repairs = append(c.repairs, places...)
			failed = b.encode(ctx, c)
		}
	}
	if failed == nil && len(c.repairs) > 0 {
		b.repaired.Add(1)
	}
	return failed
}

// timely is a context that also ends at a time. It has no timer, because a check does not wait: it looks at the context as it
// goes on. So the small ones, which are nearly all, pay for reading the clock and no more.
type timely struct {
	context.Context //nolint:containedctx // it is one

	until time.Time
}

func (t *timely) Deadline() (time.Time, bool) {
	if at, ok := t.Context.Deadline(); ok && at.Before(t.until) {
		return at, true
	}
	return t.until, true
}

func (t *timely) Err() error {
	if err := t.Context.Err(); err != nil || time.Now().Before(t.until) {
		return err //nolint:wrapcheck // a context's error is what it is
	}
	return context.DeadlineExceeded
}

// encode turns the arguments into wire bytes, or names everything that is wrong
// with them.
func (b *Bridge) encode(ctx context.Context, c *toolCall) *errmap.Error {
	defer b.requestTurn(ctx, c).End()
	if c.tool.Native {
		return declaredInput(ctx, c.tool, c.arguments())
	}
	var err error
	switch c.req.Arguments.Encoding {
	case EncodingProtobuf:
		c.wire = c.req.Arguments.Bytes
		if err = c.tool.In.CheckWire(ctx, c.wire); err == nil {
			return declaredMessage(ctx, c.tool, c.wire)
		}
	default:
		if c.tool.TakesStream() {
			return b.encodeStream(ctx, c)
		}
		arguments := c.arguments()
		if failed := declaredInput(ctx, c.tool, arguments); failed != nil {
			return failed
		}
		c.wire, err = c.tool.In.ToWireWith(ctx, &b.buffers, nil, arguments)
		c.pooled = err == nil
	}
	if err == nil {
		return nil
	}
	return inputError(c.tool, err)
}

// declaredInput asks a tool's declared input schema about JSON arguments,
// before the transcoder sees them.
func declaredInput(ctx context.Context, t *catalog.Tool, arguments []byte) *errmap.Error {
	return refusedInput(t)(t.CheckArguments(ctx, arguments))
}

// declaredMessage asks it about the request of a typed caller.
func declaredMessage(ctx context.Context, t *catalog.Tool, wire []byte) *errmap.Error {
	return refusedInput(t)(t.CheckRequest(ctx, wire))
}

// refusedInput turns what a check found into what the caller is told.
func refusedInput(t *catalog.Tool) func([]schema.Violation, error) *errmap.Error {
	return func(found []schema.Violation, err error) *errmap.Error {
		switch {
		case err != nil:
			return checkError(err)
		case len(found) > 0:
			return errmap.InvalidInput(t.Name, slices.ContainsFunc(found, isStructural), violations(found)...)
		}
		return nil
	}
}

// isStructural reports whether a schema was broken in its structure, and not
// only by a value out of its range.
func isStructural(v schema.Violation) bool {
	switch v.Keyword {
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
		"format", "enum", "const", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties":
		return false
	}
	return true
}

// Repaired returns the number of calls whose arguments were repaired.
func (b *Bridge) Repaired() uint64 { return b.repaired.Load() }

// RepairArguments returns arguments as a Payload. If the option RepairArguments is set
// and raw is a JSON string that holds an object, the Payload is that object. Edges call
// it before they refuse arguments that are not an object.
func (b *Bridge) RepairArguments(raw []byte) Payload {
	if !b.opts.RepairArguments {
		return Payload{Bytes: raw}
	}
	if content := transcode.UnquoteObject(raw); content != nil {
		return Payload{Bytes: content, Repaired: true}
	}
	return Payload{Bytes: raw}
}

// decoded looks for what can be decoded in arguments that were refused. The
// descriptor says it of the messages of an RPC; of a declared schema it is the
// strings whose type it refuses, which are checked again as what they hold.
func (c *toolCall) decoded(arguments []byte, failed *errmap.Error) (plain []byte, places []string) {
	if !c.tool.Native {
		if plain, places = c.unquote(arguments); c.tool.Declared == nil || c.tool.Declared.Input == nil {
			return plain, places
		}
	} else {
		plain = arguments
	}
	for _, v := range failed.Violations {
		if v.Path == "" || slices.Contains(places, v.Path) || !slices.Contains(typeKeywords, v.Keyword) {
			continue
		}
		if changed := transcode.UnquoteAt(plain, v.Path); changed != nil {
			plain, places = changed, append(places, v.Path)
		}
	}
	return plain, places
}

// unquote decodes what the descriptor wants as an object or array. The messages of a stream are decoded one by one.
func (c *toolCall) unquote(arguments []byte) (plain []byte, places []string) {
	if c.tool.TakesStream() {
		return c.tool.Stream.Unquote(arguments)
	}
	return c.tool.In.Unquote(arguments)
}

// typeKeywords are what a schema says where it has no place for a string.
//
//nolint:gochecknoglobals // a list that is never changed
var typeKeywords = []string{"type", "anyOf", "oneOf"}

// reportRepairs says in the response what was decoded. A question and a task are no
// results: the calls that follow them are of what was decoded.
func (c *toolCall) reportRepairs() {
	if c.resp.Err == nil && c.resp.ToolOutcome().GetResult() != nil {
		c.resp.Repaired = c.repairs
	}
}

// wanted reads the mask of a call against the schema of its result, before anything runs.
func (*Bridge) wanted(_ context.Context, c *toolCall) *errmap.Error {
	w := &c.req.Wanted
	if w.Fields == "" || !c.isJSON() {
		return nil
	}
	switch {
	case c.tool.IsDocument():
		return w.RefuseFields("the result of " + c.tool.Name + " is a document, which has no fields")
	case c.tool.Continues == catalog.GetOperation:
		return nil // the schema is that of the operation's response: see chooseFields
	case c.tool.Compact != catalog.NotCompact, c.tool.Continues != catalog.NoContinuation:
		return w.RefuseFields("the result of " + c.tool.Name + " is always whole")
	}
	var err *errmap.Error
	c.mask, err = w.Mask(resultView(c.tool))
	return err
}
