// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/server/reconfigure"
)

func newStdioCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stdio",
		Short: "Serve over standard input and output, for clients that launch their servers",
		Long: `Stdio reads JSON-RPC messages from standard input, one per line, and answers on
standard output. It speaks both eras of MCP and the canonical dialect, and detects
the dialect of each message (see --dialect). Logs go to standard error. It opens
no port unless --listen, --admin or --health is set.

Requests are queued while others run. When the queue reaches --max-stdio-queue,
reading pauses, so a client can pipe in any number of requests.

At the end of input it runs and answers every request it has read, then exits
with 0. --grace counts from the start of the last request.`,
		Example: `  sidecar stdio --demo
  sidecar stdio --backend unix:///run/shop.sock --log-level warn
  echo '{"jsonrpc":"2.0","id":"1","method":"tools/list","params":{}}' | sidecar stdio --demo`,
		Args: noArguments,
	}
	config.RegisterFlags(cmd.Flags(), config.Stdio)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, again, err := env.loadWatched(cmd, config.Stdio)
		if err != nil {
			return err
		}
		return serveStdio(cmd.Context(), cfg, again, env)
	}
	return cmd
}

// serveStdio answers standard input until it ends or ctx does.
func serveStdio(ctx context.Context, cfg *configv1.Config, again reconfigure.Reread, env environment) error {
	start := time.Now()
	// A client that no longer reads must fail the write, not kill the process:
	// the backend's calls still have to be cancelled and connections closed.
	signal.Ignore(syscall.SIGPIPE)
	mode, err := stdio.ParseMode(cfg.GetDialect())
	if err != nil {
		return err
	}
	a, log, err := env.open(ctx, cfg, again, false)
	if err != nil {
		return err
	}
	defer func() { logError(log, "close", a.Close(ctx)) }()

	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	defer stop()
	defer context.AfterFunc(ctx, env.resort.Begin)()
	defer front.Pace()()
	defer a.CloseListeners()
	if err := a.Prepare(stop); err != nil {
		return err
	}
	if err := a.Listen(ctx); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		answered <- a.Stdio(ctx, mode, env.stdin, env.stdout)
		cancel(server.ErrInputEnded)
	}()
	err = a.Run(ctx, stop, start)
	stop()
	return errors.Join(err, <-answered)
}
