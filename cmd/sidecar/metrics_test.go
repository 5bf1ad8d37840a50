// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// TestMetricsOfAWholeSidecar calls a tool, publishes and changes trust, and then
// scrapes.
func TestMetricsOfAWholeSidecar(t *testing.T) {
	t.Parallel()
	p := startProcess(t, "serve", "--demo")
	p.hear(t)
	wantSample(t, p, "outrigger_requests_begun_total 0", "outrigger_catalog_ready 1", "outrigger_catalog_loads_total 1",
		"outrigger_event_subscribers 1", "outrigger_trusted 0", "outrigger_record_unavailable 0")
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}`,
		`{"jsonrpc":"2.0","id":"2","method":"tools/call","params":{"name":"no.such","arguments":{}}}`,
		`{"jsonrpc":"2.0","method":"orders/new"}`,
	} {
		postRPC(t, p.main, body)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.admin+"/trust", strings.NewReader(`{"trust":"trusted"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	if status, body := fetch(t, req); status != http.StatusOK {
		t.Fatalf("trust: %d %s", status, body)
	}
	wantSample(t, p, "outrigger_requests_begun_total 2", "outrigger_requests_in_flight 0", "outrigger_events_published_total 1",
		"outrigger_events_queued_total 1", "outrigger_trusted 1", "outrigger_trust_changes_total 1")
}

// TestNoFolderForRecordsIsAMetric puts a file where the folder should be.
func TestNoFolderForRecordsIsAMetric(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--demo", "--record-dir", filepath.Join(file, "runs"))
	wantSample(t, p, "outrigger_record_unavailable 1", "outrigger_record_lines_written_total 0")
}

// wantSample scrapes the admin listener until it has such lines: what the log tells
// of is counted a moment later.
func wantSample(t *testing.T, p *process, lines ...string) {
	t.Helper()
	testkit.Try(t, "the samples", func() error {
		if missing := missingSamples(t, p, lines); len(missing) > 0 {
			return errors.New(strings.Join(missing, "\n"))
		}
		return nil
	})
}

// missingSamples scrapes once, and says what is there instead.
func missingSamples(t *testing.T, p *process, lines []string) (missing []string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.admin+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	status, page := fetch(t, req)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, page)
	}
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			name, _, _ := strings.Cut(line, " ")
			_, got, _ := strings.Cut(page, "\n"+name+" ")
			got, _, _ = strings.Cut(got, "\n")
			missing = append(missing, fmt.Sprintf("want %s, got %q", line, got))
		}
	}
	return missing
}

// TestMaxMetricTools calls more tools than may have series of their own.
func TestMaxMetricTools(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "sidecar.yaml")
	if err := os.WriteFile(config, []byte("telemetry: {max_metric_tools: 1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--demo", "--config", config)
	for _, tool := range []string{"lab.echo", "lab.fail", "lab.sleep", "lab.echo"} {
		postRPC(t, p.main, `{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"`+tool+`","arguments":{"unknown":1}}}`)
	}
	wantSample(t, p, `outrigger_calls_total{code="INVALID_TOOL_INPUT",edge="rpc",tool="lab.echo"} 2`,
		`outrigger_calls_total{code="INVALID_TOOL_INPUT",edge="rpc",tool="other"} 2`, `outrigger_call_duration_seconds_count{tool="other"} 2`)
}
