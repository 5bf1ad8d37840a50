// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/keys"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/taskstore"
	"github.com/outrigger-mcp/outrigger/internal/testkit"
)

// replica is its own task manager process, as far as others can tell.
type replica struct {
	*task.Manager
	client *state.Client
	store  *taskstore.Store
	wire   *wire
	stop   context.CancelFunc

	mu    sync.Mutex
	heard []string
	began int
}

// lease is as short as may be.
const lease = 2 * time.Second

// resumed is the work that takes a task over: it says where it runs.
func (r *replica) resume(name string) task.Resume {
	return func(task.Record) (task.Run, task.Spec, error) {
		return func(context.Context, func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.began++
			return &outriggerv1.ToolResult{Status: "success", Explanation: "done at " + name}, nil
		}, task.Spec{About: errmap.About{Idempotent: true}}, nil
	}
}

// startReplica starts one that reaches NATS over its own wire.
func startReplica(t *testing.T, n *natsServer, sealer *keys.Sealer, name string) *replica {
	t.Helper()
	r := &replica{}
	var url string
	r.wire, url = newWire(t, n.URL())
	r.client = open(t, state.Options{Config: configtest.Filled(t, &configv1.State{Url: url}), Sealer: sealer})
	r.store = taskstore.New(r.client, taskstore.Options{Lease: lease, Name: name})
	r.Manager = task.New(r.store, task.Options{OnChange: func(_ string, now *outriggerv1.Task) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.heard = append(r.heard, now.GetTaskId()+" "+now.GetStatus().String())
	}})
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	var all sync.WaitGroup
	all.Go(func() { r.store.Run(ctx) })
	all.Go(func() { r.Run(ctx, r.resume(name)) })
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		r.Drain(over)
		stop()
		all.Wait()
	})
	healthy(t, r.client)
	testkit.Until(t, "it has a lease", func() bool { return r.store.Stats().Owners > 0 })
	return r
}

func (r *replica) hears(what string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.heard, what)
}

// begin starts work as a task that lasts until its context ends, and returns its id and
// what is closed then, after cause was set.
func (r *replica) begin(t *testing.T, again []byte, work task.Run) (id string, ended chan error) {
	t.Helper()
	ended = make(chan error, 1)
	if work == nil {
		work = func(ctx context.Context, _ func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return &outriggerv1.ToolResult{Status: "success", Explanation: "too late"}, nil
		}
	}
	out, err := r.Start(t.Context(), task.Spec{
		Principal: "alice", Tool: "x.y", Again: again, Timeout: time.Minute, TTL: time.Minute, About: errmap.About{ToolCall: true, Idempotent: again != nil},
	}, work)
	if err != nil || out.Task == nil {
		t.Fatalf("%+v, %v", out, err)
	}
	return out.Task.GetTaskId(), ended
}

func (r *replica) status(t *testing.T, id string) *outriggerv1.Task {
	t.Helper()
	got, err := r.Get(t.Context(), "alice", id)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return got
}

const (
	working   = outriggerv1.TaskStatus_TASK_STATUS_WORKING
	completed = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
	failed    = outriggerv1.TaskStatus_TASK_STATUS_FAILED
	cancelled = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED
)

// TestAnyReplicaServesATask: what begins at one is read, cancelled and heard of at another,
// and is no one else's.
func TestAnyReplicaServesATask(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startReplica(t, n, sealer, "a"), startReplica(t, n, sealer, "b")
	id, ended := a.begin(t, nil, nil)
	if got := b.status(t, id); got.GetStatus() != working {
		t.Errorf("at the other replica: %v", got)
	}
	if _, err := b.Get(t.Context(), "bob", id); !errors.Is(err, task.ErrNotFound) {
		t.Errorf("another caller: %v", err)
	}
	if err := b.Cancel(t.Context(), "alice", id); err != nil {
		t.Fatal(err)
	}
	if cause := <-ended; !errors.Is(cause, task.ErrCancelled) {
		t.Errorf("the work ended with %v", cause)
	}
	for _, r := range []*replica{a, b} {
		testkit.Until(t, "each replica hears of the end", func() bool { return r.hears(id + " " + cancelled.String()) })
	}
}

