// SPDX-License-Identifier: Apache-2.0

package contracttest

import (
	"encoding/json"
	"slices"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// The factories of this file make messages that every reader of this package
// accepts: what they return was read back by Parse, within the default limits.
// Payloads (params, result, data) are one JSON value each, are checked like
// everything that comes from outside, and are copied. Every error is a *Fault,
// whose path points into the message that was to be made.

// NewRequest returns a request. Params are an object; nil means {}. The caller
// chooses the id, for instance with Generator.NewID. A zero id is an error.
func NewRequest(id jsonrpc.ID, method string, params json.RawMessage) (jsonrpc.Message, error) {
	if id.IsZero() {
		return jsonrpc.Message{}, envelopeFault("/id", "Give the request an id.")
	}
	if f := checkPayload(params, "params"); f != nil {
		return jsonrpc.Message{}, f
	}
	return readBack(appendRequest(nil, id, method, params))
}

// NewNotification returns a notification, which never has an id. Params are an
// object; nil omits them.
func NewNotification(method string, params json.RawMessage) (jsonrpc.Message, error) {
	if f := checkPayload(params, "params"); f != nil {
		return jsonrpc.Message{}, f
	}
	return readBack(appendNotification(nil, method, params))
}

// NewSuccess returns the response to a request, with the id exactly as the request
// had it. The result is any JSON value; nil means null. The request must be a
// request without a fault.
func NewSuccess(request jsonrpc.Message, result json.RawMessage) (jsonrpc.Message, error) {
	if request.Kind != jsonrpc.KindRequest || request.Fault != nil || request.ID.IsZero() {
		return jsonrpc.Message{}, envelopeFault("", "Only a request without a fault can be answered with a result.")
	}
	if f := checkPayload(result, "result"); f != nil {
		return jsonrpc.Message{}, f
	}
	return readBack(jsonrpc.AppendResult(nil, request.ID, result))
}

// NewError returns the error response to a request, with the id exactly as the
// request had it. Data is any JSON value; nil omits it. A code of zero is refused,
// because it usually means that the code was never set.
//
// It also accepts a message with a fault, with a null id if none could be read, and
// the zero Message, which represents bytes that were not a message. It refuses a
// valid notification and a valid response, because no reply is expected. The id of
// a faulty response is not repeated, because it is the id of one of our requests.
func NewError(request jsonrpc.Message, code int64, message string, data json.RawMessage) (jsonrpc.Message, error) {
	id := request.ID
	switch {
	case code == 0:
		return jsonrpc.Message{}, envelopeFault("/error/code", "Give the error a code that is not zero.")
	case request.Kind == jsonrpc.KindRequest || request.Kind == jsonrpc.KindInvalid:
	case request.Fault == nil:
		return jsonrpc.Message{}, envelopeFault("", "Notifications and responses are never answered.")
	case request.Kind == jsonrpc.KindSuccess || request.Kind == jsonrpc.KindError:
		id = jsonrpc.ID{}
	}
	if f := checkPayload(data, "error", "data"); f != nil {
		return jsonrpc.Message{}, f
	}
	return readBack(jsonrpc.AppendError(nil, id, false, int(code), message, data))
}

// checkPayload checks one value, nil for absent, that will stand at path.
func checkPayload(raw []byte, path ...string) *jsonrpc.Fault {
	if raw == nil {
		return nil
	}
	f := jsonrpc.Check(raw, jsonrpc.Limits{})
	if f == nil {
		return nil
	}
	for _, name := range slices.Backward(path) {
		longer, ok := jsontext.Within(name, f.Path)
		if f.Path = longer; !ok {
			break
		}
	}
	return f
}

// readBack is the proof of what a factory made. Integer ids are admitted,
// because an answer has the id of its request.
func readBack(raw []byte) (jsonrpc.Message, error) {
	m := jsonrpc.Parse(raw, jsonrpc.ProfileCanonicalAnyID, jsonrpc.Limits{})
	if m.Fault != nil {
		return jsonrpc.Message{}, m.Fault
	}
	return m, nil
}

// AppendTo appends a message without a fault as one compact envelope, with its id
// unchanged. Payloads are trusted, as in the Append functions of package jsonrpc. A
// request without params gets {}, and an error response without an id a null id.
func AppendTo(dst []byte, m jsonrpc.Message) []byte {
	switch m.Kind {
	case jsonrpc.KindRequest:
		return appendRequest(dst, m.ID, m.Method, m.Params)
	case jsonrpc.KindNotification:
		return appendNotification(dst, m.Method, m.Params)
	case jsonrpc.KindSuccess:
		return jsonrpc.AppendResult(dst, m.ID, m.Result)
	default:
		return jsonrpc.AppendError(dst, m.ID, false, int(m.Error.Code), m.Error.Message, m.Error.Data)
	}
}

// appendRequest appends a request. Nil params are written as {}.
func appendRequest(dst []byte, id jsonrpc.ID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id.Raw()...)
	dst = append(dst, `,"method":`...)
	dst = jsontext.AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	if params == nil {
		return append(dst, "{}}"...)
	}
	return append(jsontext.Compact(dst, params), '}')
}

// appendNotification appends a notification. Nil params are omitted.
func appendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	dst = jsontext.AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = jsontext.Compact(dst, params)
	}
	return append(dst, '}')
}

func envelopeFault(path, reason string) *jsonrpc.Fault {
	return &jsonrpc.Fault{Code: jsonrpc.FaultEnvelope, Path: path, Reason: reason}
}
