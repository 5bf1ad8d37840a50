// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// The functions of this file append one compact envelope to dst and return the
// extended buffer. Payloads (result, params, data) must be one JSON value each;
// they are not checked, but space between their tokens is dropped, so that no
// envelope holds a line break. Other strings are escaped as needed.

// AppendResult appends a success response. A nil result is written as null.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = AppendResultHead(dst, id)
	dst = appendPayload(dst, result, "null")
	return append(dst, '}')
}

// AppendCompactResult is AppendResult for a result without space between its
// tokens, which it does not check: for results that are large, or cached.
// The result may be passed in pieces.
func AppendCompactResult(dst []byte, id ID, result ...[]byte) []byte {
	dst = AppendResultHead(dst, id)
	for _, piece := range result {
		dst = append(dst, piece...)
	}
	return append(dst, '}')
}

// AppendResultHead appends a success response up to its result. The compact result
// and a closing brace must follow.
func AppendResultHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	return append(dst, `,"result":`...)
}

// AppendError appends an error response. A zero id is written as null or, with
// omitNullID, omitted, as MCP requires. Nil data is omitted.
func AppendError(dst []byte, id ID, omitNullID bool, code int, message string, data []byte) []byte {
	return appendError(dst, id, omitNullID, int64(code), message, data)
}

func appendError(dst []byte, id ID, omitNullID bool, code int64, message string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if !id.IsZero() || !omitNullID {
		dst = append(dst, `,"id":`...)
		dst = appendID(dst, id)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, code, 10)
	dst = append(dst, `,"message":`...)
	dst = jsontext.AppendString(dst, message)
	if data != nil {
		dst = append(dst, `,"data":`...)
		dst = appendPayload(dst, data, "null")
	}
	return append(dst, "}}"...)
}

// appendRequest appends a request. Nil params are written as {}.
func appendRequest(dst []byte, id ID, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	dst = append(dst, `,"method":`...)
	dst = jsontext.AppendString(dst, method)
	dst = append(dst, `,"params":`...)
	dst = appendPayload(dst, params, "{}")
	return append(dst, '}')
}

// appendNotification appends a notification. Nil params are omitted.
func appendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	dst = jsontext.AppendString(dst, method)
	if params != nil {
		dst = append(dst, `,"params":`...)
		dst = appendPayload(dst, params, "{}")
	}
	return append(dst, '}')
}

func appendPayload(dst, payload []byte, fallback string) []byte {
	if len(payload) == 0 {
		return append(dst, fallback...)
	}
	return jsontext.Compact(dst, payload)
}

// The factories of this file make messages that every reader of this package
// accepts: what they return was read back by Parse, within the default limits.
// Payloads (params, result, data) are one JSON value each, are checked like
// everything that comes from outside, and are copied. Every error is a *Fault,
// whose path points into the message that was to be made.

// NewRequest returns a request. Params are an object; nil means {}. The caller
// chooses the id, for instance with Generator.NewID. A zero id is an error.
func NewRequest(id ID, method string, params json.RawMessage) (Message, error) {
	if id.IsZero() {
		return Message{}, envelopeFault("/id", "Give the request an id.")
	}
	if f := checkPayload(params, "params"); f != nil {
		return Message{}, f
	}
	return readBack(appendRequest(nil, id, method, params))
}

// NewNotification returns a notification, which never has an id. Params are an
// object; nil omits them.
func NewNotification(method string, params json.RawMessage) (Message, error) {
	if f := checkPayload(params, "params"); f != nil {
		return Message{}, f
	}
	return readBack(appendNotification(nil, method, params))
}

// NewSuccess returns the response to a request, with the id exactly as the request
// had it. The result is any JSON value; nil means null. The request must be a
// request without a fault.
func NewSuccess(request Message, result json.RawMessage) (Message, error) {
	if request.Kind != KindRequest || request.Fault != nil || request.ID.IsZero() {
		return Message{}, envelopeFault("", "Only a request without a fault can be answered with a result.")
	}
	if f := checkPayload(result, "result"); f != nil {
		return Message{}, f
	}
	return readBack(AppendResult(nil, request.ID, result))
}

// NewError returns the error response to a request, with the id exactly as the
// request had it. Data is any JSON value; nil omits it. A code of zero is refused,
// because it usually means that the code was never set.
//
// It also accepts a message with a fault, with a null id if none could be read, and
// the zero Message, which represents bytes that were not a message. It refuses a
// valid notification and a valid response, because no reply is expected. The id of
// a faulty response is not repeated, because it is the id of one of our requests.
func NewError(request Message, code int64, message string, data json.RawMessage) (Message, error) {
	id := request.ID
	switch {
	case code == 0:
		return Message{}, envelopeFault("/error/code", "Give the error a code that is not zero.")
	case request.Kind == KindRequest || request.Kind == KindInvalid:
	case request.Fault == nil:
		return Message{}, envelopeFault("", "A "+request.Kind.String()+" is never answered.")
	case request.Kind == KindSuccess || request.Kind == KindError:
		id = ID{}
	}
	if f := checkPayload(data, "error", "data"); f != nil {
		return Message{}, f
	}
	return readBack(appendError(nil, id, false, code, message, data))
}

// checkPayload checks one value, nil for absent, that will stand at path.
func checkPayload(raw []byte, path ...string) *Fault {
	if raw == nil {
		return nil
	}
	f := Check(raw, Limits{})
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
func readBack(raw []byte) (Message, error) {
	m := Parse(raw, ProfileCanonicalAnyID, Limits{})
	if m.Fault != nil {
		return Message{}, m.Fault
	}
	return m, nil
}

// AppendTo appends the message as one compact envelope, with its id unchanged.
// Payloads are trusted, as in the other Append functions. A request without params
// gets {}, and an error response without an id gets a null id. The error is a
// *Fault: the message's own, or one that says what the message lacks. On an error,
// dst is returned unchanged.
func (m Message) AppendTo(dst []byte) ([]byte, error) {
	if f := m.lacks(); f != nil {
		return dst, f
	}
	switch m.Kind {
	case KindRequest:
		return appendRequest(dst, m.ID, m.Method, m.Params), nil
	case KindNotification:
		return appendNotification(dst, m.Method, m.Params), nil
	case KindSuccess:
		return AppendResult(dst, m.ID, m.Result), nil
	default:
		return appendError(dst, m.ID, false, m.Error.Code, m.Error.Message, m.Error.Data), nil
	}
}

// lacks returns what keeps the message from being written.
func (m Message) lacks() *Fault {
	switch {
	case m.Fault != nil:
		return m.Fault
	case m.Kind == KindInvalid || m.Kind > KindError:
		return envelopeFault("", "The message has no kind.")
	case m.Kind <= KindNotification && m.Method == "":
		return envelopeFault("/method", "Give the message a method.")
	case m.ID.IsZero() && (m.Kind == KindRequest || m.Kind == KindSuccess):
		return envelopeFault("/id", "Give the "+m.Kind.String()+" an id.")
	case m.Kind == KindError && m.Error == nil:
		return envelopeFault("/error", "Give the error response an error.")
	}
	return nil
}

// MarshalJSON is AppendTo for encoding/json, which escapes <, > and & in the
// output. Ids then keep their value, but not their bytes.
func (m Message) MarshalJSON() ([]byte, error) {
	return m.AppendTo(nil)
}
