// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/report"
)

// chain is a schema with so many definitions, each of which refers to the next, and as many properties that refer to them. The
// last definition is the schema that is given.
func chain(n int, last string) string {
	var defs, properties []string
	for i := range n {
		next := last
		if i+1 < n {
			next = fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		}
		defs = append(defs, fmt.Sprintf(`"d%d":{"type":"object","properties":{"p":%s}}`, i, next))
		properties = append(properties, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/d%d"}`, i, i))
	}
	return `{"type":"object","properties":{` + strings.Join(properties, ",") + `},"$defs":{` + strings.Join(defs, ",") + `}}`
}

// TestManyReferencesTakeTheirTime: a schema of a megabyte takes no minutes, whatever its references are. The bound is many
// times what it takes, and a part of what it took when time grew with the square.
func TestManyReferencesTakeTheirTime(t *testing.T) {
	t.Parallel()
	tools := toolsOf(t, entry{output: chain(10_000, `{"type":"string"}`)})
	begin := time.Now()
	if _, err := report.Lint(tools, report.LintOptions{Clients: []string{"claude-code"}}); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestGroupsAreNamedInPart: a message names five tools of a group, never the one that it is about, and counts the others.
func TestGroupsAreNamedInPart(t *testing.T) {
	t.Parallel()
	var same []entry
	for i := range 8 {
		same = append(same, entry{name: fmt.Sprintf("orders.get_%d", i), description: "Returns the orders of one of the regions."})
	}
	for _, tc := range []struct {
		entries []entry
		want    map[string]string
	}{
		{same, map[string]string{
			"orders.get_1": "orders.get_0, orders.get_2, orders.get_3, orders.get_4, orders.get_5, 2 more tools:",
			"orders.get_7": "orders.get_0, orders.get_1, orders.get_2, orders.get_3, orders.get_4, 2 more tools:",
		}},
		{same[:2], map[string]string{"orders.get_1": "that of orders.get_0:"}},
		{same[:7], map[string]string{"orders.get_6": "orders.get_4, 1 more tool:"}},
		{same[:6], map[string]string{"orders.get_5": "orders.get_3, orders.get_4:"}},
	} {
		for _, f := range runOf(t, report.LintOptions{}, tc.entries...).Findings {
			if want := tc.want[f.Tool]; f.Rule == "description-same" && !strings.Contains(f.Message, want) {
				t.Errorf("%d tools, %s: %s", len(tc.entries), f.Tool, f.Message)
			}
		}
	}
}

// TestChainsOfReferences: a chain is recursive only if it comes back, from wherever. The place is a reference that is part of
// what comes back.
func TestChainsOfReferences(t *testing.T) {
	t.Parallel()
	for last, want := range map[string]string{
		`{"type":"string"}`:              "",
		`{"$ref":"#/$defs/d0"}`:          "/outputSchema/$defs/d0/properties/p/$ref",
		`{"$ref":"#/$defs/d299"}`:        "/outputSchema/$defs/d299/properties/p/$ref",
		`{"$ref":"#"}`:                   "/outputSchema/$defs/d0/properties/p/$ref",
		`{"$ref":"#/$defs"}`:             "/outputSchema/$defs/d0/properties/p/$ref",
		`{"$ref":"#/properties/p0"}`:     "/outputSchema/$defs/d0/properties/p/$ref",
		`{"$ref":"#/$defs/d29"}`:         "/outputSchema/$defs/d299/properties/p/$ref",
		`{"$ref":"#/$defs/gone"}`:        "",
		`{"items":{"$ref":"#/$defs/d"}}`: "",
	} {
		f, ok := findingOf(t, "recursive-ref", "claude-code", one(entry{output: chain(300, last)}))
		if ok != (want != "") || f.Path != want {
			t.Errorf("%s: got %q, want %q", last, f.Path, want)
		}
	}
}
