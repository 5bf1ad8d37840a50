// SPDX-License-Identifier: Apache-2.0

package dialect

import (
	"net/http"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// Names of the W3C trace context, as headers and as members of _meta.
const (
	traceparent = "traceparent"
	tracestate  = "tracestate"
	baggage     = "baggage"
)

// maxTraceValue bounds what a message may put into one header: the most that
// W3C Baggage asks anybody to pass on, which the other two never come near.
const maxTraceValue = 8192

// WithTraceContext adds the W3C trace context of a request's _meta (MCP
// 2026-07-28, per-request metadata), and its idempotency key, to the headers that
// the allow-list then filters. The message takes precedence over the connection.
// An invalid header value is omitted, to prevent injection. meta is a checked
// JSON object or nil. h is not changed; it is returned unchanged if there is
// nothing to add.
func WithTraceContext(h http.Header, meta []byte) http.Header {
	var out http.Header
	for _, key := range [...]string{traceparent, tracestate, baggage} {
		raw, ok := jsontext.Lookup(meta, key)
		if !ok {
			continue
		}
		value, ok := jsontext.Text(raw)
		if !ok || value == "" || len(value) > maxTraceValue || !bridge.IsFieldValue(value) {
			continue
		}
		if out == nil {
			out = cloneHeader(h)
		}
		out.Set(key, value)
		if key == traceparent {
			// The connection's state belongs to the connection's parent.
			out.Del(tracestate)
		}
	}
	if key, ok := jsontext.Lookup(meta, bridge.IdempotencyMember); ok {
		if out == nil {
			out = cloneHeader(h)
		}
		text, _ := jsontext.Text(key) // what is no string is no key, and refused as one
		out[bridge.IdempotencyHeader] = []string{text}
	}
	if out == nil {
		return h
	}
	return out
}

// cloneHeader is a copy that can be written to, also of nil.
func cloneHeader(h http.Header) http.Header {
	if out := h.Clone(); out != nil {
		return out
	}
	return make(http.Header, 1)
}
