// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"net/http"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// Upstream calls one method of the backend with encoded bytes. Its errors are
// canonical, because only the upstream knows whether the backend returned the error
// or was never reached. An error belongs to this call, and the bridge adds to it. The
// answer of a failed call may be nil; it has at most metadata. An implementation must
// not keep in after the call, nor return parts of it: its bytes are reused.
type Upstream interface {
	Call(ctx context.Context, m *catalog.Method, in []byte, header http.Header) (*Answer, *errmap.Error)
	// Stream calls a server-streaming method, and passes each message to each, in order,
	// before it returns. The bytes belong to each until each returns. An error of each
	// ends the call.
	Stream(ctx context.Context, m *catalog.Method, in []byte, header http.Header, each func(message []byte) error) (*Answer, *errmap.Error)
}

// Answer is the response of the backend.
type Answer struct {
	Body            []byte
	Header, Trailer http.Header
}

// Native is a backend that implements the tool API itself, and so offers more than
// RPCs. Errors are canonical, as with [Upstream]. Methods are safe for concurrent
// use.
type Native interface {
	// CallTool runs a tool. If events is not nil, it receives the events of the call, in
	// order, before CallTool returns.
	CallTool(ctx context.Context, call *outriggerv1.ToolCall, header http.Header, events func(*outriggerv1.ToolEvent)) (*outriggerv1.ToolOutcome, *Answer, *errmap.Error)
	// Ask calls the unary RPC of the tool API that takes the type of in: a
	// ReadResourceRequest gets a ResourceOutcome, and so on. The answer's Body is empty.
	Ask(ctx context.Context, in proto.Message, header http.Header) (proto.Message, *Answer, *errmap.Error)
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
