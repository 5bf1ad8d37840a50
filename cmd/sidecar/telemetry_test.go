// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/otlptest"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

const listTools = `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`

// named is the first span with a name; nil where there is none yet.
func named(spans []otlptest.Span, name string) *otlptest.Span {
	for i := range spans {
		if spans[i].GetName() == name {
			return &spans[i]
		}
	}
	return nil
}

// TestServeExportsEverySignal runs the binary with a file.
func TestServeExportsEverySignal(t *testing.T) {
	t.Parallel()
	receiver, url := otlptest.Start(t)
	file := filepath.Join(t.TempDir(), "sidecar.yaml")
	text := fmt.Sprintf("telemetry:\n  endpoint: %s\n  batch_delay: 10ms\n  metric_interval: 1s\n", url)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startBinary(t, "serve", "--demo", "--config", file, "--record-dir", "off")
	c := oneShot()
	resp, err := c.Post("http://"+p.main+"/rpc", "application/json", strings.NewReader(listTools)) //nolint:noctx // the client has a timeout
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	testkit.Until(t, "a span", func() bool { return named(receiver.Spans(), "tools/list") != nil })
	testkit.Until(t, "metrics", func() bool { return len(receiver.Metrics()) > 0 })
	testkit.Until(t, "log records", func() bool { return len(receiver.Records()) > 0 })
	if of := named(receiver.Spans(), "tools/list").Resource; of["service.name"] != "outrigger" {
		t.Errorf("resource %v", of)
	}
	testkit.Until(t, "the exports on the metrics page", func() bool {
		page, _ := get(t, c, "http://"+p.admin+"/metrics")
		return strings.Contains(page, "outrigger_telemetry_exports_total{outcome=\"ok\",signal=\"traces\"} ") &&
			strings.Contains(page, "outrigger_telemetry_items_dropped_total{reason=\"queue_full\",signal=\"logs\"} 0")
	})
	if len(receiver.Faults()) > 0 {
		t.Error(receiver.Faults())
	}
}

// TestStdioExportsBeforeItEnds: a process that lives for one request exports its span.
func TestStdioExportsBeforeItEnds(t *testing.T) {
	t.Parallel()
	receiver, url := otlptest.Start(t)
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	message := `{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{"_meta":{"traceparent":"00-` + trace + "-" + parent + `-01"}}}`
	var out, stderr bytes.Buffer
	code := run(t.Context(), []string{"stdio", "--demo", "--dialect", "mcp", "--record-dir", "off"}, strings.NewReader(message+"\n"), &out, &stderr,
		[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_LOGS_EXPORTER=none"})
	if code != 0 || !strings.Contains(out.String(), `"id":"1"`) {
		t.Fatalf("code %d, out %s, stderr %s", code, &out, &stderr)
	}
	span := named(receiver.Spans(), "tools/list")
	if span == nil {
		t.Fatalf("spans %v, stderr %s", receiver.Spans(), &stderr)
	}
	if hex.EncodeToString(span.GetTraceId()) != trace || hex.EncodeToString(span.GetParentSpanId()) != parent {
		t.Errorf("span %v", span)
	}
	if len(receiver.Metrics()) == 0 || len(receiver.Records()) > 0 {
		t.Errorf("%d metrics, %d log records", len(receiver.Metrics()), len(receiver.Records()))
	}
}

// blockedAnswer answers nothing until the test ends.
func blockedAnswer(t *testing.T) http.HandlerFunc {
	t.Helper()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	return func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}
}

// TestStdioEndsWithoutItsCollector: the last export does not keep the process.
func TestStdioEndsWithoutItsCollector(t *testing.T) {
	t.Parallel()
	receiver, url := otlptest.Start(t)
	receiver.Answer = blockedAnswer(t)
	var out, stderr bytes.Buffer
	start := time.Now()
	code := run(t.Context(), []string{"stdio", "--demo", "--record-dir", "off", "--grace", "10m"}, strings.NewReader(listTools+"\n"), &out, &stderr,
		[]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url})
	if code != 0 || !strings.Contains(out.String(), `"id":"1"`) {
		t.Fatalf("code %d, out %s, stderr %s", code, &out, &stderr)
	}
	if took := time.Since(start); took > testkit.Limit() {
		t.Errorf("took %v, the flush has 3 s", took)
	}
	if !strings.Contains(stderr.String(), "telemetry not exported before the end") {
		t.Errorf("stderr %s", &stderr)
	}
}
