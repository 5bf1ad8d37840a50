// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/outrigger-mcp/outrigger/internal/report"
)

func runOf(t testing.TB, o report.LintOptions, entries ...entry) *report.LintReport {
	t.Helper()
	report, err := report.Lint(toolsOf(t, entries...), o)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestAGoodListHasNoErrors(t *testing.T) {
	t.Parallel()
	r := runOf(t, report.LintOptions{}, entry{})
	if !r.OK || r.Counts.Error != 0 || r.Tools != 1 || r.Tokens < 50 || len(r.Clients) != len(report.Clients()) {
		t.Errorf("got %+v", r)
	}
	if r := runOf(t, report.LintOptions{}); !r.OK || len(r.Findings) != 0 {
		t.Errorf("an empty list: %+v", r)
	}
}

func TestUnknownClient(t *testing.T) {
	t.Parallel()
	var unknown *report.UnknownClientError
	if _, err := report.Lint(nil, report.LintOptions{Clients: []string{"cursor", "emacs"}}); !errors.As(err, &unknown) || unknown.Name != "emacs" || !strings.Contains(err.Error(), "claude-code, ") {
		t.Errorf("got %v", err)
	}
	if _, err := report.CheckSchemas(json.RawMessage(`{}`), nil, "emacs"); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	if r := runOf(t, report.LintOptions{Clients: []string{"cursor", "cursor"}}, many(81)...); r.Counts.Error != 1 {
		t.Errorf("a client that is named twice counts twice: %+v", r.Counts)
	}
}

// TestFindingsAreBounded: errors come first, and what is left out is counted.
func TestFindingsAreBounded(t *testing.T) {
	t.Parallel()
	entries := many(30)
	entries[29].input = `{"type":"object","properties":{"a":{"type":"array"}}}`
	all := runOf(t, report.LintOptions{}, entries...)
	if report.DefaultMaxFindings != 2_000 {
		t.Error("the documents name another default")
	}
	few := runOf(t, report.LintOptions{MaxFindings: 2}, entries...)
	if len(few.Findings) != 2 || few.Omitted != len(all.Findings)-2 || few.Counts != all.Counts || few.OK || few.Findings[0].Level != report.Error {
		t.Errorf("got %+v", few)
	}
}

// TestAllFixesAreInTheOverlay: those of findings that the report leaves out too.
func TestAllFixesAreInTheOverlay(t *testing.T) {
	t.Parallel()
	entries := []entry{{name: "orders.delete_order", output: treeOutput}, {name: "orders.get_line", description: "-"}}
	all := runOf(t, report.LintOptions{}, entries...).Overlay()
	few := runOf(t, report.LintOptions{MaxFindings: 1}, entries...)
	if few.Omitted == 0 || few.Overlay() != all || strings.Count(all, "method: ") != 2 {
		t.Errorf("%d findings are left out, and the overlay is\n%s\nin place of\n%s", few.Omitted, few.Overlay(), all)
	}
}

// TestSpaceAndEscapesCostNothing: a list is judged by what it says, not by how it was written.
func TestSpaceAndEscapesCostNothing(t *testing.T) {
	t.Parallel()
	read := func(raw string) *report.LintReport {
		list, err := report.ReadTools([]byte(raw), report.DiffLimits{})
		if err != nil {
			t.Fatal(err)
		}
		tools, err := report.NewLintTools(list)
		if err != nil {
			t.Fatal(err)
		}
		r, err := report.Lint(tools, report.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := entry{description: "Returns orders with <lines> & more of the same kind."}.json()
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, []byte(plain), "", "    "); err != nil {
		t.Fatal(err)
	}
	a, b := read(plain), read(strings.ReplaceAll(spaced.String(), "<", `<`))
	if a.Tokens != b.Tokens || a.Counts != b.Counts {
		t.Errorf("%+v and %+v", a, b)
	}
}

// TestOverlay: the fixes of findings are one YAML document, in which each method is there once, and the text that fits
// the narrower client wins.
func TestOverlay(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("It says much about orders. ", 100)
	r := runOf(t, report.LintOptions{},
		entry{name: "orders.delete_order", description: long, hints: `{"readOnlyHint":true}`, output: treeOutput},
		entry{name: "orders_of_all_the_regions.get_very_long_name_of_it", description: "-"},
	)
	text := r.Overlay()
	var doc struct {
		Profile string `yaml:"schema_profile"`
		Tools   []struct {
			Method string         `yaml:"method"`
			Tool   map[string]any `yaml:"tool"`
			Output map[string]any `yaml:"output_schema"`
		} `yaml:"tools"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if doc.Profile != "strict" || len(doc.Tools) != 2 || doc.Tools[0].Method != "shop.v1.Orders/DeleteOrder" {
		t.Fatalf("got %+v\n%s", doc, text)
	}
	first, second := doc.Tools[0].Tool, doc.Tools[1].Tool
	if description, _ := first["description"].(string); len(description) > 1024 || !strings.HasSuffix(description, "orders.") {
		t.Errorf("the description was cut to %q", description)
	}
	if first["destructive"] != true || first["read_only"] != false || doc.Tools[0].Output["type"] != "object" || strings.Contains(text, "$ref") {
		t.Errorf("got\n%s", text)
	}
	name, _ := second["name"].(string)
	if len(name) > 48 || !strings.HasPrefix(name, "orders_of_all") || !strings.HasSuffix(name, ".get_very_long_name_of_it") {
		t.Errorf("the name was shortened to %q", name)
	}
	if (&report.LintReport{}).Overlay() != "" {
		t.Error("no findings have an overlay")
	}
	for _, f := range r.Findings {
		if f.Fix.Overlay != "" && yaml.Unmarshal([]byte(f.Fix.Overlay), &doc) != nil {
			t.Errorf("%s: not YAML: %s", f.Rule, f.Fix.Overlay)
		}
	}
}

// TestToolsBehindTheCatalog: what the tools of a compact list take the place of is judged by what holds for every client.
func TestToolsBehindTheCatalog(t *testing.T) {
	t.Parallel()
	behind := toolsOf(t, append(many(200), entry{name: "orders.get_text", description: "-"})...)
	r, err := report.Lint(toolsOf(t, entry{}), report.LintOptions{Behind: behind})
	if err != nil {
		t.Fatal(err)
	}
	if !r.OK || r.Tools != 1 || r.Counts.Warning != 1 || r.Findings[0].Rule != "description-missing" {
		t.Errorf("got %+v", r)
	}
}

func TestStrictListsAreNotToldToBeStrict(t *testing.T) {
	t.Parallel()
	bad := entry{input: property(`{"type":["string","null"],"description":"Key."}`), output: property(`{"const":1}`)}
	for _, f := range runOf(t, report.LintOptions{Clients: []string{"gemini"}, Strict: true}, bad).Findings {
		if strings.Contains(f.Fix.Overlay, "schema_profile") || f.Fix.Text == "" {
			t.Errorf("got %+v", f)
		}
	}
}

func TestCheckSchemas(t *testing.T) {
	t.Parallel()
	found, err := report.CheckSchemas(json.RawMessage(plainInput), json.RawMessage(treeOutput), report.ClientNames()...)
	if err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, f := range found {
		rules = append(rules, f.Client+"/"+f.Rule)
	}
	if got := strings.Join(rules, " "); got != "claude-code/recursive-ref gemini/ref" {
		t.Errorf("got %s", got)
	}
}

func TestWriteText(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := runOf(t, report.LintOptions{Clients: []string{"claude-code"}, MaxFindings: 1}, entry{output: treeOutput, description: "-"})
	if err := r.WriteText(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"error    orders.get_order: the schema contains itself by $ref: all tools of the server are dropped [claude-code, recursive-ref]\n",
		"         at /outputSchema/$defs/Tree/properties/below/items/$ref\n",
		"           tools:\n             - method: shop.v1.Orders/GetOrder\n               output_schema: {",
		"more findings are left out\n", "1 tool, about ", "1 error, 1 warning",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}

func TestWriteJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := runOf(t, report.LintOptions{Clients: []string{"claude-code"}}, entry{output: treeOutput})
	if err := r.WriteJSON(&out); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		OK       *bool
		Clients  []string
		Counts   map[string]int
		Findings []struct{ Level, Rule, Client, Tool, Path, Message string }
		Omitted  *int
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OK == nil || *doc.OK || doc.Omitted == nil || doc.Counts["error"] != 1 || doc.Findings[0].Level != "error" || doc.Findings[0].Client != "claude-code" {
		t.Errorf("got %s", &out)
	}
}

func TestWriteRules(t *testing.T) {
	t.Parallel()
	var text, asJSON bytes.Buffer
	if err := errors.Join(report.WriteRules(&text, false), report.WriteRules(&asJSON, true)); err != nil {
		t.Fatal(err)
	}
	var rows []struct{ Rule, About, Client, Source, Date string }
	if err := json.Unmarshal(asJSON.Bytes(), &rows); err != nil || len(rows) != len(report.Facts()) || strings.Count(text.String(), "\n") != len(rows)+1 {
		t.Errorf("%d rows in JSON, text:\n%s", len(rows), &text)
	}
	for _, row := range rows {
		if row.About == "" || row.Source == "" || row.Client == "" {
			t.Errorf("incomplete: %+v", row)
		}
	}
}

// TestWriteSARIF: each result has its own rule document, a level and a place.
func TestWriteSARIF(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := runOf(t, report.LintOptions{}, entry{output: treeOutput, description: "-"}, entry{name: "orders.delete_all"})
	if err := r.WriteSARIF(&out, report.SARIF{Version: "1.2.3", File: "build/catalog.json"}); err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Version string
		Runs    []struct {
			Tool struct {
				Driver struct {
					Name, Version string
					Rules         []struct{ ID string }
				}
			}
			Results []struct {
				RuleID    string
				RuleIndex int
				Level     string
				Message   struct{ Text string }
				Locations []struct {
					PhysicalLocation struct{ ArtifactLocation struct{ URI string } }
					LogicalLocations []struct{ FullyQualifiedName string }
				}
				PartialFingerprints map[string]string
			}
		}
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Version != "2.1.0" || len(doc.Runs) != 1 || doc.Runs[0].Tool.Driver.Version != "1.2.3" || len(doc.Runs[0].Results) != len(r.Findings) {
		t.Fatalf("got %s", &out)
	}
	prints := map[string]bool{}
	for _, result := range doc.Runs[0].Results {
		rules := doc.Runs[0].Tool.Driver.Rules
		if result.RuleIndex < 0 || rules[result.RuleIndex].ID != result.RuleID || result.Level == "" || result.Message.Text == "" {
			t.Errorf("got %+v", result)
		}
		if l := result.Locations; len(l) != 1 || l[0].PhysicalLocation.ArtifactLocation.URI != "build/catalog.json" || l[0].LogicalLocations[0].FullyQualifiedName == "" {
			t.Errorf("got locations %+v", l)
		}
		if mark := result.PartialFingerprints["finding/v1"]; prints[mark] {
			t.Errorf("two results have the fingerprint %s", mark)
		} else {
			prints[mark] = true
		}
	}
}

// TestTheFileOfSARIFIsAURI: a path can have characters that a URI cannot, and a first part that looks like a scheme.
func TestTheFileOfSARIFIsAURI(t *testing.T) {
	t.Parallel()
	r := runOf(t, report.LintOptions{}, entry{description: "-"})
	for path, want := range map[string]string{
		"build/catalog.json":          "build/catalog.json",
		"my lists/a#1?50%é.json":      "my%20lists/a%231%3F50%25%C3%A9.json",
		"a:b.json":                    "./a:b.json",
		filepath.Join("lists", "a b"): "lists/a%20b",
	} {
		var out bytes.Buffer
		if err := r.WriteSARIF(&out, report.SARIF{File: path}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `"uri": "`+want+`"`) {
			t.Errorf("%s: no %s in %s", path, want, &out)
		}
	}
}

// FuzzRun: whatever a list says, it is judged without a panic, each finding is complete, and the fixes are YAML.
func FuzzRun(f *testing.F) {
	for _, c := range ruleCases() {
		for _, e := range append(c.bad[:min(1, len(c.bad))], c.good[0]) {
			if raw := e.json(); len(raw) < 4096 {
				f.Add([]byte(raw))
			}
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := report.ReadTools(raw, report.DiffLimits{})
		if err != nil {
			return
		}
		tools, err := report.NewLintTools(list)
		if err != nil {
			return
		}
		found, err := report.Lint(tools, report.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range found.Findings {
			if finding.Message == "" || finding.Fix.Text == "" || finding.Rule == "" {
				t.Errorf("incomplete: %+v", finding)
			}
		}
		var doc any
		if err := yaml.Unmarshal([]byte(found.Overlay()), &doc); err != nil {
			t.Errorf("%v:\n%s", err, found.Overlay())
		}
		if err := errors.Join(found.WriteText(&bytes.Buffer{}), found.WriteJSON(&bytes.Buffer{}), found.WriteSARIF(&bytes.Buffer{}, report.SARIF{})); err != nil {
			t.Error(err)
		}
	})
}
