// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/catalog/compact"
	"github.com/outrigger-mcp/outrigger/internal/config"
	"github.com/outrigger-mcp/outrigger/internal/content"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/identity"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/offer"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/program"
	"github.com/outrigger-mcp/outrigger/internal/server/replicas"
	"github.com/outrigger-mcp/outrigger/internal/server/upstream"
	"github.com/outrigger-mcp/outrigger/internal/server/webhook"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/telemetry"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// pipeline is the bridge and what it is made of.
type pipeline struct {
	bridge *bridge.Bridge
	// offers answer what is offered besides calls.
	offers *offer.Service
	// rpc is the bridge for the edges that speak JSON-RPC.
	rpc  *dialect.Handler
	gate *policy.Gate
	// rules decide who may call which tools with which arguments.
	rules   *policy.Engine
	limiter *policy.Limiter
	// rates asks the rate limit service that replicas share.
	rates upstream.Rates
	slots *policy.Slots
	// scopes holds callers with OAuth tokens to their scopes; nil without OAuth.
	scopes   *policy.Authorizer
	feed     *notify.Feed
	sessions *session.Manager
	// shared is what replicas have in common.
	shared *replicas.State
	// held are the documents that are too large for one result.
	held *content.Store
	// skills are those of folders, nil without any.
	skills *offer.Skills
	// approvals are the calls that wait for approval, webhooks tells others of them; nil without any.
	approvals *approval.Service
	webhooks  *webhook.Sender
	// approvalEvents are what this process did about approvals, and others have not heard of.
	approvalEvents chan approval.Event
	// watches run the streams behind watches.
	watches *notify.Watches
	// streams are the long-lived streams of every edge.
	streams *peer.Ledger
	// calls says which calls leave a line in the log, stats counts how they end.
	calls  *telemetry.CallLog
	stats  *telemetry.Stats
	record *trail.Run
	// recordUnavailable tells that records were asked for and there are none.
	recordUnavailable bool
	// trail is the audit trail, nil without one.
	trail *trail.Audit
	// taskAfter is the time after which a call runs on as a task, if its tool does not say. confirms: users are asked before
	// destructive calls.
	taskAfter time.Duration
	confirms  bool
}

