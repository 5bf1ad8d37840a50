// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// newCompletionCommand prints the script that teaches a shell the commands and
// flags.
func newCompletionCommand(env environment) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a completion script for bash, zsh, fish or powershell",
		Long: `Completion prints a script that completes sidecar's commands and flags. Source it
in the running shell, or install it in your shell's completion directory.`,
		Example: `  source <(sidecar completion bash)
  sidecar completion bash > /etc/bash_completion.d/sidecar
  sidecar completion zsh > "${fpath[1]}/_sidecar"
  sidecar completion fish > ~/.config/fish/completions/sidecar.fish`,
		ValidArgs: shells,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("which shell? bash, zsh, fish or powershell")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(env.stdout, true)
			case "zsh":
				return root.GenZshCompletion(env.stdout)
			case "fish":
				return root.GenFishCompletion(env.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(env.stdout)
			}
			return usageError(fmt.Sprintf("no completion for %q; want bash, zsh, fish or powershell", args[0]))
		},
	}
}
