// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/server/pressure"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// ErrInputEnded is the cause of the context's end if a client has closed standard
// input.
var ErrInputEnded = errors.New("standard input ended")

// Run keeps the catalog up to date until ctx ends or something fails, and then
// drains. It calls ending when the drain begins.
func (a *App) Run(ctx context.Context, ending func(), start time.Time) error {
	loading, stop := context.WithCancel(context.WithoutCancel(ctx))
	loaded := make(chan error, 1)
	versions := &versions{metrics: a.metrics, log: a.log, next: make(chan [2]*catalog.Catalog, 1)}
	forget := a.live.OnChange(func(old, now *catalog.Catalog) {
		if old == nil && a.backend.client != nil && (a.opts.Dial != nil || len(a.opts.Sources) == 0 && !upstream.MakesTools(a.cfg.GetCatalog())) {
			a.backend.answered(nil) // it is in this process, or the tools come from it
		}
		// Before it is said, which also takes time.
		a.life.Set(needCatalog, true, "the catalog is loaded")
		a.announce(old, now, start)
		if old == nil {
			a.narrateReady(len(now.Tools()))
		}
		a.warnOfRandomKey(now)
		a.authn.CheckGrants(now)
		a.fitRules(now)
		a.backend.keepTools(now)
		a.publishLists(old)
		versions.offer(old, now)
	})
	defer forget()
	a.auditStart()
	a.refresher.Start()
	go func() { loaded <- a.live.Run(loading) }()
	link := &upstream.Link{
		Client: a.backend.client, Live: a.live, Refresher: a.refresher, Reach: a.reach, Asked: a.backend.answered,
		ProbeTimeout: a.cfg.GetBackend().GetProbeTimeout().AsDuration(), Log: a.log,
	}
	if upstream.MakesTools(a.cfg.GetCatalog()) {
		link.Offered = a.Diagnoser().Offered
	}
	var housekeeping sync.WaitGroup
	if !a.opts.Embedded {
		housekeeping.Go(func() { pressure.KeepSmall(loading, a.activity, a.log) })
	}
	housekeeping.Go(func() { versions.run(loading) })
	housekeeping.Go(func() { a.watchFiles(loading) })
	housekeeping.Go(func() { a.watch.Run(loading) })
	housekeeping.Go(func() { link.Seek(loading, a.backend.guard, a.backend.seek) })
	housekeeping.Go(func() { a.reach.Run(loading) })
	housekeeping.Go(func() { link.Run(loading) })
	housekeeping.Go(func() { a.memory.Run(loading) })
	housekeeping.Go(func() { a.authn.Run(loading) })
	a.runShared(loading, &housekeeping)
	if a.rates.service != nil {
		housekeeping.Go(func() { a.rates.service.Warm(loading) })
	}
	defer housekeeping.Wait()
	defer stop()
	var err error
	finished, why := false, "nothing left to do"
	select {
	case <-ctx.Done():
		why = context.Cause(ctx).Error()
		if !errors.Is(context.Cause(ctx), ErrInputEnded) {
			why = "shutdown requested: " + why
		}
	case err = <-a.listeners.Failed():
		why = err.Error()
	case err = <-loaded:
		finished = true
		if err != nil {
			a.reach.Fatal(context.WithoutCancel(ctx), err)
			err = fmt.Errorf("load tools: %w", err)
			why = err.Error()
		}
	}
	ending()
	err = errors.Join(err, a.drain(why))
	stop()
	if !finished {
		err = errors.Join(err, <-loaded)
	}
	return err
}

// narrateReady tells a person that the first catalog is there.
func (a *App) narrateReady(tools int) {
	if a.opts.Narrator != nil {
		a.opts.Narrator.Ready(a.Sockets(), tools)
	}
}

// activity is what the sidecar is doing.
func (a *App) activity() (begun uint64, inFlight int, built time.Time) {
	return a.bridge.Begun(), a.bridge.Flights().InFlight(), a.live.Status().Built
}

// watchFiles looks at the files that may change until ctx ends.
func (a *App) watchFiles(ctx context.Context) {
	if a.reloader != nil {
		a.reloader.Run(ctx)
		return
	}
	a.watcher.Run(ctx)
}

