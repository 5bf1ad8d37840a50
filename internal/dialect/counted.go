// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"cmp"

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

// auditRefused writes the line of a message that was refused before it ran, if it asks for an
// invocation or may have done so.
func (h *Handler) auditRefused(call *exchange, err *errmap.Error) {
	in := call.in
	if in.ctx == nil || in.Message.Kind != jsonrpc.KindRequest && in.Message.Kind != jsonrpc.KindInvalid {
		return
	}
	if call.req.Op != bridge.OpInvalid && call.req.Message != nil {
		h.AuditRefused(in.ctx, call.req, err)
		return
	}
	asked := in.Message.Asked
	isUnread := asked.IsUnknown || in.Message.Fault == nil && in.Message.Method == ""
	if in.Dialect == Modern && isUnread { // the headers say the same as the body would
		asked.Method, asked.Name = in.Header.Get(headerMethod), in.Header.Get(headerName)
	}
	req := &bridge.Request{
		Op: call.req.Op, Origin: in.Origin, ID: in.Message.ID, Caller: in.Caller, Peer: in.Peer, Transport: in.Transport, Route: in.Route,
		Era: in.era(), Span: in.span, Header: WithTraceContext(in.Header, in.meta()),
		Tool: cmp.Or(call.req.Tool, asked.Name, namedIn(in.Message)), Names: call.req.Names,
	}
	if req.Op == bridge.OpInvalid {
		req.Op = h.era(in.Dialect).methods[cmp.Or(asked.Method, in.Message.Method)].op
	}
	if isUnread && req.Op == bridge.OpInvalid {
		h.AuditUnread(in.ctx, req, err)
		return
	}
	h.AuditRefused(in.ctx, req, err)
}

// namedIn is the tool, the prompt, the URI or the task that the params of a message name, ""
// for none.
func namedIn(m *jsonrpc.Message) string {
	for _, member := range [...]string{"name", "tool_name", "uri", "taskId"} {
		if text, err := textParam(m, member); err == nil {
			return text
		}
	}
	return ""
}
