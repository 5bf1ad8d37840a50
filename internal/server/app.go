// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/server/announce"
	"github.com/outrigger-mcp/outrigger/internal/server/front"
	"github.com/outrigger-mcp/outrigger/internal/server/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/server/reconfigure"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/loglimit"
)

// Options complement the configuration of a sidecar. Zero fields have their defaults.
type Options struct {
	Log *zap.Logger
	// Version is the sidecar's version for clients, unless the configuration sets one.
	Version string
	// Narrator reports milestones to a person at a terminal, in place of log lines; nil
	// without one.
	Narrator Narrator
	// Sources are sources of tools in addition to the configuration.
	Sources []source.Source
	// Authenticator, if set, replaces the authenticator that the configuration describes.
	Authenticator identity.Authenticator
	// Dial, if set, connects to the backend instead of the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// OnEnd, if set, is called at the end of each tool call. It must not block.
	OnEnd func(telemetry.CallEnd)
	// Tracer makes the spans of requests; nil makes none.
	Tracer *telemetry.Tracer
	// Telemetry exports; nil exports nothing. The App closes it.
	Telemetry *export.Telemetry
	// Embedded means that the process belongs to another program: process-wide actions,
	// such as releasing memory, are disabled.
	Embedded bool
	// Once means that the process ends after one call: nothing is held for later ones.
	Once bool
	// Adjust is for tests, in the process of the sidecar; the zero value changes nothing.
	Adjust Adjust
}

// Narrator reports the progress of the sidecar to a person who started it in a
// terminal.
type Narrator interface {
	// Ready is called when the first catalog is loaded.
	Ready(sockets []*peer.Socket, tools int)
	// Draining is called when a drain begins.
	Draining(inFlight int, grace time.Duration)
	// Stopped is called when a drain has finished.
	Stopped(outcome string)
	// Backend is called with the text of a change: the backend cannot be used, why and what to do, or it can again.
	Backend(text string)
}

// App is a sidecar: the pipeline that every command uses, and the listeners of a
// long-running process. Make one with [New].
type App struct {
	cfg  *configv1.Config
	opts Options
	log  *zap.Logger
	// noted is log for lines that many requests can cause: it drops what is over its
	// bound.
	noted *zap.Logger
	// kept are the last lines of log, for operators who look at one call.
	kept *telemetry.LogLines

	pipeline
	backend *upstream.Backends
	live    *catalog.Live
	// life knows what the process is doing.
	life *lifecycle.Machine
	// says has what operators should know of each catalog.
	says *announce.Announcer
	// watcher looks at every file that may change while the process runs;
	// the reader of one adds it. reloader is set by Reload.
	watcher  *reload.Watcher
	reloader *reconfigure.Reloader
	// rereading orders the readings of the policy file: an older one must not replace a newer one.
	rereading sync.Mutex
	memory    front.Memory
	slow      front.Slow

	// What follows is set by Prepare.
	front   *front.Front
	metrics *export.Page
	probes  *admin.Admin

	// cut counts the calls and tasks that a drain left unfinished, stdioQueue the bytes of
	// requests from standard input that were read and not answered.
	cut        atomic.Uint64
	stdioQueue atomic.Int64
	// drainedBy is the address of the operator who began the drain, nil for any other
	// reason.
	drainedBy atomic.Pointer[string]
	// drainBegan is when the drain began, in Unix nanoseconds; zero before.
	drainBegan atomic.Int64
	// keyWarned tells that the random key was warned of.
	keyWarned bool
}

// New builds the pipeline for a checked configuration, from the backend towards the
// callers. It opens no connection and no port, except that of the demo service.
// [App.Close] closes it.
func New(ctx context.Context, cfg *configv1.Config, o Options) (*App, error) {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	kept := new(telemetry.LogLines)
	if !o.Once {
		o.Log = kept.Of(o.Log)
	}
	a := &App{
		kept: kept,
		cfg:  cfg, opts: o, log: o.Log, noted: loglimit.New(o.Log),
		watcher: reload.NewWatcher(cfg.GetReloadInterval().AsDuration()),
	}
	a.life = newLife(a.log, a.milestones())
	err := a.open(ctx)
	if err != nil {
		return nil, errors.Join(err, a.Close(ctx))
	}
	return a, nil
}

