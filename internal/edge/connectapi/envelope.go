// SPDX-License-Identifier: Apache-2.0

package connectapi

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

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

// malformed is what is wrong with a free-form payload.
type malformed struct{ cause *jsonrpc.Fault }

func (m *malformed) fault(path string) *jsonrpc.Fault {
	f := *m.cause
	f.Path = path + f.Path
	return &f
}

func (m *malformed) at(path string) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.Over(dialect.LimitOf(m.cause)), errmap.WithViolations(errmap.Violation{
		Path: path + m.cause.Path, Keyword: "json", Message: m.cause.Reason,
	}))
}

// freeForm returns the JSON text of a payload that is either bytes or a Struct or
// Value; nil where neither is set.
func freeForm(text []byte, people proto.Message, l jsonrpc.Limits) (json.RawMessage, *malformed) {
	if text != nil {
		if f := jsonrpc.Check(text, l); f != nil {
			return nil, &malformed{cause: f}
		}
		return jsontext.Trim(text), nil
	}
	if people == nil || !people.ProtoReflect().IsValid() {
		return nil, nil
	}
	out, err := protojson.Marshal(people)
	if err != nil {
		return nil, &malformed{cause: &jsonrpc.Fault{Code: jsonrpc.FaultParse, Reason: "It contains a value that JSON cannot represent, such as an infinite number."}}
	}
	// These keep the rules of JSON by themselves, except for depth.
	l.MaxBytes = max(len(out), 1)
	if f := jsonrpc.Check(out, l); f != nil {
		return nil, &malformed{cause: f}
	}
	return out, nil
}