// openPipeline joins the parts of the bridge.
func (a *App) openPipeline() error {
	gate, err := policy.GateOf(a.cfg)
	if err != nil {
		return err
	}
	if names := config.ExperimentsOf(a.cfg); len(names) > 0 {
		a.log.Info("experimental features on", zap.Strings("experimental", names))
	}
	a.gate, a.taskAfter, a.confirms = gate, a.cfg.GetTaskAfter().AsDuration(), a.cfg.GetDestructive() == "confirm"
	if err := a.openRules(); err != nil {
		return err
	}
	a.opts.Tracer = a.opts.Tracer.Redacting(trail.RedactNames(a.cfg.GetRecord()))
	a.shared, err = replicas.Open(replicas.Options{
		Config: a.cfg, Once: a.opts.Once, Live: a.live, Gate: gate, Trail: a.trail, Publish: a.publish, Log: a.log, Noted: a.noted, Seal: a.opts.Adjust.Seal,
	})
	if err != nil {
		return err
	}
	a.approvals = a.shared.Approvals
	a.approvalEvents = make(chan approval.Event, maxApprovalEvents)
	a.approvals.Use(a.approvalRule, a.approver, a.approvalHappened)
	if !a.opts.Once {
		if err := a.openWebhooks(); err != nil {
			return err
		}
	}
	a.rules.UseSecret(func() []byte { return a.shared.Sealer.Secret("result policy") })
	if err := a.openSkills(); err != nil {
		return err
	}
	limits := a.cfg.GetLimits()
	a.stats = telemetry.NewStats(int(a.cfg.GetTelemetry().GetMaxMetricTools()), bridge.Operations()...)
	a.stats.OnEnd(a.opts.OnEnd)
	// Every session follows the feed, besides the streams of the modern era.
	a.feed = notify.NewFeed(adjusted(notify.FeedOptions{
		MaxSubscribers: int(limits.GetMaxStreams()) + int(limits.GetMaxSessions()),
	}, a.opts.Adjust.Feed))
	flights := correlate.New(correlate.Options{MaxInFlight: int(limits.GetMaxInFlight())})
	a.sessions = a.newSessions(flights)
	if !a.opts.Once {
		a.held = content.NewStore(content.StoreOptions{
			MaxBytes: limits.GetMaxHeldBytes(), TTL: limits.GetHeldTtl().AsDuration(), Share: policy.CallerShare(limits),
		})
	}
	a.watches = notify.NewWatches(notify.WatchOptions{
		Max: int(limits.GetMaxWatches()), MaxBytes: int(limits.GetMaxWatchBytes()), Share: policy.CallerShare(limits), Ended: a.watchEnded,
	})
	a.streams = peer.NewLedger(int64(limits.GetMaxStreams()), policy.CallerShare(limits))
	backends, err := a.backend.Callers(a.opts.Adjust.Backend)
	if err != nil {
		return err
	}
	only := backends[""]
	a.limiter = policy.NewLimiter(limits)
	if !a.opts.Once { // the caller is the operator
		if a.rates, err = upstream.OpenRates(a.cfg, a.opts.Version, a.log.Named("rates")); err != nil {
			return err
		}
	}
	logged, err := telemetry.ParseCallLogMode(a.cfg.GetLog().GetCalls())
	if err != nil {
		return fmt.Errorf("--log-calls: %w", err)
	}
	a.calls = telemetry.NewCallLog(logged, int(a.cfg.GetLog().GetMaxCallsPerSecond()))
	var authorizers policy.Authorities
	if oauth := a.cfg.GetAccess().GetOauth(); identity.HasOAuth(oauth) {
		a.scopes = policy.NewAuthorizer(oauth)
		authorizers = append(authorizers, a.scopes)
	}
	a.slots = policy.NewSlots(limits, policy.SlotOptions{Clock: a.backend.Clock})
	run := a.openRecord()
	a.bridge = bridge.New(a.live, only.Upstream, flights, bridge.Options{
		Server: bridge.ServerInfo{
			Name: a.cfg.GetServer().GetName(), Title: a.cfg.GetServer().GetTitle(),
			Version: a.cfg.GetServer().GetVersion(), Instructions: a.cfg.GetServer().GetInstructions(),
		},
		Version:     a.opts.Version,
		Timeout:     a.cfg.GetTimeout().AsDuration(),
		CatalogWait: a.cfg.GetLimits().GetCatalogWait().AsDuration(),
		MaxResult:   int(a.cfg.GetLimits().GetMaxResultBytes()),
		Held:        a.held,
		MaxInline:   int(limits.GetMaxInlineBytes()),
		SingleUse:   a.shared.SingleUse,
		AnswerTTL:   limits.GetAnswerTtl().AsDuration(), Answers: a.shared.Answers, MaxAnswers: int(limits.GetMaxAnswers()), MaxAnswerBytes: limits.GetMaxAnswerBytes(),
		Authorizers: authorizers,
		Gate:        gate,
		OnBehalf:    only.OnBehalf,
		Backends:    backends,
		Rules:       a.bridgeRules(),
		Confirm:     a.confirms,
		Compact:     compact.OptionsOf(a.cfg.GetCatalog()),
		Programs:    programsOf(a.cfg),

		RepairArguments: a.cfg.GetRepairArguments(),
		Native:          only.Native, Sealer: a.shared.Sealer, Tasks: a.shared.Tasks,
		TaskAfter: a.taskAfter,
		Approvals: a.approvals, Named: a.callerNamed, Again: a.callerAgain, StructuredDenials: config.HasExperiment(a.cfg, config.StructuredDenials),
		ToolDigests:   config.HasExperiment(a.cfg, config.ToolDigest),
		MaxItems:      int(limits.GetMaxResultItems()),
		MaxInputItems: int(limits.GetMaxInputItems()),
		StreamIdle:    limits.GetStreamIdleTimeout().AsDuration(), StreamTime: limits.GetMaxStreamTime().AsDuration(),
		Limiter: a.limiter, Shared: a.rates.Check(), Slots: a.slots, Guard: only.Guard, Shed: a.memory.Shed, Short: a.memory.Short,
		Unread: a.slow.Unread, Streams: a.streams,
		ResultBudget: int(limits.GetResultBudget()), Deterministic: a.cfg.GetDeterministic(),
		Metadata: only.Metadata,
		Log:      a.log, CallLog: a.calls, Stats: a.stats, Tracer: a.opts.Tracer, Audit: a.trail, Documents: run.Documents(),
	})
	a.offers = offer.New(a.bridge, offer.Options{
		Feed: a.feed, Watches: a.watches, Skills: a.skills, PageSize: int(limits.GetMaxPageEntries()), ForwardsHeaders: a.backend.ForwardsHeaders(),
	})
	a.rpc = dialect.New(a.bridge, dialect.Options{
		Offers: a.offers, Sessions: a.sessions, Notify: a.notify,
		Record: run, RecordPayloads: a.cfg.GetRecord().GetPayloads(),
		Listed:       a.says.Lists.Listed,
		Denials:      config.HasExperiment(a.cfg, config.StructuredDenials),
		SkillCache:   config.HasExperiment(a.cfg, config.SkillCache),
		ToolDigests:  config.HasExperiment(a.cfg, config.ToolDigest),
		ToolManifest: config.HasExperiment(a.cfg, config.ToolManifest),
		Variants:     config.HasExperiment(a.cfg, config.ResultVariants),
	})
	return nil
}

// watchEnded says why a stream behind a watch is opened again. Whether the backend can be used is said elsewhere, once.
func (a *App) watchEnded(tool string, failed *errmap.Error, pause time.Duration) {
	fields := []zap.Field{zap.String(logkey.CanonicalTool, tool), zap.Duration("retry_in_ms", pause)}
	if failed != nil {
		fields = append(fields, logkey.Error(failed))
	}
	a.log.Debug("watch stream ended; reopening", fields...)
}

