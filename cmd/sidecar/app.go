// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/bridge/backend"
	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/bridge/jsonrpc"
	"github.com/outrigger-mcp/outrigger/bridge/policy"
	"github.com/outrigger-mcp/outrigger/bridge/resilience"
	"github.com/outrigger-mcp/outrigger/bridge/seal"
	"github.com/outrigger-mcp/outrigger/correlate"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/admin"
	"github.com/outrigger-mcp/outrigger/internal/demo"
	"github.com/outrigger-mcp/outrigger/internal/event"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/lifecycle"
	"github.com/outrigger-mcp/outrigger/internal/loglimit"
	"github.com/outrigger-mcp/outrigger/internal/memory"
	"github.com/outrigger-mcp/outrigger/internal/metrics"
	"github.com/outrigger-mcp/outrigger/internal/native"
	"github.com/outrigger-mcp/outrigger/internal/record"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/conn"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/share"
	"github.com/outrigger-mcp/outrigger/internal/stall"
	"github.com/outrigger-mcp/outrigger/internal/stats"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// app is the pipeline that every command runs on: the backend, the catalog and
// the bridge in front of them. What listens in front of the bridge differs.
type app struct {
	cfg *configv1.Config
	log *zap.Logger
	// noted is log for lines that many requests can cause: it drops what is over its
	// bound.
	noted  *zap.Logger
	demo   *demo.Server
	client *backend.Client
	// native asks the backend for what it offers itself; nil where it is not
	// asked.
	native *native.Client
	live   *catalog.Live
	sealer *seal.Sealer
	// keyWarned tells that the random key was warned of.
	keyWarned bool
	feed      *feed.Hub
	// watch is set where native is.
	watch    *backendWatch
	door     *door
	sessions *session.Manager
	tasks    *task.Manager
	// disagreements counts what --validate full found.
	disagreements atomic.Uint64
	// events is the bus as the edges know it, bus the same one with its counts.
	events  event.Bus
	bus     *event.Memory
	bridge  *bridge.Bridge
	gate    *policy.Gate
	limiter *policy.Limiter
	// calls says which calls leave a line in the log, stats counts how they end.
	calls *bridge.CallLog
	stats *stats.Stats
	// watcher looks at every file that may change while the process runs;
	// the reader of one adds it. reloader is set where the process is to last.
	watcher  *reload.Watcher
	reloader *reloader
	slots    *policy.Slots
	// stdioQueue is the size of the requests from standard input that were read and
	// not answered.
	stdioQueue atomic.Int64
	// guard stands around the backend's calls; nil where there is no backend.
	guard *resilience.Guard
	// clock knows when this process stood still; nil without a backend.
	clock *stall.Clock
	// memory is nil where nothing says how much there may be.
	memory *memory.Guard
	// streams are those that last until somebody ends them, on every edge.
	streams *share.Ledger
	// slow is set where there are listeners.
	slow *slowPeers
	// life knows what the process is doing. seek wakes who looks for a backend
	// that is away.
	life *lifecycle.Machine
	// reach says in the log whether the backend can be used, refresher loads the
	// catalog on demand.
	reach     *reach
	refresher *refresher
	seek      chan struct{}
	// conns counts connections that no handler hears of; set where there are
	// listeners. cut counts calls and tasks that a drain left unfinished.
	conns *conn.Refused
	// gates bound the connections of the listeners; set where conns is.
	gates *connGates
	cut   atomic.Uint64
	// answering are the HTTP requests that are being answered.
	answering *answering
	// probes is set where operators can be served.
	probes *admin.Admin
	// api is set where a listener serves it.
	api    *connectapi.Service
	record *record.Run
	// terminal is nil unless a person watches.
	terminal *terminal
	// recordUnavailable tells that records were asked for and there are none.
	recordUnavailable bool
	// metrics is set where operators can be served; nil counts nothing.
	metrics *metrics.Metrics
	limits  jsonrpc.Limits
}

// newApp builds the pipeline of a checked configuration, from the backend
// towards the callers. Nothing is dialled and no port is opened yet, except the
// demo service's own.
func newApp(ctx context.Context, cfg *configv1.Config, log *zap.Logger) (*app, error) {
	a := &app{cfg: cfg, log: log, noted: loglimit.New(log), watcher: reload.NewWatcher(cfg.GetReloadInterval().AsDuration()), limits: jsonrpc.Limits{
		MaxBytes:   int(cfg.GetLimits().GetMaxMessageBytes()),
		MaxDepth:   int(cfg.GetLimits().GetMaxJsonDepth()),
		MaxIDBytes: int(cfg.GetLimits().GetMaxIdBytes()),
	}}
	a.reach, a.refresher = newReach(a), newRefresher(a)
	a.life, a.seek, a.answering = a.newLife(), make(chan struct{}, 1), newAnswering()
	if err := a.openBackend(ctx); err != nil {
		return nil, errors.Join(err, a.close(ctx))
	}
	if err := a.openCatalog(); err != nil {
		return nil, errors.Join(err, a.close(ctx))
	}
	if err := a.openBridge(); err != nil {
		return nil, errors.Join(err, a.close(ctx))
	}
	return a, nil
}

