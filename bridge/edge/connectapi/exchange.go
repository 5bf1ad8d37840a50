// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// exchangeRoute names the edge in logs.
const exchangeRoute = "/outrigger.v1.ToolService/Exchange"

// Exchange carries many calls over one stream, in the canonical dialect with
// string and integer ids. Requests are registered in the order in which they
// come and answered in the order in which they end. It returns when the caller
// has half-closed and everything is answered, or when the stream breaks, which
// cancels what is left.
func (s *Service) Exchange(ctx context.Context, stream *connect.BidiStream[outriggerv1.Envelope, outriggerv1.Envelope]) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &exchange{
		service: s, stream: stream, cancel: cancel,
		slots: make(chan struct{}, s.opts.MaxConcurrent),
	}
	x.inbound = bridge.Inbound{
		Dialect: bridge.DialectCanonical, Origin: s.bridge.Flights().NewOrigin(),
		Header: stream.RequestHeader(), Caller: bridge.CallerAddress(stream.Peer().Addr), Transport: stream.Peer().Protocol, Route: exchangeRoute,
	}
	err := x.read(ctx)
	if err != nil {
		cancel(err)
	}
	x.running.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	return err
}

// exchange is the state of one stream.
type exchange struct {
	service *Service
	stream  *connect.BidiStream[outriggerv1.Envelope, outriggerv1.Envelope]
	inbound bridge.Inbound
	cancel  context.CancelCauseFunc
	slots   chan struct{}
	running sync.WaitGroup
	sending sync.Mutex
}

// read takes messages until the caller half-closes.
func (x *exchange) read(ctx context.Context) error {
	for {
		envelope, err := x.stream.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		x.take(ctx, envelope)
	}
}

// take registers one message and answers it, on a goroutine of its own where
// there is something to run.
func (x *exchange) take(ctx context.Context, envelope *outriggerv1.Envelope) {
	msg := messageFrom(envelope, x.service.opts.Limits)
	in := x.inbound
	in.Message = &msg
	if msg.Fault != nil || msg.Kind != jsonrpc.KindRequest {
		x.send(x.service.bridge.HandleMessage(ctx, &in))
		return
	}
	select {
	case x.slots <- struct{}{}:
	default:
		x.send(x.service.bridge.Refuse(&in, errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second))))
		return
	}
	run := x.service.bridge.BeginMessage(ctx, &in)
	x.running.Go(func() {
		defer func() { <-x.slots }()
		x.send(run())
	})
}

// send writes one reply. A stream that cannot be written to is over.
func (x *exchange) send(reply bridge.Reply) {
	if reply.Body == nil {
		return
	}
	envelope := envelopeFrom(reply.Body)
	x.sending.Lock()
	defer x.sending.Unlock()
	if err := x.stream.Send(envelope); err != nil {
		x.cancel(err)
	}
}