func (a *App) open(ctx context.Context) error {
	var tell func(string)
	if a.opts.Narrator != nil {
		tell = a.opts.Narrator.Backend
	}
	var err error
	a.backend, err = upstream.OpenBackends(ctx, upstream.Options{
		Config: a.cfg, Version: a.opts.Version, Dial: a.opts.Dial, Sources: a.opts.Sources, Life: a.life, Log: a.log, Noted: a.noted, Tell: tell,
		Keep: a.keepTools,
	})
	if err != nil {
		return err
	}
	a.says = announce.New(announce.Options{Config: a.cfg, Log: a.log, Milestones: a.milestones(), Noted: a.noted, Embedded: a.opts.Embedded})
	if a.live, err = a.newLive(); err != nil {
		return err
	}
	a.backend.Serve(a.live)
	if err := a.openTrail(); err != nil {
		return err
	}
	if err := a.openPipeline(); err != nil {
		return err
	}
	a.backend.Follow(a.feed, a.publish)
	return nil
}

// newLive lines up where tools come from.
func (a *App) newLive() (*catalog.Live, error) {
	if a.opts.Adjust.Live != nil {
		return a.opts.Adjust.Live, nil
	}
	return a.backend.NewLive(func(o catalog.LiveOptions) catalog.LiveOptions {
		o.OnDrift = a.says.Drifted
		return adjusted(o, a.opts.Adjust.Catalog)
	})
}

// milestones is the log for what happens once in a life of the process. At a
// terminal the words are for a person.
func (a *App) milestones() *zap.Logger {
	if a.opts.Narrator == nil {
		return a.log
	}
	return a.log.WithOptions(zap.IncreaseLevel(zap.WarnLevel))
}

// Load loads the catalog once, for commands that run once.
func (a *App) Load(ctx context.Context) (*catalog.Catalog, error) {
	err := a.live.Refresh(ctx)
	return a.live.Current(), err
}

// Config returns the configuration at startup.
func (a *App) Config() *configv1.Config { return a.cfg }

// Bridge returns the pipeline.
func (a *App) Bridge() *bridge.Bridge { return a.bridge }

// Dialects returns the pipeline for edges that speak JSON-RPC.
func (a *App) Dialects() *dialect.Handler { return a.rpc }

// Live returns the catalog.
func (a *App) Live() *catalog.Live { return a.live }

// Diagnosers return the diagnosis of each backend; of the only one where there are not several.
func (a *App) Diagnosers() []upstream.Diagnoser { return a.backend.Diagnosers() }

// Close stops everything that [New] started. Close the listeners first.
func (a *App) Close(ctx context.Context) error {
	a.closeTelemetry()
	closed := a.backend.Close(ctx)
	a.shared.Close()
	return errors.Join(a.record.Close(), a.trail.Close(), a.rates.Close(), closed)
}

// Reload watches the files that may change at run time. hears is set if the process
// handles SIGHUP.
func (a *App) Reload(again reconfigure.Reread, level zap.AtomicLevel, hears bool) {
	a.reloader = reconfigure.New(reconfigure.Options{
		Config: a.cfg, Again: again, Hears: hears, Level: level, Log: a.log, Watcher: a.watcher,
		Changed: a.trail.Change,
		Live:    a.live, Rebuild: a.backend.Rebuild, Gate: a.gate, Limiter: a.limiter, Calls: a.calls, Rules: a.newRules,
		Refresh: func(why string) { a.backend.Refresher.Begin(why) },
	})
	a.shared.WatchKeys(a.watcher)
	a.backend.WatchIdentity(a.watcher, a.log)
	a.shared.WatchConnection(a.watcher)
	a.backend.WatchCredentials(a.watcher)
	a.rates.WatchTLS(a.watcher, a.log)
	a.reloader.WatchConfiguration()
}
