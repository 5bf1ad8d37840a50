// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/report"
)

const plainInput = `{"type":"object","properties":{"id":{"type":"string","description":"Key."}},"required":["id"],"additionalProperties":false}`

// entry is one tool of a list, without faults unless a test makes one.
type entry struct {
	name, title, description string
	input, output            string
	hints                    string
}

func (e entry) json() string {
	or := func(text, other string) string {
		if text == "" {
			return other
		}
		return strings.TrimPrefix(text, "-") // "-" is empty
	}
	quote := func(text string) string {
		raw, _ := json.Marshal(text)
		return string(raw)
	}
	out := fmt.Sprintf(`{"name":%s,"title":%s,"description":%s,"inputSchema":%s,"annotations":%s,"metadata":{"module":"shop.v1.Orders"}`,
		quote(or(e.name, "orders.get_order")), quote(or(e.title, "Get an order")),
		quote(or(e.description, "Returns one order with its lines. Use it when the key is known.")), or(e.input, plainInput), or(e.hints, `{"readOnlyHint":true}`))
	if e.output != "" {
		out += `,"outputSchema":` + e.output
	}
	return out + "}"
}

func toolsOf(t testing.TB, entries ...entry) []*report.LintTool {
	t.Helper()
	var list []string
	for _, e := range entries {
		list = append(list, e.json())
	}
	read, err := report.ReadTools([]byte("["+strings.Join(list, ",")+"]"), report.DiffLimits{})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := report.NewLintTools(read)
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func many(n int) []entry {
	var out []entry
	for i := range n {
		out = append(out, entry{name: fmt.Sprintf("orders.get_order%c%c", 'a'+i/26, 'a'+i%26), description: fmt.Sprintf("Returns the orders of the region with number %d.", i)})
	}
	return out
}

// property is an input with one property.
func property(schema string) string {
	return `{"type":"object","properties":{"id":` + schema + `},"required":["id"],"additionalProperties":false}`
}

func enumOf(n, size int) string {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf(`"%0*d"`, size, i))
	}
	return `{"type":"string","enum":[` + strings.Join(values, ",") + `]}`
}

func nested(levels int) string {
	out := `{"type":"string"}`
	for range levels {
		out = property(out)
	}
	return out
}

