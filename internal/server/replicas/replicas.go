// SPDX-License-Identifier: Apache-2.0

// Package replicas is what a sidecar has in common with its replicas: what it seals for callers, tasks, the event bus,
// registered tools, the trust, and the way of legacy sessions. Without --state, each is of this process alone or there is none.
package replicas

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/state/registrationstore"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// Options are what a [State] has of its process.
type Options struct {
	Config *configv1.Config
	// Once means that the process ends after one call, and shares nothing.
	Once bool
	Live *catalog.Live
	Gate *policy.Gate
	// Trail is the audit trail, nil without one.
	Trail *trail.Audit
	// Publish tells those who listen of changes of tasks.
	Publish func(notify.Change)
	// Noted is Log for lines that many requests can cause.
	Log, Noted *zap.Logger
	// Seal changes what callers bring back, for tests; nil changes nothing.
	Seal func(*keys.SealerOptions)
}

// State is what this process has in common with its replicas. Make one with [Open].
type State struct {
	// Sealer seals what callers bring back.
	Sealer *keys.Sealer
	// Tasks runs plain RPCs on as tasks.
	Tasks *task.Manager
	// Approvals has calls wait until others approve them.
	Approvals *approval.Service
	// Bus is between those who publish notifications and those who listen: of this process, or of all replicas.
	Bus Bus
	// SingleUse remembers the answers that may be used only once; nil is the memory of this process.
	SingleUse keys.SingleUse
	// Answers keeps the first answers of calls with a key; nil is the memory of this process.
	Answers bridge.KeptAnswers
	// Registrar registers tools: here, or at all replicas.
	Registrar connectapi.Registrar
	// Sessions is the way of legacy sessions to other replicas; nil without --state.
	Sessions *session.Replicas

	opts  Options
	trust trust

	// What follows is nil without --state. sealer seals what is stored, with the keys of what callers bring back.
	client *state.Client
	sealer *keys.Sealer
	tasks  *taskstore.Store
	asked  *approval.Shared
	bus    *notify.SharedBus
	tools  *registrationstore.Store
}

// Bus is the bus of this process, or of all replicas.
type Bus interface {
	connectapi.EventBus
	Stats() notify.Stats
	Close()
}

// Open reads the key of what callers bring back, and connects to the state of the deployment.
func Open(o Options) (*State, error) {
	s := &State{opts: o, Registrar: o.Live, trust: trust{gate: o.Gate, log: o.Log, trail: o.Trail}}
	c := o.Config.GetState()
	options := keys.SealerOptions{TTL: c.GetTtl().AsDuration()}
	if path := c.GetKeyFile(); path != "" {
		loaded, err := keys.LoadKeys(path)
		if err != nil {
			return nil, fmt.Errorf("--state-key: %w", err)
		}
		options.Keys = loaded
	}
	stored := options.Keys
	if o.Seal != nil {
		o.Seal(&options)
	}
	s.Sealer = keys.NewSealer(options)
	limits := o.Config.GetLimits()
	local := notify.NewBus(notify.BusOptions{
		MaxSubscribers: int(limits.GetMaxStreams()),
		MaxBacklog:     int(limits.GetMaxSubscriberBacklog()),
		// What an edge admits is not lost on the bus.
		MaxEventBytes: int(limits.GetMaxMessageBytes()),
		OnDrop: func(slow *notify.SlowError) {
			o.Noted.Warn("slow subscriber disconnected: limits.max_subscriber_backlog exceeded", zap.Int("missed", slow.Missed))
		},
	})
	s.Bus = local
	share := policy.CallerShare(limits)
	var store task.Store
	asked, bounds := approval.Options{Store: approval.NewMemory(nil), OnError: func(err error) { o.Noted.Error("approval error", logkey.Error(err)) }}, o.Config.GetAccess().GetApprovals()
	asked.MaxWaiting, asked.MaxPerCaller = int(bounds.GetMaxWaiting()), int(bounds.GetMaxWaitingPerCaller())
	if c.GetUrl() == "" || o.Once {
		store = task.NewMemory(task.MemoryOptions{MaxTasks: int(limits.GetMaxTasks()), Share: share})
	} else {
		if err := s.connect(stored, local); err != nil {
			return nil, err
		}
		store = s.tasks
		asked.Store, asked.Self, asked.Alive = s.asked, s.tasks.Self(), s.alive
	}
	s.Approvals = approval.New(asked)
	s.Tasks = task.New(store, task.Options{
		TTL: limits.GetTaskTtl().AsDuration(), MaxRunning: int(limits.GetMaxTasks()), Share: share,
		MaxTakeovers: int(c.GetMaxTakeovers()), MaxHandovers: int(c.GetMaxHandovers()),
		OnChange: func(_ string, t *outriggerv1.Task) { o.Publish(notify.Change{Kind: notify.TaskChanged, Task: t}) },
		OnPanic: func(value any, stack []byte) {
			o.Log.Error("panic in a task", logkey.AppendPanic(nil, value, stack)...)
		},
		OnError: func(err error) { o.Log.Error("task error", logkey.Error(err)) },
	})
	return s, nil
}

