// SPDX-License-Identifier: Apache-2.0

package telemetry_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// TestSpanOfARequestWithoutAMessage: what its span says depends on how the handler ended.
func TestSpanOfARequestWithoutAMessage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name         string
		handler      http.HandlerFunc
		status       string
		code         codes.Code
		kind, reason string
	}{
		{"nothing is written", func(http.ResponseWriter, *http.Request) {}, "200", codes.Unset, "", ""},
		{"an error of the caller", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, "404", codes.Unset, "", "METHOD_NOT_FOUND"},
		{"the caller is gone", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, "499", codes.Unset, "", "CANCELLED"},
		{"an error of the server", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502", codes.Error, "502", "INTERNAL_ERROR"},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic("no") }, "", codes.Error, "panic", "INTERNAL_ERROR"},
		{"a panic behind the head", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK)
			panic("no")
		}, "200", codes.Error, "panic", "INTERNAL_ERROR"},
		{"the handler ends the connection", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "", codes.Error, "panic", "INTERNAL_ERROR"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			exporter := tracetest.NewInMemoryExporter()
			h := telemetry.HTTPHandler(tc.handler, telemetry.HTTPOptions{
				Tracer: telemetry.NewTracer(telemetry.TracerOptions{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))}),
				Route:  func(*http.Request) telemetry.Route { return telemetry.Route{Path: "/mcp"} },
				Edge:   func(*http.Request) telemetry.Edge { return telemetry.EdgeMCP },
			})
			func() {
				defer func() { _ = recover() }()
				h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", http.NoBody))
			}()
			spans := exporter.GetSpans()
			if len(spans) != 1 {
				t.Fatalf("%d spans", len(spans))
			}
			facts := map[string]string{}
			for _, a := range spans[0].Attributes {
				facts[string(a.Key)] = a.Value.String()
			}
			if facts["http.response.status_code"] != tc.status || spans[0].Status.Code != tc.code || facts[telemetry.ErrorType] != tc.kind || facts[telemetry.ErrorCode] != tc.reason {
				t.Errorf("%v %v", spans[0].Status, facts)
			}
		})
	}
}
