// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// TestBodiesOfRPCs sends what is no request of an RPC, or too much of one, to the
// tool API and to the backend's own methods.
func TestBodiesOfRPCs(t *testing.T) {
	t.Parallel()
	server := serve(t, "--demo", "--max-message-bytes", fmt.Sprint(smallLimit))
	// 16 MB that inflate from some 16 KB: a string of the request, as JSON and in
	// Protobuf. The limit stops both long before their ends.
	letters := strings.Repeat("a", 16<<20)
	text := `{"tool_name":"` + letters + `","nonce":"` + letters + `"}`
	wire := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), letters)
	for _, procedure := range []string{"/outrigger.v1.ToolService/CallTool", procEcho} {
		for _, row := range []struct {
			contentType, encoding string
			body                  []byte
			status                int
			code                  string
		}{
			{"text/plain", "", []byte("{}"), http.StatusUnsupportedMediaType, ""},
			{"", "", []byte("{}"), http.StatusUnsupportedMediaType, ""},
			{"application/x-www-form-urlencoded", "", []byte("{}"), http.StatusUnsupportedMediaType, ""},
			{"application/json", "br", []byte("{}"), http.StatusNotImplemented, "unimplemented"},
			{"application/json", "gzip", []byte("{}"), http.StatusBadRequest, "invalid_argument"},
			{"application/json", "zstd", []byte("{}"), http.StatusBadRequest, "invalid_argument"},
			{"application/json", "", []byte(text[:smallLimit+1]), http.StatusTooManyRequests, "resource_exhausted"},
			{"application/proto", "", wire[:smallLimit+1], http.StatusTooManyRequests, "resource_exhausted"},
			{"application/json", "gzip", gzipped(t, strings.NewReader(text)), http.StatusTooManyRequests, "resource_exhausted"},
			{"application/proto", "gzip", gzipped(t, strings.NewReader(string(wire))), http.StatusTooManyRequests, "resource_exhausted"},
		} {
			for _, isAnnounced := range []bool{true, false} {
				req := request(t, http.MethodPost, server.URL(procedure), nil)
				setBody(req, row.body, isAnnounced)
				req.Header.Set("Content-Type", row.contentType)
				if row.contentType == "" {
					req.Header.Del("Content-Type")
				}
				if row.encoding != "" {
					req.Header.Set("Content-Encoding", row.encoding)
				}
				got := send(t, req)
				if got.status != row.status || !strings.Contains(string(got.body), row.code) {
					t.Errorf("%s of %d bytes as %q %s, announced: %t: %d %.200s, want %d", procedure, len(row.body), row.contentType, row.encoding, isAnnounced, got.status, got.body, row.status)
				}
			}
		}
	}
	isQuiet(t, server.AdminURL("/metrics"))
}
