// SPDX-License-Identifier: Apache-2.0

package recall_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/schema"
)

// maxFindings is more than any of the catalogs has.
const maxFindings = 100_000

func lintOf(t *testing.T, cat *catalog.Catalog) *report.LintReport {
	t.Helper()
	found, err := report.Lint(toolsOf(t, cat), report.LintOptions{MaxFindings: maxFindings})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// toolsOf are the tools of a catalog as lint takes them, in the form that lists have by default.
func toolsOf(t *testing.T, cat *catalog.Catalog) []*report.LintTool {
	t.Helper()
	form := catalog.ListForm{Outputs: catalog.BoundedOutputSchemas}
	var tools []*report.LintTool
	for _, tool := range cat.Tools() {
		list, err := report.ReadTools(dialect.ListedToolJSON(tool, form), report.DiffLimits{})
		if err != nil {
			t.Fatal(err)
		}
		one, err := report.NewLintTool(list[0], strings.TrimPrefix(tool.Method.Procedure, "/"))
		if err != nil {
			t.Fatal(err)
		}
		tools = append(tools, one)
	}
	return tools
}

// fixed are the options of a catalog that has the fixes of a report: the overlay and the profile.
func fixed(t *testing.T, r *report.LintReport) catalog.BuildOptions {
	t.Helper()
	var doc struct {
		Profile string `yaml:"schema_profile"`
		Tools   []struct {
			Method string         `yaml:"method"`
			Tool   map[string]any `yaml:"tool"`
			Output map[string]any `yaml:"output_schema"`
		} `yaml:"tools"`
	}
	if err := yaml.Unmarshal([]byte(r.Overlay()), &doc); err != nil {
		t.Fatal(err)
	}
	asJSON := func(v map[string]any) json.RawMessage {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var out catalog.BuildOptions
	if doc.Profile == "strict" {
		out.Profile = schema.ProfileStrict
	}
	for _, entry := range doc.Tools {
		o := catalog.Override{Match: entry.Method}
		if entry.Output != nil {
			o.OutputSchema = asJSON(entry.Output)
		}
		if entry.Tool != nil {
			o.Options = &configv1.ToolOptions{}
			if err := protojson.Unmarshal(asJSON(entry.Tool), o.Options); err != nil {
				t.Fatal(err)
			}
		}
		out.Overlay = append(out.Overlay, o)
	}
	return out
}

// described are the descriptions of arguments that a report proposes, as an overlay.
func described(t *testing.T, r *report.LintReport) []catalog.Override {
	t.Helper()
	var doc struct {
		Tools []struct {
			Method     string            `yaml:"method"`
			Properties map[string]string `yaml:"properties"`
		} `yaml:"tools"`
	}
	if err := yaml.Unmarshal([]byte(r.Overlay()), &doc); err != nil {
		t.Fatal(err)
	}
	var out []catalog.Override
	for _, entry := range doc.Tools {
		if entry.Properties != nil {
			out = append(out, catalog.Override{Match: entry.Method, Properties: entry.Properties})
		}
	}
	return out
}

// TestProposedPathsLeadSomewhere: the catalog knows each path that lint has lines for, in both profiles, and shows the text.
func TestProposedPathsLeadSomewhere(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(apis())) {
		for _, profile := range []schema.Profile{schema.ProfileMCP, schema.ProfileStrict} {
			options := catalog.BuildOptions{Profile: profile}
			cat := liveWith(t, apis()[name], nil, options).Current()
			found, err := report.Lint(toolsOf(t, cat), report.LintOptions{MaxFindings: maxFindings, Strict: profile == schema.ProfileStrict})
			if err != nil {
				t.Fatal(err)
			}
			if options.Overlay = described(t, found); len(options.Overlay) == 0 {
				t.Errorf("%s %s: no lines", name, profile)
			}
			with := map[string]*catalog.Tool{}
			for _, tool := range liveWith(t, apis()[name], nil, options).Current().Tools() {
				with[strings.TrimPrefix(tool.Method.Procedure, "/")] = tool
			}
			for _, o := range options.Overlay {
				if tool := with[o.Match]; tool == nil || len(tool.Words) == 0 || !strings.Contains(string(tool.Input.Advertised()), "TODO: ") {
					t.Errorf("%s %s %s: no text is shown", name, profile, o.Match)
				}
			}
		}
	}
}

// errorsOf counts the errors of a client.
func errorsOf(r *report.LintReport, client string) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == report.Error && f.Client == client {
			n++
		}
	}
	return n
}

func findingsOf(r *report.LintReport, rule string) int {
	n := 0
	for _, f := range r.Findings {
		if f.Rule == rule {
			n++
		}
	}
	return n
}

