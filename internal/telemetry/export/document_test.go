// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

// TestThePageNamesEveryMetric compares docs/metrics.md with what a scrape gets:
// every metric of ours, under its name and type, and no other.
func TestThePageNamesEveryMetric(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:outrigger|mcp_server)_[a-z_]+)` \\| ([a-z]+) \\|").FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	m, err := export.NewPage(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, f := range families {
		if isOwn(f.GetName()) {
			shown[f.GetName()] = strings.ToLower(f.GetType().String())
		}
	}
	if diff := cmp.Diff(shown, documented); diff != "" {
		t.Errorf("docs/metrics.md (-shown +documented):\n%s", diff)
	}
}

// isOwn tells our metrics, and those that OpenTelemetry's conventions name, from those of the process.
func isOwn(name string) bool {
	return strings.HasPrefix(name, "outrigger_") || strings.HasPrefix(name, "mcp_server_")
}

// TestPagesNameMetricsThatExist looks at every page, alerts and queries included.
func TestPagesNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	m, err := export.NewPage(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, f := range families {
		exists[f.GetName()] = true
		if f.GetType().String() == "HISTOGRAM" {
			exists[f.GetName()+"_bucket"], exists[f.GetName()+"_count"], exists[f.GetName()+"_sum"] = true, true, true
		}
	}
	pages, err := filepath.Glob(filepath.Join("..", "..", "..", "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages: %v, %v", pages, err)
	}
	named := 0
	for _, page := range append(pages, filepath.Join("..", "..", "..", "README.md"), filepath.Join("..", "..", "..", "deploy", "observability", "runbooks.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(outrigger|mcp_server)_[a-z0-9_]+\b`).FindAllString(string(text), -1) {
			named++
			if !exists[name] && name != memberOfOperations {
				t.Errorf("%s names %s, which there is not", filepath.Base(page), name)
			}
		}
	}
	if named < 60 {
		t.Errorf("%d names in all pages: is the pattern right?", named)
	}
}

// memberOfOperations is no metric: results of operations that are not done have it.
const memberOfOperations = "outrigger_operation"

// TestRefusalsOfEitherPartAloneAreShown leaves out the gate, then the limiter.
func TestRefusalsOfEitherPartAloneAreShown(t *testing.T) {
	t.Parallel()
	all := everything(t)
	for _, tt := range []struct {
		sources export.Sources
		want    string
	}{
		{export.Sources{Gate: all.Gate}, `outrigger_calls_refused_total{code="DESTRUCTIVE_BLOCKED",tool="shop.drop"} 2`},
		{export.Sources{Limiter: all.Limiter}, `outrigger_calls_refused_total{code="RATE_LIMITED",tool="shop.get"} 1`},
		{export.Sources{Gate: policy.NewGate(policy.Untrusted), Limiter: all.Limiter}, `outrigger_calls_refused_total{code="RATE_LIMITED",tool=""} 1`},
	} {
		m, err := export.NewPage(tt.sources)
		if err != nil {
			t.Fatal(err)
		}
		page, _ := scrape(t, m, "text/plain")
		wantLines(t, page, tt.want)
	}
}
