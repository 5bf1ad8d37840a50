// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/outrigger-mcp/outrigger/internal/config"
)

const rootLong = `Outrigger is a sidecar for one gRPC or Connect service. It exposes every RPC as
a tool: to agents over MCP and JSON-RPC, and to programs over Connect, gRPC and
gRPC-Web. The service itself does not change.

Exit codes: 0 success, 1 the tool failed or serving failed, 2 invalid usage or
configuration, 3 the sidecar rejected the call or could not reach the backend.`

const rootExample = `  sidecar serve --demo                                    # try it with the example service
  sidecar doctor --backend http://127.0.0.1:50051         # check your service
  sidecar serve --backend http://127.0.0.1:50051          # expose your service`

// newRootCommand builds the command line. A new command is one more line here
// and one more file.
//
// The flag --version is our own: cobra's templates link text/template, which calls methods by
// name, so that the linker must keep every exported method of the binary (4.6 MB).
func newRootCommand(env environment) *cobra.Command {
	var showsVersion bool
	root := &cobra.Command{
		Use:           "sidecar",
		Short:         "Exposes every RPC of a Protobuf service as a tool",
		Long:          rootLong,
		Example:       rootExample,
		SilenceErrors: true, // run reports them
		SilenceUsage:  true,
		Args:          refuseUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if showsVersion {
				_, err := fmt.Fprintln(env.stdout, currentBuild())
				return err
			}
			return usageError("which command? `" + cmd.CommandPath() + " --help` lists them")
		},
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	commands := []*cobra.Command{
		newServeCommand(env),
		newStdioCommand(env),
		newDrainCommand(env),
		newStatusCommand(env),
		newTopCommand(env),
		newApprovalsCommand(env),
		newToolsCommand(env),
		newSearchCommand(env),
		newCallCommand(env),
		newTaskCommand(env),
		newDoctorCommand(env),
		newDiffCommand(env),
		newLintCommand(env),
		newLockCommand(env),
		newServerJSONCommand(env),
		newPolicyCommand(env),
		newAuditCommand(env),
		newStateCommand(env),
		newTokenCommand(env),
		newCompletionCommand(env),
		newVersionCommand(env),
	}
	for _, cmd := range commands {
		cmd.Args = asUsageError(cmd.Args)
		addHelpAll(cmd)
		nameValues(cmd)
	}
	root.AddCommand(commands...)
	root.AddCommand(buildCommands(env)...)
	root.AddCommand(newInjectCommand())
	root.SetIn(env.stdin)
	root.SetOut(env.stdout)
	root.SetErr(env.stderr)
	root.Flags().BoolVarP(&showsVersion, "version", "v", false, "show the version")
	root.Flags().VarPF(helpAll{root}, helpAllFlag, "", "show the help of every command, with all flags").NoOptDefVal = "true"
	root.SetFlagErrorFunc(explainFlagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { writeHelp(env.stdout, cmd, commands) })
	return root
}

// printError prints an error. Faults of the configuration come a line each, in the
// form that editors understand, so they get no prefix.
func printError(stderr io.Writer, err error) {
	var faults *config.Error
	switch {
	case err.Error() == "":
	case errors.As(err, &faults):
		fmt.Fprintln(stderr, faults)
	default:
		fmt.Fprintln(stderr, "sidecar:", err)
	}
}

// explainFlagError adds the flag that was probably meant, and says in our words what a value must be.
func explainFlagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		value, wanted := invalid.GetFlag().Value, ""
		if named, ok := value.(namedValue); ok {
			wanted = named.wanted
		} else if value.Type() == "bool" {
			wanted = "true or false"
		}
		if wanted != "" {
			err = fmt.Errorf("--%s: must be %s, is %q", invalid.GetFlag().Name, wanted, invalid.GetValue())
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if instead := config.RemovedFlag(unknown.GetSpecifiedName()); instead != "" {
			return usageError("--" + unknown.GetSpecifiedName() + ": " + instead)
		}
		if meant := config.NearestFlag(cmd.Flags(), unknown.GetSpecifiedName()); meant != "" {
			return usageError(fmt.Sprintf("%v; did you mean --%s?", err, meant))
		}
	}
	return usageError(fmt.Sprintf("%v; see `%s --help`", err, cmd.CommandPath()))
}
