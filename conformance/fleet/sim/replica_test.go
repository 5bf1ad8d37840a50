// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/notify"
	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/source"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/state/registrationstore"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/approval"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// replicaSlots is the number of replicas at a time.
	replicaSlots = 3
	// principal makes all calls.
	principal = "alice"
	// keep is longer than a simulation, so that no task expires in its history.
	keep = 5 * time.Minute
	// finishTimeout is how long a replica tries to note that an approved call has ended.
	finishTimeout = 5 * time.Second
)

// replica is what one process shares with others, as the sidecar assembles it.
type replica struct {
	w    *world
	name string
	slot int

	client   *state.Client
	store    *taskstore.Store
	tasks    *task.Manager
	consents *state.Once
	bus      *notify.SharedBus
	live     *catalog.Live
	tools    *registrationstore.Store
	table    *correlate.Table
	slots    *policy.Slots
	// office is where approvals are asked for and decided; nil without any.
	office  *approval.Service
	serving atomic.Int32
	cancel  context.CancelFunc
	running sync.WaitGroup

	// dead: it was killed, and nothing of it reaches others any more. w.mu guards both.
	dead, draining bool
}

// startReplica starts a process in a slot.
func (w *world) startReplica(slot int) {
	w.mu.Lock()
	r := &replica{w: w, slot: slot, name: fmt.Sprintf("r%d.%d", slot, len(w.replicas))}
	w.mu.Unlock()
	w.running.Go(func() { r.begin() })
}

