// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// openingTime is how long the circuit breaker waits for the response of a stream to
// begin. A service may rightly say nothing before it has read a message, which tells
// nothing about it.
const openingTime = 5 * time.Second

// streamIdle and streamOver are why a stream was ended by its bounds.
var (
	errStreamIdle = errors.New("bridge: no message on the stream")
	errStreamOver = errors.New("bridge: the stream's time is over")
)

// exchanger passes the messages of streaming RPCs between callers that speak the RPC and the backend.
type exchanger struct {
	admission *admission
	auditor   *auditor
	encoder   *encoder
	rulebook  *rulebook
	sender    *sender
	decoder   *decoder
	panics    *panics

	streamIdle time.Duration
	streamTime time.Duration
}

// exchange runs a streaming RPC between its caller and the backend: one goroutine checks
// and sends what the caller sends, and this one passes on what the backend answers.
//
// It has a place among the long-lived streams and takes no slot of calls: those are for what ends soon.
func (e *exchanger) exchange(ctx context.Context, c *toolCall) *errmap.Error {
	if m := c.tool.Method; !m.ClientStreaming && !m.ServerStreaming {
		return errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second),
			errmap.Message("Tool service unavailable: the method takes one message now, and no stream; try again"))
	}
	if err := e.admission.room(ctx, c); err != nil {
		return err
	}
	release, err := e.admission.openStream(c.req.Caller, "RPC", c.tool.Name)
	if err != nil {
		return err
	}
	defer release()
	return e.run(ctx, c)
}

// run is exchange once there is room.
func (e *exchanger) run(ctx context.Context, c *toolCall) *errmap.Error {
	ctx, stop := UntilRevoked(ctx)
	defer stop()
	if limit := e.streamDeadline(c); limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	x := &exchange{via: e, call: c, caller: c.req.Exchange}
	ctx, x.cancel = context.WithCancelCause(ctx)
	defer x.cancel(nil)
	x.watch()
	defer x.unwatch()
	if err := x.first(ctx); err != nil {
		return err
	}
	if err := e.auditor.recordCall(ctx, c); err != nil {
		return err
	}
	defer c.req.waited(time.Now())
	err := x.open(ctx)
	if err == nil {
		err = x.pass(ctx)
	}
	x.finish()
	return x.outcome(ctx, err)
}

// streamDeadline is the shorter of the caller's and the tool's, zero for none. A stream
// has no default: it may last for days.
func (e *exchanger) streamDeadline(c *toolCall) time.Duration {
	limit := c.tool.Timeout
	if own := c.req.Timeout; own > 0 && (limit == 0 || own < limit) {
		limit = own
	}
	return limit
}

// exchange is a streaming RPC under way.
type exchange struct {
	via    *exchanger
	call   *toolCall
	caller Exchange
	cancel context.CancelCauseFunc
	stream BackendStream

	// begun is what was read of the caller before the backend was called.
	begun struct {
		held   bool // the first message, if there is one
		wire   []byte
		pooled bool
		end    bool // nothing follows
	}
	sending sync.WaitGroup
	// refused is why the sender ended the stream. It is the sender's until sending is done.
	refused *errmap.Error
	// done: what the sender reads from here on is none of the stream's.
	done atomic.Bool
	// told: the header has gone to the caller.
	told bool

	idle, most *time.Timer // nil without such a bound
}

