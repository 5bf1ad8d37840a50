// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"testing"

	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/task"
	"github.com/outrigger-mcp/outrigger/internal/task/tasktest"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	tasktest.Contract(t, tasktest.Kit{
		New: func(_ *testing.T, maxTasks int, rule peer.Rule) task.Store {
			return task.NewMemory(task.MemoryOptions{MaxTasks: maxTasks, Share: rule})
		},
		Settle: func(*testing.T, func() bool) {},
	})
}
