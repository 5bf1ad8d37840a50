// SPDX-License-Identifier: Apache-2.0

//go:build man

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// buildCommands is the command that writes the manual pages, for `make man` and packagers.
func buildCommands(env environment) []*cobra.Command {
	return []*cobra.Command{{
		Use:    "man DIRECTORY",
		Short:  "Write a manual page for each command",
		Hidden: true,
		Args:   between(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manual pages are for everybody
				return fmt.Errorf("man: %w", err)
			}
			build := currentBuild()
			header := &doc.GenManHeader{Section: "1", Source: "Outrigger " + build.Version, Manual: "Outrigger"}
			cmd.Root().DisableAutoGenTag = true // the same bytes for the same version
			if err := doc.GenManTree(cmd.Root(), header, args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			fmt.Fprintf(env.stderr, "manual pages written to %s; try `man %s/sidecar-serve.1`\n", args[0], args[0])
			return nil
		},
	}}
}
