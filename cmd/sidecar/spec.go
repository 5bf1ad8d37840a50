// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/report"
)

// specOptions are the facts that specification pages need from the configuration.
func specOptions(cfg *configv1.Config) report.PageOptions {
	limits := cfg.GetLimits()
	scope, err := policy.ParseScope(cfg.GetGate())
	if err != nil {
		scope = policy.Writes // the configuration was checked, so there is none; the careful side
	}
	return report.PageOptions{
		Timeout:         cfg.GetTimeout().AsDuration(),
		Trust:           cfg.GetTrust(),
		Held:            scope.Holds,
		MaxMessageBytes: int(limits.GetMaxMessageBytes()),
		MaxResultBytes:  int(limits.GetMaxResultBytes()),
		MaxDepth:        int(limits.GetMaxJsonDepth()),
		CallerRate:      limits.GetCallerRate().GetPerSecond(),
		ToolRate:        limits.GetToolRate().GetPerSecond(),
	}
}

// printPage prints the specification page of one tool.
func printPage(out io.Writer, t *catalog.Tool, o report.PageOptions, asJSON bool) error {
	if asJSON {
		return printJSON(out, report.NewPage(t, o))
	}
	return report.NewPage(t, o).WriteMarkdown(out)
}

// printPages prints the pages of all tools: an array, or Markdown with rules in between.
func printPages(out io.Writer, tools []*catalog.Tool, o report.PageOptions, asJSON bool) error {
	if asJSON {
		pages := make([]*report.Page, 0, len(tools))
		for _, t := range tools {
			pages = append(pages, report.NewPage(t, o))
		}
		return printJSON(out, pages)
	}
	for i, t := range tools {
		if i > 0 {
			fmt.Fprint(out, "\n---\n\n")
		}
		if err := printPage(out, t, o, false); err != nil {
			return err
		}
	}
	return nil
}
