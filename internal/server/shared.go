// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/edge/connectapi"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/reload"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/session"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/state/registrationstore"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/export"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// shared is what this process shares with other replicas. All of it is nil without
// --state.
type shared struct {
	client *state.Client
	// sealer seals what is stored, with the keys of what callers bring back.
	sealer *keys.Sealer
	tasks  *taskstore.Store
	// consents are the answers that were used, and that may be used only once.
	consents *state.Once
	events   *state.Stream
	bus      *notify.SharedBus
	// tools are those that operators registered.
	tools *registrationstore.Store
	trust *sharedTrust
	// sessions is the way of legacy sessions to other replicas.
	sessions *session.Replicas
}

// eventBus is the bus of this process, or of all replicas.
type eventBus interface {
	connectapi.EventBus
	Stats() notify.Stats
	Close()
}

// openShared connects to the state of the deployment. keys are those of --state-key.
func (a *App) openShared(keys *keys.Keys) error {
	s := a.cfg.GetState()
	if s.GetUrl() == "" || a.opts.Once {
		return nil
	}
	a.shared.sealer = state.NewSealer(a.cfg.GetLimits(), keys)
	client, err := state.Open(state.OptionsOf(s, a.shared.sealer, a.log.Named("state")))
	if err != nil {
		return fmt.Errorf("--state: %w", err)
	}
	host, _ := os.Hostname() // a name for people; an id is beside it
	a.shared.client = client
	tasks := taskstore.OptionsOf(a.cfg)
	tasks.Name = host
	tasks.OnError = func(err error) { a.noted.Error("stored task cannot be used", logkey.Error(err)) }
	a.shared.tasks = taskstore.New(client, tasks)
	a.shared.sessions = &session.Replicas{
		Self: a.shared.tasks.Self(), Gone: a.shared.tasks.Gone, Channel: client.Channel(session.ChannelName), Ended: client.Bucket(session.EndedBucket()),
	}
	a.shared.consents = client.Once(state.Consents(s))
	a.shared.events = client.Stream(state.Events(s))
	a.shared.tools = registrationstore.New(client, a.live, registrationstore.Options{
		MaxBytes: s.GetMaxRegistrationBytes(), OnChange: a.registeredElsewhere,
		OnError: func(name string, err error) {
			a.log.Warn("tool of another replica not registered here; trying again", zap.String(logkey.CanonicalTool, name), logkey.Error(err))
		},
	})
	a.shared.trust = &sharedTrust{
		bucket: client.Bucket(state.Switches()), gate: a.gate, log: a.log,
		trail: func() *trail.Audit { return a.trail },
	}
	return nil
}

// registeredElsewhere notes a registration that another replica made, or an earlier process.
func (a *App) registeredElsewhere(name, version string, gone bool) {
	change := trail.Change{Kind: "registration", Who: trail.OfProcess(), Tool: name, After: version, Detail: "by the state that replicas share"}
	text := "tool registered for all replicas"
	if gone {
		text, change.Before, change.After = "tool unregistered for all replicas", version, ""
	}
	a.trail.Change(change)
	a.log.Info(text, zap.String(logkey.CanonicalTool, name), zap.String("version", version))
}

// registrar registers tools: here, or at all replicas.
func (a *App) registrar() connectapi.Registrar {
	if a.shared.tools == nil {
		return a.live
	}
	return a.shared.tools
}

// singleUse remembers the answers that may be used only once; nil is the memory of this process.
func (a *App) singleUse() keys.SingleUse {
	if a.shared.consents == nil {
		return nil
	}
	return a.shared.consents
}

// shareBus makes the bus of all replicas, where there is one, of that of this process.
func (a *App) shareBus(local *notify.Bus) eventBus {
	if a.shared.events == nil {
		return local
	}
	a.shared.bus = notify.NewSharedBus(a.shared.events, local)
	return a.shared.bus
}

// newTasks makes what runs plain RPCs on as tasks. Without --state they are kept in
// memory, so that they end with the process.
func (a *App) newTasks() *task.Manager {
	limits := a.cfg.GetLimits()
	var store task.Store = a.shared.tasks
	if a.shared.tasks == nil {
		store = task.NewMemory(task.MemoryOptions{MaxTasks: int(limits.GetMaxTasks()), Share: peer.Percent(int(limits.GetCallerSharePercent()))})
	}
	return task.New(store, task.Options{
		TTL: limits.GetTaskTtl().AsDuration(), MaxRunning: int(limits.GetMaxTasks()), Share: peer.Percent(int(limits.GetCallerSharePercent())),
		MaxTakeovers: int(a.cfg.GetState().GetMaxTakeovers()), MaxHandovers: int(a.cfg.GetState().GetMaxHandovers()),
		OnChange: func(_ string, t *outriggerv1.Task) {
			a.publish(notify.Change{Kind: notify.TaskChanged, Task: t})
		},
		OnPanic: func(value any, stack []byte) {
			a.log.Error("panic in a task", logkey.AppendPanic(nil, value, stack)...)
		},
		OnError: func(err error) { a.log.Error("task error", logkey.Error(err)) },
	})
}

