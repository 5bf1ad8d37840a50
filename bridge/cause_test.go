// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/audit"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
	"github.com/outrigger-mcp/outrigger/internal/tracing"
)

// TestEveryCauseIsKnownToTheOperatorAlone walks the error table: the cause of each error is
// in the log, the span and the audit trail, and at no edge is it shown to the caller.
func TestEveryCauseIsKnownToTheOperatorAlone(t *testing.T) {
	t.Parallel()
	for _, code := range errmap.Codes() {
		t.Run(string(code), func(t *testing.T) {
			t.Parallel()
			const cause = "dial tcp 192.0.2.7:443: cause 4f9c"
			c := causeRig(t, func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
				return nil, errmap.Wrap(code, errors.New(cause))
			})
			c.isKnown(t, []string{cause}, "cause 4f9c", "192.0.2.7")
		})
	}
}

// TestTheCauseOfAnUnreadableResponse has the path of the field and its first bytes.
func TestTheCauseOfAnUnreadableResponse(t *testing.T) {
	t.Parallel()
	c := causeRig(t, func(context.Context, *catalog.Method, []byte, http.Header) (*bridge.Answer, *errmap.Error) {
		return &bridge.Answer{Body: []byte("\x0a\x02\xffA")}, nil
	})
	c.isKnown(t, []string{"SERIALIZATION_ERROR: transcode: decode answer", `(at "/nonce": invalid UTF-8 at byte 0, bytes ff 41)`}, "ff 41", "/nonce")
}

// causes is a sidecar whose log, spans and audit trail a test reads.
type causes struct {
	url   string
	lines *observer.ObservedLogs
	spans *tracetest.InMemoryExporter
	file  string
	trail *audit.Trail
}

func causeRig(t *testing.T, call mcptest.Upstream) *causes {
	t.Helper()
	core, lines := observer.New(zap.InfoLevel)
	c := &causes{lines: lines, spans: tracetest.NewInMemoryExporter(), file: filepath.Join(t.TempDir(), "audit.jsonl")}
	var err error
	if c.trail, err = audit.Open(audit.Options{Path: c.file}); err != nil {
		t.Fatal(err)
	}
	b := dialect.New(bridge.New(mcptest.Memory(t), call, correlate.New(correlate.Options{}), bridge.Options{
		Log: zap.New(core), Audit: c.trail,
		Tracer: tracing.New(tracing.Options{Provider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(c.spans))}),
	}), dialect.Options{})
	c.url = mcptest.Serve(t, allEdges(b))
	return c
}

// isKnown makes a call at every edge, and looks for parts of a cause wherever it has to be,
// and for secret parts of it at the caller.
func (c *causes) isKnown(t *testing.T, parts []string, secrets ...string) {
	t.Helper()
	hasAll := func(text string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
	}
	edges := map[string]string{
		"/rpc": `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{}}}`,
		"/mcp": `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab_echo","arguments":{},"_meta":` +
			`{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"/outrigger.v1.ToolService/CallTool": `{"tool_name":"lab.echo"}`,
		"/outrigger.demo.v1.Lab/Echo":        `{}`,
	}
	for path, body := range edges {
		c.lines.TakeAll()
		c.spans.Reset()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Mcp-Protocol-Version", "2026-07-28")
		r.Header.Set("Mcp-Method", "tools/call")
		r.Header.Set("Mcp-Name", "lab_echo")
		resp, err := mcptest.Client(t, 1).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		shown, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range secrets {
			if strings.Contains(string(shown), secret) {
				t.Errorf("%s: the caller sees %q: %s", path, secret, shown)
			}
		}
		calls := c.lines.FilterMessage("call").All()
		if len(calls) != 1 || !hasAll(textOf(calls[0].ContextMap()["exception.message"])) {
			t.Errorf("%s: the log lacks %q: %v %s", path, parts, calls, shown)
		}
		testkit.Until(t, path+": the span has the cause", func() bool { return hasAll(causesIn(c.spans)) })
	}
	if err := c.trail.Close(); err != nil {
		t.Fatal(err)
	}
	lines := trail(t, c.file)
	for _, line := range lines {
		if !hasAll(textOf(line["cause"])) {
			t.Errorf("the audit trail lacks %q: %v", parts, line)
		}
	}
	if len(lines) != len(edges) {
		t.Errorf("%d lines of the audit trail, want %d", len(lines), len(edges))
	}
}

func textOf(value any) string {
	text, _ := value.(string)
	return text
}

// causesIn are the causes that spans have.
func causesIn(s *tracetest.InMemoryExporter) string {
	var b strings.Builder
	for _, span := range s.GetSpans() {
		for _, a := range span.Attributes {
			if a.Key == "exception.message" {
				b.WriteString(a.Value.AsString() + "\n")
			}
		}
	}
	return b.String()
}
