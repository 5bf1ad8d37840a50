// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"slices"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

const (
	// maxJudged is the number of listed tools above which a start does not judge them: that takes a second.
	maxJudged = 500
	// maxNamed bounds the tools that a warning names.
	maxNamed = 10
)

// warnOfClients warns of tools that a client of the README does not take, one line for each client.
func (a *Announcer) warnOfClients(now *catalog.Catalog) {
	shown, err := compact.OptionsOf(a.opts.Config.GetCatalog()).Listed(now)
	if err != nil || len(shown.Tools()) > maxJudged {
		return
	}
	var found *report.LintReport
	tools, err := report.LintTools(shown, shown.ListForm())
	if err == nil {
		found, err = report.Lint(tools, report.LintOptions{Clients: []string{"claude-code", "claude-desktop", "cursor", "vscode"}})
	}
	if err != nil {
		a.opts.Log.Warn("tools not checked against clients", logkey.Error(err))
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
			a.opts.Log.Warn("a client does not take all tools; see sidecar lint --client "+client, zap.String("client", client),
				zap.Int("tools", len(names)), zap.Strings("tool_names", names[:min(len(names), maxNamed)]), zap.Strings("reasons", effects))
		}
	}
}
