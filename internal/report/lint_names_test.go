// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/report"
)

// newNames are the names that the fixes of a list give to methods.
func newNames(t *testing.T, entries []entry) map[string]string {
	t.Helper()
	var doc struct {
		Tools []struct {
			Method string
			Tool   struct{ Name string }
		}
	}
	if err := yaml.Unmarshal([]byte(runOf(t, report.LintOptions{}, entries...).Overlay()), &doc); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, one := range doc.Tools {
		if one.Tool.Name != "" {
			out[one.Method] = one.Tool.Name
		}
	}
	return out
}

// TestProposedNamesDiffer: no two tools are given one name, in any form, whatever clients ask for, and none takes that of a
// tool that is there.
func TestProposedNamesDiffer(t *testing.T) {
	t.Parallel()
	const method = "list_all_products_of_one_particular_warehouse_by_"
	var twins, dozens []entry
	for _, by := range []string{"category_name", "category_code"} {
		twins = append(twins, entry{name: "products." + method + by})
	}
	for i := range 30 {
		dozens = append(dozens, entry{name: fmt.Sprintf("products.%s%c%c", method, 'a'+i/6, 'a'+i%6)})
	}
	// The names of these differ in separators alone once they are cut.
	rest := strings.Repeat("a_word_", 6) + "or"
	apart := []entry{{name: "x_of_all_regions.y_" + rest}, {name: "x_y_of_all_regions." + rest}}
	taken := append([]entry{
		{name: "pr_list.all_products_of_one_particular_warehouse"},
		{name: "pr.list_all_products_of_one_particular_warehou_2"},
	}, twins...)
	for name, entries := range map[string][]entry{"twins": twins, "dozens": dozens, "apart": apart, "taken": taken} {
		seen := map[string]string{}
		for _, e := range entries {
			seen[catalog.MCPName(e.name)] = e.name
		}
		got := newNames(t, entries)
		long := 0
		for _, e := range entries {
			if len(e.name) > 50 {
				long++
			}
		}
		if len(got) != long {
			t.Errorf("%s: names for %v", name, got)
		}
		for of, proposed := range got {
			if other := seen[catalog.MCPName(proposed)]; other != "" {
				t.Errorf("%s: %s is to be %s, as %s is", name, of, proposed, other)
			}
			seen[catalog.MCPName(proposed)] = of
			if len(proposed) > 48 || !catalog.IsCanonicalName(proposed) {
				t.Errorf("%s: %s is no name that all clients take", name, proposed)
			}
		}
	}
}

// TestAMethodNeedsAName: a name without words says nothing of its method.
func TestAMethodNeedsAName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a._", "a.", "orders.__"} {
		if got := toolsOf(t, entry{name: name})[0].Method; got != "" {
			t.Errorf("%s is taken for the method %q", name, got)
		}
	}
}
