// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

// LintTools reads the tools from what MCP's list shows of them, so that one that was saved is judged like this one.
func LintTools(cat *catalog.Catalog, form catalog.ListForm) ([]*report.LintTool, error) {
	out := make([]*report.LintTool, 0, len(cat.Tools()))
	for _, t := range cat.Tools() {
		one, err := report.ReadTools(dialect.ListedToolJSON(t, form), report.DiffLimits{})
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", t.Name, err)
		}
		method := ""
		if !t.Native && !t.Registered { // an overlay has no schemas for these, and no name
			method = strings.TrimPrefix(t.Method.Procedure, "/")
		}
		tool, err := report.NewLintTool(one[0], method)
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

const (
	// maxJudged is the number of listed tools above which a start does not judge them: that takes a second.
	maxJudged = 500
	// maxNamed bounds the tools that a warning names.
	maxNamed = 10
)

// warnOfClients warns of tools that a client of the README does not take, one line for each client.
func (a *App) warnOfClients(now *catalog.Catalog) {
	shown, err := compact.OptionsOf(a.cfg.GetCatalog()).Listed(now)
	if err != nil || len(shown.Tools()) > maxJudged {
		return
	}
	var found *report.LintReport
	tools, err := LintTools(shown, shown.ListForm())
	if err == nil {
		found, err = report.Lint(tools, report.LintOptions{Clients: []string{"claude-code", "claude-desktop", "cursor", "vscode"}})
	}
	if err != nil {
		a.log.Warn("tools not checked against clients", logkey.Error(err))
		return
	}
	for _, client := range found.Clients {
		var names, effects []string
		for _, f := range found.Findings {
			if f.Client != client || f.Level != report.Error {
				continue
			}
			if f.Tool != "" && !slices.Contains(names, f.Tool) {
				names = append(names, f.Tool)
			}
			if effect := f.Rule + ": " + f.Message; len(effects) < maxNamed && !slices.Contains(effects, effect) {
				effects = append(effects, effect)
			}
		}
		if len(effects) > 0 {
			a.log.Warn("a client does not take all tools; see sidecar lint --client "+client, zap.String("client", client),
				zap.Int("tools", len(names)), zap.Strings("tool_names", names[:min(len(names), maxNamed)]), zap.Strings("reasons", effects))
		}
	}
}
