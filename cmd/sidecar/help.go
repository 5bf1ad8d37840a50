// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	everything := cmd.Flags().Lookup(helpAllFlag)
	if !cmd.HasParent() && everything.Changed {
		for _, c := range leaves(commands) {
			fmt.Fprintf(out, "\n%s\n\n", strings.Repeat("-", 100))
			fmt.Fprintf(out, "%s\n\nUsage:\n  %s\n\n%s", cmp.Or(c.Long, c.Short), usageLine(c), config.FlagUsages(c.Flags()))
		}
		return
	}
	if !cmd.HasParent() {
		fmt.Fprint(out, "\nCommands:\n")
		for _, c := range commands {
			fmt.Fprintf(out, "  %-10s %s\n", c.Name(), c.Short)
		}
		fmt.Fprintf(out, "\nRun `%[1]s COMMAND --help` for the flags of a command, `%[1]s --help-all` for those of all commands.\n", cmd.Name())
		return
	}
	usages := config.CommonFlagUsages
	if everything != nil && everything.Changed {
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

// leaves are the commands that run something: those of a group in place of the group.
func leaves(commands []*cobra.Command) []*cobra.Command {
	var out []*cobra.Command
	for _, c := range commands {
		if inner := c.Commands(); len(inner) > 0 {
			out = append(out, leaves(inner)...)
			continue
		}
		out = append(out, c)
	}
	return out
}

// namedValue is a value whose type has one of our words in the help, manual pages and errors, in place of pflag's.
type namedValue struct {
	pflag.Value
	name, wanted string
}

func (v namedValue) Type() string { return v.name }

// nameValues gives the flags of a command, and of the commands below it, our words for the types of their values.
func nameValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch f.Value.Type() {
		case "string", "stringArray":
			f.Value = namedValue{Value: f.Value, name: "TEXT"}
		case "stringSlice":
			f.Value = namedValue{f.Value, "LIST", "a list with commas between its items"}
		case "int", "uint64":
			f.Value = namedValue{f.Value, "N", "a whole number in decimal digits"}
		case "duration":
			f.Value = namedValue{f.Value, "DURATION", `a duration with its unit, such as "30s" or "1m30s"`}
		}
	})
	for _, c := range cmd.Commands() {
		nameValues(c)
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
