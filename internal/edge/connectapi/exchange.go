// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/access"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// exchangeRoute names the edge in logs.
const exchangeRoute = "/outrigger.v1.ToolService/Exchange"

// Exchange carries many calls over one stream, in the canonical dialect with string
// and integer ids. Requests are registered in order of arrival and answered in order
// of completion. It returns when the caller has half-closed or the service is
// closed, and everything is answered. It also returns when the stream breaks, which
// cancels the calls in flight. A caller that does not read replies breaks its stream.
func (s *Service) Exchange(ctx context.Context, stream *connect.BidiStream[outriggerv1.Envelope, outriggerv1.Envelope]) error {
	l, failed := s.lastUntil(ctx, stream.Peer().Addr, func(l *lasting) { l.reader.stopReading() })
	if failed != nil {
		return errmap.ToConnect(failed, errmap.About{})
	}
	defer l.close()
	// Waiting for the next message does not end with a context.
	defer context.AfterFunc(l.ctx, l.reader.stopReading)()
	x := &exchange{
		service: s, stream: stream, lasting: l,
		slots: make(chan struct{}, s.opts.MaxConcurrent),
	}
	x.inbound = dialect.Inbound{
		Dialect: dialect.Canonical, Origin: s.bridge.Flights().NewOrigin(),
		Header: stream.RequestHeader(), Caller: bridge.CallerOf(ctx, stream.Peer().Addr), Peer: stream.Peer().Addr, Transport: stream.Peer().Protocol, Route: exchangeRoute,
		HTTP: s.rpc.Request(ctx), Follows: true, Send: x.notify,
	}
	if of := streamOf(ctx); of != nil {
		x.inbound.Stream = of.span
	}
	err := x.read(l.ctx)
	s.rpc.EndItems(x.inbound.Origin)
	// The end of the service leaves what is in flight to be answered, and the
	// caller to read it.
	ending := err != nil && s.life.Err() != nil
	if err != nil && !ending {
		l.cancel(err)
	}
	x.running.Wait()
	cause := context.Cause(l.ctx)
	switch {
	case ending && cause == nil:
		return l.ended(errEnding)
	case errors.Is(cause, access.ErrRevoked):
		return l.ended(cause)
	case err == nil || ending:
		err = cause
	}
	return err
}

// exchange is the state of one stream.
type exchange struct {
	service *Service
	stream  *connect.BidiStream[outriggerv1.Envelope, outriggerv1.Envelope]
	inbound dialect.Inbound
	lasting *lasting
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
	failed := refusalOf(envelope)
	msg := messageFrom(envelope, x.service.opts.Limits)
	if failed != nil {
		msg.Fault = refusedEnvelope(failed)
	}
	in := x.inbound
	in.Message, in.Start = &msg, x.service.now()
	if msg.Fault != nil || msg.Kind != jsonrpc.KindRequest {
		x.send(x.service.rpc.HandleMessage(ctx, &in))
		return
	}
	select {
	case x.slots <- struct{}{}:
	default:
		in.Known(ctx)
		x.send(x.service.rpc.Refuse(&in, crowded()))
		return
	}
	run := x.service.rpc.BeginMessage(ctx, &in)
	x.running.Go(func() {
		defer func() { <-x.slots }()
		x.send(*run())
	})
}

// isEnvelope holds for the messages of Exchange, which looks itself for what is wrong with them.
func isEnvelope(m proto.Message) bool {
	_, ok := m.(*outriggerv1.Envelope)
	return ok
}

// crowded is what a request gets while too many of its stream are in flight.
func crowded() *errmap.Error {
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(time.Second), errmap.Over(errmap.LimitPipelined),
		errmap.Message("Tool service unavailable: too many requests of this stream are in flight (--max-pipelined)"))
}

// send writes one reply. A stream that cannot be written to is over.
func (x *exchange) send(reply dialect.Reply) {
	if reply.IsEmpty() {
		return
	}
	_ = x.write(reply.ToolName(), reply.Len(), func() *outriggerv1.Envelope { return envelopeFrom(reply.Bytes()) })
}

// notify sends a notification of a call.
func (x *exchange) notify(message []byte) error {
	return x.write("", len(message), func() *outriggerv1.Envelope {
		raw, _ := jsontext.Lookup(message, "method")
		method, _ := jsontext.Text(raw)
		params, _ := jsontext.Lookup(message, "params")
		return &outriggerv1.Envelope{Message: &outriggerv1.Envelope_Notification{Notification: &outriggerv1.Notification{
			Method: method, ParamsForm: &outriggerv1.Notification_ParamsJson{ParamsJson: params},
		}}}
	})
}

// write sends one envelope of a tool. A stream that cannot be written to is over.
func (x *exchange) write(tool string, size int, envelope func() *outriggerv1.Envelope) error {
	message := envelope()
	defer x.lasting.reader.hold(tool, size)()
	x.sending.Lock()
	defer x.sending.Unlock()
	if err := context.Cause(x.lasting.ctx); err != nil {
		return err // it is not read, and making it ready to be sent costs
	}
	x.lasting.reader.waitFor()
	defer x.lasting.reader.took()
	err := x.stream.Send(message)
	if err != nil {
		x.lasting.cancel(err)
	}
	return err
}
