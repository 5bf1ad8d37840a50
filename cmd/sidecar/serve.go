// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/server"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/server/reconfigure"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
)

func newServeCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the tools of a backend over MCP, JSON-RPC, Connect, gRPC and gRPC-Web",
		Long: `Serve runs next to one gRPC or Connect service and exposes every RPC as a tool.

Agents connect to http://127.0.0.1:8080/mcp (MCP 2026-07-28 back to 2025-03-26,
on one endpoint). Programs call /rpc (JSON-RPC 2.0) and
/outrigger.v1.ToolService (Connect, gRPC, gRPC-Web). Clients generated for the
backend's own services work unchanged. The backend needs server reflection or a
descriptor set (buf build -o, protoc -o).

On SIGTERM or interrupt it drains: calls in flight finish within --grace, new
calls get UNAVAILABLE.`,
		Example: `  sidecar serve --demo
  sidecar serve --backend http://127.0.0.1:50051
  sidecar serve --backend grpc://127.0.0.1:50051 --descriptors api.binpb --include 'shop.v1.*'`,
		Args: noArguments,
	}
	config.RegisterFlags(cmd.Flags(), config.Serve)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, again, err := env.loadWatched(cmd, config.Serve)
		if err != nil {
			return err
		}
		return serve(cmd.Context(), cfg, again, env)
	}
	return cmd
}

// serve runs the sidecar until ctx ends.
func serve(ctx context.Context, cfg *configv1.Config, again reconfigure.Reread, env environment) error {
	start := time.Now()
	a, log, err := env.open(ctx, cfg, again, true)
	if err != nil {
		return err
	}
	defer func() { logError(log, "close", a.Close(ctx)) }()
	defer front.Pace()()
	drain, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(drain, env.resort.Begin)()
	defer a.CloseListeners()
	if err := a.Prepare(stop); err != nil {
		return err
	}
	if err := a.Listen(drain); err != nil {
		return err
	}
	return a.Run(drain, stop, start)
}

// open makes the sidecar of a process that lasts, and its log.
func (env environment) open(ctx context.Context, cfg *configv1.Config, again reconfigure.Reread, narrates bool) (*server.App, *zap.Logger, error) {
	log, level, err := newLogger(cfg, env)
	if err != nil {
		return nil, nil, err
	}
	env.resort.Configure(cfg.GetLimits().GetDrainGrace().AsDuration(), log)
	exports, log, err := env.openTelemetry(ctx, cfg, log, level)
	if err != nil {
		return nil, nil, err
	}
	options := server.Options{Log: log, Version: currentBuild().Version, Telemetry: exports, Tracer: exports.Tracer()}
	if t := newTerminal(cfg, level.Level(), env); t != nil && narrates {
		options.Narrator = t
	}
	a, err := server.New(ctx, cfg, options)
	if err != nil {
		exports.Close(0)
		return nil, nil, err
	}
	a.Reload(again, level, !isTerminal(env.stderr))
	return a, log, nil
}

func logError(log *zap.Logger, what string, err error) {
	if err != nil {
		log.Error(what, logkey.Error(err))
	}
}
