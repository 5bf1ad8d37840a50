// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// errItem resets a stream whose next item must not be sent.
var errItem = errors.New("bridge: an item was refused")

// invokeExchange calls an RPC that takes a stream of requests. It sends the items one after the other, each checked right
// before it is sent, and reads the answers meanwhile: one message, or a stream that is gathered as by invokeStream. Once an
// item is refused the backend's stream is reset, so that the backend cannot take the items before it for all there were.
//
// The call ends when the backend has ended it, whether or not all items were sent: its status counts then.
func (b *Bridge) invokeExchange(ctx context.Context, c *toolCall) *errmap.Error {
	x := &itemCall{bridge: b, call: c, events: b.events(ctx, c)}
	header, risk := b.sentHeader(c.req.Header), b.risk(c)
	ctx, err := b.onBehalf(ctx, c.req)
	if err != nil {
		return err
	}
	// What was sent is gone, so there is one attempt.
	risk.Repeatable, risk.Answered = false, func() bool { return true }
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	x.reset = stop
	most := b.streamTime(c)
	if c.tool.Streams() {
		x.gathering = &gathering{ctx: ctx, bridge: b, call: c, events: x.events, items: catalog.NewItems()}
		timer := time.AfterFunc(most, func() { stop(errStreamTime) })
		defer timer.Stop()
	}
	ctx = c.req.calling(ctx, &risk)
	c.answer, err = resilience.Do(ctx, b.opts.Guard, risk, func(ctx context.Context) (*Answer, *errmap.Error) {
		return x.run(ctx, header)
	})
	b.keepMetadata(c)
	isOver := err != nil && err.Code == errmap.Cancelled
	switch {
	case isOver && errors.Is(context.Cause(ctx), errItem):
		if err = x.failed; x.gathering != nil {
			err = x.gathering.partial(err)
		}
	case x.gathering != nil:
		if isOver && errors.Is(context.Cause(ctx), errStreamTime) && x.gathering.full == "" {
			x.gathering.full = fmt.Sprintf("the stream did not end within %v", most)
		}
		err = x.gathering.finish(err, x.unsent())
	}
	return x.told(err)
}

// itemCall is one call of an RPC that takes a stream of requests. Until run has returned, its sender owns position, sent and
// failed, and of the call the repairs and the decision.
type itemCall struct {
	bridge    *Bridge
	call      *toolCall
	gathering *gathering // nil: the RPC answers with one message
	events    func(*outriggerv1.ToolEvent)
	reset     func(cause error)
	progress  progress

	// position is that of the next item, sent how many were sent. ended is set once the input has ended.
	position, sent int
	ended          bool
	failed         *errmap.Error
}

// run opens the stream, and sends and receives until the backend has ended it or it is reset.
func (x *itemCall) run(ctx context.Context, header http.Header) (*Answer, *errmap.Error) {
	upstream, ok := x.bridge.upstream.(Streams)
	if !ok {
		return nil, unavailable("no backend is configured; set --backend")
	}
	stream, err := upstream.Open(ctx, x.call.tool.Method, header)
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	sending, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				x.refuse(x.bridge.Panicked(p))
			}
		}()
		x.send(sending, stream)
	}()
	answer, err := x.receive(stream)
	stop()
	stream.Close() // so that a Send that waits returns
	<-done
	return answer, err
}

// send sends all messages. It returns early when one is refused, or when the stream has ended.
func (x *itemCall) send(ctx context.Context, stream BackendStream) {
	c := x.call
	if c.hasFirst {
		isItem := c.header == nil
		if !x.pass(stream, c.wire, isItem) {
			return
		}
		if c.pooled {
			x.bridge.buffers.Put(c.wire)
		}
		c.wire, c.pooled = nil, false
	}
	for {
		raw, err := x.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			x.end(ctx, stream)
			return
		case ctx.Err() != nil:
			return
		case err != nil:
			x.refuse(errmap.From(err))
			return
		}
		wire, failed := x.message(ctx, raw)
		if failed != nil {
			x.refuse(failed)
			return
		}
		isSent := x.pass(stream, wire, true)
		x.bridge.buffers.Put(wire)
		if !isSent {
			return
		}
	}
}

