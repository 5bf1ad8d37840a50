// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/httpbody"
)

// accepts reports whether Accept admits a media type (RFC 9110, section
// 12.5.1). A request without the header admits all.
func accepts(header http.Header, kind string) bool {
	values := header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	major, _, _ := strings.Cut(kind, "/")
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, params, err := mime.ParseMediaType(strings.TrimSpace(part))
			if err != nil {
				continue
			}
			if name != kind && name != "*/*" && name != major+"/*" {
				continue
			}
			if q, err := strconv.ParseFloat(params["q"], 64); err == nil && q == 0 {
				continue
			}
			return true
		}
	}
	return false
}

// writeEvent sends a reply as the only event of a stream. Errors with a status
// of their own stay JSON: a stream can only begin with 200.
func writeEvent(w http.ResponseWriter, reply dialect.Reply) {
	if reply.IsEmpty() || reply.Status != http.StatusOK {
		httpbody.Write(w, reply)
		return
	}
	h := w.Header()
	for name, values := range reply.Header {
		h[name] = append(h[name], values...)
	}
	setEventHeaders(h)
	w.WriteHeader(http.StatusOK)
	httpbody.Attribute(w, &reply)
	event := make([]byte, 0, reply.Len()+32)
	event = append(event, "event: message\ndata: "...)
	event = reply.AppendTo(event)
	event = append(event, "\n\n"...)
	_, _ = w.Write(event) //nolint:gosec // JSON and event framing, sent as text/event-stream with nosniff
}
