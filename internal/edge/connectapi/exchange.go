// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/identity"
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
	l, failed := s.lastUntil(ctx, stream.Peer().Addr, "many calls (Exchange)", func(l *lasting) { l.reader.stopReading() })
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
	if of := servedOf(ctx).span; of != nil {
		x.inbound.Stream = of.span
	}
	err := x.read(l.ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // the caller has gone, which the read may notice as late
	}
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
	case errors.Is(cause, identity.ErrRevoked):
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
		x.accept(ctx, envelope)
	}
}

// accept registers one message and answers it, on its own goroutine where
// there is something to run.
func (x *exchange) accept(ctx context.Context, envelope *outriggerv1.Envelope) {
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

// messageFrom turns an envelope into the message that its JSON form would have
// been. What is wrong with it is kept as the message's fault, with the id as far
// as it can be read, so that every request is answered.
func messageFrom(e *outriggerv1.Envelope, l jsonrpc.Limits) jsonrpc.Message {
	switch m := e.GetMessage().(type) {
	case *outriggerv1.Envelope_Request:
		return request(m.Request, l)
	case *outriggerv1.Envelope_Notification:
		return notification(m.Notification, l)
	case *outriggerv1.Envelope_SuccessResponse:
		id, _ := idFrom(m.SuccessResponse.GetId(), l)
		return jsonrpc.Message{Kind: jsonrpc.KindSuccess, ID: id}
	case *outriggerv1.Envelope_ErrorResponse:
		id, _ := idFrom(m.ErrorResponse.GetId(), l)
		return jsonrpc.Message{Kind: jsonrpc.KindError, ID: id}
	}
	return jsonrpc.Message{Fault: envelopeFault("", "Set one of request, notification, success_response and error_response.")}
}

func request(r *outriggerv1.Request, l jsonrpc.Limits) jsonrpc.Message {
	msg := jsonrpc.Message{Kind: jsonrpc.KindRequest, Method: r.GetMethod()}
	id, ok := idFrom(r.GetId(), l)
	if !ok {
		msg.Fault = idFault(r.GetId(), l, "Set the id to a string or an integer of at most 1,024 bytes, and to big_integer only beyond 64 bits.")
		return msg
	}
	msg.ID = id
	params, failed := freeForm(r.GetParamsJson(), r.GetParams(), l)
	switch {
	case failed != nil:
		msg.Fault = failed.fault("/params_json")
	case msg.Method == "":
		msg.Fault = envelopeFault("/method", "Give the request a method.")
	case params == nil:
		msg.Params = json.RawMessage("{}")
	case !jsontext.IsObject(params):
		msg.Fault = envelopeFault("/params_json", "Make params an object.")
	default:
		msg.Params = params
	}
	return msg
}

// notification has params of a JSON object or none: its other forms are those of
// a change feed, and have no JSON-RPC form.
func notification(n *outriggerv1.Notification, l jsonrpc.Limits) jsonrpc.Message {
	params, failed := freeForm(n.GetParamsJson(), n.GetParams(), l)
	msg := jsonrpc.Message{Kind: jsonrpc.KindNotification, Method: n.GetMethod(), Params: params}
	switch {
	case failed != nil:
		msg.Fault = failed.fault("/params_json")
	case msg.Method == "":
		msg.Fault = envelopeFault("/method", "Give the notification a method.")
	case n.GetTask() != nil:
		msg.Fault = envelopeFault("/task", "Give the notification params or params_json.")
	case n.GetAcknowledged() != nil:
		msg.Fault = envelopeFault("/acknowledged", "Give the notification params or params_json.")
	case params != nil && !jsontext.IsObject(params):
		msg.Fault = envelopeFault("/params_json", "Make params an object.")
	}
	return msg
}

func envelopeFault(path, reason string) *jsonrpc.Fault {
	return &jsonrpc.Fault{Code: jsonrpc.FaultEnvelope, Path: path, Reason: reason}
}

// refusedEnvelope is the fault of an envelope that was refused when it was read. Its id may have been read all the same.
func refusedEnvelope(failed *errmap.Error) *jsonrpc.Fault {
	f := &jsonrpc.Fault{Code: jsonrpc.FaultEnvelope}
	if failed.Code == errmap.ParseError {
		f.Code = jsonrpc.FaultParse
	}
	if failed.Limit == errmap.LimitJSONDepth {
		f.Over = jsonrpc.OverDepth
	}
	for _, v := range failed.Violations[:min(len(failed.Violations), 1)] {
		f.Path, f.Reason = v.Path, v.Message
	}
	return f
}

// idFault is the fault of an id that cannot be read. A long one meets a limit.
func idFault(id *outriggerv1.Id, l jsonrpc.Limits, reason string) *jsonrpc.Fault {
	f := envelopeFault("/id", reason)
	if most := l.WithDefaults().MaxIDBytes; len(id.GetText()) > most || len(id.GetBigInteger()) > most {
		f.Over = jsonrpc.OverIDBytes
	}
	return f
}

// idFrom reads an id with its JSON type.
func idFrom(id *outriggerv1.Id, l jsonrpc.Limits) (jsonrpc.ID, bool) {
	var raw []byte
	switch k := id.GetKind().(type) {
	case *outriggerv1.Id_Text:
		raw = jsontext.AppendString(nil, k.Text)
	case *outriggerv1.Id_Integer:
		return jsonrpc.IntID(k.Integer), true
	case *outriggerv1.Id_BigInteger:
		if strings.HasPrefix(k.BigInteger, `"`) {
			return jsonrpc.ID{}, false
		}
		raw = []byte(k.BigInteger)
	default:
		return jsonrpc.ID{}, false
	}
	out, err := l.ParseID(raw)
	if err != nil {
		return jsonrpc.ID{}, false
	}
	// Every integer has one form, or equal ids would not be equal messages.
	if _, small := out.Int64(); small && !out.IsString() {
		return jsonrpc.ID{}, false
	}
	return out, true
}

// idMessage is the way back. The zero id has none.
func idMessage(id jsonrpc.ID) *outriggerv1.Id {
	if id.IsZero() {
		return nil
	}
	if text, ok := id.Text(); ok {
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Text{Text: text}}
	}
	if n, ok := id.Int64(); ok {
		return &outriggerv1.Id{Kind: &outriggerv1.Id_Integer{Integer: n}}
	}
	return &outriggerv1.Id{Kind: &outriggerv1.Id_BigInteger{BigInteger: string(id.Raw())}}
}

