// SPDX-License-Identifier: Apache-2.0

package show_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/show"
)

// TestEveryPanelHasData runs everything for a short time: no query fails, and every panel has data. `make
// observability-check` says where Prometheus is.
func TestEveryPanelHasData(t *testing.T) {
	prometheus := os.Getenv("OUTRIGGER_PROMETHEUS")
	if prometheus == "" {
		t.Skip("OUTRIGGER_PROMETHEUS does not name the binary of Prometheus")
	}
	out := t.TempDir()
	report, err := show.Run(t.Context(), show.Options{Prometheus: prometheus, Folder: filepath.Join("..", ".."), Out: out, Duration: 25 * time.Second})
	t.Log(report)
	if err != nil {
		t.Fatal(err)
	}
	if report.Calls < 300 || report.Spans < 300 {
		t.Errorf("%d calls and %d spans: is there a load?", report.Calls, report.Spans)
	}
	if got := strings.Join(report.Services, " "); got != "agent outrigger fleet" {
		t.Errorf("the trace goes through %q, want agent, outrigger, fleet", got)
	}
	for _, name := range []string{"observe.svg", "trace.svg", "index.html"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
