// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// TestTasksAreSharedOut: one caller leaves places for others, and has them again
// when its tasks are gone.
func TestTasksAreSharedOut(t *testing.T) {
	t.Parallel()
	m := task.NewMemory(task.MemoryOptions{MaxTasks: 10, Share: peer.Percent(80)})
	create := func(caller string, i int) error {
		return m.Create(t.Context(), task.Record{
			ID: fmt.Sprint(caller, i), Principal: caller, Expires: time.Now().Add(time.Hour), Task: &outriggerv1.Task{},
		})
	}
	for i := range 8 {
		if err := create("greedy", i); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("greedy", 8); !errors.Is(err, task.ErrShare) {
		t.Errorf("got %v", err)
	}
	if err := create("other", 0); err != nil {
		t.Errorf("another caller: %v", err)
	}
	for i := range 8 {
		if err := m.Delete(t.Context(), fmt.Sprint("greedy", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := create("greedy", 9); err != nil {
		t.Errorf("after its tasks are gone: %v", err)
	}
}
