// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/report"
	"github.com/outrigger-mcp/outrigger/internal/server"
)

func newDoctorCommand(env environment) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   doctorName,
		Short: "Diagnose a backend: what works, what does not, and how to fix it",
		Long: `Doctor runs the steps that serve runs at startup and reports each one: whether the
configuration is valid, the backend is reachable, which protocol it speaks, whether
it supports reflection, which tools it has and which names collide, and whether the
rate limit service of the configuration answers. Each problem comes with its fix. It exits with 0 if all checks pass, else with 1.

With --json it prints {"ok", "findings": [{"level", "text", "fix", "cause"}]};
levels are ok, warn and fail.`,
		Example: `  sidecar doctor --demo
  sidecar doctor --backend http://127.0.0.1:50051
  sidecar doctor --backend http://127.0.0.1:50051 --json`,
		Args: noArguments,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the findings as JSON")
	config.RegisterFlags(cmd.Flags(), config.Once)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return env.withApp(cmd, func(ctx context.Context, a *server.App) error { return env.examine(ctx, a, asJSON) })
	}
	return cmd
}

// examine prints the findings, and fails where one of them is a problem.
func (env environment) examine(ctx context.Context, a *server.App, asJSON bool) error {
	show := func(f report.Diagnosis) { f.Print(env.stdout) }
	if asJSON {
		show = func(report.Diagnosis) {}
	}
	found := report.Examine(ctx, a, env.telemetrySettings(a.Config()), show)
	if asJSON {
		if err := printJSON(env.stdout, found); err != nil {
			return err
		}
	}
	if !found.OK {
		return exitWith(exitToolFailed)
	}
	return nil
}
