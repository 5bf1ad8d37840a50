// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/content/bytepool"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/schema"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/transcode"
)

// encoder checks arguments and turns them into wire bytes.
type encoder struct {
	deadlines *deadlines
	rulebook  *rulebook

	ids             requestIDs
	slots           *policy.Slots
	buffers         *bytepool.Pool
	maxInputItems   int
	repairArguments bool
	repaired        atomic.Uint64
}

// validate turns the arguments into wire bytes. Where the sidecar repairs
// arguments, objects and arrays that stand in strings may be decoded: only where
// the arguments are wrong as they are, only where an object or array is wanted,
// and once.
func (e *encoder) validate(ctx context.Context, c *toolCall) *errmap.Error {
	failed := e.checked(ctx, c)
	if failed == nil && len(c.repair.places) > 0 {
		e.repaired.Add(1)
	}
	return failed
}

// checked is validate for arguments that may be those of no call.
func (e *encoder) checked(ctx context.Context, c *toolCall) *errmap.Error {
	defer c.req.Span.Step(telemetry.StepValidate, c.req.Span.Now())
	c.checking = timely{Context: ctx, until: time.Now().Add(e.deadlines.timeout(c))}
	ctx = &c.checking
	failed := e.encode(ctx, c)
	if !e.repairArguments || c.req.Arguments.Encoding != EncodingJSON {
		return failed
	}
	if c.req.Arguments.Repaired {
		c.repair.places = append(c.repair.places, "")
	}
	if failed != nil && failed.Code == errmap.InvalidToolInput {
		if plain, places := c.decoded(c.arguments(), failed); len(places) > 0 {
			c.repair.arguments = plain
			c.repair.places = append(c.repair.places, places...)
			failed = e.encode(ctx, c)
		}
	}
	return failed
}

// encode turns the arguments into wire bytes, or names everything that is wrong
// with them.
func (e *encoder) encode(ctx context.Context, c *toolCall) *errmap.Error {
	defer e.requestTurn(ctx, c).End()
	switch {
	case c.tool.CheckedBehind && !e.rulebook.readsArguments(c.tool):
		return nil
	case c.tool.Native:
		// A rule that compares arguments means the form that the schema has, so that no other spelling leads around it.
		return declaredInput(ctx, c.tool, c.arguments())
	}
	if c.tool.RequestID != nil {
		e.fillRequestID(c)
	}
	in := c.req.Arguments
	if in.Encoding == EncodingJSON {
		if c.tool.TakesStream() {
			return e.encodeStream(ctx, c)
		}
		in.Bytes = c.arguments()
	} else if c.requestID != "" {
		in.Bytes = c.tool.WithRequestID(nil, in.Bytes, c.requestID)
	}
	var failed *errmap.Error
	c.wire, c.pooled, failed = e.message(ctx, c.tool, in)
	return failed
}

