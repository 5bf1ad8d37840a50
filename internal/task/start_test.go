// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// started is what Start returned.
type started struct {
	out *task.Outcome
	err error
}

// start runs Start beside the test.
func start(ctx context.Context, m *task.Manager, spec task.Spec, w *work) <-chan started {
	done := make(chan started, 1)
	go func() {
		out, err := m.Start(ctx, spec, w.run)
		done <- started{out, err}
	}()
	return done
}

func alice(after time.Duration) task.Spec {
	return task.Spec{Principal: "alice", Tool: "a.b", After: after}
}

func TestAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := newWork()
		begun := time.Now()
		got := begin(t, m, task.Spec{
			Principal: "alice", Tool: "a.b", Timeout: time.Minute, TTL: 10 * time.Minute,
		}, w)
		want := &outriggerv1.Task{
			TaskId: got.GetTaskId(), Status: working, CreatedAt: timestamppb.New(begun), LastUpdatedAt: timestamppb.New(begun),
			// The work, the grace and how long its result is kept.
			Ttl:          durationpb.New(time.Minute + task.Grace + 10*time.Minute),
			PollInterval: durationpb.New(time.Second),
		}
		if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
			t.Errorf("the new task (-want +got):\n%s", diff)
		}
		if !regexp.MustCompile(`^t_[A-Za-z0-9_-]{27}$`).MatchString(got.GetTaskId()) {
			t.Errorf("the id is %q", got.GetTaskId())
		}
		if diff := cmp.Diff(want, get(t, m, got.GetTaskId(), working), protocmp.Transform()); diff != "" {
			t.Errorf("the task at once (-want +got):\n%s", diff)
		}
		sleep(20 * time.Second)
		w.ends <- end{result: text("done")}
		wait()
		want.Status, want.Completion = completed, &outriggerv1.Task_Result{Result: text("done")}
		want.LastUpdatedAt = timestamppb.New(begun.Add(20 * time.Second))
		want.Ttl = durationpb.New(20*time.Second + 10*time.Minute)
		if diff := cmp.Diff(want, get(t, m, got.GetTaskId(), completed), protocmp.Transform()); diff != "" {
			t.Errorf("the task at its end (-want +got):\n%s", diff)
		}
		sleep(10*time.Minute - time.Nanosecond)
		get(t, m, got.GetTaskId(), completed)
		sleep(time.Nanosecond)
		missing(t, m, "alice", got.GetTaskId())
		if s := m.Stats(); s != (task.Stats{Became: 1, Completed: 1}) {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestWhatEndsInTimeIsNoTask(t *testing.T) {
	refused := errmap.New(errmap.InvalidParams)
	for name, e := range map[string]end{
		"a result": {result: text("quick")}, "an error": {err: refused}, "an error and a result": {result: text("no"), err: refused},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store := task.NewMemory(task.MemoryOptions{})
				m := task.New(store, task.Options{OnChange: func(string, *outriggerv1.Task) { t.Error("a task was seen") }})
				w := newWork()
				done := start(t.Context(), m, alice(5*time.Second), w)
				sleep(5*time.Second - time.Nanosecond)
				w.report("nearly there")
				w.ends <- e
				got := <-done
				if got.err != nil || got.out.Task != nil || (got.out.Result != nil) == (e.err != nil) || got.out.Err != e.err {
					t.Errorf("%+v, %v", got.out, got.err)
				}
				sleep(time.Minute)
				if s := store.Stats(); s != (task.MemoryStats{}) {
					t.Errorf("the store holds %+v", s)
				}
				if s := m.Stats(); s != (task.Stats{}) {
					t.Errorf("stats: %+v", s)
				}
			})
		})
	}
}

