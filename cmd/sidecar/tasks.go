// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"

	"go.uber.org/zap"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// newTasks makes what runs plain RPCs on as tasks. They are kept in memory, so
// that they end with the process.
func (a *app) newTasks() *task.Manager {
	limits := a.cfg.GetLimits()
	store := task.NewMemory(task.MemoryOptions{MaxTasks: int(limits.GetMaxTasks()), Share: callerShare(limits)})
	return task.New(store, task.Options{
		TTL: limits.GetTaskTtl().AsDuration(), MaxRunning: int(limits.GetMaxTasks()), Share: callerShare(limits),
		OnChange: func(_ string, t *outriggerv1.Task) {
			a.publish(feed.Change{Kind: feed.TaskChanged, Task: t})
		},
		OnPanic: func(value any, stack []byte) {
			a.log.Error("panic in a task", zap.Any("panic", value), zap.ByteString("stack", stack))
		},
		OnError: func(err error) { a.log.Error("task", zap.Error(err)) },
	})
}

// drainTasks waits for running tasks; what is still running at the end of the
// grace period is lost with the process, and said so.
func (a *app) drainTasks(ctx context.Context) {
	if cut := a.tasks.Drain(ctx); cut > 0 {
		a.cut.Add(uint64(cut))
		a.log.Warn("grace period over: running tasks are lost", zap.Int("tasks", cut))
	}
}

// publish puts a change on the feed of those who listen.
func (a *app) publish(c feed.Change) {
	// A closed feed has no subscribers.
	if err := a.feed.Publish(c); err != nil && !errors.Is(err, feed.ErrClosed) {
		a.log.Warn("change notification failed", zap.Error(err))
	}
}
