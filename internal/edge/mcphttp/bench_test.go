// SPDX-License-Identifier: Apache-2.0

package mcphttp_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/edge/mcphttp"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

// benchOutcomes are the ways in which a call ends.
func benchOutcomes() map[string]bridge.Options {
	return map[string]bridge.Options{
		"result":     {},
		"tool error": {},
		"rate limit": {Limiter: policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1, Burst: new(int32(1))}})},
	}
}

// BenchmarkOutcomes is a call without its sockets, by how it ends.
func BenchmarkOutcomes(b *testing.B) {
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":"n","signed":"-1"},` + meta + `}}`
	for name, opts := range benchOutcomes() {
		b.Run(name, func(b *testing.B) {
			upstream := mcptest.Upstream(mcptest.Echo)
			if name == "tool error" {
				upstream = func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
					return nil, errmap.FromBackendStatus(connect.CodeNotFound, "order 12 does not exist", nil)
				}
			}
			pipeline := dialect.New(bridge.New(mcptest.Memory(b), upstream, correlate.New(correlate.Options{}), opts), dialect.Options{})
			h := mcphttp.New(pipeline, mcphttp.Options{})
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set("Accept", "application/json, text/event-stream")
				r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
				r.Header.Set("Mcp-Method", "tools/call")
				r.Header.Set("Mcp-Name", "lab_echo")
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				if name == "result" && !strings.Contains(w.Body.String(), `"structuredContent"`) {
					b.Fatal(w.Body.String())
				}
			}
		})
	}
}
