// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// countRefused counts a request that was refused before it ran, by its method. What is no valid
// request has none.
func (h *Handler) countRefused(call *exchange, err *errmap.Error) {
	in := call.in
	if call.req.Method != "" {
		h.CountRefused(call.req, err)
		return
	}
	if in.Message.Fault != nil || in.Message.Kind != jsonrpc.KindRequest {
		return
	}
	h.CountRefused(&bridge.Request{
		Op: h.era(in.Dialect).methods[in.Message.Method].op, Method: h.spanMethod(in), Protocol: in.protocol(), Revision: in.statedRevision(),
		Transport: in.Transport, Route: in.Route, Span: in.span,
	}, err)
}