// openBackend starts the demo service where it is asked for, and makes the
// client of whatever the backend is.
func (a *app) openBackend(ctx context.Context) error {
	url := a.cfg.GetBackend().GetUrl()
	if a.cfg.GetDemo() {
		service, err := demo.Start(ctx, demo.Options{Logger: a.log.Named("demo")})
		if err != nil {
			return fmt.Errorf("start the demo service: %w", err)
		}
		a.demo = service
		// The demo speaks gRPC for certain, so nothing has to be probed.
		url = "grpc" + service.URL()[len("http"):]
	}
	if url == "" {
		return nil // tools can be shown from descriptors alone
	}
	target, err := backend.ParseTarget(url)
	if err != nil {
		return fmt.Errorf("--backend: %w", err)
	}
	options := a.cfg.GetBackend()
	a.client, err = backend.New(target, backend.Options{
		TLS: backend.TLSOptions{
			CAFile: options.GetTls().GetCaFile(), CertFile: options.GetTls().GetCertFile(),
			KeyFile: options.GetTls().GetKeyFile(), ServerName: options.GetTls().GetServerName(),
			ServerURIs: options.GetTls().GetServerUris(),
		},
		Credentials:      credentialOptions(options),
		MaxRequestBytes:  int(options.GetMaxSendBytes()),
		MaxResponseBytes: int(options.GetMaxReceiveBytes()),
		DialTimeout:      options.GetConnectTimeout().AsDuration(),
		ProbeTimeout:     options.GetProbeTimeout().AsDuration(),
		UserAgent:        "outrigger/" + currentBuild().Version,
	})
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	return nil
}

// openCatalog lines up where tools come from.
func (a *app) openCatalog() error {
	c := a.cfg.GetCatalog()
	if a.asksNative(c) {
		a.native = native.New(a.client)
	}
	sources, build, err := a.catalogPlan(a.cfg)
	if err != nil {
		return err
	}
	options := catalog.LiveOptions{
		Build:        build,
		BackoffMax:   c.GetMaxBackoff().AsDuration(),
		RefreshEvery: c.GetRefreshInterval().AsDuration(),
		OnLoad:       a.reach.loaded,
		TypeLimits:   catalog.TypeLimits{Max: int(a.cfg.GetLimits().GetMaxLearnedTypes())},
	}
	if a.client != nil && c.GetReflection() != "off" {
		// Also where descriptor files say what the tools are: they seldom have all that an Any may hold.
		options.Types = bridge.NewReflectionSource(a.client, catalog.ReflectionOptions{})
	}
	a.live = catalog.NewLive(sources, options)
	return nil
}

// asksNative reports whether the backend is asked for tools of its own. It is
// where reflection is, because then the backend has to be there anyway, or where
// that is asked for by name.
func (a *app) asksNative(c *configv1.Catalog) bool {
	auto := len(c.GetDescriptors()) == 0
	return a.client != nil && (c.GetNative() == "on" || auto && c.GetNative() != "off")
}

// catalogPlan says where tools come from and how they are made, by a
// configuration that may be newer than that of the start.
func (a *app) catalogPlan(cfg *configv1.Config) ([]catalog.Source, catalog.BuildOptions, error) {
	c := cfg.GetCatalog()
	selection, err := catalog.NewSelection(c.GetInclude(), c.GetExclude())
	if err != nil {
		return nil, catalog.BuildOptions{}, err
	}
	var sources []catalog.Source
	for _, path := range c.GetDescriptors() {
		sources = append(sources, catalog.NewDescriptorFile(path, catalog.Limits{}))
	}
	// Descriptor files say which services there are; reflection is asked where
	// nothing else does, or where it is asked for by name.
	auto := a.client != nil && len(sources) == 0
	isNative := c.GetNative() == "on"
	reflects := c.GetReflection() == "on" || auto && c.GetReflection() != "off" && !isNative
	if a.client != nil && reflects {
		sources = append(sources, bridge.NewReflectionSource(a.client, catalog.ReflectionOptions{Selection: selection}))
	}
	if a.native != nil {
		sources = append(sources, bridge.NewNativeSource("tool API at "+a.client.Target().String(), a.native, isNative))
	}
	if len(sources) == 0 {
		return nil, catalog.BuildOptions{}, errors.New("catalog: no source of tools: name a file with --descriptors or leave reflection on")
	}
	build, err := a.buildOptions(cfg, selection)
	return sources, build, err
}

