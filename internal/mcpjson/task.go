// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendNewTask appends the members of a task for the response to tools/call: its
// identity and progress, without questions, result or error, which only tasks/get
// returns (extension io.modelcontextprotocol/tasks, CreateTaskResult).
func AppendNewTask(dst []byte, t *outriggerv1.Task) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.taskState(t)
	return w.done()
}

// AppendTask appends the members of a task for tasks/get and notifications/tasks. The
// result of a completed task is the given bytes: one compact JSON value, the whole
// result of tools/call, written by its era. The bytes are ignored for other tasks.
func AppendTask(dst []byte, t *outriggerv1.Task, result []byte) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.taskState(t)
	switch t.GetStatus() {
	case outriggerv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED:
		if len(t.GetInputRequests()) == 0 {
			w.failIn("input_requests", "A task that requires input says which.")
		}
		w.member("inputRequests")
		w.questions(t.GetInputRequests())
	case outriggerv1.TaskStatus_TASK_STATUS_COMPLETED:
		if len(result) == 0 {
			w.failIn("result", "A completed task has a result.")
		}
		w.member("result")
		w.dst = append(w.dst, result...)
	case outriggerv1.TaskStatus_TASK_STATUS_FAILED:
		w.member("error")
		w.enter("error")
		w.object(t.GetError())
		w.leave()
	}
	return w.done()
}

// taskState appends what every view of a task has.
func (w *writer) taskState(t *outriggerv1.Task) {
	w.members(t)
	w.member("ttlMs")
	if t.GetTtl() == nil {
		w.raw("null")
	} else {
		w.milliseconds("ttl", t.GetTtl(), 0)
	}
	if t.GetPollInterval() != nil {
		w.member("pollIntervalMs")
		w.milliseconds("poll_interval", t.GetPollInterval(), time.Millisecond-1)
	}
}

// milliseconds appends a duration in whole milliseconds, after something was added to
// round up with.
func (w *writer) milliseconds(field string, d *durationpb.Duration, extra time.Duration) {
	if d.CheckValid() != nil || d.GetSeconds() < 0 || d.GetNanos() < 0 {
		w.failIn(field, "Make it a duration that is not negative.")
		return
	}
	// Not by time.Duration, which ends at 292 years and Protobuf's at 10,000.
	w.dst = strconv.AppendInt(w.dst, d.GetSeconds()*1000+(int64(d.GetNanos())+int64(extra))/int64(time.Millisecond), 10)
}
