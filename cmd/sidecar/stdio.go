// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/outrigger-mcp/outrigger/bridge/edge/stdio"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
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

// errInputEnded is why the process drains once its client has closed the pipe.
var errInputEnded = errors.New("standard input ended")

// serveStdio answers standard input until it ends or ctx does.
func serveStdio(ctx context.Context, cfg *configv1.Config, again reread, env environment) error {
	start := time.Now()
	// A client that no longer reads must fail the write, not kill the process:
	// the backend's calls still have to be cancelled and connections closed.
	signal.Ignore(syscall.SIGPIPE)
	mode, err := stdio.ParseMode(orElse(cfg.GetDialect(), "auto"))
	if err != nil {
		return err
	}
	log, level, err := newLogger(cfg, env)
	if err != nil {
		return err
	}
	env.resort.configure(cfg.GetLimits().GetDrainGrace().AsDuration(), log)
	a, err := newApp(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { logError(log, "close", a.close(ctx)) }()
	a.reloads(again, level, !isTerminal(env.stderr))

	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	defer stop()
	defer context.AfterFunc(ctx, env.resort.begin)()
	defer pace()()
	s := newServers(cfg, log)
	defer s.sockets.Close()
	if err := a.listen(ctx, s, stop); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		answered <- stdio.Serve(ctx, a.bridge, env.stdin, env.stdout, stdio.Options{
			Mode: mode, Limits: a.limits, AnyID: cfg.GetCanonicalIds() == "any", UUIDs: cfg.GetDeterministic(),
			Grace: cfg.GetLimits().GetDrainGrace().AsDuration(), MaxBatch: int(cfg.GetLimits().GetMaxBatchEntries()),
			MaxConcurrent: int(cfg.GetLimits().GetMaxPipelinedRequests()),
			MaxQueueBytes: int(cfg.GetLimits().GetMaxStdioQueueBytes()), QueueBytes: &a.stdioQueue,
		})
		cancel(errInputEnded)
	}()
	err = a.run(ctx, stop, s, start)
	stop()
	return errors.Join(err, <-answered)
}
