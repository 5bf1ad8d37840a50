// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/spf13/cobra"

func newStateCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state COMMAND",
		Short: "Inspect what replicas share (--state): tasks, events, registered tools",
		Long: `State shows operators what replicas share in NATS JetStream: tasks, leases of replicas
(owners), ended ids of legacy sessions (ended), answers that were used (consents),
registered tools, switches and events. It connects as serve does, by --state,
--state-key and --state-name or the section "state" of --config, and needs no backend
and no running replica. It makes no stream; only rm changes anything.

A whole stream is removed with the tools of NATS, once all replicas have stopped:
  nats stream rm KV_outrigger_NAME_tasks`,
		Example: `  sidecar state verify --state nats://127.0.0.1:4222 --state-key state.key
  sidecar state ls --state nats://127.0.0.1:4222 --state-key state.key
  sidecar state ls tasks --state nats://127.0.0.1:4222 --state-key state.key --json`,
		Args: refuseUnknownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return usageError("which command? `" + cmd.CommandPath() + " --help` lists them")
		},
	}
	for _, inner := range []*cobra.Command{newStateListCommand(env), newStateShowCommand(env), newStateRemoveCommand(env), newStateVerifyCommand(env)} {
		inner.Args = asUsageError(inner.Args)
		addHelpAll(inner)
		cmd.AddCommand(inner)
	}
	return cmd
}
