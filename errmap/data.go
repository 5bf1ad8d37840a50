// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

const (
	// maxViolations bounds the violations of one error. A validator has a bound of its own; this one holds for peers.
	maxViolations = 100
	// maxViolationBytes bounds each member of a violation.
	maxViolationBytes = 1024
)

// About describes the request that an error answers.
type About struct {
	// RequestID is the JSON-RPC id as received, with its type. It is empty if it could not be read, or if there is none.
	RequestID json.RawMessage
	// ToolCall: the error is about a tools/call.
	ToolCall bool
	// Idempotent: the tool is idempotent, so a call with an unknown outcome may be retried.
	Idempotent bool
}

// Data returns the data object of the error, one line of JSON. Its members, in this order: code, errorType, retryable,
// retryAfterMs?, requestId (null if unreadable), tool?, violations?, backendCode?, backendStatus?, itemsSent?, details?.
func (e *Error) Data(about About) json.RawMessage {
	return e.AppendData(make([]byte, 0, 256), about)
}

// AppendData appends the data object of the error; see [Error.Data].
func (e *Error) AppendData(dst []byte, about About) []byte {
	e = e.known()
	dst = append(e.appendOpenData(dst, about), '}')
	return dst
}

// appendOpenData appends the data object without its closing brace, so that an edge's own members can follow.
func (e *Error) appendOpenData(dst []byte, about About) []byte {
	dst = append(dst, `{"code":`...)
	dst = jsontext.AppendString(dst, string(e.Code))
	dst = append(dst, `,"errorType":`...)
	dst = jsontext.AppendString(dst, e.Type())
	dst = append(dst, `,"retryable":`...)
	dst = strconv.AppendBool(dst, e.CanRetry(about.Idempotent))
	if wait := e.retryAfter(); wait > 0 {
		dst = append(dst, `,"retryAfterMs":`...)
		dst = strconv.AppendInt(dst, max(wait.Milliseconds(), 1), 10)
	}
	dst = append(dst, `,"requestId":`...)
	dst = appendID(dst, about.RequestID)
	if e.Tool != "" {
		dst = append(dst, `,"tool":`...)
		dst = jsontext.AppendString(dst, clip(e.Tool, maxNameBytes))
	}
	if len(e.Violations) > 0 {
		dst = append(dst, `,"violations":`...)
		dst = appendViolations(dst, e.Violations)
	}
	if e.BackendCode != "" {
		dst = append(dst, `,"backendCode":`...)
		dst = jsontext.AppendString(dst, e.backend().code.String())
	}
	if e.BackendStatus != 0 {
		dst = append(dst, `,"backendStatus":`...)
		dst = strconv.AppendUint(dst, uint64(e.BackendStatus), 10)
	}
	if e.ItemsSent != nil {
		dst = append(dst, `,"itemsSent":`...)
		dst = strconv.AppendInt(dst, int64(*e.ItemsSent), 10)
	}
	if details := detailsJSON(e.Details, e.types); len(details) > 0 {
		dst = append(dst, `,"details":`...)
		dst = append(dst, details...)
	}
	return dst
}

// AppendDetail appends the error in the form that ToolResult and the canonical message form carry:
// {"error_type", "error_message", "error_details"}, the last being the data object.
func (e *Error) AppendDetail(dst []byte, about About) []byte {
	e = e.known()
	dst = append(dst, `{"error_type":`...)
	dst = jsontext.AppendString(dst, e.Type())
	dst = append(dst, `,"error_message":`...)
	dst = jsontext.AppendString(dst, string(e.message()))
	dst = append(dst, `,"error_details":`...)
	dst = e.AppendData(dst, about)
	return append(dst, '}')
}

// isPlainID reports whether an id is a string of visible ASCII without escapes, as nearly all are.
func isPlainID(id json.RawMessage) bool {
	last := len(id) - 1
	if last < 1 || id[0] != '"' || id[last] != '"' {
		return false
	}
	for _, c := range id[1:last] {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

func appendViolations(dst []byte, violations []Violation) []byte {
	dst = append(dst, '[')
	for i, v := range violations[:min(len(violations), maxViolations)] {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"path":`...)
		dst = jsontext.AppendString(dst, clip(v.Path, maxViolationBytes))
		dst = append(dst, `,"keyword":`...)
		dst = jsontext.AppendString(dst, clip(v.Keyword, maxViolationBytes))
		dst = append(dst, `,"message":`...)
		dst = jsontext.AppendString(dst, clip(v.Message, maxViolationBytes))
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, clip(s, maxNameBytes))
	}
	return append(dst, ']')
}

// appendID appends a JSON-RPC id as it came. What is neither a string nor a number is null: the error must stay one
// readable envelope, whatever the caller sent.
func appendID(dst []byte, id json.RawMessage) []byte {
	if isPlainID(id) {
		return append(dst, id...)
	}
	if len(id) == 0 || !json.Valid(id) {
		return append(dst, "null"...)
	}
	if c := id[0]; c != '"' && c != '-' && (c < '0' || c > '9') {
		return append(dst, "null"...)
	}
	return append(dst, id...)
}
