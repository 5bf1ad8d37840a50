// SPDX-License-Identifier: Apache-2.0

package mcpjson

import (
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// AppendNewTask appends the members of a task as tools/call answers with it: what
// it is and how far, without questions, result or error, which only tasks/get tells
// (extension io.modelcontextprotocol/tasks, CreateTaskResult).
func AppendNewTask(dst []byte, t *outriggerv1.Task) ([]byte, error) {
	w := newWriter(dst, Rev20260728)
	w.taskState(t)
	return w.done()
}

// AppendTask appends the members of a task as tasks/get and notifications/tasks
// show it. A completed task has the given bytes as its result: one compact JSON
// value, the whole result of tools/call, which its era writes. For other tasks they
// are not looked at.
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
		w.errorObject(t.GetError())
		w.leave()
	}
	return w.done()
}

// taskState appends what every view of a task has.
func (w *writer) taskState(t *outriggerv1.Task) {
	w.need("taskId", "task_id", t.GetTaskId())
	w.member("status")
	w.quote(taskStatus(t.GetStatus()))
	if taskStatus(t.GetStatus()) == "" {
		w.failIn("status", "MCP requires it; give one of the five.")
	}
	w.text("statusMessage", t.GetStatusMessage())
	w.time("createdAt", "created_at", t.GetCreatedAt())
	w.time("lastUpdatedAt", "last_updated_at", t.GetLastUpdatedAt())
	if t.GetTtl() == nil {
		w.member("ttlMs")
		w.raw("null")
	} else {
		w.integer("ttlMs", w.milliseconds("ttl", t.GetTtl(), 0))
	}
	if t.GetPollInterval() != nil {
		w.integer("pollIntervalMs", w.milliseconds("poll_interval", t.GetPollInterval(), time.Millisecond-1))
	}
}

// milliseconds returns a duration in whole milliseconds, after something was added
// to round up with.
func (w *writer) milliseconds(field string, d *durationpb.Duration, extra time.Duration) int64 {
	if d.CheckValid() != nil || d.GetSeconds() < 0 || d.GetNanos() < 0 {
		w.failIn(field, "Make it a duration that is not negative.")
		return 0
	}
	// Not by time.Duration, which ends at 292 years and Protobuf's at 10,000.
	return d.GetSeconds()*1000 + (int64(d.GetNanos())+int64(extra))/int64(time.Millisecond)
}

func taskStatus(s outriggerv1.TaskStatus) string {
	switch s {
	case outriggerv1.TaskStatus_TASK_STATUS_WORKING:
		return "working"
	case outriggerv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED:
		return "input_required"
	case outriggerv1.TaskStatus_TASK_STATUS_COMPLETED:
		return "completed"
	case outriggerv1.TaskStatus_TASK_STATUS_FAILED:
		return "failed"
	case outriggerv1.TaskStatus_TASK_STATUS_CANCELLED:
		return "cancelled"
	default:
		return ""
	}
}

// errorObject appends a JSON-RPC error. Its message may be empty, its code not: 0
// is what a code that was never set looks like.
func (w *writer) errorObject(e *outriggerv1.ErrorObject) {
	if e.GetCode() == 0 {
		w.failIn("code", "A failed task has an error with a code other than 0.")
	}
	w.raw(`{"code":`)
	w.dst = strconv.AppendInt(w.dst, int64(e.GetCode()), 10)
	w.member("message")
	w.quote(e.GetMessage())
	w.value("data", "data", e.GetDataJson(), e.GetData())
	w.raw("}")
}
