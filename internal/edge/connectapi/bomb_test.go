// SPDX-License-Identifier: Apache-2.0

package connectapi_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
)

// TestCompressedBombIsRefused sends a message that is small on the wire and far
// beyond the limit when it is inflated.
func TestCompressedBombIsRefused(t *testing.T) {
	t.Parallel()
	rig := mcptest.Start(t, mcptest.Options{})
	api := connectapi.New(rig.Bridge, connectapi.Options{Limits: jsonrpc.Limits{MaxBytes: 1 << 16}})
	mux := http.NewServeMux()
	api.Mount(mux)
	mux.Handle("/", api.PassThrough(api.NotFound()))
	url := mcptest.Serve(t, mux)
	client := mcptest.Client(t, 1)

	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range 64 {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/outrigger.v1.ToolService/CallTool",
		"/outrigger.demo.v1.Lab/Echo",
		"/grpc.health.v1.Health/Check",
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, bytes.NewReader(bomb.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/proto")
		req.Header.Set("Content-Encoding", "gzip")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		_ = resp.Body.Close()
		// 429 is what Connect's table gives resource_exhausted.
		if resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: status %d, want 429", path, resp.StatusCode)
		}
	}
}
