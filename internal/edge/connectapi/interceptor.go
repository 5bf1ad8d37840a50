// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"strings"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/gen/outrigger/v1/outriggerv1connect"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// interceptor is what the RPCs of the tool API and of the typed pass-through have in common. It holds unary requests to the
// rules of the contract; streams check their messages one by one, because a bad one must not end the stream. It gives errors of
// receiving on streams their canonical form, and every stream a span, which ends with it. A unary RPC has its span from
// [Service.run]; one that does not get there has that of its HTTP request, which learns why.
type interceptor struct {
	service *Service
	// stream serves streams in place of the library's function; nil for the tool API.
	stream connect.StreamingHandlerFunc
}

// WrapUnary implements [connect.Interceptor].
func (i interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	isTraced := i.service.bridge.Tracer().IsOn()
	return func(ctx context.Context, req connect.AnyRequest) (resp connect.AnyResponse, err error) {
		if msg, ok := req.Any().(proto.Message); ok {
			err = i.service.checkRules(ctx, req, msg)
		}
		if err == nil {
			resp, err = next(ctx, req)
		}
		if err != nil && isTraced {
			telemetry.HTTPRequestOf(ctx).Refused(rpcOutcome(err))
		}
		return resp, err
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler implements [connect.Interceptor].
func (i interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	if i.stream != nil {
		next = i.stream
	}
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		of := servedOf(ctx)
		conn = &framedConn{StreamingHandlerConn: conn, ctx: ctx, service: i.service, procedure: of.procedure}
		if !i.service.bridge.Tracer().IsOn() {
			return next(ctx, conn)
		}
		of.span = i.begun(ctx, conn)
		err := next(ctx, conn)
		of.span.endSpan(err)
		return err
	}
}

// begun starts the span of a stream. It is apart because the stream may last for days, on top of the stack of what waits for it.
func (i interceptor) begun(ctx context.Context, conn connect.StreamingHandlerConn) *streamOfCalls {
	of := &streamOfCalls{method: strings.TrimPrefix(conn.Spec().Procedure, "/")}
	req := rpcOfStream(conn).request(ctx)
	req.Procedure = servedOf(ctx).procedure
	of.span = i.service.rpc.StartRPC(ctx, of.method, req)
	return of
}

// framedConn is a stream whose errors of receiving are canonical.
type framedConn struct {
	connect.StreamingHandlerConn

	ctx     context.Context //nolint:containedctx // of the stream, for the audit trail
	service *Service
	// procedure is that of a typed stream, whose handler serves all of them; "" for the tool API.
	procedure string
	// received: a message has come, so that the stream is a request by now.
	received bool
}

// Spec implements [connect.StreamingHandlerConn].
func (c *framedConn) Spec() connect.Spec {
	spec := c.StreamingHandlerConn.Spec()
	if c.procedure != "" {
		spec.Procedure = c.procedure
	}
	return spec
}

// Receive implements [connect.StreamingHandlerConn]. A message that was refused when it was read is an error too, except
// an envelope: an invalid envelope does not end the stream.
func (c *framedConn) Receive(message any) error {
	err := c.StreamingHandlerConn.Receive(message)
	edge := telemetry.EdgeOf(c.Peer().Protocol, "", false)
	isFirst := !c.received
	c.received = true
	if err == nil {
		m, ok := message.(proto.Message)
		if _, isEnvelope := m.(*outriggerv1.Envelope); !ok || isEnvelope {
			return nil
		}
		if failed := refusalOf(m); failed != nil {
			return c.service.refusedAt(edge, failed, aboutOf(m))
		}
		return nil
	}
	switch code := connect.CodeOf(err); code {
	case connect.CodeInvalidArgument, connect.CodeResourceExhausted, connect.CodeInternal, connect.CodeUnimplemented:
		failed, code := c.service.framingError(c.RequestHeader(), code)
		c.service.countFraming(edge, failed)
		if procedure := c.Spec().Procedure; isFirst && c.procedure == "" || procedure == outriggerv1connect.ToolServiceExchangeProcedure { // a typed stream is a request before its first message
			c.service.auditUnread(c.ctx, rpcOfStream(c), failed)
		}
		return withCode(code, errmap.ToConnect(failed, errmap.About{}))
	default: // the end of the stream, or its caller has gone
		return err
	}
}
