// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/admin"
	"github.com/outrigger-mcp/outrigger/internal/config"
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
func serve(ctx context.Context, cfg *configv1.Config, again reread, env environment) error {
	start := time.Now()
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
	a.terminal = newTerminal(cfg, level.Level(), env)

	defer pace()()
	drain, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(drain, env.resort.begin)()
	s := newServers(cfg, log)
	s.milestones = a.milestones()
	defer s.sockets.Close()
	if err := a.listen(drain, s, stop); err != nil {
		return err
	}
	return a.run(drain, stop, s, start)
}

// listen opens the listeners that are configured. A drain that an operator asks
// for ends the process like a signal does.
func (a *app) listen(ctx context.Context, s *servers, drain func()) error {
	err := a.openDoor()
	if err != nil {
		return err
	}
	s.tls, s.counts, a.conns, a.gates = a.door.tls, a.stats, s.refused, s.gates
	if a.metrics, err = a.newMetrics(); err != nil {
		return err
	}
	a.openMemory()
	a.openSlowPeers()
	s.slow = a.slow
	a.probes = admin.New(admin.Options{
		Ready: a.ready, Drain: drainer{app: a, end: drain}, Trust: trustSwitch{gate: a.gate, log: a.log},
		Describe: a.describe,
		Metrics:  a.metrics.Handler(),
		Refresh:  a.operatorRefresh,
		Handlers: a.operators(),
	})
	listeners := a.cfg.GetListeners()
	return errors.Join(
		s.open(ctx, "listen", listeners.GetListen(), a.answering.wrap(a.sparing(a.edges()))),
		s.open(ctx, "admin", listeners.GetAdmin(), a.probes.Handler()),
		s.open(ctx, "health", listeners.GetHealth(), a.probes.HealthHandler()),
	)
}

// describe is what /describe of the admin listener answers.
func (a *app) describe(ctx context.Context) ([]byte, error) {
	text, err := a.bridge.Description(ctx)
	if err != nil {
		return nil, err
	}
	return text, nil
}

// run keeps the catalog fresh until ctx ends or something fails, and then
// drains. It calls ending when the drain begins.
func (a *app) run(ctx context.Context, ending func(), s *servers, start time.Time) error {
	loading, stop := context.WithCancel(context.WithoutCancel(ctx))
	loaded := make(chan error, 1)
	versions := newVersions(a.cfg.GetRecord().GetDir(), a.metrics, a.log)
	forget := a.live.OnChange(func(old, now *catalog.Catalog) {
		// Before it is said, which also takes time.
		a.life.Set(needCatalog, true, fmt.Sprintf("%d tools", len(now.Tools())))
		a.announce(old, now, start)
		if old == nil {
			a.terminal.ready(a.cfg, s, len(now.Tools()))
		}
		a.warnOfRandomKey(now)
		a.checkGrants(now)
		a.keepTools(now)
		a.publishLists(old)
		versions.offer(now)
	})
	defer forget()
	close(a.refresher.started)
	go func() { loaded <- a.live.Run(loading) }()
	var housekeeping sync.WaitGroup
	housekeeping.Go(func() { a.keepSmall(loading) })
	housekeeping.Go(func() { versions.run(loading) })
	housekeeping.Go(func() { a.watchFiles(loading) })
	housekeeping.Go(func() { a.watchBackend(loading) })
	housekeeping.Go(func() { a.seekBackend(loading) })
	housekeeping.Go(func() { a.reach.run(loading) })
	housekeeping.Go(func() { a.followBackend(loading) })
	housekeeping.Go(func() { a.memory.Run(loading) })
	defer housekeeping.Wait()
	defer stop()
	var err error
	finished, why := false, "nothing left to do"
	select {
	case <-ctx.Done():
		why = context.Cause(ctx).Error()
		if !errors.Is(context.Cause(ctx), errInputEnded) {
			why = "shutdown requested: " + why
		}
	case err = <-s.failed:
		why = err.Error()
	case err = <-loaded:
		finished = true
		if err != nil {
			err = fmt.Errorf("load the tools: %w", err)
		}
	}
	ending()
	a.drain(s, why)
	stop()
	if !finished {
		err = errors.Join(err, <-loaded)
	}
	return err
}

// milestones is the log for what happens once in a life of the process. At a
// terminal a person is told in other words.
func (a *app) milestones() *zap.Logger {
	if a.terminal == nil {
		return a.log
	}
	return a.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
}

// announce says what the catalog is, and what is odd about it.
func (a *app) announce(old, now *catalog.Catalog, start time.Time) {
	message := "ready"
	if old != nil {
		message = "catalog changed"
	}
	for _, w := range now.Warnings() {
		if old != nil && slices.Contains(old.Warnings(), w) {
			continue // it was said when it was new
		}
		a.log.Warn("catalog warning", zap.String("subject", w.Subject), zap.String("warning", w.Text))
	}
	log := a.log
	if old == nil {
		log = a.milestones()
	}
	log.Info(message, zap.Int("tools", len(now.Tools())), zap.String("fingerprint", shortFingerprint(now.Fingerprint())),
		zap.Duration("uptime_ms", time.Since(start)))
	if old == nil {
		if _, err := releaseMemory(); err != nil {
			a.log.Debug("releasing memory failed", zap.Error(err))
		}
	}
}

func logError(log *zap.Logger, what string, err error) {
	if err != nil {
		log.Error(what, zap.Error(err))
	}
}
