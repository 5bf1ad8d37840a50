// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// maxQuoted bounds how much of a caller's own text an error message repeats.
const maxQuoted = 128

// quoteBounded quotes a caller's text for an error message: escaped, so that it
// cannot break a log line or a header, and cut to a length a person reads.
func quoteBounded(s string) string {
	if len(s) > maxQuoted {
		return strconv.QuoteToASCII(s[:maxQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// invalidParams is INVALID_PARAMS for one member of params.
func invalidParams(member, keyword, format string, args ...any) *errmap.Error {
	return errmap.New(errmap.InvalidParams, errmap.WithViolations(errmap.Violation{
		Path: "/params/" + member, Keyword: keyword, Message: fmt.Sprintf(format, args...),
	}))
}

// textParam reads a string member of params. It must not be empty.
func textParam(m *jsonrpc.Message, member string) (string, *errmap.Error) {
	raw, ok := m.Param(member)
	if !ok {
		return "", invalidParams(member, "required", "%s is missing", member)
	}
	text, ok := jsonrpc.Text(raw)
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
func (call *exchange) argumentsParam() (Payload, *errmap.Error) {
	raw, ok := call.in.Message.Param("arguments")
	if !ok || string(raw) == "null" {
		return Payload{}, nil
	}
	return call.objectParam(raw)
}

// objectParam refuses arguments that are no object, nor, where arguments are
// repaired, an object in a string.
func (call *exchange) objectParam(raw []byte) (Payload, *errmap.Error) {
	if raw[0] == '"' && call.repair != nil {
		if repaired := call.repair(raw); repaired.Repaired {
			return repaired, nil
		}
	}
	if raw[0] != '{' {
		return Payload{}, invalidParams("arguments", "type", "arguments is %s, want an object", jsonKind(raw))
	}
	return Payload{Bytes: raw}, nil
}

// onlyMembers refuses params that hold anything but the members named: what a
// dialect does not define would otherwise be dropped in silence.
func onlyMembers(m *jsonrpc.Message, known ...string) *errmap.Error {
	for raw := range m.ParamFields() {
		if name := string(raw); !slices.Contains(known, name) {
			return invalidParams(jsonPointerToken(name), "additionalProperties", "unknown member %s", quoteBounded(name))
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

// because is an error whose message is the table's, followed by the reason.
func because(code errmap.Code, reason string) *errmap.Error {
	row, err := errmap.Lookup(code)
	if err != nil {
		return errmap.Wrap(errmap.InternalError, err)
	}
	return errmap.New(code, errmap.Message(row.Message+": "+reason))
}

// unavailable is UNAVAILABLE with a reason and a retry hint.
func unavailable(reason string) *errmap.Error {
	err := because(errmap.Unavailable, reason)
	err.RetryAfter = retryAfter
	return err
}

// headerMismatch is HEADER_MISMATCH with what differs.
func headerMismatch(format string, args ...any) *errmap.Error {
	return because(errmap.HeaderMismatch, fmt.Sprintf(format, args...))
}
