// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// newLegacy returns MCP 2025-11-25, which opens with initialize. No session is
// kept: the id is optional in that revision, and nothing that is served needs
// one.
func newLegacy() *era {
	return &era{
		methods: map[string]method{
			"initialize":    {op: OpServer, read: readInitialize, write: writeInitialize},
			"ping":          {op: OpPing, read: readAnything, write: writeEmpty},
			"tools/list":    {op: OpList, read: readFirstPage, write: writeLegacyList},
			methodToolsCall: {op: OpCall, read: readMCPCall, write: writeLegacyResult},
		},
		admit:         admitLegacy,
		matchHeaders:  ignoreHeaders,
		unknownMethod: methodNotFound,
		fail:          failLegacy,
	}
}

// admitLegacy refuses a revision that is not served. Only initialize may name
// any: it is what negotiates.
func admitLegacy(in *Inbound) *errmap.Error {
	values := in.Header.Values(headerVersion)
	if len(values) == 0 || in.Message.Method == "initialize" {
		return nil
	}
	for _, v := range values {
		if v != VersionLegacy {
			return errmap.UnsupportedVersion(v, Versions())
		}
	}
	return nil
}

// readInitialize checks the one member that decides the answer.
func readInitialize(call *exchange) *errmap.Error {
	_, err := textParam(call.in.Message.Params, "protocolVersion")
	return err
}

// writeInitialize offers the newest legacy revision that is served, which is
// also the answer to a client that asks for one that is not (MCP lifecycle,
// version negotiation).
func writeInitialize(b *Bridge, _ *exchange) ([]byte, *errmap.Error) {
	dst := append([]byte(nil), `{"protocolVersion":"`+VersionLegacy+`","capabilities":`...)
	dst = append(dst, capabilities...)
	dst = append(dst, `,"serverInfo":`...)
	dst = append(dst, b.serverInfo...)
	dst = b.appendInstructions(dst)
	return append(dst, '}'), nil
}

// writeLegacyResult renders a tool result.
func writeLegacyResult(_ *Bridge, call *exchange) ([]byte, *errmap.Error) {
	result := call.resp.Result.Bytes
	dst := appendContent(make([]byte, 0, 3*len(result)+96), result)
	dst = append(dst, `,"structuredContent":`...)
	dst = append(dst, result...)
	return append(dst, `,"isError":false}`...), nil
}

// failLegacy writes an error as the initialize-based revisions show it.
func failLegacy(_ *Bridge, call *exchange, err *errmap.Error) Reply {
	id := call.in.Message.ID
	shown := err.MCP(errmap.Legacy, call.about())
	switch shown.Form {
	case errmap.ToolResult:
		return replyFrom(shown, jsonrpc.AppendResult(nil, id, appendToolError(nil, shown.Text, shown.Data)))
	case errmap.Silent:
		return Reply{Status: shown.HTTPStatus}
	}
	return replyFrom(shown, jsonrpc.AppendError(nil, id, true, shown.Code, shown.Message, shown.Data))
}
