// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// writeHelp is the help of every command: what it is, how it is called, what to
// try, and its flags in groups. The root shows the commands in their order of
// use.
func writeHelp(out io.Writer, cmd *cobra.Command, commands []*cobra.Command) {
	text := cmd.Long
	if text == "" {
		text = cmd.Short
	}
	fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n", text, usageLine(cmd))
	if cmd.Example != "" {
		fmt.Fprintf(out, "\nExamples:\n%s\n", cmd.Example)
	}
	if !cmd.HasParent() {
		fmt.Fprint(out, "\nCommands:\n")
		for _, c := range commands {
			fmt.Fprintf(out, "  %-10s %s\n", c.Name(), c.Short)
		}
		fmt.Fprintf(out, "\n`%s COMMAND --help` says more about one.\n", cmd.Name())
		return
	}
	if flags := config.FlagUsages(cmd.Flags()); flags != "" {
		fmt.Fprintf(out, "\n%s", flags)
	}
	if inner := cmd.Commands(); slices.ContainsFunc(inner, (*cobra.Command).IsAvailableCommand) {
		fmt.Fprint(out, "Commands:\n")
		for _, c := range inner {
			fmt.Fprintf(out, "  %-12s %s\n", c.Name(), c.Short)
		}
	}
}

func usageLine(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.Name() + " COMMAND [flags]"
	}
	return cmd.UseLine()
}
