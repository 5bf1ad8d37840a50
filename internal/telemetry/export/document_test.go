// SPDX-License-Identifier: Apache-2.0

package export_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
)

var update = flag.Bool("update", false, "write rows of new metrics into docs/metrics.md, and take out those of metrics that are gone")

// metricRow is the row of a metric in docs/metrics.md.
var metricRow = regexp.MustCompile("(?m)^\\| `((?:outrigger|mcp_server)_[a-z_]+)` \\| ([a-z]+) \\|.*\n")

// TestThePageNamesEveryMetric compares docs/metrics.md with what a scrape gets:
// every metric of ours, under its name and type, and no other.
func TestThePageNamesEveryMetric(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "..", "docs", "metrics.md")
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := export.NewPage(everything(t))
	if err != nil {
		t.Fatal(err)
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		page = []byte(withRows(string(page), families))
		if err := os.WriteFile(file, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	documented, shown := map[string]string{}, map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		documented[row[1]] = row[2]
	}
	for _, f := range families {
		if isOwn(f.GetName()) {
			shown[f.GetName()] = typeOf(f)
		}
	}
	if diff := cmp.Diff(shown, documented); diff != "" {
		t.Errorf("docs/metrics.md, which -update writes (-shown +documented):\n%s", diff)
	}
}

func typeOf(f *dto.MetricFamily) string { return strings.ToLower(f.GetType().String()) }

// withRows is the page with rows for the metrics of families and for no others. The row of a metric that has one stays, unless
// its type changed; a new one says what the metric says of itself in a scrape.
func withRows(page string, families []*dto.MetricFamily) string {
	missing := map[string]*dto.MetricFamily{}
	for _, f := range families {
		if isOwn(f.GetName()) {
			missing[f.GetName()] = f
		}
	}
	at := 0
	page = metricRow.ReplaceAllStringFunc(page, func(row string) string {
		named := metricRow.FindStringSubmatch(row)
		if f := missing[named[1]]; f == nil || typeOf(f) != named[2] {
			return ""
		}
		delete(missing, named[1])
		return row
	})
	if rows := metricRow.FindAllStringIndex(page, -1); rows != nil {
		at = rows[len(rows)-1][1]
	}
	var more strings.Builder
	for _, f := range families {
		if missing[f.GetName()] != nil {
			fmt.Fprintf(&more, "| `%s` | %s | %s |\n", f.GetName(), typeOf(f), strings.TrimSuffix(f.GetHelp(), "."))
		}
	}
	return page[:at] + more.String() + page[at:]
}

// TestRowsOfMetrics: a new metric gets a row behind the last one, a metric that is gone loses its own, and all else stays.
func TestRowsOfMetrics(t *testing.T) {
	t.Parallel()
	name, help, kind := "outrigger_b_total", "What b counts.", dto.MetricType_COUNTER
	old := "outrigger_a"
	gauge := dto.MetricType_GAUGE
	got := withRows("# M\n\n| `outrigger_a` | gauge | a, in better words |\n| `outrigger_gone` | gauge | g |\n\nText with `outrigger_gone`.\n",
		[]*dto.MetricFamily{{Name: &old, Type: &gauge}, {Name: &name, Help: &help, Type: &kind}})
	const want = "# M\n\n| `outrigger_a` | gauge | a, in better words |\n| `outrigger_b_total` | counter | What b counts |\n\nText with `outrigger_gone`.\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
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
	several, err := export.NewPage(export.Sources{Guard: map[string]*backend.Guard{"one": heldBack(t), "two": heldBack(t)}})
	if err != nil {
		t.Fatal(err)
	}
	more, err := several.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, f := range append(families, more...) {
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
		for _, name := range regexp.MustCompile(`\b(outrigger|mcp_server)_[a-z][a-z0-9_]+\b`).FindAllString(string(text), -1) {
			named++
			if !exists[name] && name != memberOfOperations && !strings.HasPrefix(name, "outrigger_injector_") { // of another program
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
