// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// TestASlowHookHoldsNobodyUp, gets every change of a status, and the newest of
// what does not change it.
func TestASlowHookHoldsNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var told []string
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: func(principal string, got *outriggerv1.Task) {
			checkTask(t, got)
			told = append(told, principal+" "+got.GetStatus().String()[len("TASK_STATUS_"):]+" "+got.GetStatusMessage())
			<-release
		}})
		w := newWork()
		begun := time.Now()
		id := begin(t, m, alice(0), w).GetTaskId()
		for n := range 1000 {
			w.report(strconv.Itoa(n))
			if n == 0 {
				wait()
			}
		}
		w.ends <- end{result: text("done")}
		wait()
		get(t, m, id, completed)
		if time.Since(begun) != 0 {
			t.Errorf("it took %s", time.Since(begun))
		}
		close(release)
		wait()
		want := []string{
			"alice WORKING 0", "alice WORKING 999", "alice COMPLETED ",
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// TestAHookMayUseTheManager, since no lock is held.
func TestAHookMayUseTheManager(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var m *task.Manager
		var last outriggerv1.TaskStatus
		m = task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: func(principal string, got *outriggerv1.Task) {
			if last = got.GetStatus(); last == working {
				if err := m.Cancel(t.Context(), principal, got.GetTaskId()); err != nil {
					t.Error(err)
				}
			}
			got.TaskId = "changed" // its own
		}})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		w.report("on")
		<-w.gone
		wait()
		if got := get(t, m, id, cancelled); got.GetTaskId() != id {
			t.Errorf("the hook changed it: %v", got)
		}
		if last != cancelled {
			t.Errorf("last told: %v", last)
		}
	})
}

// TestAHookThatPanics does not keep others from being told.
func TestAHookThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var told, panics int
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{
			OnChange: func(string, *outriggerv1.Task) {
				told++
				panic("oh")
			},
			OnPanic: func(any, []byte) { panics++ },
		})
		for range 3 {
			w := newWork()
			begin(t, m, alice(0), w)
			w.ends <- end{result: text("done")}
			wait()
		}
		if told != 3 || panics != 3 {
			t.Errorf("told %d times, %d panics", told, panics)
		}
	})
}