func TestACallBecomesATask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		type key struct{}
		var seen log
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: seen.add})
		w := newWork()
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "trace"), 6*time.Second)
		done := start(ctx, m, alice(5*time.Second), w)
		sleep(time.Second)
		w.report("a tenth")
		sleep(4 * time.Second)
		got := <-done
		if got.err != nil || got.out.Task.GetStatusMessage() != "a tenth" {
			t.Fatalf("%+v, %v", got.out, got.err)
		}
		// The request ends, by its deadline and by its connection.
		cancel()
		sleep(time.Hour)
		w.steps <- func(ctx context.Context, report func(string)) {
			if deadline, _ := ctx.Deadline(); ctx.Err() != nil || ctx.Value(key{}) != "trace" || time.Until(deadline) != 23*time.Hour-5*time.Second {
				t.Errorf("the work's context: %v, %v, until %s", ctx.Err(), ctx.Value(key{}), deadline)
			}
			report("a half")
			report("a half")
		}
		wait()
		now := get(t, m, got.out.Task.GetTaskId(), working)
		if now.GetStatusMessage() != "a half" || now.GetLastUpdatedAt().AsTime().Sub(now.GetCreatedAt().AsTime()) != time.Hour {
			t.Errorf("the task: %v", now)
		}
		w.ends <- end{result: text("done")}
		wait()
		if last := get(t, m, got.out.Task.GetTaskId(), completed); last.GetStatusMessage() != "" || last.GetResult().GetExplanation() != "done" {
			t.Errorf("the task at its end: %v", last)
		}
		// Its creation is no change, nor is a message that says the same again.
		if diff := cmp.Diff([]outriggerv1.TaskStatus{working, completed}, seen.statuses()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
	})
}

func TestARequestThatEndsEndsItsCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		gone := errors.New("the caller hung up")
		store := task.NewMemory(task.MemoryOptions{})
		m := task.New(store, task.Options{})
		w := newWork()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := start(ctx, m, alice(5*time.Second), w)
		sleep(5*time.Second - time.Nanosecond)
		cancel(gone)
		if got := <-done; !errors.Is(got.err, gone) || got.out != nil {
			t.Errorf("%v, %v; want the cause", got.out, got.err)
		}
		<-w.gone
		if !errors.Is(w.cause, gone) {
			t.Errorf("the work's context ended with %v, want the cause", w.cause)
		}
		// Nothing begins for a request that has ended.
		if out, err := m.Start(ctx, alice(0), newWork().run); !errors.Is(err, gone) || out != nil {
			t.Errorf("%v, %v; want the cause", out, err)
		}
		sleep(time.Minute)
		if s, held := m.Stats(), store.Stats(); s != (task.Stats{}) || held.Tasks != 0 {
			t.Errorf("stats: %+v, %+v", s, held)
		}
	})
}

// TestARequestThatEndsWhileItsTaskIsMade: no client knows of the task, so there
// is none.
func TestARequestThatEndsWhileItsTaskIsMade(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "later": time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				memory := task.NewMemory(task.MemoryOptions{})
				ctx, cancel := context.WithCancel(t.Context())
				store := &unsure{Memory: memory, then: cancel}
				m := task.New(store, task.Options{})
				out, err := m.Start(ctx, alice(after), newWork().run)
				if !errors.Is(err, context.Canceled) || out != nil {
					t.Errorf("%v, %v; want Canceled", out, err)
				}
				wait()
				if s := m.Stats(); s != (task.Stats{}) || memory.Stats().Tasks != 0 {
					t.Errorf("stats: %+v, %+v", s, memory.Stats())
				}
			})
		})
	}
}

// unsure does something right after it has created a record.
type unsure struct {
	*task.Memory
	then func()
}

func (u *unsure) Create(ctx context.Context, r task.Record) error {
	err := u.Memory.Create(ctx, r)
	u.then()
	return err
}

// ending ends each task as soon as it has its record, as another replica may that takes the record for that of a dead one.
type ending struct {
	*task.Memory

	m *task.Manager
}

func (e *ending) Create(ctx context.Context, r task.Record) error {
	if err := e.Memory.Create(ctx, r); err != nil {
		return err
	}
	return e.m.Cancel(ctx, r.Principal, r.ID)
}