// connect connects to the state of the deployment, whose keys are those of --state-key. local is the bus of this process.
func (s *State) connect(with *keys.Keys, local *notify.Bus) error {
	o, c := s.opts, s.opts.Config.GetState()
	s.sealer = state.NewSealer(o.Config.GetLimits(), with)
	client, err := state.Open(state.Options{Config: c, Sealer: s.sealer, Log: o.Log.Named("state")})
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	s.client = client
	tasks := taskstore.OptionsOf(o.Config)
	tasks.Name, _ = os.Hostname() // a name for people; an id is beside it
	tasks.OnError = func(err error) { o.Noted.Error("stored task cannot be used", logkey.Error(err)) }
	s.tasks = taskstore.New(client, tasks)
	s.asked = approval.NewShared(client, func(err error) { o.Noted.Error("stored approval cannot be used", logkey.Error(err)) })
	s.Sessions = &session.Replicas{
		Self: s.tasks.Self(), Gone: s.tasks.Gone, Channel: client.Channel(session.ChannelName), Ended: client.Bucket(session.EndedBucket()),
	}
	s.SingleUse = client.Once(state.Consents(c))
	s.Answers = answers{state.Kept{Bucket: client.Bucket(state.Answers(o.Config))}}
	s.bus = notify.NewSharedBus(client.Stream(state.Events(c)), local)
	s.tools = registrationstore.New(client, o.Live, registrationstore.Options{
		MaxBytes: c.GetMaxRegistrationBytes(), OnChange: s.registeredElsewhere,
		OnError: func(name string, err error) {
			o.Log.Warn("tool of another replica not registered here; trying again", zap.String(logkey.CanonicalTool, name), logkey.Error(err))
		},
	})
	s.Bus, s.Registrar = s.bus, s.tools
	s.trust.bucket = client.Bucket(state.Switches())
	return nil
}

// registeredElsewhere notes a registration that another replica made, or an earlier process.
func (s *State) registeredElsewhere(name, version string, gone bool) {
	change := trail.Change{Kind: "registration", Who: trail.OfProcess(), Tool: name, After: version, Detail: "by the state that replicas share"}
	text := "tool registered for all replicas"
	if gone {
		text, change.Before, change.After = "tool unregistered for all replicas", version, ""
	}
	s.opts.Trail.Change(change)
	s.opts.Log.Info(text, zap.String(logkey.CanonicalTool, name), zap.String("version", version))
}

// Trust returns the switch of the gate, of all replicas where they share one.
func (s *State) Trust() admin.Trust { return &s.trust }

