// SPDX-License-Identifier: Apache-2.0

//go:build !man

package main

import "github.com/spf13/cobra"

// buildCommands are commands for builds alone: none in the binary that is shipped, which would need a Markdown library for them.
func buildCommands(environment) []*cobra.Command { return nil }