// TestATaskThatEndsWhileItIsMade: its caller gets an answer, and its work ends.
func TestATaskThatEndsWhileItIsMade(t *testing.T) {
	for name, after := range map[string]time.Duration{"at once": 0, "later": time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				store, w := &ending{Memory: task.NewMemory(task.MemoryOptions{})}, newWork()
				store.m = task.New(store, task.Options{})
				got := <-start(t.Context(), store.m, alice(after), w)
				if got.err != nil || got.out == nil || got.out.Err == nil || got.out.Err.Code != errmap.Unavailable {
					t.Errorf("got %+v, %v", got.out, got.err)
				}
				wait()
				w.mustBeGone(t)
			})
		})
	}
}

// TestWorkThatEndsWhileItsTaskIsMade is answered as the call it was.
func TestWorkThatEndsWhileItsTaskIsMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		memory := task.NewMemory(task.MemoryOptions{})
		w := newWork()
		m := task.New(&unsure{Memory: memory, then: func() {
			w.ends <- end{result: text("just in time")}
			wait()
		}}, task.Options{})
		out, err := m.Start(t.Context(), alice(time.Second), w.run)
		if err != nil || out.Task != nil || out.Result.GetExplanation() != "just in time" {
			t.Errorf("%v, %v", out, err)
		}
		if held := memory.Stats().Tasks; held != 0 {
			t.Errorf("%d tasks are left", held)
		}
	})
}

// TestAReportWhileTheTaskIsMade is not lost.
func TestAReportWhileTheTaskIsMade(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWork()
		m := task.New(&unsure{Memory: task.NewMemory(task.MemoryOptions{}), then: func() {
			w.report("now")
			wait()
		}}, task.Options{})
		out, err := m.Start(t.Context(), alice(time.Second), w.run)
		if err != nil {
			t.Fatal(err)
		}
		wait()
		if got := get(t, m, out.Task.GetTaskId(), working).GetStatusMessage(); got != "now" {
			t.Errorf("the message is %q", got)
		}
		w.ends <- end{result: text("done")}
	})
}

func TestAFullStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{MaxTasks: 1}), task.Options{})
		first := newWork()
		id := begin(t, m, alice(0), first).GetTaskId()
		// What should be a task at once is not begun.
		if out, err := m.Start(t.Context(), alice(0), func(context.Context, func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
			t.Error("it was begun")
			return nil, nil
		}); !errors.Is(err, task.ErrFull) || out != nil {
			t.Errorf("%v, %v; want ErrFull", out, err)
		}
		// What has begun stays a call, and is not thrown away.
		second := newWork()
		done := start(t.Context(), m, alice(time.Second), second)
		sleep(time.Hour)
		if s := m.Stats(); s != (task.Stats{Running: 2, Became: 1, Stayed: 1}) {
			t.Errorf("stats: %+v", s)
		}
		second.ends <- end{result: text("in the end")}
		if got := <-done; got.err != nil || got.out.Result.GetExplanation() != "in the end" {
			t.Errorf("%v, %v", got.out, got.err)
		}
		first.ends <- end{result: text("done")}
		wait()
		get(t, m, id, completed)
		// A finished task keeps its place until it is forgotten.
		if _, err := m.Start(t.Context(), alice(0), newWork().run); !errors.Is(err, task.ErrFull) {
			t.Errorf("%v, want ErrFull", err)
		}
		sleep(defaults.TaskTTL)
		third := newWork()
		begin(t, m, alice(0), third)
		third.ends <- end{result: text("done")}
	})
}

func TestTooMuchWork(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{MaxRunning: 2})
		// Work that was cancelled and does not heed it counts, and so does a call.
		deaf, call := newWork(), newWork()
		deaf.deaf = true
		id := begin(t, m, alice(0), deaf).GetTaskId()
		if err := m.Cancel(t.Context(), "alice", id); err != nil {
			t.Fatal(err)
		}
		done := start(t.Context(), m, alice(time.Minute), call)
		wait()
		for _, after := range []time.Duration{0, time.Minute} {
			if _, err := m.Start(t.Context(), alice(after), newWork().run); !errors.Is(err, task.ErrFull) {
				t.Errorf("%v, want ErrFull", err)
			}
		}
		deaf.ends <- end{result: text("late")}
		call.ends <- end{result: text("quick")}
		<-done
		wait()
		get(t, m, id, cancelled)
		w := newWork()
		begin(t, m, alice(0), w)
		w.ends <- end{result: text("done")}
	})
}

