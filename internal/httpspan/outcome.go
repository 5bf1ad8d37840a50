// SPDX-License-Identifier: Apache-2.0

package httpspan

import (
	"net/http"
	"strconv"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Outcome returns how a message ended that got an error, or none. Errors that blame the caller are no failures of the sidecar.
func Outcome(err *errmap.Error) tracing.Outcome {
	if err == nil {
		return tracing.Outcome{}
	}
	code := strconv.Itoa(err.JSONRPCCode())
	out := tracing.Outcome{Attributes: []tracing.Attribute{
		tracing.Text(tracing.StatusCode, code), tracing.Text(tracing.ErrorCode, string(err.Code)),
	}}
	if err.HTTPStatus() >= http.StatusInternalServerError {
		out.ErrorType, out.Message = code, errmap.Redact(err.Error())
	}
	return out
}
