// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/server/settings"
)

// lists says what the list of tools costs those who read it.
func (d *doctor) lists(cat *catalog.Catalog) {
	shown, err := settings.Listed(d.cfg, cat)
	if err != nil {
		d.fail("", "list of tools: %v", err)
		return
	}
	cost, budget := dialect.ListCost(shown), settings.ListBudget(d.cfg)
	text := fmt.Sprintf("the list of %d tools has %d bytes, about %d tokens", cost.Tools, cost.Bytes, cost.Tokens)
	if !budget.IsExceeded(cost) {
		d.ok("%s", text)
		return
	}
	dearest := make([]string, len(cost.Dearest))
	for i, t := range cost.Dearest {
		dearest[i] = fmt.Sprintf("%s %d", t.Name, t.Bytes)
	}
	d.add(Finding{
		Level: levelWarn, Text: fmt.Sprintf("%s; the budget is %d bytes. The dearest: %s", text, budget.InBytes(), strings.Join(dearest, ", ")),
		Fix: "leave tools out with --exclude, set --output-schemas none or --catalog-mode compact, or raise --list-budget-bytes and --list-budget-tokens",
	})
}
