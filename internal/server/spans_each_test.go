// SPDX-License-Identifier: Apache-2.0

package server_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// witness implements [witness]: identity, tool, edge and operation leave one SERVER span for each HTTP request, and more only where
// one request has more messages. All of them are in the caller's trace.
func (r *spanRig) witness(t *testing.T, _ *matrix, c cell) {
	// Beside the HTTP request itself: a batch has two entries, and Exchange has a span as well as its message.
	more := map[string]int{"/rpc, batch": 1, "Exchange": 1}
	spans := r.taken()
	mine := 0
	for _, s := range spans {
		if s.SpanContext.TraceID().String() == traceOf(t) {
			mine++
		}
		if attributeOf(&s, telemetry.EdgeName) == "" {
			t.Errorf("%s has no edge", s.Name)
		}
	}
	r.mu.Lock()
	want := r.requests[traceOf(t)] + more[c.edge]
	r.mu.Unlock()
	if mine != want || want == 0 || len(spans) != mine {
		t.Errorf("%d spans, %d of the caller's trace, want %d", len(spans), mine, want)
	}
}

// badMessages are texts that get an error on some edge or on all of them.
func badMessages() []string {
	return []string{
		`{`, `"`, `nul`, "\xff", "\ufeff{}", `{"jsonrpc":"2.0"}`, `{"jsonrpc":"1.0","id":"1","method":"ping","params":{}}`, `{}`, `5`, `null`, `"x"`,
		`{"jsonrpc":"2.0","id":null,"method":"ping","params":{}}`, `{"jsonrpc":"2.0","id":true,"method":"ping","params":{}}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping","params":{}}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":"1","method":5}`,
		`{"jsonrpc":"2.0","id":"1","method":"","params":{}}`, `{"jsonrpc":"2.0","id":"1","method":"secret","params":{}}`,
		`{"jsonrpc":"2.0","id":"1","method":"secret` + strings.Repeat("x", 5000) + `","params":{}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":[]}`, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":5}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{}}`, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":5}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"secret"}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":5}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","arguments":{"nonce":5},"_meta":5}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","_meta":{"traceparent":5,"tracestate":"\u0000"}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"lab.echo","_meta":{"traceparent":"secret"}}}`,
		`{"jsonrpc":"2.0","id":"1","result":{}}`, `{"jsonrpc":"2.0","id":"1","error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","id":"1","result":{},"method":"ping"}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("i", 5000) + `","method":"ping","params":{}}`,
		`{"jsonrpc":"2.0","id":"1","id":"2","method":"ping","params":{}}`, `{"jsonrpc":"2.0","id":"1","method":"ping","params":{}} trailing`,
		strings.Repeat(`{"a":`, 200) + strings.Repeat(`}`, 200),
		`{"jsonrpc":"2.0","id":"1","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"ping","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":5}}}`,
		`{"jsonrpc":"2.0","method":"secret/event","params":{}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
		`{"jsonrpc":"2.0","id":"1","method":"initialize","params":{}}`,
	}
}

// TestBadInputHasOneSpan: whatever a caller sends, on every edge that takes text, leaves exactly one SERVER span, whose name has
// nothing of it.
func TestBadInputHasOneSpan(t *testing.T) {
	t.Parallel()
	r := newSpanRig(t, nil, nil)
	check := func(what string) {
		t.Helper()
		spans := r.taken()
		if len(spans) != 1 {
			t.Errorf("%s: %d spans: %v", what, len(spans), spans)
		}
		for _, s := range spans {
			if strings.Contains(s.Name, "secret") || strings.Contains(s.Name, "xxx") {
				t.Errorf("%s: the name is the caller's: %.100s", what, s.Name)
			}
			if len(s.Name) == 0 || attributeOf(&s, telemetry.EdgeName) == "" {
				t.Errorf("%s: %+v", what, s)
			}
		}
	}
	for _, body := range badMessages() {
		for _, path := range []string{"/rpc", "/mcp", "/outrigger.v1.ToolService/CallTool", "/outrigger.v1.ToolService/Secret", "/outrigger.demo.v1.Lab/Echo", "/secret"} {
			for _, headers := range [][]string{nil, {"Mcp-Protocol-Version", "2026-07-28"}, {"Mcp-Protocol-Version", "2025-11-25", "Mcp-Session-Id", "secret"}, {"Content-Encoding", "gzip"}} {
				status, _, _ := r.send(t, http.MethodPost, path, body, headers...)
				check(path + " " + strings.Join(headers, " ") + " " + body[:min(len(body), 100)] + ": " + http.StatusText(status))
			}
		}
		var out bytes.Buffer
		if err := stdio.Serve(t.Context(), r.Bridge, strings.NewReader(body+"\n"), &out, stdio.Options{Grace: time.Minute}); err != nil {
			t.Error(err)
		}
		check("stdio " + body[:min(len(body), 100)] + ": " + out.String())
	}
}

// TestLinesOfRefusalsHaveTheirSpan: what the log says of a refused request names its trace and span.
func TestLinesOfRefusalsHaveTheirSpan(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.InfoLevel)
	r := newExporter()
	r.Rig = mcptest.Start(t, mcptest.Options{Log: zap.New(core), Configure: withOAuth, Change: func(o *server.Options) {
		o.Authenticator, o.Tracer = newDirectory(t, callers()), r.tracer()
	}})
	r.serve(t, r.Rig)
	for message, send := range map[string]func(){
		"request rejected":                 func() { r.send(t, http.MethodPost, "/mcp", "{}", "Host", "attacker.example") },
		"unauthenticated request rejected": func() { r.send(t, http.MethodPost, "/mcp", "{}", "Authorization", "Bearer none") },
		"message refused": func() {
			for _, w := range callers() {
				if w.name == "issuer A: ann" {
					r.send(t, http.MethodPut, "/rpc", "{}", "Authorization", "Bearer "+w.token)
				}
			}
		},
	} {
		send()
		spans, lines := r.taken(), logs.FilterMessage(message).TakeAll()
		if len(spans) != 1 || len(lines) != 1 {
			t.Errorf("%s: %d spans, %d lines", message, len(spans), len(lines))
			continue
		}
		said := lines[0].ContextMap()
		if of := spans[0].SpanContext; said["trace_id"] != of.TraceID().String() || said["span_id"] != of.SpanID().String() {
			t.Errorf("%s: %v, the span is %v", message, said, of)
		}
	}
}

// TestRefusedRequestsHaveTheirEdgeAndCode: a request without a message says in its span which edge it was for, and why it ended.
func TestRefusedRequestsHaveTheirEdgeAndCode(t *testing.T) {
	t.Parallel()
	r := newExporter()
	r.Rig = mcptest.Start(t, mcptest.Options{Configure: withOAuth, Change: func(o *server.Options) {
		o.Authenticator, o.Tracer = newDirectory(t, callers()), r.tracer()
	}})
	r.serve(t, r.Rig)
	ann := ""
	for _, w := range callers() {
		if w.name == "issuer A: ann" {
			ann = w.token
		}
	}
	for _, tt := range []struct {
		path, token, kind string
		edge, code        string
	}{
		{"/outrigger.demo.v1.Lab/Echo", "none", "application/json", "typed", "UNAUTHENTICATED"},
		{"/outrigger.demo.v1.Lab/Echo", "none", "application/grpc", "typed", "UNAUTHENTICATED"},
		{"/outrigger.v1.ToolService/CallTool", "none", "application/json", "connect", "UNAUTHENTICATED"},
		{"/outrigger.v1.ToolService/CallTool", "none", "application/grpc", "grpc", "UNAUTHENTICATED"},
		{"/rpc", "none", "application/json", "rpc", "UNAUTHENTICATED"},
		{"/mcp", "none", "application/json", "mcp", "UNAUTHENTICATED"},
		{"/nowhere", ann, "application/json", "other", "METHOD_NOT_FOUND"},
		{"/nowhere/at/all", ann, "text/plain", "other", "METHOD_NOT_FOUND"},
	} {
		r.send(t, http.MethodPost, tt.path, "{}", "Authorization", "Bearer "+tt.token, "Content-Type", tt.kind)
		spans := r.taken()
		if len(spans) != 1 {
			t.Errorf("%s: %d spans", tt.path, len(spans))
			continue
		}
		if edge, code := attributeOf(&spans[0], telemetry.EdgeName), attributeOf(&spans[0], telemetry.ErrorCode); edge != tt.edge || code != tt.code {
			t.Errorf("%s %s: edge %q, code %q, want %q and %q", tt.path, tt.kind, edge, code, tt.edge, tt.code)
		}
		if !counted(t, r.Rig.App().Bridge().Stats(), tt.edge, tt.code) {
			t.Errorf("%s %s is not counted at edge %s", tt.path, tt.kind, tt.edge)
		}
	}
}

// counted reports whether requests refused at an edge with a code were counted.
func counted(t *testing.T, counts *telemetry.Stats, edge, code string) bool {
	t.Helper()
	page, err := export.NewPage(export.Sources{Traffic: counts})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	page.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return strings.Contains(w.Body.String(), fmt.Sprintf("outrigger_http_refused_total{code=%q,edge=%q} ", code, edge))
}
