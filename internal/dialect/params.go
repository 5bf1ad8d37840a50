// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// invalidParams is INVALID_PARAMS for one member of params.
func invalidParams(member, keyword, format string, args ...any) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: "/params/" + member, Keyword: keyword, Message: fmt.Sprintf(format, args...),
	}))
}

// pointer is where the params of a message hold a field of outrigger.v1.
func pointer(field string) string {
	switch field {
	case "tool_name":
		field = "name"
	case "request_state":
		field = "requestState"
	case "task_id":
		field = "taskId"
	}
	return "/params/" + field
}

// messagePointer is pointer for the message form of a call, which has the
// contract's own names.
func messagePointer(field string) string { return "/params/" + field }

// textParam reads a string member of params. It must not be empty.
func textParam(m *jsonrpc.Message, member string) (string, *errmap.Error) {
	raw, ok := m.Param(member)
	if !ok {
		return "", invalidParams(member, "required", "%s is missing", member)
	}
	text, ok := jsontext.Text(raw)
	if !ok {
		return "", invalidParams(member, "type", "%s is %s, want a string", member, jsonKind(raw))
	}
	if text == "" {
		return "", invalidParams(member, "minLength", "%s is empty", member)
	}
	return text, nil
}

// argumentsParam reads the arguments of a call: an object, or nothing at all
// where absent or null stand for no arguments.
func (call *exchange) argumentsParam() (bridge.Payload, *errmap.Error) {
	raw, ok := call.in.Message.Param("arguments")
	if !ok || string(raw) == "null" {
		return bridge.Payload{}, nil
	}
	return call.objectParam(raw)
}

// objectParam refuses arguments that are no object, nor, where arguments are
// repaired, an object in a string.
func (call *exchange) objectParam(raw []byte) (bridge.Payload, *errmap.Error) {
	if raw[0] == '"' {
		if repaired := call.handler.RepairArguments(raw); repaired.Repaired {
			return repaired, nil
		}
	}
	if raw[0] != '{' {
		return bridge.Payload{}, invalidParams("arguments", "type", "arguments is %s, want an object", jsonKind(raw))
	}
	return bridge.Payload{Bytes: raw}, nil
}

// onlyMembers refuses params that hold anything but the members named: what a
// dialect does not define would otherwise be dropped in silence.
func onlyMembers(m *jsonrpc.Message, known ...string) *errmap.Error {
	for raw := range m.ParamFields() {
		if name := string(raw); !slices.Contains(known, name) {
			return invalidParams(jsonPointerToken(name), "additionalProperties", "unknown member %s", errmap.Quote(name))
		}
	}
	return nil
}

// jsonPointerToken escapes a member name for a JSON Pointer (RFC 6901).
func jsonPointerToken(name string) string {
	out := make([]byte, 0, len(name))
	for i := range len(name) {
		switch name[i] {
		case '~':
			out = append(out, "~0"...)
		case '/':
			out = append(out, "~1"...)
		default:
			out = append(out, name[i])
		}
	}
	return string(out)
}

// jsonKind names the kind of a JSON value for an error message.
func jsonKind(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "missing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// headerMismatch is HEADER_MISMATCH with what differs.
func headerMismatch(format string, args ...any) *errmap.Error {
	return errmap.Because(errmap.HeaderMismatch, fmt.Sprintf(format, args...))
}

// unavailable is UNAVAILABLE with a reason and a retry hint.
func unavailable(reason string) *errmap.Error {
	return errmap.Because(errmap.Unavailable, reason, errmap.RetryAfter(time.Second))
}

// emptyObject is a result that says nothing.
var emptyObject = []byte("{}")