func propertiesOf(n int) string {
	var properties, required []string
	for i := range n {
		properties, required = append(properties, fmt.Sprintf(`"p%d":{"type":"string"}`, i)), append(required, fmt.Sprintf(`"p%d"`, i))
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"required":[` + strings.Join(required, ",") + `],"additionalProperties":false}`
}

const treeOutput = `{"type":"object","properties":{"tree":{"$ref":"#/$defs/Tree"}},"$defs":{"Tree":{"type":"object","properties":{"below":{"type":"array","items":{"$ref":"#/$defs/Tree"}}}}}}`

// ruleCase is a list that breaks a rule for a client, and one next to it that does not.
type ruleCase struct {
	rule, client string // without a client: the fact for all
	bad, good    []entry
	at           string // the path of the finding
}

func one(e entry) []entry { return []entry{e} }

func ruleCases() []ruleCase {
	long := strings.Repeat("a_long_name_", 6)
	return []ruleCase{
		{"tool-count", "cursor", many(81), many(80), ""},
		{"tool-count", "vscode", many(129), many(128), ""},
		{"tool-count", "openai", many(129), many(128), ""},
		{"tool-count-advised", "cursor", many(41), many(40), ""},
		{"tool-tokens", "", one(entry{input: property(enumOf(2500, 6))}), one(entry{}), ""},
		{"list-tokens", "", one(entry{input: property(enumOf(12000, 6))}), one(entry{}), ""},

		// mcp__outrigger__ has 16 characters, so 48 are left.
		{"name-length", "claude-code", one(entry{name: "orders." + strings.Repeat("x", 42)}), one(entry{name: "orders." + strings.Repeat("x", 41)}), "/name"},
		{"name-length", "cursor", one(entry{name: "orders." + strings.Repeat("x", 45)}), one(entry{name: "orders." + strings.Repeat("x", 44)}), "/name"},
		{"name-length", "gemini-cli", one(entry{name: "orders." + strings.Repeat("x", 44)}), one(entry{name: "orders." + strings.Repeat("x", 43)}), "/name"},
		// Lists of other servers: the sidecar shortens its own names to 64 characters.
		{"name-length", "claude-desktop", one(entry{name: strings.Repeat("x", 65)}), one(entry{name: strings.Repeat("x", 64)}), "/name"},
		{"name-length", "openai", one(entry{name: strings.Repeat("x", 65)}), one(entry{name: strings.Repeat("x", 64)}), "/name"},
		{"name-length", "gemini", one(entry{name: strings.Repeat("x", 65)}), one(entry{name: "orders." + strings.Repeat("x", 100)}), "/name"},
		{"name-length", "", one(entry{name: strings.Repeat("x", 129)}), one(entry{name: strings.Repeat("x", 128)}), "/name"},
		{"name-pattern", "openai", one(entry{name: "orders/get"}), one(entry{name: "orders.get"}), "/name"},
		{"name-pattern", "claude-desktop", one(entry{name: "orders get"}), one(entry{name: "orders-get"}), "/name"},
		{"name-unique", "", []entry{{name: "a.b"}, {name: "a_b", description: "Another text, which is long enough."}}, one(entry{name: "a.b"}), "/name"},
		{"name-similar", "", []entry{{name: "orders.get_order"}, {name: "order.get_orders", description: "Another text, which is long enough."}}, []entry{{name: "orders.get_order"}, {name: "orders.get_line", description: "Another text, which is long enough."}}, "/name"},

		{"title-missing", "", one(entry{title: "-"}), one(entry{}), "/title"},
		{"description-missing", "", one(entry{description: "-"}), one(entry{}), "/description"},
		{"description-missing", "", one(entry{title: "Get order", description: "Get an order. Requires name. Returns the order."}), one(entry{title: "One order by its key", description: "One order by its key. Requires name. Returns the order."}), "/description"},
		{"description-missing", "", one(entry{description: "TODO: what it does, and when to use it."}), one(entry{}), "/description"},
		{"description-short", "", one(entry{description: "Gets it."}), one(entry{}), "/description"},
		{"description-short", "", one(entry{name: "orders.get_order_of_somebody", description: "Get order of somebody."}), one(entry{}), "/description"},
		{"description-length", "claude-code", one(entry{description: strings.Repeat("x", 2049)}), one(entry{description: strings.Repeat("x", 2048)}), "/description"},
		{"description-length", "claude-code", one(entry{description: strings.Repeat("🚚", 1025)}), one(entry{description: strings.Repeat("🚚", 1024)}), "/description"},
		{"description-length", "openai", one(entry{description: strings.Repeat("x", 1025)}), one(entry{description: strings.Repeat("x", 1024)}), "/description"},
		{"description-same", "", []entry{{name: "a.b"}, {name: "a.c"}}, []entry{{name: "a.b"}, {name: "a.c", description: "Another text, which is long enough."}}, "/description"},
		{"property-description", "", one(entry{input: property(`{"type":"string"}`)}), one(entry{}), "/inputSchema/properties/id"},

		{"hints-conflict", "", one(entry{hints: `{"readOnlyHint":true,"destructiveHint":true}`}), one(entry{}), "/annotations"},
		{"hint-not-destructive", "", one(entry{name: "orders.delete_order", hints: `{}`}), one(entry{name: "orders.delete_order", hints: `{"destructiveHint":true}`}), "/annotations/destructiveHint"},
		{"hint-not-destructive", "", one(entry{name: "orders.batch_delete_orders", hints: `{"destructiveHint":false}`}), one(entry{name: "orders.list_deleted_orders"}), "/annotations/destructiveHint"},
		{"hint-not-destructive", "", one(entry{name: "tasks.kill", hints: `{}`}), one(entry{name: "tasks.kill", hints: `{"destructiveHint":true}`}), "/annotations/destructiveHint"},
		{"hint-not-read-only", "", one(entry{name: "orders.create_order"}), one(entry{name: "orders.create_order", hints: `{}`}), "/annotations/readOnlyHint"},
		{"hint-destructive", "", one(entry{hints: `{"destructiveHint":true}`}), one(entry{}), "/annotations/destructiveHint"},
		{"hint-missing", "", one(entry{hints: `{}`}), one(entry{name: "rows.read_modify_write_row", hints: `{}`}), "/annotations/readOnlyHint"},

		{"root-type", "", one(entry{input: `{"properties":{}}`}), one(entry{}), "/inputSchema"},
		{"root-type", "openai", one(entry{input: `{"type":"array"}`}), one(entry{}), "/inputSchema"},
		{"root-properties", "openai", one(entry{input: `{"type":"object"}`}), one(entry{input: `{"type":"object","properties":{}}`}), "/inputSchema"},
		{"root-combinator", "claude-code", one(entry{input: `{"type":"object","anyOf":[{}]}`}), one(entry{input: property(`{"anyOf":[{}]}`)}), "/inputSchema"},
		{"root-combinator", "claude-desktop", one(entry{input: `{"type":"object","oneOf":[{}]}`}), one(entry{}), "/inputSchema"},
		{"root-combinator", "openai", one(entry{input: `{"type":"object","not":{}}`}), one(entry{input: `{"type":"object","if":{}}`}), "/inputSchema"},
		{"property-name", "claude-code", one(entry{input: `{"type":"object","properties":{"[a.b]":{}}}`}), one(entry{input: property(`{"type":"object","properties":{"[a.b]":{}}}`)}), "/inputSchema"},
		{"property-name", "claude-desktop", one(entry{input: `{"type":"object","properties":{"` + long + `":{}}}`}), one(entry{}), "/inputSchema"},
		{"property-name", "claude-code", one(entry{input: `{"type":"object","properties":{"$ref":{}}}`}), one(entry{}), "/inputSchema"},
		{"property-name", "claude-code", one(entry{input: `{"type":"object","properties":{"@type":{}}}`}), one(entry{}), "/inputSchema"},
		{"bound-size", "claude-code", one(entry{input: property(`{"type":"string","maxLength":18446744073709551615}`)}), one(entry{input: property(`{"type":"string","maxLength":9007199254740991}`)}), "/inputSchema/properties/id"},
		{"bound-size", "claude-desktop", one(entry{input: property(`{"type":"integer","minimum":-9223372036854775808}`)}), one(entry{input: property(`{"type":"number","minimum":-1e300}`)}), "/inputSchema/properties/id"},
		{"bound-size", "", one(entry{output: property(`{"type":"array","items":{},"maxItems":9007199254740992}`)}), one(entry{output: property(`{"type":"array","items":{},"maxItems":1}`)}), "/outputSchema/properties/id"},
		{"keyword", "gemini", one(entry{output: property(`{"const":1}`)}), one(entry{output: property(`{"type":"string"}`)}), "/outputSchema/properties/id"},
		{"keyword", "openai-strict", one(entry{input: property(`{"oneOf":[{}]}`)}), one(entry{input: property(`{"type":"object","properties":{"oneOf":{}},"required":["oneOf"],"additionalProperties":false}`)}), "/inputSchema/properties/id"},
		{"format", "gemini", one(entry{input: property(`{"type":"string","format":"uri"}`)}), one(entry{input: property(`{"type":"string","format":"date-time"}`)}), "/inputSchema/properties/id"},
		{"type-list", "gemini", one(entry{input: property(`{"type":["string","null"]}`)}), one(entry{}), "/inputSchema/properties/id"},
		{"enum-type", "gemini", one(entry{output: property(`{"enum":["a",1]}`)}), one(entry{output: property(`{"enum":["a"]}`)}), "/outputSchema/properties/id"},
		{"enum-type", "gemini-cli", one(entry{input: property(`{"enum":[1]}`)}), one(entry{output: property(`{"enum":[1]}`)}), "/inputSchema/properties/id"},
		{"array-items", "vscode", one(entry{input: property(`{"type":"array"}`)}), one(entry{input: property(`{"type":"array","items":{}}`)}), "/inputSchema/properties/id"},
		{"array-items", "openai", one(entry{input: property(`{"type":["array","null"]}`)}), one(entry{}), "/inputSchema/properties/id"},
		{"empty-object", "gemini", one(entry{input: property(`{"type":"object"}`)}), one(entry{input: `{"type":"object"}`}), "/inputSchema/properties/id"},
		{"required-all", "openai-strict", one(entry{input: `{"type":"object","properties":{"a":{}},"additionalProperties":false}`}), one(entry{}), "/inputSchema"},
		{"closed-objects", "openai-strict", one(entry{input: `{"type":"object","properties":{}}`}), one(entry{}), "/inputSchema"},
		{"ref", "gemini", one(entry{input: treeOutput}), one(entry{}), "/inputSchema/$defs/Tree/properties/below/items"},
		{"ref", "gemini-cli", one(entry{output: treeOutput}), one(entry{}), "/outputSchema/$defs/Tree/properties/below/items"},
		{"ref", "typescript-sdk", one(entry{output: treeOutput}), one(entry{}), "/outputSchema/$defs/Tree/properties/below/items"},
		{"recursive-ref", "claude-code", one(entry{output: treeOutput}), one(entry{output: `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"},"b":{"$ref":"#/$defs/A"}},"$defs":{"A":{"type":"object"}}}`}), "/outputSchema/$defs/Tree/properties/below/items/$ref"},
		{"recursive-ref", "claude-code", one(entry{output: `{"type":"object","properties":{"a":{"$ref":"#"}}}`}), one(entry{input: treeOutput}), "/outputSchema/properties/a/$ref"},
		{"recursive-ref", "claude-code", one(entry{output: `{"type":"object","properties":{"a":{"$ref":"#/$defs/A"}},"$defs":{"A":{"items":{"$ref":"#/$defs/B%7E1C"}},"B/C":{"items":{"$ref":"#/$defs/A"}}}}`}), one(entry{}), "/outputSchema/$defs/A/items/$ref"},
		{"dangling-ref", "", one(entry{output: property(`{"$ref":"#/$defs/Gone"}`)}), one(entry{output: treeOutput}), "/outputSchema/properties/id/$ref"},
		{"dangling-ref", "", one(entry{input: property(`{"$ref":"https://example.com/a.json"}`)}), one(entry{}), "/inputSchema/properties/id/$ref"},
		{"depth", "openai-strict", one(entry{input: nested(11)}), one(entry{input: nested(10)}), "/inputSchema" + strings.Repeat("/properties/id", 10)},
		{"property-count", "openai-strict", one(entry{input: propertiesOf(5001)}), one(entry{input: propertiesOf(5000)}), "/inputSchema"},
		{"enum-size", "openai-strict", one(entry{input: property(enumOf(1001, 4))}), one(entry{input: property(enumOf(1000, 4))}), "/inputSchema"},
		{"enum-text", "openai-strict", one(entry{input: property(enumOf(251, 60))}), one(entry{input: property(enumOf(250, 61))}), "/inputSchema/properties/id"},
		{"schema-text", "openai-strict", one(entry{input: property(enumOf(1000, 120))}), one(entry{input: property(enumOf(1000, 119))}), "/inputSchema"},
	}
}

