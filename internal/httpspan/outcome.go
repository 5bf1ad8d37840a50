// SPDX-License-Identifier: Apache-2.0

package httpspan

import (
	"net/http"
	"strconv"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Outcome returns how a request without a message ended: with an error, which its edge shows as on says.
func Outcome(err *errmap.Error, on errmap.Protocol) tracing.Outcome {
	status := err.Status(on, errmap.About{})
	return tracing.Outcome{ErrorType: status.Type, Message: err.Described(), Attributes: []tracing.Attribute{
		tracing.Text(tracing.StatusCode, status.Code), tracing.Text(tracing.ErrorCode, string(err.Code)),
	}}
}

// outcomeOf returns how a request ended of which only the status of the answer is known, such as that of an unknown path. By
// the conventions for HTTP servers, only a status of 500 and more is an error of the server.
func outcomeOf(status int) tracing.Outcome {
	o := tracing.Outcome{Attributes: []tracing.Attribute{tracing.Text(tracing.ErrorCode, string(codeOf(status)))}}
	if status >= http.StatusInternalServerError {
		o.ErrorType = strconv.Itoa(status)
	}
	return o
}

// panicked returns how a request ended whose handler panicked.
func panicked() tracing.Outcome {
	row, _ := errmap.Lookup(errmap.InternalError)
	return tracing.Outcome{ErrorType: "panic", Message: row.Message, Attributes: []tracing.Attribute{
		tracing.Text(tracing.ErrorCode, string(errmap.InternalError)),
	}}
}

// statusClientClosed is the status of CANCELLED, which net/http has no name for.
const statusClientClosed = 499

// codeOf is the canonical code for the status of an answer that has none.
func codeOf(status int) errmap.Code {
	switch status {
	case http.StatusUnauthorized:
		return errmap.Unauthenticated
	case http.StatusForbidden:
		return errmap.PermissionDenied
	case http.StatusNotFound, http.StatusGone:
		return errmap.MethodNotFound
	case http.StatusMethodNotAllowed:
		return errmap.MethodNotAllowed
	case http.StatusNotAcceptable:
		return errmap.NotAcceptable
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return errmap.Timeout
	case http.StatusRequestEntityTooLarge, http.StatusRequestHeaderFieldsTooLarge:
		return errmap.PayloadTooLarge
	case http.StatusUnsupportedMediaType:
		return errmap.UnsupportedMediaType
	case http.StatusTooManyRequests:
		return errmap.RateLimited
	case http.StatusServiceUnavailable:
		return errmap.Unavailable
	case statusClientClosed:
		return errmap.Cancelled
	}
	if status >= http.StatusInternalServerError {
		return errmap.InternalError
	}
	return errmap.InvalidEnvelope
}
