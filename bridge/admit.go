// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/resilience"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// admit lets a call run once there is memory and a place for it. What it takes
// is given back by leave.
func (b *Bridge) admit(ctx context.Context, c *toolCall) *errmap.Error {
	if err := b.room(ctx, c); err != nil {
		return err
	}
	if err := checkIdempotencyKey(c.req.Header); err != nil {
		return err
	}
	var err *errmap.Error
	if c.req.Paced {
		err = b.opts.Slots.Wait(ctx, c.req.Caller) // and its own time begins then
	} else {
		c.queued, err = b.opts.Slots.Take(ctx, c.req.Caller)
	}
	c.placed = err == nil
	return err
}

// room refuses a call while memory is short, or lets it wait.
func (b *Bridge) room(ctx context.Context, c *toolCall) *errmap.Error {
	switch {
	case b.opts.Shed == nil:
		return nil
	case c.req.Paced:
		return b.awaitMemory(ctx, c)
	}
	return b.opts.Shed()
}

// memoryLook is how often a call that waits for memory looks whether there is
// some. Their number is bounded by their edge.
const memoryLook = 50 * time.Millisecond

// awaitMemory lets a call run whose caller is held back by flow control: at once
// while there is memory, and one at a time while it is short. Its message is in
// memory either way, and to run it is what frees that.
func (b *Bridge) awaitMemory(ctx context.Context, c *toolCall) *errmap.Error {
	if b.opts.Short == nil || !b.opts.Short() {
		return nil
	}
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	for b.opts.Short() {
		select {
		case b.alone <- struct{}{}:
			c.alone = true
			return nil
		case <-look.C:
		case <-ctx.Done():
			return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		}
	}
	return nil
}

// leave gives back what admit took. A call that runs on as a task has a bound of
// its own.
func (b *Bridge) leave(c *toolCall) {
	if c.alone {
		c.alone = false
		<-b.alone
	}
	if c.placed {
		c.placed = false
		b.opts.Slots.Give(c.req.Caller)
	}
}

// risk is what the guard of the backend has to know of a call.
func (b *Bridge) risk(c *toolCall) resilience.Call {
	return resilience.Call{
		Key:        c.tool.Name,
		Repeatable: isIdempotent(c.tool) || idempotencyKey(c.req.Header) != "",
		Hurried:    c.req.Timeout > 0 && c.req.Timeout < b.allowed(c),
	}
}

// callRPC makes a unary call of the backend, and repeats it where that may be.
func (b *Bridge) callRPC(ctx context.Context, c *toolCall) *errmap.Error {
	header, risk := b.sentHeader(c.req.Header), b.risk(c)
	if risk.Repeatable && b.opts.Guard != nil {
		risk.Claim = &c.claim
		ctx = backend.Repeatable(ctx, &c.claim)
	}
	var err *errmap.Error
	c.answer, err = resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (*Answer, *errmap.Error) {
		return b.upstream.Call(ctx, c.tool.Method, c.wire, header)
	})
	return err
}

// IdempotencyHeader is the header with which a caller says that calls with the
// same value are the same call, so that one may be repeated
// (draft-ietf-httpapi-idempotency-key-header). The backend gets it too, whatever
// the allow-list says: only the backend can tell a repetition from a new call.
const IdempotencyHeader = "Idempotency-Key"

// IdempotencyMember is the same in the _meta of a message.
const IdempotencyMember = "dev.outrigger/idempotency-key"

// maxIdempotencyKey bounds a key; a UUID has 36 bytes.
const maxIdempotencyKey = 255

// idempotencyKey is the key of a call, empty where it has none.
func idempotencyKey(h http.Header) string {
	if values := h[IdempotencyHeader]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// checkIdempotencyKey refuses a key that could not be sent on: a caller that
// relies on it must not find out later.
func checkIdempotencyKey(h http.Header) *errmap.Error {
	values, ok := h[IdempotencyHeader]
	if !ok || len(values) == 1 && isIdempotencyKey(values[0]) {
		return nil
	}
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Keyword: "idempotency-key", Message: IdempotencyHeader + " (in _meta: " + IdempotencyMember +
			") must be there once, with 1 to 255 visible ASCII characters",
	}))
}

func isIdempotencyKey(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= maxIdempotencyKey
}

// sentHeader is what of a caller's headers goes to the backend with a call.
func (b *Bridge) sentHeader(h http.Header) http.Header {
	out := b.opts.Metadata.inbound(h)
	key := idempotencyKey(h)
	if key == "" {
		return out
	}
	if out == nil {
		out = make(http.Header, 1)
	}
	out[IdempotencyHeader] = []string{key}
	return out
}

// callNative has a native backend run a tool, and repeats that where it may be
// and nothing has happened yet.
func (b *Bridge) callNative(ctx context.Context, c *toolCall, call *outriggerv1.ToolCall) (*outriggerv1.ToolOutcome, *errmap.Error) {
	header, risk, events := b.sentHeader(c.req.Header), b.risk(c), b.events(ctx, c)
	if events != nil {
		began, pass := false, events
		events = func(e *outriggerv1.ToolEvent) {
			began = true
			pass(e)
		}
		risk.Answered = func() bool { return began }
	}
	return resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (*outriggerv1.ToolOutcome, *errmap.Error) {
		var outcome *outriggerv1.ToolOutcome
		var err *errmap.Error
		outcome, c.answer, err = b.opts.Native.CallTool(ctx, call, header, events)
		return outcome, err
	})
}

// questionKey begins what the guard knows questions to a native backend by; no tool's
// name has a slash.
const questionKey = "/"

// askNative puts a question to a native backend. Those that change nothing there
// are repeated.
func (b *Bridge) askNative(ctx context.Context, req *Request, in proto.Message) (out proto.Message, answer *Answer, err *errmap.Error) {
	risk := resilience.Call{Key: questionKey + string(in.ProtoReflect().Descriptor().Name()), Repeatable: true, Hurried: req.Timeout > 0 && req.Timeout < b.opts.Timeout}
	switch in.(type) {
	case *outriggerv1.UpdateTaskRequest, *outriggerv1.CancelTaskRequest:
		risk.Repeatable = false
	}
	header := b.opts.Metadata.inbound(req.Header)
	out, err = resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (out proto.Message, err *errmap.Error) {
		out, answer, err = b.opts.Native.Ask(ctx, in, header)
		return out, err
	})
	return out, answer, err
}