// openBridge joins the parts.
func (a *app) openBridge() error {
	gate, err := newGate(a.cfg)
	if err != nil {
		return err
	}
	a.gate = gate
	metadata := a.cfg.GetBackend().GetMetadata()
	rules, err := bridge.NewMetadataRules(inboundMetadata(a.cfg), metadata.GetOutbound())
	if err != nil {
		return err
	}
	if err := a.openSealer(); err != nil {
		return err
	}
	limits := a.cfg.GetLimits()
	// Every session follows the feed, besides the streams of the modern era.
	a.feed = feed.New(feed.Options{MaxSubscribers: int(limits.GetMaxStreams()) + int(limits.GetMaxSessions())})
	a.sessions = session.New(session.Options{
		Max: int(limits.GetMaxSessions()), Idle: limits.GetSessionIdleTimeout().AsDuration(), Feed: a.feed,
		Share: callerShare(limits),
	})
	a.tasks = a.newTasks()
	a.bus = a.newBus()
	a.events = a.bus
	a.streams = share.NewLedger(int64(limits.GetMaxStreams()), callerShare(limits))
	flights := correlate.New(correlate.Options{MaxInFlight: int(a.cfg.GetLimits().GetMaxInFlight())})
	var caller bridge.Caller = bridge.NoBackend{}
	if a.client != nil {
		caller = bridge.NewBackendCaller(a.client)
		a.clock = stall.New()
		a.guard = a.newGuard()
	}
	var nativeCaller bridge.Native
	if a.native != nil {
		a.watch = a.newBackendWatch()
		nativeCaller = bridge.NewNativeCaller(a.native)
	}
	a.limiter = newLimiter(a.cfg.GetLimits())
	a.stats = stats.New(0, bridge.Operations()...)
	if a.calls, err = newCallLog(a.cfg.GetLog()); err != nil {
		return err
	}
	a.slots = newSlots(a.cfg.GetLimits())
	a.bridge = bridge.New(a.live, caller, flights, bridge.Options{
		Server: bridge.ServerInfo{
			Name: a.cfg.GetServer().GetName(), Title: a.cfg.GetServer().GetTitle(),
			Version: orElse(a.cfg.GetServer().GetVersion(), currentBuild().Version), Instructions: a.cfg.GetServer().GetInstructions(),
		},
		Timeout:     a.cfg.GetTimeout().AsDuration(),
		CatalogWait: a.cfg.GetLimits().GetCatalogWait().AsDuration(),
		MaxResult:   int(a.cfg.GetLimits().GetMaxResultBytes()),
		Gate:        gate,
		Confirm:     a.cfg.GetDestructive() == "confirm",

		RepairArguments: a.cfg.GetRepairArguments(),
		Native:          nativeCaller, Sealer: a.sealer, Feed: a.feed, Sessions: a.sessions, Tasks: a.tasks,
		TaskAfter: a.cfg.GetTaskAfter().AsDuration(),
		PageSize:  int(limits.GetMaxPageEntries()), MaxItems: int(limits.GetMaxResultItems()),
		Limiter: a.limiter, Slots: a.slots, Guard: a.guard, Shed: a.shed, Short: func() bool { return a.memory.Short() },
		Unread: a.overBuffered, Streams: a.streams,
		Metadata: rules, ForwardsHeaders: len(a.cfg.GetBackend().GetMetadata().GetInbound()) > 0,
		Notify: a.notify,
		Record: a.openRecord(), RecordPayloads: a.cfg.GetRecord().GetPayloads(),
		Log: a.log, CallLog: a.calls, Stats: a.stats,
	})
	return nil
}

func orElse(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// openRecord begins the record of this run. A folder that cannot be written is
// a warning: calls go on without records.
func (a *app) openRecord() *record.Run {
	c := a.cfg.GetRecord()
	if dir := c.GetDir(); dir == "" || dir == "off" {
		return nil
	}
	run, err := record.Open(record.Options{
		Dir: c.GetDir(), Deterministic: a.cfg.GetDeterministic(), Payloads: c.GetPayloads(), Redact: redactNames(c),
		MaxFileBytes: c.GetMaxFileBytes(), MaxFiles: int(c.GetMaxFiles()), Log: a.log.Named("record"),
	})
	if err != nil {
		a.recordUnavailable = true
		a.log.Warn("run records disabled: the directory cannot be used; set --record-dir to another directory, or to off", zap.Error(err))
		return nil
	}
	a.record = run
	return run
}

// redactNames adds the configured names to the usual ones.
func redactNames(c *configv1.Record) []string {
	return append(record.DefaultRedact(), c.GetRedact()...)
}

// load loads the catalog once, for commands that need it and end.
func (a *app) load(ctx context.Context) (*catalog.Catalog, error) {
	if err := a.live.Refresh(ctx); err != nil {
		return nil, err
	}
	return a.live.Current(), nil
}

// closeTimeout bounds how long the demo service may take to end: its calls have
// ended by then.
const closeTimeout = 5 * time.Second

// close ends what newApp started. The client goes first, because an idle
// connection would make the demo service wait for it.
func (a *app) close(ctx context.Context) error {
	a.refresher.close()
	var errs []error
	a.clock.Stop()
	errs = append(errs, a.record.Close())
	if a.client != nil {
		errs = append(errs, a.client.Close())
	}
	if a.demo != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		errs = append(errs, a.demo.Close(ctx))
	}
	return errors.Join(errs...)
}
