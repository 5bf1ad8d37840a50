// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestSpansOfTheConsole: a call in the console has the span of its edge, with the route that callers know, in the trace of its client.
func TestSpansOfTheConsole(t *testing.T) {
	t.Parallel()
	r := newExporter()
	url := mcptest.Start(t, mcptest.Options{Change: func(o *server.Options) { o.Tracer = r.tracer() }}).Operators(t)
	trace := traceOf(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/console/call/rpc",
		strings.NewReader(`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	resp, err := mcptest.Client(t, 1).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if body := bodyOf(t, resp); resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	testkit.Until(t, "the span has ended", func() bool {
		return slices.ContainsFunc(r.taken(), func(span tracetest.SpanStub) bool {
			return span.SpanContext.TraceID().String() == trace && span.Name == "tools/call lab.echo"
		})
	})
}
