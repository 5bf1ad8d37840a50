// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/report"
)

// rulesOf are the rules of a saved list's findings, "client/rule" or the rule alone.
func rulesOf(t *testing.T, raw string) (rules []string, found *report.LintReport) {
	t.Helper()
	list, err := report.ReadTools([]byte(raw), report.DiffLimits{})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := report.NewLintTools(list)
	if err != nil {
		t.Fatal(err)
	}
	if found, err = report.Lint(tools, report.LintOptions{}); err != nil {
		t.Fatal(err)
	}
	return rulesIn(found), found
}

func rulesIn(report *report.LintReport) []string {
	var rules []string
	for _, f := range report.Findings {
		if f.Client != "" {
			f.Rule = f.Client + "/" + f.Rule
		}
		rules = append(rules, f.Rule)
	}
	return rules
}

// TestListsOfMCP: a list leaves out a title that says no more than the name, names a tool in MCP's form, and has a title of its
// own among the annotations. Other servers may put anything there.
func TestListsOfMCP(t *testing.T) {
	t.Parallel()
	const (
		own     = `,"_meta":{"dev.outrigger/tool":{"name":"orders.get_order","metadata":{"module":"shop.v1.Orders"}}}`
		written = `"Returns one order with its lines. Use it when the key is known."`
		made    = `"Get order. Requires id. Returns the order."`
	)
	for name, tc := range map[string]struct {
		description, hints, more string
		title, undescribed       bool // what is missing
	}{
		"no title":                 {written, `{"readOnlyHint":true}`, own, false, false},
		"its own title":            {written, `{"readOnlyHint":true,"title":"One order"}`, own, false, false},
		"a generated description":  {made, `{"readOnlyHint":true}`, own, false, true},
		"a summary with its title": {made, `{"readOnlyHint":true,"title":"One order"}`, own, false, false},
		"another server's":         {written, `{"readOnlyHint":true}`, ``, true, false},
		"another server's title":   {written, `{"readOnlyHint":true,"title":"One order"}`, ``, false, false},
		"another server's things":  {written, `{"readOnlyHint":true,"title":7}`, `,"_meta":{"dev.outrigger/tool":[1]}`, true, false},
	} {
		rules, report := rulesOf(t, `[{"name":"orders_get_order","description":`+tc.description+`,"inputSchema":`+plainInput+`,"annotations":`+tc.hints+tc.more+`}]`)
		if slices.Contains(rules, "title-missing") != tc.title || slices.Contains(rules, "description-missing") != tc.undescribed {
			t.Errorf("%s: %q", name, rules)
		}
		if f := report.Findings; tc.undescribed && (f[0].Tool != "orders.get_order" || f[0].Fix.Overlay == "") {
			t.Errorf("%s: got %+v", name, f)
		}
	}
}

// TestTitlesThatListsLeaveOutCostNothing: the two forms of a list cost the same.
func TestTitlesThatListsLeaveOutCostNothing(t *testing.T) {
	t.Parallel()
	const rest = `"description":"Returns one order with its lines. Use it when the key is known.","inputSchema":` + plainInput
	_, canonical := rulesOf(t, `[{"name":"orders.get_order","title":"Get order",`+rest+`,"annotations":{},"metadata":{"module":"shop.v1.Orders"}}]`)
	_, listed := rulesOf(t, `[{"name":"orders_get_order",`+rest+`,"annotations":{},"_meta":{"dev.outrigger/tool":{"name":"orders.get_order"}}}]`)
	_, other := rulesOf(t, `[{"name":"orders_get_order","title":"Get order",`+rest+`,"annotations":{}}]`)
	if canonical.Tokens != listed.Tokens || other.Tokens <= listed.Tokens {
		t.Errorf("%d, %d and %d tokens", canonical.Tokens, listed.Tokens, other.Tokens)
	}
}

// TestOutputsThatListsLeaveOut are no client's, and have to be right all the same.
func TestOutputsThatListsLeaveOut(t *testing.T) {
	t.Parallel()
	tools := toolsOf(t, entry{})
	before := tools[0].Tokens
	if err := tools[0].LeaveOut(json.RawMessage(`{"$ref":`)); err == nil {
		t.Error("a schema that is no JSON is taken")
	}
	for _, tc := range []struct {
		output string
		want   []string
	}{
		{treeOutput, nil},
		{property(`{"$ref":"#/$defs/Gone"}`), []string{"dangling-ref"}},
	} {
		if err := tools[0].LeaveOut(json.RawMessage(tc.output)); err != nil {
			t.Fatal(err)
		}
		report, err := report.Lint(tools, report.LintOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := rulesIn(report); !slices.Equal(got, tc.want) || tools[0].Tokens != before {
			t.Errorf("%s: %q", tc.output, got)
		}
	}
}
