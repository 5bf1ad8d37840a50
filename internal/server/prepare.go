// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"io"
	"net/http"

	"github.com/outrigger-mcp/outrigger/internal/edge/stdio"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/console"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
)

// Prepare builds the handlers for callers and operators, without opening a port.
// drain starts the shutdown of the process when an operator requests a drain.
func (a *App) Prepare(drain func()) error {
	var err error
	a.front, err = front.New(front.Options{
		Config: a.cfg, Log: a.log, Milestones: a.milestones(), Watcher: a.watcher, Tracer: a.opts.Tracer, Stats: a.stats,
		Bridge: a.bridge, RPC: a.rpc, Events: a.shared.Bus, Catalog: a.live.Current,
		Authenticator: a.opts.Authenticator, Keep: a.backend.Keep(), Scopes: a.scopes, Changed: a.trail.Change,
		Memory: &a.memory, Slow: &a.slow, Full: a.slots.Full,
	})
	if err != nil {
		return err
	}
	a.backend.WatchTLS(a.watcher)
	if a.metrics, err = a.newMetrics(); err != nil {
		return err
	}
	a.says.Tell(a.metrics, a.trail)
	if err := a.exportMetrics(); err != nil {
		return err
	}
	if wanted := a.cfg.GetLimits().GetMaxMemoryBytes(); wanted > 0 || !a.opts.Embedded {
		a.memory.Open(wanted, a.log)
	}
	a.slow.Open(a.cfg.GetLimits(), &a.memory)
	operators := a.front.Registration(a.shared.Registrar, func() *admin.Admin { return a.probes }, a.trail.Change)
	service := a.newConsole(drainer{app: a, end: drain})
	path, api := service.Handler()
	operators[path] = api
	a.probes = admin.New(admin.Options{
		Ready: a.ready, Drain: drainer{app: a, end: drain}, Trust: a.shared.Trust(),
		Approvals: service.ServeApprovals,
		Describe:  a.describe,
		Metrics:   a.metrics.Handler(),
		Refresh:   a.operatorRefresh,
		Keys:      a.backend.Keys(),
		Handlers:  operators,

		Console:   a.front.Console(console.Page()),
		Operators: a.front.Operators(),
	})
	return nil
}

// Listen opens the configured listeners. Call [App.Prepare] before, and
// [App.CloseListeners] after, even if Listen fails.
func (a *App) Listen(ctx context.Context) error {
	return a.front.Open(ctx, a.Operators(), a.front.Pages(a.probes.HealthHandler()))
}

// CloseListeners closes the listeners and waits for them.
func (a *App) CloseListeners() {
	if a.front != nil {
		a.front.Close()
	}
}

// Sockets returns the open listeners.
func (a *App) Sockets() []*peer.Socket { return a.front.All() }

// Handler returns the handler of the main listener, with all outer handlers, for
// another server. Call [App.Prepare] before.
func (a *App) Handler(at front.Place) (http.Handler, error) { return a.front.Handler(at) }

// Operators returns the handler of the admin listener, for another server. Call
// [App.Prepare] before.
func (a *App) Operators() http.Handler { return a.front.Pages(a.probes.Handler()) }

// Stdio serves standard input until it ends or ctx does.
func (a *App) Stdio(ctx context.Context, mode stdio.Mode, in io.Reader, out io.Writer) error {
	return stdio.Serve(ctx, a.rpc, in, out, front.StdioOptions(a.cfg, mode, &a.stdioQueue))
}

// describe is what /describe of the admin listener answers.
func (a *App) describe(ctx context.Context) ([]byte, error) {
	text, err := a.rpc.Description(ctx)
	if err != nil {
		return nil, err
	}
	return text, nil
}

// operatorRefresh is POST /refresh.
func (a *App) operatorRefresh(ctx context.Context, who string) (out admin.Refreshed) {
	defer func() { a.auditRefresh(who, out) }()
	run, err := a.backend.Refresher.Now(ctx, "POST /refresh")
	if err != nil {
		d := a.backend.Diagnose(ctx, err)
		return admin.Refreshed{Error: err.Error(), Cause: d.Cause, Fix: d.Fix}
	}
	now := a.live.Current()
	return admin.Refreshed{
		OK: true, Changed: run.Changed, Tools: len(now.Tools()), Fingerprint: now.Fingerprint(),
		TookMS: float64(run.Took.Microseconds()) / 1e3,
	}
}
