// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
)

// ErrInputEnded is the cause of the context's end if a client has closed standard
// input.
var ErrInputEnded = errors.New("standard input ended")

// Run keeps the catalog up to date until ctx ends or something fails, and then
// drains. It calls ending when the drain begins.
func (a *App) Run(ctx context.Context, ending func(), start time.Time) error {
	loading, stop := context.WithCancel(context.WithoutCancel(ctx))
	loaded := make(chan error, 1)
	forget := a.live.OnChange(func(old, now *catalog.Catalog) {
		a.backend.Changed(old, now)
		// Before it is said, which also takes time.
		a.life.Set(needCatalog, true, "the catalog is loaded")
		a.says.Catalog(old, now, start)
		if old == nil {
			a.narrateReady(len(now.Tools()))
		}
		a.warnOfRandomKey(now)
		a.front.CheckGrants(now)
		a.publishLists(old)
		a.bridge.Replaced(old, now)
	})
	defer forget()
	a.auditStart()
	a.backend.Start()
	go func() { loaded <- a.live.Run(loading) }()
	var housekeeping sync.WaitGroup
	if !a.opts.Embedded {
		housekeeping.Go(func() { front.KeepSmall(loading, a.activity, a.log) })
	}
	housekeeping.Go(func() { a.says.Run(loading) })
	housekeeping.Go(func() { a.watchFiles(loading) })
	housekeeping.Go(func() { a.backend.Run(loading) })
	housekeeping.Go(func() { a.memory.Run(loading) })
	housekeeping.Go(func() { a.front.Run(loading) })
	housekeeping.Go(func() { a.shared.Run(loading, a.bridge.ResumeTask) })
	housekeeping.Go(func() { a.sessions.Run(loading) })
	housekeeping.Go(func() { a.webhooks.Run(loading) })
	housekeeping.Go(func() { a.tellApprovals(loading) })
	housekeeping.Go(func() { a.rates.Warm(loading) })
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
	case err = <-a.front.Failed():
		why = err.Error()
	case err = <-loaded:
		finished = true
		if err != nil {
			a.backend.Fatal(context.WithoutCancel(ctx), err)
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

// Call runs one tool as a request of the process itself, through the whole pipeline.
// from says in the log which part of the process called, and on which way. The trace
// context of header is the parent, else that of ctx; header may be nil. wanted says how much of the
// result is wanted.
func (a *App) Call(ctx context.Context, from, route, tool string, arguments []byte, header http.Header, wanted content.Wanted) *bridge.Response {
	req := &bridge.Request{
		Op: bridge.OpCall, Origin: a.bridge.Flights().NewOrigin(), Tool: tool,
		Arguments: bridge.Payload{Bytes: arguments}, Caller: from, Transport: from, Route: route, Method: route, Header: header,
		Wanted: wanted,
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
