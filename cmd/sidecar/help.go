// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

// writeHelp prints the help of a command: description, usage, examples and flags
// in groups. The root lists its commands in the order of their use.
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
		fmt.Fprintf(out, "\nRun `%s COMMAND --help` for the flags of a command.\n", cmd.Name())
		return
	}
	usages := config.CommonFlagUsages
	if all := cmd.Flags().Lookup(helpAllFlag); all != nil && all.Changed {
		usages = config.FlagUsages
	}
	if flags := usages(cmd.Flags()); flags != "" {
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

const helpAllFlag = "help-all"

// addHelpAll adds --help-all to a command that reads the configuration, because
// --help shows only its common flags.
func addHelpAll(cmd *cobra.Command) {
	if cmd.Flags().Lookup("config") == nil || config.HasFewFlags(cmd.Flags()) {
		return
	}
	f := cmd.Flags().VarPF(helpAll{cmd}, helpAllFlag, "", "show all flags")
	f.NoOptDefVal = "true"
}

// helpAll is the value of --help-all. It sets --help too, so that cobra prints the
// help before it checks arguments.
type helpAll struct{ cmd *cobra.Command }

func (helpAll) String() string { return "false" }
func (helpAll) Type() string   { return "bool" }

func (h helpAll) Set(string) error { return h.cmd.Flags().Set("help", "true") }
