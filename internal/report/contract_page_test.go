// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestContractOfSpecificationPages has the sentence about a tool's page.
func TestContractOfSpecificationPages(t *testing.T) {
	t.Parallel()
	titles := []string{"Purpose", "Invocation name", "Input", "Output", "Errors", "Idempotency", "Examples", "Security"}
	tools := build(t, demoSource(t)).Tools()

	t.Run("a page has all eight sections in Markdown", func(t *testing.T) {
		t.Parallel()
		for _, tool := range tools {
			page := markdown(t, NewPage(tool, serverOptions()))
			for i, title := range titles {
				if !strings.Contains(page, fmt.Sprintf("\n## %d. %s\n", i+1, title)) {
					t.Errorf("%s has no section %s", tool.Name, title)
				}
			}
		}
	})

	t.Run("a page has all eight sections in JSON", func(t *testing.T) {
		t.Parallel()
		for _, tool := range tools {
			raw, err := json.Marshal(NewPage(tool, serverOptions()))
			if err != nil {
				t.Fatal(err)
			}
			var sections map[string]json.RawMessage
			if err := json.Unmarshal(raw, &sections); err != nil {
				t.Fatal(err)
			}
			for _, title := range titles {
				name, _, _ := strings.Cut(strings.ToLower(title), " ")
				if value := sections[name]; len(value) == 0 || string(value) == "null" {
					t.Errorf("%s has no section %s", tool.Name, name)
				}
			}
		}
	})

	t.Run("what is missing is named", func(t *testing.T) {
		t.Parallel()
		p := NewPage(undeclared(find(t, build(t, demoSource(t)), "fleet.cancel_order")), serverOptions())
		const text = "no examples are declared"
		if page := markdown(t, p); !strings.Contains(page, "- Missing: "+text) {
			t.Errorf("the page does not say so:\n%s", page)
		}
		raw, err := json.Marshal(p)
		if err != nil || !strings.Contains(string(raw), `"text":"`+text) {
			t.Errorf("the JSON does not say so: %v, %s", err, raw)
		}
	})
}