// publish puts a change on the feed of those who listen.
func (a *App) publish(c notify.Change) {
	// A closed feed has no subscribers.
	if err := a.feed.Publish(c); err != nil && !errors.Is(err, notify.ErrClosed) {
		a.log.Warn("change notification failed", logkey.Error(err))
	}
}

// notify puts a notification of a JSON-RPC edge on the bus. Its sender has been
// promised nothing and gets nothing.
func (a *App) notify(ctx context.Context, method string, params []byte, origin correlate.Origin) {
	if who := identity.FromContext(ctx); !who.MayPublish(method) {
		a.noted.Warn("notification not published: an operator can allow it in the callers file (`publish`)",
			zap.String(logkey.Caller, who.Name()), zap.String(logkey.Method, method))
		return
	}
	_, err := a.shared.Bus.Publish(context.Background(), notify.Event{Method: method, Params: params, Publisher: uint64(origin)})
	if err != nil {
		a.noted.Info("notification not delivered to the event bus", logkey.Error(err))
	}
}

// warnOfRandomKey says that what callers bring back is understood by this
// process alone, where there is something to bring back.
func (a *App) warnOfRandomKey(now *catalog.Catalog) {
	if a.cfg.GetState().GetKeyFile() != "" || a.keyWarned {
		return
	}
	seals := now.Description() != nil || now.HasOperations() || a.cfg.GetDestructive() == "confirm" ||
		len(now.Tools()) > int(a.cfg.GetLimits().GetMaxPageEntries())
	if !seals {
		return
	}
	a.keyWarned = true
	a.log.Warn("sealed state uses a random key, which other replicas and later processes cannot open; set --state-key to share one")
}

// openRecord begins the record of this run. A folder that cannot be written is
// a warning: calls go on without records.
func (a *App) openRecord() *trail.Run {
	c := a.cfg.GetRecord()
	if dir := c.GetDir(); dir == "" || dir == "off" {
		return nil
	}
	run, err := trail.OpenRecord(trail.RecordOptions{
		Dir: c.GetDir(), Deterministic: a.cfg.GetDeterministic(), Payloads: c.GetPayloads(), Redact: trail.RedactNames(c),
		MaxFileBytes: c.GetMaxFileBytes(), MaxFiles: int(c.GetMaxFiles()), Log: a.log.Named("record"),
	})
	if err != nil {
		a.recordUnavailable = true
		a.log.Warn("run records disabled: the directory cannot be used; set --record-dir to another directory, or to off", logkey.Error(err))
		return nil
	}
	a.record = run
	return run
}

// keepTools records what the only backend offers if it is a native one, for replays.
func (a *App) keepTools(n *source.Native) {
	if a.record == nil {
		return
	}
	text, err := source.NativeJSON(n)
	if err == nil {
		err = a.record.KeepTools(text)
	}
	if err != nil {
		a.log.Warn("tools of the backend not recorded: a replay of this run needs them from elsewhere", logkey.Error(err))
	}
}

// newSessions makes what holds the sessions of the legacy revisions.
func (a *App) newSessions(flights *correlate.Table) *session.Manager {
	limits := a.cfg.GetLimits()
	return session.New(adjusted(session.Options{
		Max: int(limits.GetMaxSessions()), Age: limits.GetMaxSessionAge().AsDuration(), Sealer: a.shared.Sealer, Feed: a.feed,
		Origin: flights.NewOrigin, Share: policy.CallerShare(limits), Ended: a.sessionEnded,
		Replicas: a.shared.Sessions, Cancel: flights.Cancel, Cut: flights.CloseOrigin,
	}, a.opts.Adjust.Sessions))
}

// errorEvicted is the error.type of sessions that ended because there were too many.
const errorEvicted = "evicted"

// sessionEnded counts the end of a session. Only an eviction is an error: clients leave without
// a word, and are then idle for too long.
func (a *App) sessionEnded(e session.Ended) {
	s := telemetry.Session{Version: e.Version, Transport: telemetry.EdgeMCP.Transport(), Took: e.Took}
	if e.Principal == bridge.CallerStdio {
		s.Transport = telemetry.EdgeStdio.Transport()
	}
	if e.Evicted {
		s.ErrorType = errorEvicted
	}
	a.stats.EndSession(s)
}

// programsOf are the bounds of programs that a configuration describes; nil where none are run.
func programsOf(cfg *configv1.Config) *bridge.Programs {
	c := cfg.GetCatalog().GetPrograms()
	if runs, _ := catalog.RunsPrograms(cfg.GetCatalog()); !runs {
		return nil
	}
	return &bridge.Programs{
		Limits: program.Limits{
			Bytes: int(c.GetMaxProgramBytes()), Depth: int(c.GetMaxDepth()), Steps: uint64(c.GetMaxSteps()),
			Calls: int(c.GetMaxCalls()), Parallel: int(c.GetMaxParallel()), Time: c.GetMaxTime().AsDuration(),
			Memory: c.GetMaxMemoryBytes(), Result: c.GetMaxMemoryBytes(), // and what any result may have
		},
		MaxRunning: int(c.GetMaxRunning()), Share: policy.CallerShare(cfg.GetLimits()), AskEach: c.GetAsk() == "each",
	}
}
