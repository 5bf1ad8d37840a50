// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"

	"github.com/outrigger-mcp/outrigger/bridge/catalog"
	"github.com/outrigger-mcp/outrigger/bridge/seal"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// markSize is the length of a mark. Sealed ids have little room to spare, and
// among a thousand tools two have the same mark once in 500 million catalogs.
const markSize = 6

// markOf tells a task's tool from others when its result comes, which no message
// about a task does. A tool without an output schema needs none.
func markOf(t *catalog.Tool) []byte {
	if !t.HasOutput() {
		return nil
	}
	digest := seal.Digest([]byte("tool of a task"), []byte(t.Name))
	return digest[:markSize]
}

// marked is what stands in the sealed id of a backend's task: the id, which the
// contract lets be visible ASCII alone, and behind a zero byte the tool's mark.
func marked(id string, t *catalog.Tool) []byte {
	mark := markOf(t)
	if mark == nil {
		return []byte(id)
	}
	return append(append([]byte(id), 0), mark...)
}

// unmarked takes the two apart again.
func unmarked(plain []byte) (id string, mark []byte) {
	first, mark, _ := bytes.Cut(plain, []byte{0})
	return string(first), mark
}

// checkTask holds the result of a backend's task to the output schema that its
// tool declares now, as the result of a call is held to it. A result that breaks
// it ends the task as it ends a task of the sidecar's own. A tool that is gone
// declares nothing any more.
func checkTask(cat *catalog.Catalog, mark []byte, t *outriggerv1.Task) {
	if len(mark) == 0 || t.GetResult() == nil {
		return
	}
	for _, tool := range cat.All() {
		if tool.Native && bytes.Equal(markOf(tool), mark) {
			checkTaskOf(tool, t)
			return
		}
	}
}

// checkTaskOf is checkTask where the tool is known.
func checkTaskOf(tool *catalog.Tool, t *outriggerv1.Task) {
	if t.GetResult() == nil {
		return
	}
	if failed := declaredData(tool, t.GetResult()); failed != nil {
		failed.Tool = tool.Name
		endWith(t, failed)
	}
}

// endWith replaces the end of a task by an error.
func endWith(t *outriggerv1.Task, failed *errmap.Error) {
	about := errmap.About{ToolCall: true}
	if result := task.ErrorResult(failed, about); result != nil {
		t.Completion = &outriggerv1.Task_Result{Result: result}
		return
	}
	t.Status = outriggerv1.TaskStatus_TASK_STATUS_FAILED
	t.Completion = &outriggerv1.Task_Error{Error: task.ErrorObject(failed, about)}
}
