// SPDX-License-Identifier: Apache-2.0

package jsonrpc

import (
	"strconv"

	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// The functions of this file append one compact envelope to dst and return the
// extended buffer. Payloads (result, params, data) must be one JSON value each;
// they are not checked, but space between their tokens is dropped, so that no
// envelope holds a line break. Other strings are escaped as needed.

// AppendResult appends a success response. A nil result is written as null.
func AppendResult(dst []byte, id ID, result []byte) []byte {
	dst = AppendResultHead(dst, id)
	dst = appendPayload(dst, result, "null")
	return append(dst, '}')
}

// AppendCompactResult is AppendResult for a result without space between its
// tokens, which it does not check: for results that are large, or cached.
// The result may be passed in pieces.
func AppendCompactResult(dst []byte, id ID, result ...[]byte) []byte {
	dst = AppendResultHead(dst, id)
	for _, piece := range result {
		dst = append(dst, piece...)
	}
	return append(dst, '}')
}

// AppendResultHead appends a success response up to its result. The compact result
// and a closing brace must follow.
func AppendResultHead(dst []byte, id ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendID(dst, id)
	return append(dst, `,"result":`...)
}

// AppendError appends an error response. A zero id is written as null or, with
// omitNullID, omitted, as MCP requires. Nil data is omitted.
func AppendError(dst []byte, id ID, omitNullID bool, code int, message string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if !id.IsZero() || !omitNullID {
		dst = append(dst, `,"id":`...)
		dst = appendID(dst, id)
	}
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = jsontext.AppendString(dst, message)
	if data != nil {
		dst = append(dst, `,"data":`...)
		dst = appendPayload(dst, data, "null")
	}
	return append(dst, "}}"...)
}

func appendPayload(dst, payload []byte, fallback string) []byte {
	if len(payload) == 0 {
		return append(dst, fallback...)
	}
	return jsontext.Compact(dst, payload)
}