// publishLists announces what a new catalog may have changed. The first one
// changes nothing that anybody has seen.
func (a *App) publishLists(old *catalog.Catalog) {
	if old == nil {
		return
	}
	a.offers.CatalogChanged()
	a.publish(notify.Change{Kind: notify.ToolsListChanged})
	a.publish(notify.Change{Kind: notify.ResourcesListChanged})
}

// announce says what the catalog is, what is odd about it, and which tools differ from
// the one before.
func (a *App) announce(old, now *catalog.Catalog, start time.Time) {
	for _, w := range now.Warnings() {
		if old != nil && slices.Contains(old.Warnings(), w) {
			continue // it was said when it was new
		}
		a.log.Warn("catalog warning", zap.String("subject", w.Subject), zap.String("warning", w.Text))
	}
	fields := []zap.Field{
		zap.Int("tools", len(now.Tools())), zap.String("fingerprint", shortFingerprint(now.Fingerprint())), zap.Duration("uptime_ms", time.Since(start)),
	}
	if old != nil {
		a.announceChange(now.Since(old), fields)
		return
	}
	a.milestones().Info("ready", fields...)
	a.warnOfClients(now)
	if !a.opts.Embedded {
		if _, err := peer.ReleaseMemory(); err != nil {
			a.log.Debug("releasing memory failed", logkey.Error(err))
		}
	}
}

// toolChange is a change of the tools, for /readyz.
type toolChange struct {
	at   time.Time
	text string
}

// announceChange says which tools are other ones: in the log, the metrics, the audit trail
// and /readyz. A tool that is gone is a warning, because its callers fail from now on.
func (a *App) announceChange(change catalog.Change, fields []zap.Field) {
	level := zap.InfoLevel
	for _, part := range [...]struct {
		key   string
		names []string
	}{{"removed", change.RemovedNames()}, {"added", change.AddedNames()}, {"changed", change.ChangedNames()}} {
		if len(part.names) > 0 {
			fields = append(fields, zap.Strings(part.key, part.names))
		}
	}
	if len(change.Removed) > 0 {
		level = zap.WarnLevel
	}
	a.log.Log(level, "catalog changed", fields...)
	a.metrics.ToolChanges(len(change.Added), len(change.Removed), len(change.Changed))
	text := change.String()
	if text == "" {
		return // of resources or the description alone
	}
	a.lastChange.Store(&toolChange{time.Now(), text})
	a.trail.Change(trail.Change{Kind: "catalog", Who: trail.OfProcess(), Detail: text})
}

func logError(log *zap.Logger, what string, err error) {
	if err != nil {
		log.Error(what, logkey.Error(err))
	}
}

// shortFingerprint is enough of a fingerprint to tell two catalogs apart at a
// glance; /describe has all of it.
func shortFingerprint(fingerprint string) string {
	const digits = 12
	return fingerprint[:min(digits, len(fingerprint))]
}

// Call runs one tool as a request of the process itself, through the whole pipeline.
// from says in the log which part of the process called, and on which way. The trace
// context of header is the parent, else that of ctx; header may be nil.
func (a *App) Call(ctx context.Context, from, route, tool string, arguments []byte, header http.Header) *bridge.Response {
	req := &bridge.Request{
		Op: bridge.OpCall, Origin: a.bridge.Flights().NewOrigin(), Tool: tool,
		Arguments: bridge.Payload{Bytes: arguments}, Caller: from, Transport: from, Route: route, Method: route, Header: header,
	}
	if t := a.bridge.Tracer(); t.IsOn() {
		attributes := []telemetry.Attribute{telemetry.Text(telemetry.MethodName, route), telemetry.Text(telemetry.EdgeName, telemetry.EdgeOther.String())}
		if header != nil {
			req.Span = t.Start(telemetry.Arrival{Method: route, Header: header}, attributes...)
		} else {
			req.Span = t.StartIn(ctx, route, attributes...)
		}
	}
	resp := a.bridge.Handle(ctx, req)
	bridge.EndSpan(req.Span, resp, errmap.CanonicalJSONRPC, resp.About(nil))
	return resp
}