// findingOf runs all facts of a client and returns the finding of the rule.
func findingOf(t *testing.T, rule, client string, entries []entry) (report.Finding, bool) {
	t.Helper()
	options := report.LintOptions{Clients: []string{"vscode"}}
	if client != "" {
		options.Clients = []string{client}
	}
	found, err := report.Lint(toolsOf(t, entries...), options)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(found.Findings, func(f report.Finding) bool { return f.Rule == rule && f.Client == client })
	if at < 0 {
		return report.Finding{}, false
	}
	return found.Findings[at], true
}

// TestEachRule: a list that breaks the rule has a finding, with a place and a fix; one that just does not has none. Each fact
// has both, and so does each rule, since each has a fact (TestFactsAreComplete).
func TestEachRule(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{}
	for _, tt := range ruleCases() {
		covered[tt.client+"/"+tt.rule] = len(tt.bad) > 0 && len(tt.good) > 0
		t.Run(tt.rule+"/"+tt.client, func(t *testing.T) {
			t.Parallel()
			if f, ok := findingOf(t, tt.rule, tt.client, tt.good); ok {
				t.Errorf("a list without the fault has the finding %+v", f)
			}
			f, ok := findingOf(t, tt.rule, tt.client, tt.bad)
			if !ok {
				t.Fatal("no finding")
			}
			if f.Path != tt.at || f.Message == "" || f.Fix.Text == "" || strings.Contains(f.Message, "%!") {
				t.Errorf("got %+v, want the path %q", f, tt.at)
			}
		})
	}
	for _, f := range report.Facts() {
		if !covered[f.Client+"/"+f.Rule] {
			t.Errorf("the rule %s of %q lacks a list that breaks it or one that does not", f.Rule, f.Client)
		}
	}
}