// TestTakeover: a replica that is cut off loses its tasks, each to one other: the work that
// may is run again, the other ends as failed. When it is back it learns so, and its work
// ends; tasks that have ended keep their results.
func TestTakeover(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b, c := startReplica(t, n, sealer, "a"), startReplica(t, n, sealer, "b"), startReplica(t, n, sealer, "c")
	again, lostAgain := a.begin(t, []byte("how"), nil)
	once, lostOnce := a.begin(t, nil, nil)
	done, _ := a.begin(t, nil, func(context.Context, func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
		return &outriggerv1.ToolResult{Status: "success", Explanation: "early"}, nil
	})
	testkit.Until(t, "one task has ended", func() bool { return b.status(t, done).GetStatus() == completed })
	a.wire.cut()
	testkit.Until(t, "the work runs again", func() bool { return strings.HasPrefix(b.status(t, again).GetResult().GetExplanation(), "done at ") })
	testkit.Until(t, "the other task has failed", func() bool { return c.status(t, once).GetStatus() == failed })
	if got := c.status(t, once).GetError(); !strings.Contains(got.GetMessage(), "outcome unknown") || got.GetCode() == 0 {
		t.Errorf("failed with %v", got)
	}
	if got := b.status(t, done).GetResult().GetExplanation(); got != "early" {
		t.Errorf("the finished task is %q now", got)
	}
	bs, cs := b.Stats(), c.Stats()
	if bs.TakenOver+cs.TakenOver != 1 || bs.Unknown+cs.Unknown != 1 {
		t.Errorf("b %+v, c %+v", bs, cs)
	}
	b.mu.Lock()
	c.mu.Lock()
	if b.began+c.began != 1 {
		t.Errorf("the work was run again %d times", b.began+c.began)
	}
	c.mu.Unlock()
	b.mu.Unlock()
	if _, err := a.Get(t.Context(), "alice", again); !errors.Is(err, task.ErrUnavailable) {
		t.Errorf("get at the replica that is cut off: %v", err)
	}
	a.wire.mend()
	for name, ended := range map[string]chan error{"again": lostAgain, "once": lostOnce} {
		if cause := testkit.Receive(t, name+": the work of the former owner ends", ended); !errors.Is(cause, task.ErrTaken) {
			t.Errorf("%s: the work ended with %v", name, cause)
		}
	}
	testkit.Until(t, "a is back", func() bool { _, err := a.Get(t.Context(), "alice", again); return err == nil })
	if got := a.status(t, again).GetResult().GetExplanation(); !strings.HasPrefix(got, "done at ") || got == "too late" {
		t.Errorf("the former owner wrote %q", got)
	}
	if got := a.Stats().Lost; got != 2 {
		t.Errorf("%d tasks lost, want 2", got)
	}
}

// TestAnOutageTakesNothing: while NATS is away work goes on. What ends meanwhile is stored
// when NATS is back, and no one takes anything over.
func TestAnOutageTakesNothing(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startReplica(t, n, sealer, "a"), startReplica(t, n, sealer, "b")
	release := make(chan struct{})
	id, _ := a.begin(t, []byte("how"), func(context.Context, func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
		<-release
		return &outriggerv1.ToolResult{Status: "success", Explanation: "during the outage"}, nil
	})
	long, ended := a.begin(t, nil, nil)
	n.stop()
	if _, err := b.Get(t.Context(), "alice", id); !errors.Is(err, task.ErrUnavailable) {
		t.Errorf("get without NATS: %v", err)
	}
	close(release)
	time.Sleep(lease + time.Second) // all leases are over
	n.start()
	testkit.Until(t, "the result is stored", func() bool {
		got, err := b.Get(t.Context(), "alice", id)
		return err == nil && got.GetResult().GetExplanation() == "during the outage"
	})
	time.Sleep(2 * lease) // in which a wrong conclusion would be drawn
	select {
	case cause := <-ended:
		t.Errorf("work ended by an outage: %v", cause)
	default:
	}
	if got := b.status(t, long).GetStatus(); got != working {
		t.Errorf("the other task is %v", got)
	}
	if s := b.Stats(); s.TakenOver != 0 || s.Unknown != 0 {
		t.Errorf("b took over: %+v", s)
	}
}