// first reads and checks the first message before the backend is called, where that may
// be: of a method that takes one message, as for a unary call, and where policy rules
// read its arguments. Other streams begin at once, because their service may speak first.
// That no second message follows one that is alone is known here, too: once a response
// has begun, HTTP/1.1 has no request to read.
func (x *exchange) first(ctx context.Context) *errmap.Error {
	if m := x.call.tool; m.Method.ClientStreaming && !x.via.rulebook.readsArguments(m) {
		return nil
	}
	// The wait ends with the context, too.
	defer context.AfterFunc(ctx, x.caller.Stop)()
	wire, pooled, err := x.next(ctx)
	switch {
	case errors.Is(err, io.EOF) && !x.call.tool.Method.ClientStreaming:
		return errOneMessage()
	case errors.Is(err, io.EOF):
		x.begun.end = true
		return x.via.rulebook.permitMessage(ctx, x.call, nil)
	case err != nil:
		return x.outcome(ctx, asError(err))
	}
	x.begun.wire, x.begun.pooled, x.begun.held = wire, pooled, true
	if !x.call.tool.Method.ClientStreaming {
		if err := x.alone(ctx); err != nil {
			return err
		}
		x.begun.end = true
	}
	return x.via.rulebook.permitMessage(ctx, x.call, wire)
}

// alone waits for the end of what the caller sends.
func (x *exchange) alone(ctx context.Context) *errmap.Error {
	switch _, err := x.caller.Receive(); {
	case err == nil:
		return errOneMessage()
	case errors.Is(err, io.EOF):
		return nil
	default:
		return x.outcome(ctx, asError(err))
	}
}

// next reads and checks a message of the caller.
func (x *exchange) next(ctx context.Context) (wire []byte, pooled bool, err error) {
	in, err := x.caller.Receive()
	if err != nil {
		return nil, false, err
	}
	x.call.resp.passed.in += len(in.Bytes)
	wire, pooled, failed := x.via.encoder.checkedMessage(ctx, x.call, in)
	if failed != nil {
		return nil, false, failed
	}
	return wire, pooled, nil
}

// open calls the backend and has the sender run.
func (x *exchange) open(ctx context.Context) *errmap.Error {
	at := x.via.sender.of(x.call)
	return x.via.sender.open(ctx, x.call, x.via.sender.upstream(ctx, at, x.call), at.Metadata.OfCall(x.call.req.Header), func(ctx context.Context, stream BackendStream) *errmap.Error {
		x.stream = stream
		x.sending.Go(func() { x.send(ctx) })
		return nil
	})
}

// errSilent tells the circuit breaker that nothing is known yet.
var errSilent = errors.New("bridge: the response of the stream has not begun")

// send passes on what the caller sends, until it half-closes or the stream ends.
func (x *exchange) send(ctx context.Context) {
	defer func() {
		if p := recover(); p != nil {
			x.refuse(ctx, x.via.panics.recovered(p))
		}
	}()
	err := x.via.sender.pump(x.stream, func() ([]byte, bool, error) { return x.upcoming(ctx) }, x.moved)
	if err != nil {
		x.refuse(ctx, asError(err))
	}
}

// upcoming is the next message of the caller, which the rules have been asked about. The error is io.EOF once it has half-closed.
func (x *exchange) upcoming(ctx context.Context) (wire []byte, pooled bool, err error) {
	switch {
	case x.begun.held:
		x.begun.held = false
		return x.begun.wire, x.begun.pooled, nil
	case x.begun.end:
		return nil, false, io.EOF
	}
	if wire, pooled, err = x.next(ctx); err != nil {
		return nil, false, err
	}
	if failed := x.via.rulebook.permitMessage(ctx, x.call, wire); failed != nil {
		return nil, false, failed
	}
	return wire, pooled, nil
}

// refuse ends the stream because of what its caller sent, or because it has gone.
func (x *exchange) refuse(ctx context.Context, err *errmap.Error) {
	if x.done.Load() || ctx.Err() != nil && err.Code == errmap.Cancelled {
		return
	}
	x.refused = err
	x.cancel(err)
}

// pass passes on what the backend answers, until it ends.
func (x *exchange) pass(ctx context.Context) *errmap.Error {
	if header, ok := x.stream.Header(); ok {
		x.told = true
		if err := x.caller.Begin(x.via.sender.of(x.call).Metadata.Outbound(header)); err != nil {
			return errmap.Wrap(errmap.Cancelled, err)
		}
	}
	for {
		message, err := x.stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return asError(err)
		}
		if ctx.Err() != nil {
			return errmap.Wrap(errmap.Cancelled, context.Cause(ctx)) // at the boundary of a message
		}
		if failed := x.answer(ctx, message); failed != nil {
			return failed
		}
		x.moved()
	}
}