// message is the wire form of one message, checked. What a tool that takes a stream declares is the schema of all arguments,
// {"items": [...]}, and not of one message.
func (e *encoder) message(ctx context.Context, t *catalog.Tool, in Payload) (wire []byte, pooled bool, failed *errmap.Error) {
	if in.Encoding == EncodingProtobuf {
		if err := t.In.CheckWire(ctx, in.Bytes); err != nil {
			return nil, false, inputError(t, err)
		}
		if !t.TakesStream() {
			failed = declaredMessage(ctx, t, in.Bytes)
		}
		return in.Bytes, false, failed
	}
	if !t.TakesStream() {
		failed = declaredInput(ctx, t, in.Bytes)
	}
	if failed != nil {
		return nil, false, failed
	}
	wire, err := t.In.ToWireWith(ctx, e.buffers, nil, in.Bytes)
	if err != nil {
		return nil, false, inputError(t, err)
	}
	return wire, true, nil
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

// refusedInput turns what a check found into the error for the caller.
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

// repair returns arguments as a Payload, decoded if they are an object in a string; see [Bridge.RepairArguments].
func (e *encoder) repair(raw []byte) Payload {
	if !e.repairArguments {
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

// wanted reads the mask of a call against the schema of its result, before anything runs.
func wanted(_ context.Context, c *toolCall) *errmap.Error {
	if c.tool.Continues == catalog.GetOperation {
		return nil // the schema is that of the operation's response: see continueOperation
	}
	return c.chooseFields(&c.req.Wanted)
}

// chooseFields applies the field mask that a caller wants. It replaces that of an earlier call whose result is fetched.
func (c *toolCall) chooseFields(w *content.Wanted) *errmap.Error {
	switch {
	case w.Fields == "" || !c.isJSON():
		return nil
	case c.tool.IsDocument():
		return w.RefuseFields("the result of " + c.tool.Name + " is a document, which has no fields")
	case c.tool.Compact != catalog.NotCompact, c.tool.Continues != catalog.NoContinuation:
		return w.RefuseFields("the result of " + c.tool.Name + " is always whole")
	}
	var failed *errmap.Error
	c.fit.mask, failed = w.MaskUnder(c.fit.under, resultView(c.tool))
	c.fit.noted = "" // it was about the other mask
	return failed
}

// encodeStream checks the arguments of a tool that takes a stream, and encodes the first message. The others are checked
// when they are sent.
func (e *encoder) encodeStream(ctx context.Context, c *toolCall) *errmap.Error {
	c.input = &streamInput{}
	failed := e.splitItems(ctx, c)
	if failed == nil {
		failed = e.encodeFirst(ctx, c)
	}
	if failed != nil {
		failed.ItemsSent = new(int)
	}
	return failed
}

// splitItems checks the arguments around the messages.
func (e *encoder) splitItems(ctx context.Context, c *toolCall) *errmap.Error {
	arguments := c.arguments()
	if c.req.Items != nil && c.req.Arguments.Bytes == nil {
		arguments = []byte(schema.NoItems) // the items follow
	}
	if failed := declaredInput(ctx, c.tool, arguments); failed != nil {
		return failed
	}
	var err error
	c.input.header, c.input.items, err = c.tool.Stream.Split(arguments, e.maxInputItems)
	if err == nil {
		return nil
	}
	failed := inputError(c.tool, err)
	var broken *transcode.InputError
	if errors.As(err, &broken) && transcode.TooManyItems(broken.Violations) {
		failed.Limit = errmap.LimitInputItems
		failed.Violations[0].Message += " (--max-input-items)"
	}
	return failed
}

// encodeFirst encodes the header, or else the first item.
func (e *encoder) encodeFirst(ctx context.Context, c *toolCall) (failed *errmap.Error) {
	switch {
	case c.input.header != nil:
		c.wire, failed = e.encodeHeader(ctx, c)
	case len(c.input.items) > 0:
		c.wire, failed = e.encodeItem(ctx, c, 0, c.input.items[0])
		c.pooled = failed == nil
	default:
		c.wire, c.input.hasFirst = nil, false
		return nil
	}
	c.input.hasFirst = failed == nil
	return failed
}

func (e *encoder) encodeHeader(ctx context.Context, c *toolCall) ([]byte, *errmap.Error) {
	return e.encodePart(c, c.input.header, c.tool.Stream.UnquoteHeader, func(raw []byte) ([]byte, error) {
		return c.tool.Stream.HeaderToWire(ctx, nil, raw)
	})
}

// encodeItem encodes the item with a position.
func (e *encoder) encodeItem(ctx context.Context, c *toolCall, position int, raw []byte) ([]byte, *errmap.Error) {
	unquote := func(raw []byte) ([]byte, []string) { return c.tool.Stream.UnquoteItem(position, raw) }
	return e.encodePart(c, raw, unquote, func(raw []byte) ([]byte, error) {
		return c.tool.Stream.ItemToWire(ctx, e.buffers, nil, position, raw)
	})
}

// encodePart encodes a part of the arguments of a stream, after a repair where the sidecar repairs arguments and the part is wrong
// as it is.
func (e *encoder) encodePart(c *toolCall, raw []byte, unquote func([]byte) ([]byte, []string), toWire func([]byte) ([]byte, error)) ([]byte, *errmap.Error) {
	wire, err := toWire(raw)
	var broken *transcode.InputError
	if e.repairArguments && errors.As(err, &broken) {
		if plain, places := unquote(raw); len(places) > 0 {
			if wire, err = toWire(plain); err == nil {
				c.repair.places = append(c.repair.places, places...)
			}
		}
	}
	if err != nil {
		return nil, inputError(c.tool, err)
	}
	return wire, nil
}

// requestTurn waits until the arguments of a call may be translated, which counts towards its deadline. The turn is for the CPU
// alone: its holder waits for nothing.
func (e *encoder) requestTurn(ctx context.Context, c *toolCall) policy.Turn {
	n := len(c.arguments())
	if n < policy.LargeMessage {
		return policy.Turn{}
	}
	defer func(asked time.Time) { c.place.Waited += time.Since(asked) }(time.Now())
	return e.slots.TurnForRequest(ctx, c.req.Caller, c.tool.Name, n)
}

// checkedMessage is the wire form of one message of a stream, checked as the arguments of
// a unary call are.
func (e *encoder) checkedMessage(ctx context.Context, c *toolCall, in Payload) (wire []byte, pooled bool, failed *errmap.Error) {
	if len(in.Bytes) >= policy.LargeMessage {
		defer e.slots.TurnForRequest(ctx, c.req.Caller, c.tool.Name, len(in.Bytes)).End()
	}
	if in.Encoding == EncodingJSON && len(in.Bytes) == 0 {
		in.Bytes = emptyObject
	}
	return e.message(ctx, c.tool, in)
}

// check implements [Bridge.CheckArguments].
func (e *encoder) check(ctx context.Context, t *catalog.Tool, arguments []byte) *errmap.Error {
	if t.CheckedBehind {
		return declaredInput(ctx, t, arguments).Redacted()
	}
	c := &toolCall{tool: t, req: &Request{Op: OpCall, Tool: t.Name, Arguments: e.repair(arguments)}}
	failed := e.checked(ctx, c)
	ctx = &c.checking // all items have the time of one call
	defer e.requestTurn(ctx, c).End()
	free := func() {
		if c.pooled {
			e.buffers.Put(c.wire)
		}
	}
	free()
	for i := 1; c.input != nil && i < len(c.input.items); i++ {
		var one *errmap.Error
		c.wire, one = e.encodeItem(ctx, c, i, c.input.items[i])
		c.pooled = one == nil
		free()
		switch {
		case one == nil:
		case failed == nil || one.Code != errmap.InvalidToolInput:
			failed = one
		default:
			failed.Violations = append(failed.Violations, one.Violations...)
		}
		if failed != nil && len(failed.Violations) >= maxShownViolations {
			break
		}
	}
	return failed.Redacted()
}

// maxShownViolations is after how many violations in the items of a stream no more are looked for.
const maxShownViolations = 100
