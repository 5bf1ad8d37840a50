// SPDX-License-Identifier: Apache-2.0

package observability_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/board"
	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/vocabulary"
)

// TestNames holds every metric, label and enumerable value that dashboards, rules, unit tests of rules and documents name
// to the page of the real binary.
func TestNames(t *testing.T) {
	t.Parallel()
	v := atWork(t)
	t.Run("recording rules", func(t *testing.T) { recordingRules(t, v) })
	t.Run("dashboards", func(t *testing.T) { dashboards(t, v) })
	t.Run("alerts", func(t *testing.T) { alerts(t, v) })
	t.Run("unit tests of rules", func(t *testing.T) { unitTests(t, v) })
	t.Run("documents", func(t *testing.T) { documents(t, v) })
}

// recordingRules checks the recording rules in order, and adds what they make.
func recordingRules(t *testing.T, v *vocabulary.Vocabulary) {
	for _, rule := range rulesOf(t, "recording.yaml") {
		result, err := v.Check(rule.Expr)
		if err != nil {
			t.Errorf("%s: %v", rule.Record, err)
		}
		v.Define(rule.Record, result)
	}
}

// legend is a label in a legend or in the text of an alert.
var (
	legend  = regexp.MustCompile(`\{\{([a-z_]+)\}\}`)
	inAlert = regexp.MustCompile(`\$labels\.([a-z_]+)`)
)

func dashboards(t *testing.T, v *vocabulary.Vocabulary) {
	for _, b := range board.Boards() {
		shown, err := board.Read(filepath.Join("dashboards", b.File+".json"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range shown.Panels {
			for _, q := range p.Queries {
				result, err := v.Check(board.Fill(q.Expr, "5m"))
				if err != nil {
					t.Errorf("%s: %s: %v", b.File, p.Title, err)
				}
				for _, l := range legend.FindAllStringSubmatch(q.Legend, -1) {
					if !result[l[1]] {
						t.Errorf("%s: %s: the legend names %s, which the result does not have: %s", b.File, p.Title, l[1], q.Expr)
					}
				}
			}
		}
		for _, choice := range shown.Choices {
			result, err := v.Check(board.Fill(choice.Metric, "5m"))
			if err != nil || !result[choice.Label] {
				t.Errorf("%s: variable %s: %v", b.File, choice.Label, err)
			}
		}
	}
}

func alerts(t *testing.T, v *vocabulary.Vocabulary) {
	for _, rule := range rulesOf(t, "alerts.yaml") {
		result, err := v.Check(rule.Expr)
		if err != nil {
			t.Errorf("%s: %v", rule.Alert, err)
		}
		for _, l := range inAlert.FindAllStringSubmatch(rule.Annotations["summary"], -1) {
			if !result[l[1]] {
				t.Errorf("%s: the summary names %s, which the result does not have", rule.Alert, l[1])
			}
		}
	}
}

// unitTests checks the series that promtool feeds to the rules: they must be such as the binary has.
func unitTests(t *testing.T, v *vocabulary.Vocabulary) {
	for _, group := range testsOfRules(t) {
		for _, s := range group.Input {
			series, err := parser.NewParser(parser.Options{}).ParseMetric(s.Series)
			if err != nil {
				t.Errorf("%s: %v", s.Series, err)
				continue
			}
			complete(t, v, s.Series, series)
		}
	}
}

// complete reports a series whose labels are not those of its metric.
func complete(t *testing.T, v *vocabulary.Vocabulary, text string, series labels.Labels) {
	known, err := v.Check(series.Get(model.MetricNameLabel))
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	series.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel {
			return
		}
		if !known[l.Name] {
			t.Errorf("%s: has no label %s", text, l.Name)
		}
		delete(known, l.Name)
	})
	for name := range known {
		t.Errorf("%s: lacks the label %s", text, name)
	}
}

// ours begins what may be a query in a document.
var ours = regexp.MustCompile(`\b(outrigger|mcp_server|process|go)_[a-z0-9_]+`)

// other begins a block of another language.
var other = regexp.MustCompile(`^(console|go|json|proto|sh|text|yaml)\n`)

// documents checks the queries in the pages: code that names a metric and is more than a name.
func documents(t *testing.T, v *vocabulary.Vocabulary) {
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("pages: %v, %v", pages, err)
	}
	n := 0
	for _, path := range append(pages, "README.md", "runbooks.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, span := range strings.Split(string(text), "`") {
			query := strings.ReplaceAll(span, `\|`, "|")
			if other.MatchString(query) {
				continue
			}
			if i%2 == 0 || !ours.MatchString(query) || !strings.ContainsAny(query, "(/><=") {
				continue
			}
			n++
			if _, err := v.Check(query); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if n < 15 {
		t.Errorf("%d queries in all pages: is the pattern right?", n)
	}
}
