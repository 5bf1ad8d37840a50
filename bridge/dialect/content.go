// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"bytes"

	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// writeCall renders the reply to a call that ended well, whole and in one buffer:
// a large result is copied once for each place where it stands. tail closes the
// result.
func (h *Handler) writeCall(call *exchange, tail ...[]byte) {
	result := call.resp.Result.Bytes
	const around = 128 // the names and brackets around the two copies
	size := len(call.in.Message.ID.Raw()) + envelopeBytes + around + 2*len(result) + escapes(result) + len(call.resp.Explanation)
	for _, piece := range tail {
		size += len(piece)
	}
	dst := jsonrpc.AppendResultHead(h.Buffers().Get(size), call.in.Message.ID)
	dst = appendContent(dst, result, call.resp.Explanation)
	dst = append(dst, `,"structuredContent":`...)
	dst = append(dst, result...)
	dst = append(dst, `,"isError":false`...)
	for _, piece := range tail {
		dst = append(dst, piece...)
	}
	dst = append(dst, '}')
	call.whole = dst
}

// escapes is how much longer compact JSON is as a string in JSON: nothing in it
// has to be escaped but quotes and backslashes.
func escapes(compact []byte) int {
	return bytes.Count(compact, []byte{'"'}) + bytes.Count(compact, []byte{'\\'})
}

// appendContent opens a tool result whose first content block repeats the
// structured result as text, for callers that read text only; a second one says
// what is to be said about it. The object stays open.
func appendContent(dst, result []byte, explanation string) []byte {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonrpc.AppendText(dst, result)
	if explanation != "" {
		dst = append(dst, `},{"type":"text","text":`...)
		dst = jsonrpc.AppendString(dst, explanation)
	}
	return append(dst, `}]`...)
}

// appendToolError appends a whole tool result with isError set: a text that a
// model can act on, the canonical data in _meta, and no structured content.
func appendToolError(dst []byte, text string, data []byte) []byte {
	dst = openToolError(dst, text)
	dst = append(dst, `,"_meta":{"`+errmap.MetaKey+`":`...)
	dst = append(dst, data...)
	return append(dst, `}}`...)
}

// openToolError appends a failed tool result up to where _meta would follow.
func openToolError(dst []byte, text string) []byte {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonrpc.AppendString(dst, text)
	return append(dst, `}],"isError":true`...)
}
