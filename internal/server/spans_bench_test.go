// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// discard is an exporter that exports nothing.
type discard struct{}

func (discard) ExportSpans(context.Context, []sdktrace.ReadOnlySpan) error { return nil }
func (discard) Shutdown(context.Context) error                             { return nil }

// BenchmarkTracing is a small call without the sockets of its caller, by what is traced and by who samples: the sidecar itself, or the
// provider of a program that embeds it. Encoding and sending the spans is not a part of it.
func BenchmarkTracing(b *testing.B) {
	provided := func(sampler sdktrace.Sampler) *telemetry.Tracer {
		provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sampler), sdktrace.WithBatcher(discard{}))
		b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
		return telemetry.NewTracer(telemetry.TracerOptions{Provider: provider})
	}
	recorded := func(ratio float64) *telemetry.Tracer {
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discard{}), sdktrace.WithSampler(sdktrace.AlwaysSample()),
			sdktrace.WithIDGenerator(telemetry.IDs{}))
		b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
		return telemetry.NewTracer(telemetry.TracerOptions{Provider: provider, Sampling: &telemetry.Sampling{Ratio: ratio, ParentBased: true}})
	}
	for name, of := range map[string]*telemetry.Tracer{
		"off": nil, "unsampled": recorded(0), "sampled": recorded(1),
		"provider unsampled": provided(sdktrace.NeverSample()), "provider sampled": provided(sdktrace.AlwaysSample()),
	} {
		b.Run(name, func(b *testing.B) {
			rig := mcptest.Start(b, mcptest.Options{Change: func(o *server.Options) { o.Tracer = of }})
			handler := rig.Handler(b)
			const body = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lab_echo","arguments":{"nonce":"n"},` +
				`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
			b.ReportAllocs()
			for b.Loop() {
				r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
				r.Header = http.Header{
					"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
					"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"lab_echo"},
				}
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, r)
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"isError":false`) && !strings.Contains(w.Body.String(), `structuredContent`) {
					b.Fatal(w.Code, w.Body.String())
				}
			}
		})
	}
}