// runShared keeps the shared state usable until ctx ends, and takes over the tasks of
// replicas that have departed.
func (a *App) runShared(ctx context.Context, running *sync.WaitGroup) {
	if a.shared.client == nil {
		return
	}
	running.Go(func() { a.shared.client.Run(ctx) })
	running.Go(func() { a.shared.tasks.Run(ctx) })
	running.Go(func() { a.shared.bus.Run(ctx) })
	running.Go(func() { a.shared.tools.Run(ctx) })
	running.Go(func() { a.shared.trust.run(ctx) })
	running.Go(func() { a.sessions.Run(ctx) })
	running.Go(func() { a.tasks.Run(ctx, a.bridge.ResumeTask) })
}

// watchShared has the files of the connection read again when they change.
func (a *App) watchShared() {
	c := a.shared.client
	if c == nil || len(c.Files()) == 0 {
		return
	}
	a.watcher.Add("state_connection", func(context.Context) reload.Outcome {
		if err := c.Reload(); err != nil {
			a.log.Error("credentials of the shared state not reloaded; keeping the connection", logkey.Error(err))
			return reload.Refused
		}
		a.log.Info("credentials of the shared state reloaded")
		return reload.Applied
	}, c.Files()...)
}

// sharedCheck is what /readyz says about the shared state.
func (a *App) sharedCheck() (admin.Check, bool) {
	if a.shared.client == nil {
		return admin.Check{}, false
	}
	h := a.shared.client.Health()
	detail := h.Why
	if h.OK {
		s := a.shared.tasks.Stats()
		detail = fmt.Sprintf("%d tasks of %d replicas", s.Tasks, s.Owners)
	}
	return admin.Check{Name: "state", OK: h.OK, Degrades: true, Detail: fmt.Sprintf("%s, since %s", detail, h.Since.UTC().Format(time.RFC3339))}, true
}

// sharedMetrics is the same for a scrape.
func (a *App) sharedMetrics() func() export.Shared {
	if a.shared.client == nil {
		return nil
	}
	return func() export.Shared {
		return export.Shared{Available: a.shared.client.Health().OK, Stores: a.shared.client.Stats(), Tasks: a.tasks.Stats(), Known: a.shared.tasks.Stats(), EventsLost: a.shared.bus.Lost()}
	}
}

// drainTasks waits for running tasks. What is still running at the end of the grace
// period is lost with the process, and said so, unless another replica runs it again.
func (a *App) drainTasks(ctx context.Context) {
	cut := a.tasks.Drain(ctx)
	if n := a.tasks.Stats().HandedOver; n > 0 {
		a.log.Info("grace period over: running tasks go on at other replicas", zap.Uint64("tasks", n))
	}
	if cut > 0 {
		a.cut.Add(uint64(cut))
		a.log.Warn("grace period over: running tasks are lost", zap.Int("tasks", cut))
	}
}

// openSealer makes the sealer for what callers bring back.
func (a *App) openSealer() error {
	path := a.cfg.GetState().GetKeyFile()
	options := keys.SealerOptions{TTL: a.cfg.GetState().GetTtl().AsDuration()}
	if path != "" {
		keys, err := keys.LoadKeys(path)
		if err != nil {
			return fmt.Errorf("--state-key: %w", err)
		}
		options.Keys = keys
	}
	a.sealer = keys.NewSealer(adjusted(options, a.opts.Adjust.Seal))
	return a.openShared(options.Keys)
}

// watchKeys has the key file read again when it changes. Keys are rotated by
// adding the new one behind the old on every replica first, so that seconds do
// not matter. Keys that cannot be read leave the last good ones in use.
func (a *App) watchKeys() {
	path := a.cfg.GetState().GetKeyFile()
	if path == "" {
		return
	}
	a.watcher.Add("state_keys", func(context.Context) reload.Outcome {
		keys, err := keys.LoadKeys(path)
		if err != nil {
			a.log.Error("sealing keys reload failed; keeping the last good ones", logkey.Error(err))
			return reload.Refused
		}
		a.sealer.Replace(keys)
		if a.shared.sealer != nil {
			a.shared.sealer.Replace(keys)
		}
		a.log.Info("sealing keys reloaded", zap.Int("keys", keys.Len()))
		return reload.Applied
	}, path)
}
