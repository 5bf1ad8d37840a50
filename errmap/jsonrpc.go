// SPDX-License-Identifier: Apache-2.0

package errmap

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Reply is an error as rendered on a JSON-RPC edge. A member that is sent is never 0.
type Reply struct {
	// Form defines which of the members below are sent. For Silent none is sent. They are set in any case, so that a
	// number sent by mistake is at least a valid one.
	Form Form
	// HTTPStatus is the status of the response; stdio ignores it.
	HTTPStatus int
	// Code and Message are those of the JSON-RPC error.
	Code    int
	Message string
	// Text is the text content of a tool result.
	Text string
	// Data is error.data of a protocol error, and _meta["dev.outrigger/error"] of a tool result.
	Data json.RawMessage
	// RetryAfter is the value of the Retry-After header in seconds, 0 for none.
	RetryAfter int
	// Challenge is the value of the WWW-Authenticate header, "" for none.
	Challenge string
}

// MetaKey is the member of _meta, in the result of a failed tool call, that holds the data object of the error
// ([Error.Data]).
const MetaKey = "dev.outrigger/error"

// SetHeaders sets Retry-After and WWW-Authenticate where the reply has them.
func (r Reply) SetHeaders(h http.Header) {
	if r.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(r.RetryAfter))
	}
	if r.Challenge != "" {
		h.Set("WWW-Authenticate", r.Challenge)
	}
}

// JSONRPC shows the error in canonical JSON-RPC. A row that is Fixed keeps its message there, and the rest is in the
// data.
func (e *Error) JSONRPC(about About) Reply {
	e = e.known()
	row := e.row()
	message := row.Message
	if !row.Fixed {
		message = string(e.message())
	}
	return Reply{
		Form:       ProtocolError,
		HTTPStatus: e.HTTPStatus(),
		Code:       row.JSONRPC,
		Message:    message,
		Data:       e.Data(about),
		RetryAfter: e.retryAfterHeader(),
		Challenge:  e.challenge(),
	}
}

// challenge is the value of WWW-Authenticate. RFC 9110, section 15.5.2, wants one on every 401; Bearer without parameters
// is the least that it can be.
func (e *Error) challenge() string {
	switch {
	case e.Code == Unauthenticated && e.Challenge == "":
		return "Bearer"
	case e.Code == Unauthenticated || e.Code == PermissionDenied || e.Code == InvalidAuthorization:
		return headerSafe(e.Challenge)
	default:
		return ""
	}
}

// headerSafe drops what may not stand in a header's value.
func headerSafe(s string) string {
	out := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c == '\t' || c >= 0x20 && c < 0x7f {
			out = append(out, c)
		}
	}
	return string(out)
}
