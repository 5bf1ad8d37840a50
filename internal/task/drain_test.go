// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

func TestDrainOfNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		for range 2 {
			if cut := m.Drain(t.Context()); cut != 0 {
				t.Errorf("%d were cut", cut)
			}
		}
		for _, after := range []time.Duration{0, time.Minute} {
			if out, err := m.Start(t.Context(), alice(after), newWork().run); !errors.Is(err, task.ErrClosed) || out != nil {
				t.Errorf("%v, %v; want ErrClosed", out, err)
			}
		}
	})
}

func TestDrainWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen log
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: func(p string, got *outriggerv1.Task) {
			time.Sleep(time.Minute)
			seen.add(p, got)
		}})
		w, call := newWork(), newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		done := start(t.Context(), m, alice(time.Second), call)
		w.report("on")
		wait()
		begun := time.Now()
		ends := make(chan int, 2)
		for range 2 {
			go func() { ends <- m.Drain(t.Context()) }()
		}
		sleep(time.Minute)
		get(t, m, id, working) // what is none does not become a task
		w.ends <- end{result: text("done")}
		sleep(time.Minute)
		if len(ends) != 0 || m.Stats().Running != 1 {
			t.Errorf("%d drains are over, %+v", len(ends), m.Stats())
		}
		call.ends <- end{result: text("called")}
		if got := <-done; got.err != nil || got.out.Result.GetExplanation() != "called" {
			t.Errorf("%+v, %v", got.out, got.err)
		}
		for range 2 {
			if cut := <-ends; cut != 0 {
				t.Errorf("%d were cut", cut)
			}
		}
		if diff := cmp.Diff([]outriggerv1.TaskStatus{working, completed}, seen.statuses()); diff != "" || time.Since(begun) != 2*time.Minute {
			t.Errorf("after %s, changes told (-want +got):\n%s", time.Since(begun), diff)
		}
	})
}

func TestDrainCuts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := task.NewMemory(task.MemoryOptions{})
		var seen log
		m := task.New(store, task.Options{OnChange: seen.add})
		heeds, deaf, call, over := newWork(), newWork(), newWork(), newWork()
		deaf.deaf, over.deaf = true, true
		first, second := begin(t, m, alice(0), heeds), begin(t, m, alice(0), deaf)
		third := begin(t, m, alice(0), over)
		if err := m.Cancel(t.Context(), "alice", third.GetTaskId()); err != nil {
			t.Fatal(err)
		}
		done := start(t.Context(), m, alice(time.Hour), call)
		wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		// The one that was cancelled still goes on, but has ended.
		if cut := m.Drain(ctx); cut != 3 || time.Since(begun) != time.Minute {
			t.Errorf("%d were cut after %s", cut, time.Since(begun))
		}
		for _, w := range []*work{heeds, call} {
			<-w.gone
			if !errors.Is(w.cause, task.ErrClosed) {
				t.Errorf("a work's context ended with %v", w.cause)
			}
		}
		if got := <-done; got.err != nil || got.out.Err == nil || got.out.Err.Code != errmap.Unavailable || got.out.Err.CanRetry(false) {
			t.Errorf("a call: %+v, %v", got.out, got.err)
		}
		for _, id := range []string{first.GetTaskId(), second.GetTaskId()} {
			got := get(t, m, id, completed)
			if r := got.GetResult(); r.GetStatus() != "failure" || !strings.Contains(r.GetError().GetErrorMessage(), "outcome is unknown") {
				t.Errorf("%v", got)
			}
		}
		get(t, m, third.GetTaskId(), cancelled)
		if cut := m.Drain(ctx); cut != 0 {
			t.Errorf("%d were cut again", cut)
		}
		deaf.ends <- end{result: text("late")}
		over.ends <- end{result: text("late")}
		wait()
		if cut := m.Drain(t.Context()); cut != 0 || m.Stats().Running != 0 {
			t.Errorf("%d were cut, stats %+v", cut, m.Stats())
		}
		get(t, m, second.GetTaskId(), completed)
	})
}

// TestDrainWithADeafHook does not wait for it longer than it may.
func TestDrainWithADeafHook(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: func(string, *outriggerv1.Task) { <-release }})
		w := newWork()
		begin(t, m, alice(0), w)
		w.ends <- end{result: text("done")}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun := time.Now()
		if cut := m.Drain(ctx); cut != 0 || time.Since(begun) != time.Minute {
			t.Errorf("%d were cut after %s", cut, time.Since(begun))
		}
		close(release)
	})
}