// envelopeFrom turns a reply of the canonical dialect into its Protobuf form.
// The reply is our own, so it parses; one that did not would be answered as
// what it is, a fault of ours, under the id as far as it was read.
func envelopeFrom(reply []byte) *outriggerv1.Envelope {
	msg := jsonrpc.Parse(reply, jsonrpc.ProfileCanonicalAnyID, jsonrpc.Limits{MaxBytes: len(reply), MaxDepth: replyDepth})
	if msg.Fault != nil {
		shown := errmap.Wrap(errmap.InternalError, msg.Fault).JSONRPC(errmap.About{RequestID: msg.ID.Raw()})
		msg.Kind = jsonrpc.KindError
		msg.Error = &jsonrpc.ErrorObject{Code: int64(shown.Code), Message: shown.Message, Data: shown.Data}
	}
	if msg.Kind == jsonrpc.KindSuccess {
		return &outriggerv1.Envelope{Message: &outriggerv1.Envelope_SuccessResponse{SuccessResponse: &outriggerv1.SuccessResponse{
			Id: idMessage(msg.ID), ResultForm: &outriggerv1.SuccessResponse_ResultJson{ResultJson: msg.Result},
		}}}
	}
	object := &outriggerv1.ErrorObject{}
	if msg.Error != nil {
		object.Code, object.Message = int32(msg.Error.Code), msg.Error.Message
		if msg.Error.Data != nil {
			object.DataForm = &outriggerv1.ErrorObject_DataJson{DataJson: msg.Error.Data}
		}
	}
	return &outriggerv1.Envelope{Message: &outriggerv1.Envelope_ErrorResponse{ErrorResponse: &outriggerv1.ErrorResponse{
		Id: idMessage(msg.ID), Error: object,
	}}}
}

// replyDepth admits every reply that can be written: what a backend nests, and
// the few levels of the envelope around it.
const replyDepth = 1000
