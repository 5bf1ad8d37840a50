// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/content"
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
		if repaired := call.handler.runner.RepairArguments(raw); repaired.Repaired {
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

// unavailable is UNAVAILABLE with a reason and a retry hint.
func unavailable(reason string) *errmap.Error {
	return errmap.Because(errmap.Unavailable, reason, errmap.RetryAfter(time.Second))
}

// emptyObject is a result that says nothing.
var emptyObject = []byte("{}")

// Names of the W3C trace context, as headers and as members of _meta.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
	baggage     = "baggage"
)

// withTraceContext adds the W3C trace context that a request's _meta carries
// (MCP 2026-07-28, per-request metadata), and the key of a call that is sent more
// than once, to the headers that the allow-list
// then looks at. The message's own word goes before the connection's. A value
// that is no header value is left out, so that nothing can be injected. meta is
// a checked JSON object or nil; h is not changed, and is returned as it is where
// there is nothing to add.
func withTraceContext(h http.Header, meta []byte) http.Header {
	return withMeta(h, meta, false)
}

// WithOwnContext does as [withTraceContext] for the headers of an RPC. They are of this one call, and of its
// last hop, so their trace context goes before that of _meta, which began with the agent.
func WithOwnContext(h http.Header, meta []byte) http.Header {
	return withMeta(h, meta, true)
}

func withMeta(h http.Header, meta []byte, isOwn bool) http.Header {
	if !mayAddHeaders(meta) {
		return h
	}
	var out http.Header
	for _, key := range [...]string{traceparent, tracestate, baggage} {
		if isOwn && (h.Get(key) != "" || key == tracestate && h.Get(traceparent) != "") {
			continue // a state belongs to its parent
		}
		value, ok := traceMember(meta, key)
		if !ok {
			continue
		}
		if out == nil {
			out = cloneHeader(h)
		}
		out.Set(key, value)
		if key == traceparent {
			// The connection's state belongs to the connection's parent.
			out.Del(tracestate)
		}
	}
	for _, one := range [...]struct{ member, header string }{
		{backend.IdempotencyMember, backend.IdempotencyHeader}, {backend.ApprovalMember, backend.ApprovalHeader},
	} {
		key, ok := jsontext.Lookup(meta, one.member)
		if !ok {
			continue
		}
		if out == nil {
			out = cloneHeader(h)
		}
		text, _ := jsontext.Text(key) // what is no string is no key, and refused as one
		out[one.header] = []string{text}
	}
	if out == nil {
		return h
	}
	return out
}

// withAuthorizationContext adds the handle that a retry repeats. The draft SEP-2643 has no request refused for it.
func withAuthorizationContext(h http.Header, meta []byte) http.Header {
	raw, ok := jsontext.Lookup(meta, "io.modelcontextprotocol/authorization-context-id")
	text, isText := jsontext.Text(raw)
	if !ok || !isText {
		return h
	}
	out := cloneHeader(h)
	out[backend.ApprovalHint] = []string{text}
	return out
}

// mayAddHeaders reports whether a _meta has a member that [withTraceContext] looks for. Most have none.
func mayAddHeaders(meta []byte) bool {
	for name := range jsontext.Fields(meta) {
		switch string(name) {
		case traceparent, tracestate, baggage, backend.IdempotencyMember, backend.ApprovalMember:
			return true
		}
	}
	return false
}

// cloneHeader is a copy that can be written to, also of nil.
func cloneHeader(h http.Header) http.Header {
	if out := h.Clone(); out != nil {
		return out
	}
	return make(http.Header, 1)
}

// unreadable is INVALID_PARAMS for what is wrong within a member; the empty
// member represents params as a whole.
func unreadable(member string, err error) *errmap.Error {
	reason := err.Error()
	var invalid *content.InvalidError
	if errors.As(err, &invalid) {
		member, reason = strings.TrimPrefix(member+invalid.Path, "/"), invalid.Reason
	}
	return invalidParams(member, "format", "%s", reason)
}