// TestEachWord: each word of a fact counts, in each of its schemas, and none that the fact does not have.
func TestEachWord(t *testing.T) {
	t.Parallel()
	for _, f := range report.Facts() {
		for _, where := range []report.SchemaSide{report.InputSchemas, report.OutputSchemas} {
			in := func(schema string) []entry {
				if where == report.OutputSchemas {
					return one(entry{output: schema})
				}
				return one(entry{input: schema})
			}
			for _, word := range f.Words {
				var schema string
				counts := f.Where&where != 0
				switch f.Rule {
				case "keyword", "root-combinator":
					schema = fmt.Sprintf(`{"type":"object","properties":{},%q:{}}`, word)
				case "bound-size":
					schema = fmt.Sprintf(`{"type":"object","properties":{},%q:18446744073709551615}`, word)
				case "format":
					counts = false
					schema = property(fmt.Sprintf(`{"type":"string","format":%q}`, word))
				default:
					t.Fatalf("no schema for the words of the rule %s", f.Rule)
				}
				if _, ok := findingOf(t, f.Rule, f.Client, in(schema)); ok != counts {
					t.Errorf("%s of %q: %s in the schema of %s is a finding: %t", f.Rule, f.Client, word, where, ok)
				}
			}
		}
	}
}

// TestFactsAreComplete: each fact names a rule and a client that exist, a source and a day, and no two say the same.
func TestFactsAreComplete(t *testing.T) {
	t.Parallel()
	var rules []string
	for _, r := range report.Rules() {
		if slices.Contains(rules, r.ID) || r.About == "" {
			t.Errorf("rule %q is there twice, or says nothing", r.ID)
		}
		rules = append(rules, r.ID)
	}
	used, seen := map[string]bool{}, map[string]bool{}
	for _, f := range report.Facts() {
		used[f.Rule] = true
		key := f.Client + "/" + f.Rule
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if !slices.Contains(rules, f.Rule) || f.Client != "" && !slices.Contains(report.ClientNames(), f.Client) {
			t.Errorf("%s: unknown rule or client", key)
		}
		if _, err := time.Parse(time.DateOnly, f.Date); err != nil || !strings.HasPrefix(f.Source, "https://") || f.Effect == "" {
			t.Errorf("%s: source %q, date %q, effect %q", key, f.Source, f.Date, f.Effect)
		}
		if _, err := regexp.Compile(f.Pattern); err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if !slices.IsSorted(f.Words) {
			t.Errorf("%s: the words are not sorted", key)
		}
	}
	for _, id := range rules {
		if !used[id] {
			t.Errorf("no client asks for the rule %s", id)
		}
	}
	if !slices.IsSorted(report.ClientNames()) {
		t.Error("the clients are not sorted by name")
	}
	for _, profile := range []string{"mcp", "strict"} {
		for _, name := range report.ProfileClients(profile) {
			if !slices.Contains(report.ClientNames(), name) {
				t.Errorf("profile %s: unknown client %s", profile, name)
			}
		}
	}
}
