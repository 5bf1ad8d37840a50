// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/internal/client"
)

// newTaskCommand is the group of commands about calls that run on.
func newTaskCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "task",
		Short: "Look at, wait for or cancel a task of a running sidecar",
		Long: `Task is about calls that run on in the background: those of ` + "`sidecar call --task`" + `,
and those of MCP clients with tasks. Their sidecar is named by --server or
OUTRIGGER_SERVER; the /rpc edge and MCP before 2026-07-28 have no tasks. Only the
caller that began a task may ask for it.`,
		Example: `  sidecar task get ID --server http://127.0.0.1:8080
  sidecar task wait ID --server http://127.0.0.1:8080 --timeout 10m
  sidecar task cancel ID --server http://127.0.0.1:8080`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("no command %q: want get, wait or cancel", args[0])
			}
			return nil
		},
		RunE: func(*cobra.Command, []string) error { return usageError("which command? get, wait or cancel") },
	}
	for _, inner := range []*cobra.Command{newTaskGetCommand(env), newTaskWaitCommand(env), newTaskCancelCommand(env)} {
		inner.Args = asUsageError(between(1, 1))
		cmd.AddCommand(inner)
	}
	return cmd
}

// taskCommand fills in what the commands have in common.
func taskCommand(env environment, cmd *cobra.Command, usual time.Duration, asks *questions, run func(context.Context, client.Client, string) error) *cobra.Command {
	var at serverFlags
	at.register(cmd, env)
	cmd.Flags().Duration("timeout", usual, "maximum time to wait")
	at.note(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if at.url == "" {
			return usageError("tasks are of a running sidecar: name it by --server URL or " + serverVariable)
		}
		if asks != nil {
			var err error
			if at.ask, err = asks.asker(env); err != nil {
				return err
			}
		}
		return at.withServer(cmd, env, usual, func(ctx context.Context, c client.Client) error { return run(ctx, c, args[0]) })
	}
	return cmd
}

func newTaskGetCommand(env environment) *cobra.Command {
	var form resultFlags
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Print a task: its status, its message, and its result once it has one",
		Long: `Get prints a task as MCP shows it. Statuses: working, input_required, completed,
failed, cancelled.

Exit codes: 0 if there is such a task, whatever its status; 2 invalid usage; else that
of the canonical code.`,
		Example: `  sidecar task get ID --server http://127.0.0.1:8080 --output table`,
	}
	form.register(cmd)
	return taskCommand(env, cmd, serverTimeout, nil, func(ctx context.Context, c client.Client, id string) error {
		if err := form.check(); err != nil {
			return err
		}
		t, err := c.Task(ctx, id)
		if err != nil {
			return err
		}
		return form.document(env.stdout, t.JSON)
	})
}

func newTaskWaitCommand(env environment) *cobra.Command {
	var form resultFlags
	cmd := &cobra.Command{
		Use:   "wait ID",
		Short: "Wait for the end of a task, and print its result as `sidecar call` does",
		Long: `Wait asks for a task until it has ended, as often as the sidecar suggests, and prints
the result. On a terminal, messages about its progress go to standard error. A sidecar
that restarts, drains or limits the caller is asked again until --timeout; one that has
never answered, for 30 seconds. A task that is still running when the time is over goes
on. Questions of the task are answered on the terminal, or by --answer.

Exit codes: those of ` + "`sidecar call --server`" + `: 0 success, 1 the tool failed, 2 invalid
usage, else that of the canonical code, such as 34 for TIMEOUT and 35 for CANCELLED.`,
		Example: `  sidecar task wait ID --server http://127.0.0.1:8080 --timeout 10m`,
	}
	form.register(cmd)
	var asks questions
	asks.register(cmd)
	return taskCommand(env, cmd, taskTimeout, &asks, func(ctx context.Context, c client.Client, id string) error {
		if err := form.check(); err != nil {
			return err
		}
		line := progressLine{out: env.stderr, isOn: isTerminal(env.stderr)}
		asks.clear = line.clear
		t, err := client.Wait(ctx, c, id, client.Watcher{
			Seen: func(t *client.Task) {
				if line.isOn {
					line.show(client.Progress{Done: t.Status, Message: t.Message})
				}
			},
			Away: func(why *client.Error) {
				line.clear()
				reason, _, _ := strings.Cut(why.Text, "\n")
				fmt.Fprintln(env.stderr, "note: "+harmless(reason)+"; asking again until --timeout")
			},
		})
		line.clear()
		switch {
		case err != nil:
			return asks.hint(env, err)
		case t.Err != nil:
			return t.Err
		}
		return form.outcome(env, t.Outcome, 0)
	})
}

func newTaskCancelCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Ask for the end of a task",
		Long: `Cancel asks for the end of a task. The task may still complete; a task that has ended
does not change.

Exit codes: 0 the sidecar has taken the request, 2 invalid usage, else that of the
canonical code.`,
		Example: `  sidecar task cancel ID --server http://127.0.0.1:8080`,
	}
	return taskCommand(env, cmd, serverTimeout, nil, func(ctx context.Context, c client.Client, id string) error {
		if err := c.CancelTask(ctx, id); err != nil {
			return err
		}
		if isTerminal(env.stderr) {
			fmt.Fprintln(env.stderr, "Cancellation is requested; `sidecar task get` shows the status.")
		}
		return nil
	})
}
