// SPDX-License-Identifier: Apache-2.0

package observability_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/outrigger-mcp/outrigger/deploy/observability/internal/board"
)

// rulesOf are the rules of a file.
func rulesOf(t *testing.T, file string) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(filepath.Join("rules", file), false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	var out []rulefmt.Rule
	for _, g := range groups.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return out
}

// group is a test of promtool.
type group struct {
	Name  string `yaml:"name"`
	Input []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []struct {
		At     model.Duration `yaml:"eval_time"`
		Name   string         `yaml:"alertname"`
		Firing []any          `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// testsOfRules are all tests of promtool.
func testsOfRules(t *testing.T) []group {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("rules", "tests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("tests of rules: %v, %v", files, err)
	}
	var out []group
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Tests []group `yaml:"tests"`
		}
		if err := yaml.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, file.Tests...)
	}
	return out
}

// TestEveryAlertIsTested wants a test for each alert in which it is silent, fires, and is silent again.
func TestEveryAlertIsTested(t *testing.T) {
	t.Parallel()
	tested := map[string]bool{}
	for _, g := range testsOfRules(t) {
		course := map[string]string{}
		for _, a := range g.Alerts {
			if len(a.Firing) == 0 {
				course[a.Name] += "-"
			} else {
				course[a.Name] += "!"
			}
		}
		for name, c := range course {
			if regexp.MustCompile(`-!+-`).MatchString(c) {
				tested[name] = true
			}
		}
	}
	for _, rule := range rulesOf(t, "alerts.yaml") {
		if !tested[rule.Alert] {
			t.Errorf("%s: no test in which it fires and ends", rule.Alert)
		}
	}
}

// TestAlertsHaveRunbooks holds alerts, runbooks and the links between them together.
func TestAlertsHaveRunbooks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("runbooks.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (Outrigger[A-Za-z]+)$`).FindAllStringSubmatch(string(page), -1) {
		sections[m[1]] = true
	}
	known := map[string]bool{}
	for _, rule := range rulesOf(t, "alerts.yaml") {
		known[rule.Alert] = true
		if !sections[rule.Alert] {
			t.Errorf("runbooks.md has no section %s", rule.Alert)
		}
		if got, want := rule.Annotations["runbook_url"], board.RunbookURL(rule.Alert); got != want {
			t.Errorf("%s: runbook_url is %q, want %q", rule.Alert, got, want)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) || rule.Annotations["summary"] == "" {
			t.Errorf("%s: needs a severity and a summary", rule.Alert)
		}
	}
	for name := range sections {
		if !known[name] {
			t.Errorf("runbooks.md has a runbook %s without an alert", name)
		}
	}
	for _, b := range board.Boards() {
		for _, row := range b.Rows {
			for _, p := range row.Panels {
				if p.Runbook != "" && !known[p.Runbook] {
					t.Errorf("%s: %s: links to the runbook of %s, which is no alert", b.File, p.Title, p.Runbook)
				}
			}
		}
	}
}

// TestRulesAndDashboardsAgreeOnFaults compares the list of codes that count against the objective.
func TestRulesAndDashboardsAgreeOnFaults(t *testing.T) {
	t.Parallel()
	n := 0
	for _, rule := range rulesOf(t, "recording.yaml") {
		if !strings.Contains(rule.Record, "faults") {
			continue
		}
		n++
		if !strings.Contains(rule.Expr, `code=~"`+board.Faults+`"`) {
			t.Errorf("%s does not count %s", rule.Record, board.Faults)
		}
	}
	if n != 4 {
		t.Errorf("%d rules about faults, want 4", n)
	}
}
