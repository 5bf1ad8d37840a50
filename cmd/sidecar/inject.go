// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newInjectCommand says which program injects: it links Kubernetes' API, which would
// make the sidecar twice as large.
func newInjectCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "inject FILE|-",
		Short:              "Name the program that puts the sidecar into manifests",
		Long:               "Inject prints the command that puts the sidecar into manifests: the injector's, a separate program.",
		Hidden:             true,
		DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return cmd.Help()
			}
			if len(args) == 0 {
				args = []string{"FILE"}
			}
			return usageError("the injector is a separate program in the module deploy; run\n" +
				"  go -C deploy build -o ../bin/injector ./cmd/injector && bin/injector inject " + strings.Join(args, " "))
		},
	}
}
