// SPDX-License-Identifier: Apache-2.0

//go:build !race

package mcphttp_test

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// sink is a response writer that allocates nothing for each response.
type sink struct {
	header http.Header
	body   bytes.Buffer
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return s.body.Write(p) }
func (s *sink) WriteHeader(status int)      { s.status = status }

// TestWithoutTracingACallThroughTheEdgeCostsNothingMore holds the number of allocations of a whole call, from the HTTP request to the
// response. Before there were spans (revision 4cea8729) it was 33. Lower the number where a call becomes cheaper.
func TestWithoutTracingACallThroughTheEdgeCostsNothingMore(t *testing.T) {
	const most = 32
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":"n","signed":"-1"},` + meta + `}}`)
	pipeline := dialect.New(bridge.New(mcptest.Memory(t), mcptest.Upstream(mcptest.Echo), correlate.New(correlate.Options{}), bridge.Options{}), dialect.Options{})
	edge := mcphttp.New(pipeline, mcphttp.Options{})
	reader := bytes.NewReader(nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", io.NopCloser(reader))
	if err != nil {
		t.Fatal(err)
	}
	r.RemoteAddr, r.ContentLength = "127.0.0.1:1234", int64(len(body))
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"lab_echo"},
	}
	w := &sink{header: http.Header{}}
	call := func() {
		reader.Reset(body)
		w.body.Reset()
		clear(w.header)
		edge.ServeHTTP(w, r)
		if !bytes.Contains(w.body.Bytes(), []byte(`"structuredContent"`)) {
			t.Fatal(w.status, w.body.String())
		}
	}
	call()
	if got := testing.AllocsPerRun(500, call); got > most {
		t.Errorf("a call without tracing has %v allocations, want at most %v", got, most)
	}
}
