// SPDX-License-Identifier: Apache-2.0

package mcphttp

import (
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/httpbody"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// accepts reports whether Accept admits a media type: the most specific range that matches
// it decides (RFC 9110, section 12.5.1). A request without the header admits all.
func accepts(header http.Header, kind string) bool {
	values := header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	major, _, _ := strings.Cut(kind, "/")
	ranges := [...]string{"*/*", major + "/*", kind}
	decided, admitted := -1, false
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			name, params, err := mime.ParseMediaType(strings.TrimSpace(part))
			if err != nil {
				continue
			}
			specific := slices.Index(ranges[:], name)
			if specific < max(decided, 0) {
				continue
			}
			q, err := strconv.ParseFloat(params["q"], 64)
			admits := err != nil || q > 0
			admitted = admits || admitted && specific == decided
			decided = specific
		}
	}
	return admitted
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
	_, _ = w.Write(jsontext.WithoutLineEnds(event)) //nolint:gosec // JSON and event framing, sent as text/event-stream with nosniff
}