// lintTable is the table of docs/lint.md.
func lintTable(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	clients := report.ClientNames()
	out.WriteString("| catalog | tools | tokens of the list | in compact mode | without a description | with arguments that have none |")
	for _, c := range clients {
		out.WriteString(" " + c + " |")
	}
	out.WriteString("\n|" + strings.Repeat("---|", 6+len(clients)) + "\n")
	for _, name := range slices.Sorted(maps.Keys(apis())) {
		cat := catalogOf(t, apis()[name], nil)
		before := lintOf(t, cat)
		options := fixed(t, before)
		after := lintOf(t, liveWith(t, apis()[name], nil, options).Current())
		three, err := cat.Compact()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&out, "| %s | %d | %d → %d | %d | %d | %d |", name, before.Tools, before.Tokens, after.Tokens, lintOf(t, three).Tokens,
			findingsOf(before, "description-missing"), findingsOf(before, "property-description"))
		for _, c := range clients {
			fmt.Fprintf(&out, " %d → %d |", errorsOf(before, c), errorsOf(after, c))
		}
		out.WriteString("\n")
		for _, f := range after.Findings {
			if f.Level == report.Error && f.Rule != "tool-count" {
				t.Errorf("%s: an error remains after the fixes: %s %s %s: %s", name, f.Client, f.Rule, f.Tool, f.Message)
			}
		}
	}
	return out.String()
}

const (
	lintPage   = "../../../docs/lint.md"
	lintBegins = "<!-- the table begins: make lint-table writes it -->\n"
	lintEnds   = "<!-- the table ends -->"
)

// TestLintTable: what lint finds in public APIs, before and after its fixes, as docs/lint.md has it. No error remains but
// the number of tools, for which there is the compact mode.
func TestLintTable(t *testing.T) {
	path := filepath.FromSlash(lintPage)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(page), lintBegins)
	was, tail, isClosed := strings.Cut(rest, lintEnds)
	if !ok || !isClosed {
		t.Fatalf("%s has no place for the table", path)
	}
	table := "\n" + lintTable(t) + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(head+lintBegins+table+lintEnds+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if was != table {
		t.Errorf("the table has changed: `make lint-table` writes it\n%s", table)
	}
}

// TestTheCompactListIsForAllClients: in the profile strict no client refuses anything of the four tools, which stay short.
func TestTheCompactListIsForAllClients(t *testing.T) {
	for _, name := range []string{"etcd", "googleapis"} {
		three, err := liveWith(t, apis()[name], nil, catalog.BuildOptions{Profile: schema.ProfileStrict}).Current().Compact()
		if err != nil {
			t.Fatal(err)
		}
		found, err := report.Lint(toolsOf(t, three), report.LintOptions{Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		if found.Tools != 3 || found.Tokens > 2000 || !found.OK {
			t.Errorf("%s: %d tools, %d tokens, %+v", name, found.Tools, found.Tokens, found.Findings)
		}
	}
}

// TestGeneratedDescriptionsAreRecognised: lint tells by the text whether somebody described a tool.
func TestGeneratedDescriptionsAreRecognised(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(apis())) {
		cat := catalogOf(t, apis()[name], nil)
		found := map[string]bool{}
		for _, f := range lintOf(t, cat).Findings {
			if f.Rule == "description-missing" {
				found[f.Tool] = true
			}
		}
		for _, tool := range cat.Tools() {
			if !tool.Native && tool.Undescribed != found[tool.Name] {
				t.Errorf("%s: generated: %t, found: %t: %s", tool.Name, tool.Undescribed, found[tool.Name], tool.Description)
			}
		}
	}
}

// TestRelationsKeepTheirStructure: the strict profile shows what is in a map of messages. OpenFGA's authorization models
// are made of one.
func TestRelationsKeepTheirStructure(t *testing.T) {
	cat := liveWith(t, apis()["openfga"], nil, catalog.BuildOptions{Profile: schema.ProfileStrict}).Current()
	tool, ok := cat.Lookup("open_fga.write_authorization_model")
	if !ok {
		t.Fatal("no such tool")
	}
	var root map[string]any
	if err := json.Unmarshal(tool.Input.Advertised(), &root); err != nil {
		t.Fatal(err)
	}
	definitions := propertyOf(root, "type_definitions")
	items, _ := definitions["items"].(map[string]any)
	relations := propertyOf(items, "relations")
	one, _ := relations["items"].(map[string]any)
	userset := propertyOf(one, schema.EntryValue)
	if userset["type"] != "object" || propertyOf(userset, "computedUserset")["type"] != "object" {
		t.Errorf("relations are shown as %v", relations)
	}
}

// propertyOf is the schema of a property, without the null that it may be.
func propertyOf(in map[string]any, name string) map[string]any {
	properties, _ := in["properties"].(map[string]any)
	out, _ := properties[name].(map[string]any)
	if choices, ok := out["anyOf"].([]any); ok && len(choices) == 2 {
		out, _ = choices[0].(map[string]any)
	}
	return out
}
