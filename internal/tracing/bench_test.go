// SPDX-License-Identifier: Apache-2.0

package tracing_test

import (
	"context"
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// usual does with spans what a small tool call does.
func usual(t *tracing.Tracer, arrived http.Header) {
	span := t.Start(tracing.Arrival{Method: toolsCall, Header: arrived}, tracing.Text(tracing.MethodName, toolsCall))
	if span.IsRecording() {
		span.Set(tracing.Text(tracing.NetworkProtocol, "http"), tracing.Text(tracing.NetworkVersion, "1.1"), tracing.Text(tracing.Transport, "tcp"),
			tracing.Text(tracing.ClientAddress, "127.0.0.1"), tracing.Int(tracing.ClientPort, 41000))
		span.Set(tracing.Text(tracing.Edge, "mcp"), tracing.Text(tracing.RequestID, "1"), tracing.Text(tracing.ProtocolVersion, "2026-07-28"))
		span.Found("desk_tidy")
		span.Set(tracing.Text(tracing.ToolName, "desk_tidy"), tracing.Text(tracing.CanonicalTool, "desk.tidy"),
			tracing.Text(tracing.OperationName, tracing.ExecuteTool))
	}
	ctx, calls := span.Calls(context.Background())
	calls.Begin(1)
	attempt := tracing.CallsOf(ctx).Attempt("bench.v1.DeskService/Tidy", tracing.Text(tracing.RPCMethod, "bench.v1.DeskService/Tidy"),
		tracing.Text(tracing.RPCSystem, tracing.SystemGRPC), tracing.Text(tracing.ServerAddress, "127.0.0.1"), tracing.Int(tracing.ServerPort, 50051))
	attempt.Inject(http.Header{})
	attempt.Set(tracing.Text(tracing.RPCSystem, tracing.SystemGRPC))
	attempt.End(tracing.Outcome{Attributes: []tracing.Attribute{tracing.Text(tracing.StatusCode, "OK")}})
	span.End(tracing.Outcome{})
}

// dropping is a client that drops what it gets.
type dropping struct{}

func (dropping) Start(context.Context) error                                  { return nil }
func (dropping) Stop(context.Context) error                                   { return nil }
func (dropping) UploadTraces(context.Context, []*tracepb.ResourceSpans) error { return nil }

// BenchmarkMessage is the spans of a small tool call. Those of the library are converted for the exporter, in batches, but not
// encoded.
func BenchmarkMessage(b *testing.B) {
	ours := func(ratio float64) *tracing.Tracer {
		return tracing.New(tracing.Options{Recorder: &tracing.Recorder{
			Sampling: tracing.Sampling{Ratio: ratio, ParentBased: true}, Limits: wide(), Export: func([]byte) {},
		}})
	}
	theirs := func(ratio float64) *tracing.Tracer {
		exporter, err := otlptrace.New(context.Background(), dropping{})
		if err != nil {
			b.Fatal(err)
		}
		provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio))))
		b.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
		return tracing.New(tracing.Options{Provider: provider})
	}
	for name, tracer := range map[string]*tracing.Tracer{
		"off": nil, "unsampled": ours(0), "sampled": ours(1), "library unsampled": theirs(0), "library sampled": theirs(1),
	} {
		b.Run(name, func(b *testing.B) {
			arrived := http.Header{"Content-Type": {"application/json"}}
			b.ReportAllocs()
			for b.Loop() {
				usual(tracer, arrived)
			}
		})
	}
}
