// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/errmap"
)

// appendContent opens a tool result whose one content block repeats the
// structured result as text, for callers that read text only. The object stays
// open.
func appendContent(dst, result []byte) []byte {
	dst = append(dst, `{"content":[{"type":"text","text":`...)
	dst = jsonrpc.AppendString(dst, string(result))
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