// next is the JSON of the next item: those of the arguments, then those that follow. The error is io.EOF at the end.
func (x *itemCall) next(ctx context.Context) ([]byte, error) {
	switch c := x.call; {
	case x.position < len(c.items):
		return c.items[x.position], ctx.Err()
	case c.req.Items == nil:
		return nil, io.EOF
	default:
		raw, err := c.req.Items(ctx)
		c.resp.passed.in += len(raw)
		if err == nil && x.position >= x.bridge.opts.MaxInputItems {
			x.bridge.opts.Stats.Over(errmap.LimitInputItems)
			return nil, errmap.InvalidInput(c.tool.Name, false, tooManyItems(x.position+1, x.bridge.opts.MaxInputItems))
		}
		return raw, err //nolint:wrapcheck // its type says what is wrong
	}
}

// message encodes the next item and asks the rules about it.
func (x *itemCall) message(ctx context.Context, raw []byte) ([]byte, *errmap.Error) {
	b, c := x.bridge, x.call
	if len(raw) >= policy.LargeMessage {
		defer b.opts.Slots.TurnForRequest(ctx, c.req.Caller, c.tool.Name, len(raw)).End()
	}
	before := len(c.repairs)
	wire, failed := b.encodeItem(ctx, c, x.position, raw)
	if failed != nil {
		return nil, failed
	}
	if before == 0 && len(c.repairs) > 0 {
		b.repaired.Add(1)
	}
	return wire, b.permitMessage(ctx, c, wire)
}

// pass sends one message. It returns false if the stream has ended, or is to end.
func (x *itemCall) pass(stream BackendStream, wire []byte, isItem bool) bool {
	err := stream.Send(wire)
	switch {
	case errors.Is(err, io.EOF):
		return false // the backend has ended the stream, and Receive says how
	case err != nil:
		x.refuse(errmap.From(err))
		return false
	}
	if isItem {
		x.position++
		x.sent++
	}
	if x.gathering == nil {
		x.progress.tell(x.events, x.sent, " items sent")
	}
	return true
}

// end ends the input. The rules have been asked about each message; about a stream without any they are asked as about an
// empty message, so that no rule is passed by.
func (x *itemCall) end(ctx context.Context, stream BackendStream) {
	if x.sent == 0 && !x.call.hasFirst && x.call.req.Items != nil {
		if err := x.bridge.permitMessage(ctx, x.call, nil); err != nil {
			x.refuse(err)
			return
		}
	}
	x.ended = true
	stream.CloseSend()
}

// refuse resets the stream because of what is next.
func (x *itemCall) refuse(err *errmap.Error) {
	x.failed = err
	x.reset(errItem)
}

// receive reads the answers until the backend has ended the stream.
func (x *itemCall) receive(stream BackendStream) (*Answer, *errmap.Error) {
	for {
		message, err := stream.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return metadataOfStream(stream, nil), nil
		case err != nil:
			return metadataOfStream(stream, err), errmap.From(err)
		case x.gathering == nil:
			answer := metadataOfStream(stream, nil)
			answer.Body = slices.Clone(message)
			return answer, nil
		}
		if err := x.gathering.take(message); err != nil {
			return metadataOfStream(stream, nil), errmap.Wrap(errmap.Cancelled, err)
		}
	}
}

// metadataOfStream is the metadata of an RPC that has ended with err, nil for well.
func metadataOfStream(stream BackendStream, err error) *Answer {
	if err != nil {
		return metadataOf(err)
	}
	header, _ := stream.Header()
	return &Answer{Header: header, Trailer: stream.Trailer()}
}

// unsent says that items were left over, empty where none were.
func (x *itemCall) unsent() string {
	if x.ended {
		return ""
	}
	return fmt.Sprintf(" It ended after the first %d items were sent.", x.sent)
}

// told adds to an error how many items the backend may have.
func (x *itemCall) told(err *errmap.Error) *errmap.Error {
	if err == nil {
		return nil
	}
	out := *err // an open circuit breaker may give one error to many calls
	out.ItemsSent = &x.sent
	return &out
}

// tooManyItems is the violation of a call that sends more items than it may.
func tooManyItems(n, most int) errmap.Violation {
	return errmap.Violation{Path: "/items", Keyword: "maxItems", Message: fmt.Sprintf("%d items; at most %d are allowed (--max-input-items)", n, most)}
}