// answer checks one message of the backend and sends it in the caller's encoding.
func (x *exchange) answer(ctx context.Context, message []byte) *errmap.Error {
	via, c := x.via, x.call
	out, pooled := message, false
	if c.req.Arguments.Encoding == EncodingProtobuf {
		if err := c.out().CheckWire(ctx, message); err != nil {
			return outputError(err)
		}
	} else {
		var err error
		if out, err = via.decoder.answerJSON(ctx, c, nil, message); err != nil {
			return outputError(err)
		}
		pooled = true
	}
	if failed := via.decoder.limit.check(len(out)); failed != nil {
		return failed
	}
	err := x.caller.Send(out)
	c.resp.passed.out += len(out)
	if pooled {
		via.sender.buffers.Put(out)
	}
	if err != nil {
		return errmap.Wrap(errmap.Cancelled, err)
	}
	return nil
}

// finish ends both sides, and waits for the sender.
func (x *exchange) finish() {
	if x.stream == nil {
		return
	}
	x.done.Store(true)
	x.stream.Close()
	x.caller.Stop()
	x.sending.Wait()
	x.call.resp.Trailer = x.via.sender.of(x.call).trailer(x.call.req, x.stream.Trailer())
	if !x.told {
		header, _ := x.stream.Header()
		x.call.resp.Header = x.via.sender.of(x.call).Metadata.Outbound(header)
	}
	x.call.worked = true
}

// outcome is what the stream ended with: a refusal of the sender's comes before what it
// caused.
func (x *exchange) outcome(ctx context.Context, err *errmap.Error) *errmap.Error {
	var shown *errmap.Error
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case x.refused != nil:
		return x.refused
	case err.Code != errmap.Cancelled:
		return err
	case errors.Is(cause, errStreamIdle):
		return errmap.New(errmap.Unavailable, errmap.Messagef(
			"Stream ended: it had no message for %v (--stream-idle); open it again", x.via.streamIdle))
	case errors.Is(cause, errStreamOver):
		return errmap.New(errmap.Unavailable, errmap.Messagef("Stream ended: it was open for %v (--max-stream-time); open it again", x.via.streamTime))
	case errors.Is(cause, context.DeadlineExceeded):
		return errmap.Wrap(errmap.Timeout, cause)
	case errors.As(cause, &shown):
		return shown // its caller's permission was revoked
	}
	return err
}

// watch bounds the stream's time, and its time without a message.
func (x *exchange) watch() {
	if d := x.via.streamIdle; d > 0 {
		x.idle = time.AfterFunc(d, func() { x.cancel(errStreamIdle) })
	}
	if d := x.via.streamTime; d > 0 {
		x.most = time.AfterFunc(d, func() { x.cancel(errStreamOver) })
	}
}

// moved notes that a message has passed.
func (x *exchange) moved() {
	if x.idle != nil {
		x.idle.Reset(x.via.streamIdle)
	}
}

func (x *exchange) unwatch() {
	if x.idle != nil {
		x.idle.Stop()
	}
	if x.most != nil {
		x.most.Stop()
	}
}

// begun waits until the response of a stream begins, for a bounded time.
func begun(ctx context.Context, stream BackendStream) *errmap.Error {
	heard := make(chan bool, 1)
	go func() {
		_, ok := stream.Header() // ends with the stream, which is always closed
		heard <- ok
	}()
	timer := time.NewTimer(openingTime)
	defer timer.Stop()
	select {
	case ok := <-heard:
		if ok {
			return nil
		}
		_, err := stream.Receive()
		return asError(err)
	case <-timer.C:
	case <-ctx.Done():
	}
	return errmap.Wrap(errmap.Cancelled, errSilent)
}