func TestStoreThatFailsAtTheStart(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := &faulty{Store: task.NewMemory(task.MemoryOptions{}), create: func() error { return errStore }}
		m := task.New(store, task.Options{})
		if _, err := m.Start(t.Context(), alice(0), newWork().run); !errors.Is(err, errStore) {
			t.Errorf("%v, want the store's", err)
		}
		w := newWork()
		done := start(t.Context(), m, alice(time.Second), w)
		sleep(time.Minute)
		w.ends <- end{result: text("done")}
		if got := <-done; got.err != nil || got.out.Result == nil {
			t.Errorf("%v, %v", got.out, got.err)
		}
		wait()
		if s := m.Stats(); s != (task.Stats{Stayed: 1}) {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestIDs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		seen := map[string]bool{}
		for range 100 {
			w := newWork()
			id := begin(t, m, alice(0), w).GetTaskId()
			w.ends <- end{result: text("done")}
			wait()
			if seen[id] {
				t.Errorf("%s twice", id)
			}
			seen[id] = true
		}
		if s := m.Stats(); s.Running != 0 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestOthersSeeNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		for _, principal := range []string{"bob", "", "alice ", "Alice"} {
			missing(t, m, principal, id)
		}
		for _, other := range []string{"", "t_", id[:len(id)-1], id + "A", strings.ToUpper(id), strings.Repeat("x", 100_000)} {
			missing(t, m, "alice", other)
		}
		get(t, m, id, working)
		if err := update(m, "alice", id); err != nil {
			t.Error(err)
		}
		w.ends <- end{result: text("done")}
	})
}

// TestAStoreThatSaysMore about what it does not find is not passed on.
func TestAStoreThatSaysMore(t *testing.T) {
	t.Parallel()
	missing(t, task.New(&faulty{Store: task.NewMemory(task.MemoryOptions{}), get: func(err error) error {
		return fmt.Errorf("it expired yesterday: %w", err)
	}}, task.Options{}), "alice", "t_x")
}

// TestWorkLeavesNothingBehind: what a request brought along is freed with its
// work, not when the work's time would have been over, although the runtime may
// hold on to timers that were stopped.
func TestWorkLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	type key struct{}
	m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
	const requests = 400
	var held []weak.Pointer[[1 << 10]byte]
	for n := range requests {
		brought := new([1 << 10]byte)
		held = append(held, weak.Make(brought))
		_, err := m.Start(context.WithValue(t.Context(), key{}, brought), alice(time.Duration(n%2)*time.Hour),
			func(context.Context, func(string)) (*outriggerv1.ToolResult, *errmap.Error) { return text("done"), nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Drain(t.Context())
	runtime.GC()
	left := 0
	for _, p := range held {
		if p.Value() != nil {
			left++
		}
	}
	// The last ones may be on a stack that is not used any longer.
	if left > requests/20 {
		t.Errorf("%d of %d are still held", left, requests)
	}
	runtime.KeepAlive(m)
}

// TestTheMessageIsTheCallers: what one caller does to a task that it was given,
// another does not see, and every field of the contract is there.
func TestTheMessageIsTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w := newWork()
		first := begin(t, m, alice(0), w)
		id := first.GetTaskId()
		first.TaskId, first.Ttl, first.StatusMessage = "sealed", nil, "changed"
		second := get(t, m, id, working)
		if second.GetTaskId() != id || second.GetTtl() == nil || second.GetStatusMessage() != "" {
			t.Errorf("changed by its caller: %v", second)
		}
		whole := proto.CloneOf(second)
		second.Status = failed
		if diff := cmp.Diff(whole, get(t, m, id, working), protocmp.Transform()); diff != "" {
			t.Errorf("changed by another caller (-want +got):\n%s", diff)
		}
		w.ends <- end{result: text("done")}
	})
}