// TestDrainHandsOver: a replica that drains leaves work that may run again to another, at
// once, and ends the other.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a, b := startReplica(t, n, sealer, "a"), startReplica(t, n, sealer, "b")
	again, left := a.begin(t, []byte("how"), nil)
	once, _ := a.begin(t, nil, nil)
	testkit.Until(t, "b may judge others", b.store.Steady)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if cut := a.Drain(over); cut != 1 {
		t.Errorf("%d tasks lost, want 1", cut)
	}
	if cause := <-left; !errors.Is(cause, task.ErrClosed) && !errors.Is(cause, task.ErrTaken) {
		t.Errorf("the work ended with %v", cause)
	}
	testkit.Until(t, "it runs again", func() bool { return b.status(t, again).GetResult().GetExplanation() == "done at b" })
	if got := b.status(t, once); got.GetStatus() != failed || !strings.Contains(got.GetError().GetMessage(), "outcome unknown") {
		t.Errorf("the other task: %v", got)
	}
	if s := a.Stats(); s.HandedOver != 1 || s.Unknown != 1 {
		t.Errorf("%+v", s)
	}
}

// TestWhatMayRunAgain: work that was at replicas that died runs again a few times, for it may be what ends them. A rolling update
// drains every replica that it reaches, which says nothing of the work.
func TestWhatMayRunAgain(t *testing.T) {
	t.Parallel()
	n, sealer := startNATS(t, nil), newSealer(t)
	a := startReplica(t, n, sealer, "a")
	const died, drained = "died", ""
	for i, tc := range []struct {
		name, owner          string
		takeovers, handovers int
		wantStatus           outriggerv1.TaskStatus
		wantHandovers        int
	}{
		{"drained again and again", drained, 7, 7, completed, 8},
		{"drained, after deaths", drained, 12, 7, completed, 8},
		{"drained too often", drained, defaults.StateMaxHandovers, defaults.StateMaxHandovers, failed, defaults.StateMaxHandovers},
		{"died, after drains", died, 11, 7, completed, 7},
		{"died too often", died, defaults.StateMaxTakeovers, 0, failed, 0},
		{"died too often, among drains", died, 7 + defaults.StateMaxTakeovers, 7, failed, 7},
	} {
		id := fmt.Sprintf("t_again-%d", i)
		now := timestamppb.Now()
		if err := a.store.Create(t.Context(), task.Record{
			ID: id, Principal: "alice", Tool: "x.y", Owner: tc.owner, Again: []byte("how"), Takeovers: tc.takeovers, Handovers: tc.handovers,
			Keep: time.Minute, Timeout: time.Minute, Expires: time.Now().Add(time.Hour), Idempotent: true,
			Task: &outriggerv1.Task{TaskId: id, Status: working, CreatedAt: now, LastUpdatedAt: now},
		}); err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, tc.name, func() bool { return a.status(t, id).GetStatus() != working })
		got, err := a.store.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if got.Task.GetStatus() != tc.wantStatus || got.Handovers != tc.wantHandovers {
			t.Errorf("%s: %v after %d handovers, want %v after %d", tc.name, got.Task, got.Handovers, tc.wantStatus, tc.wantHandovers)
		}
	}
}
