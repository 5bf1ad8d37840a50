// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
)

// LintTools reads the tools from what MCP's list shows of them, so that one that was saved is judged like this one.
func LintTools(cat *catalog.Catalog, form catalog.ListForm) ([]*LintTool, error) {
	out := make([]*LintTool, 0, len(cat.Tools()))
	for _, t := range cat.Tools() {
		one, err := ReadTools(dialect.ListedToolJSON(t, form), DiffLimits{})
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		method := ""
		if !t.Native && !t.Registered { // an overlay has no schemas for these, and no name
			method = strings.TrimPrefix(t.Method.Procedure, "/")
		}
		tool, err := NewLintTool(one[0], method)
		if err != nil {
			return nil, err
		}
		if t.HasOutput() && len(form.Output(t)) == 0 {
			if err := tool.LeaveOut(t.Output.Advertised()); err != nil {
				return nil, err
			}
		}
		tool.OwnInput = t.Declared != nil && t.Declared.Input != nil
		out = append(out, tool)
	}
	return out, nil
}