// Run keeps the shared state usable until ctx ends, and takes over the tasks of
// replicas that have departed.
func (s *State) Run(ctx context.Context, resume task.Resume) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { s.Approvals.Run(ctx) })
	if s.client == nil {
		return
	}
	all.Go(func() { s.asked.Run(ctx) })
	all.Go(func() { s.client.Run(ctx) })
	all.Go(func() { s.tasks.Run(ctx) })
	all.Go(func() { s.bus.Run(ctx) })
	all.Go(func() { s.tools.Run(ctx) })
	all.Go(func() { s.trust.run(ctx) })
	all.Go(func() { s.Tasks.Run(ctx, resume) })
}

// alive reports whether a replica lives. The error means that this one cannot tell.
func (s *State) alive(ctx context.Context, owner string) (bool, error) {
	if !s.tasks.Steady() {
		return false, approval.ErrUnavailable
	}
	return s.tasks.Alive(ctx, owner)
}

// WatchKeys has the key file read again when it changes. Keys are rotated by
// adding the new one behind the old on every replica first, so that seconds do
// not matter. Keys that cannot be read leave the last good ones in use.
func (s *State) WatchKeys(watcher *reload.Watcher) {
	path := s.opts.Config.GetState().GetKeyFile()
	if path == "" {
		return
	}
	watcher.Add("state_keys", reload.Keep(s.opts.Log, "sealing keys reload failed; keeping the last good ones", "sealing keys reloaded", func() ([]zap.Field, error) {
		loaded, err := keys.LoadKeys(path)
		if err != nil {
			return nil, err
		}
		s.Sealer.Replace(loaded)
		if s.sealer != nil {
			s.sealer.Replace(loaded)
		}
		return []zap.Field{zap.Int("keys", loaded.Len())}, nil
	}), path)
}

// WatchConnection has the files of the connection read again when they change.
func (s *State) WatchConnection(watcher *reload.Watcher) {
	if s.client == nil || len(s.client.Files()) == 0 {
		return
	}
	watcher.Add("state_connection", reload.Keep(s.opts.Log, "credentials of the shared state not reloaded; keeping the connection", "credentials of the shared state reloaded",
		func() ([]zap.Field, error) { return nil, s.client.Reload() }), s.client.Files()...)
}

// Checks say how the shared state is doing, for /readyz.
func (s *State) Checks() []admin.Check {
	if s.client == nil {
		return nil
	}
	h := s.client.Health()
	detail := h.Why
	if h.OK {
		known := s.tasks.Stats()
		detail = fmt.Sprintf("%d tasks of %d replicas", known.Tasks, known.Owners)
	}
	return []admin.Check{{Name: "state", OK: h.OK, Degrades: true, Detail: fmt.Sprintf("%s, since %s", detail, h.Since.UTC().Format(time.RFC3339))}}
}

// Metrics is the same for a scrape; nil without shared state.
func (s *State) Metrics() func() export.Shared {
	if s.client == nil {
		return nil
	}
	return func() export.Shared {
		return export.Shared{Available: s.client.Health().OK, Stores: s.client.Stats(), Tasks: s.Tasks.Stats(), Known: s.tasks.Stats(), EventsLost: s.bus.Lost()}
	}
}

// DrainTasks waits for running tasks, and returns how many were cut. What is still running at the end of the grace
// period is lost with the process, and said so, unless another replica runs it again.
func (s *State) DrainTasks(ctx context.Context) (cut int) {
	cut = s.Tasks.Drain(ctx)
	if n := s.Tasks.Stats().HandedOver; n > 0 {
		s.opts.Log.Info("grace period over: running tasks go on at other replicas", zap.Uint64("tasks", n))
	}
	if cut > 0 {
		s.opts.Log.Warn("grace period over: running tasks are lost", zap.Int("tasks", cut))
	}
	return cut
}

// Close closes the connection. The zero value has none.
func (s *State) Close() {
	if s != nil {
		s.client.Close()
	}
}
