// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog/listcost"
)

// listTooLarge logs that a list of tools exceeds its budget. It is called once for each version of the catalog.
func (a *App) listTooLarge(l listcost.List) {
	dearest := make([]string, len(l.Dearest))
	for i, t := range l.Dearest {
		dearest[i] = fmt.Sprintf("%s (%d bytes)", t.Name, t.Bytes)
	}
	a.noted.Warn("list of tools exceeds its budget: leave tools out with --exclude, set --output-schemas none or --catalog-mode compact, or raise --list-budget-bytes and --list-budget-tokens",
		zap.Int("tools", l.Tools), zap.Int("list_bytes", l.Bytes), zap.Int("list_tokens", l.Tokens),
		zap.Int("budget_bytes", a.lists.Budget().InBytes()), zap.Strings("dearest_tools", dearest))
}
