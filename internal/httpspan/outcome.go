// SPDX-License-Identifier: Apache-2.0

package httpspan

import (
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// Outcome returns how a request without a message ended: with an error, which its edge shows as on says.
func Outcome(err *errmap.Error, on errmap.Protocol) tracing.Outcome {
	status := err.Status(on, errmap.About{})
	row, _ := errmap.Lookup(err.Code) // the zero Row has no message
	return tracing.Outcome{ErrorType: status.Type, Message: row.Message, Attributes: []tracing.Attribute{
		tracing.Text(tracing.StatusCode, status.Code), tracing.Text(tracing.ErrorCode, string(err.Code)),
	}}
}