// begin assembles the process. It waits for connections.
func (r *replica) begin() {
	w := r.w
	var err error
	r.client, err = state.Open(state.Options{
		Config: &configv1.State{
			Url: w.cluster.URL(), Name: new("sim"), Replicas: new(int32(servers)), OperationTimeout: durationpb.New(defaults.StateOperationTimeout),
		},
		Sealer: w.sealer,
		Dialer: dialer{r},
	})
	if err != nil {
		w.violate(propertyWorks, "open: %v", err)
		return
	}
	r.store = taskstore.New(r.client, taskstore.Options{Lease: w.lease, Name: r.name, OnError: r.odd, MaxTasks: w.maxTasks})
	r.consents = r.client.Once(state.OnceOptions{Name: "consents", MaxBytes: w.maxConsents, MaxAge: time.Hour})
	r.tasks = task.New(r.store, task.Options{OnError: r.odd, OnPanic: func(value any, stack []byte) {
		w.violate(propertyWorks, "panic: %v\n%s", value, stack)
	}})
	r.table = correlate.New(correlate.Options{})
	r.slots = policy.NewSlots(&configv1.Limits{MaxConcurrentCalls: new(int32(mostCalls)), MaxQueuedCalls: new(int32(queuedCalls)), MaxQueueWait: durationpb.New(queueWait)}, policy.SlotOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel = cancel
	r.bus = notify.NewSharedBus(r.client.Stream(state.StreamOptions{Name: "events", MaxBytes: 4 << 20, MaxAge: time.Hour, DropOldest: true}), notify.NewBus(notify.BusOptions{}))
	r.running.Go(func() { r.bus.Run(ctx) })
	if w.hasTools {
		r.live = catalog.NewLive([]source.Source{shop()}, catalog.LiveOptions{})
		r.tools = registrationstore.New(r.client, r.live, registrationstore.Options{MaxBytes: 4 << 20, OnError: func(name string, err error) {
			w.violate(propertyErrors, "%s: a registration of %s: %v", r.name, name, err)
		}})
		r.running.Go(func() { _ = r.live.Run(ctx) })
		r.running.Go(func() { r.tools.Run(ctx) })
	}
	if w.hasApprovals {
		shared := approval.NewShared(r.client, r.odd)
		r.office = approval.New(approval.Options{
			Store: shared, Self: r.store.Self(), Alive: r.alive, OnError: r.odd,
			Rule: func(name string) (approval.Rule, bool) { return w.rule, name == w.rule.Name },
			Operator: func(name string) (approval.Approver, bool) {
				out, ok := operators()[name]
				return out, ok
			},
		})
		r.running.Go(func() { shared.Run(ctx) })
		r.running.Go(func() { r.office.Run(ctx) })
	}
	r.running.Go(func() { r.client.Run(ctx) })
	r.running.Go(func() { r.store.Run(ctx) })
	r.running.Go(func() { r.tasks.Run(ctx, r.resume) })
	w.mu.Lock()
	w.replicas = append(w.replicas, r)
	w.mu.Unlock()
	w.active()
}

// alive reports whether another replica lives, as the sidecar does.
func (r *replica) alive(ctx context.Context, owner string) (bool, error) {
	if !r.store.Steady() {
		return false, approval.ErrUnavailable
	}
	return r.store.Alive(ctx, owner)
}

// odd sorts what a replica could say to no caller.
func (r *replica) odd(err error) {
	if errors.Is(err, task.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, state.ErrUnavailable) || errors.Is(err, approval.ErrUnavailable) {
		r.w.reach("a replica gives up a write")
		return
	}
	r.w.violate(propertyErrors, "%s: %v", r.name, err)
}

// isPresent reports whether clients find it.
func (r *replica) isPresent() bool { return !r.dead && !r.draining }

// kill ends a replica as kill -9 does: nothing of it reaches others any more.
func (r *replica) kill() {
	w := r.w
	w.mu.Lock()
	r.dead = true
	var mine []*wire
	for _, c := range w.live {
		if c.replica == r {
			mine = append(mine, c)
		}
	}
	w.mu.Unlock()
	for _, c := range mine {
		w.reset(c)
	}
	w.ledger.killed(r)
	w.count(r)
	w.running.Go(r.end)
}

// drain ends a replica as SIGTERM does, with some time for its work.
func (r *replica) drain(grace time.Duration) {
	w := r.w
	w.mu.Lock()
	r.draining = true
	w.mu.Unlock()
	w.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		if r.tasks.Stats().Running > 0 {
			w.reach("a drain with work")
		}
		var calls sync.WaitGroup
		calls.Go(func() { _ = r.table.Drain(ctx) })
		r.tasks.Drain(ctx)
		calls.Wait()
		w.count(r)
		// What was cut off is answered, too: an operation of the state may have to end first.
		limit := time.Now().Add(operationTimeout + time.Second)
		if w.hasApprovals {
			limit = limit.Add(finishTimeout)
		}
		for r.table.InFlight() > 0 && time.Now().Before(limit) {
			time.Sleep(10 * time.Millisecond)
		}
		w.exercise(propertyDrain)
		if n := r.table.InFlight(); n > 0 {
			w.violate(propertyDrain, "%s ends with %d calls", r.name, n)
		}
		w.mu.Lock()
		r.dead = true
		w.mu.Unlock()
		r.end()
		w.ledger.killed(r) // what it left behind runs on without it
	})
}

// end ends all goroutines of a replica.
func (r *replica) end() {
	r.cancel()
	r.running.Wait()
	r.bus.Close()
	r.client.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	r.tasks.Drain(over)
}

// work is a call of the backend. It takes as long as its name says.
func (r *replica) work(method, name string) task.Run {
	return func(ctx context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
		r.w.ledger.begin(r.w, r, method, name)
		defer r.w.ledger.end(r, method, name)
		_, text, _ := strings.Cut(name, "~")
		lasts, err := time.ParseDuration(text)
		if err != nil {
			r.w.violate(propertyIDs, "a call has the arguments %q", name)
		}
		report("at work")
		timer := time.NewTimer(lasts)
		defer timer.Stop()
		select {
		case <-timer.C:
			return &outriggerv1.ToolResult{
				Status: "success", Explanation: models.ResultOf(method, name),
				Content: []*outriggerv1.ContentBlock{{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: r.store.Self()}}}},
			}, nil
		case <-ctx.Done():
			return nil, errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		}
	}
}

// resume runs a call of another replica again.
func (r *replica) resume(record task.Record) (task.Run, task.Spec, error) {
	if again, ok := strings.CutPrefix(string(record.Again), againPrefix); ok {
		return r.resumeWaiting(again)
	}
	r.w.reach("work runs again")
	return r.work("Look", string(record.Again)), task.Spec{About: errmap.About{Idempotent: true}}, nil
}
