// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// taskInput is an operation on a task. Its kind is "begin", "get" or "cancel".
type taskInput struct {
	Kind, ID string
	// Method and Name are those of the call; only begin has them.
	Method, Name string
}

// taskOutput is what a client saw of a task: its status with its result or error, or "unknown", that there is no such
// task. Other operations have none.
type taskOutput struct {
	Status, Text string
}

// The statuses of a task that has ended.
const (
	completed, failed, cancelled = "completed", "failed", "cancelled"
	// gone is what a client is told of an id that no task has.
	gone = "unknown"
)

// taskState is a task as its clients know it.
type taskState struct {
	begun        bool
	method, name string
	// cancelled: its cancellation was acknowledged, or may have been.
	cancelled bool
	// ended has how it ended, once somebody saw it.
	ended taskOutput
}

// taskModel is what is promised of a task, for histories in which none expires. From its announcement on it is known.
// It ends once: an end that was seen never changes, and nobody sees it working after. An acknowledged cancellation
// ends it, if it had not ended. It ends as cancelled only if somebody cancelled it; else a call that may run again
// ends with its result, and another with its result or as failed, because nobody knows what became of it.
//
// Work ends by itself, at a moment that no operation shows: the model lets it end when somebody first sees it ended.
func taskModel() porcupine.Model {
	return porcupine.Model{
		Partition: byKey(func(input any) string { return input.(taskInput).ID }), //nolint:forcetypeassert // all are
		Init:      func() any { return taskState{} },
		Step: func(state, input, output any) (bool, any) {
			return stepTask(state.(taskState), input.(taskInput), output.(taskOutput)) //nolint:forcetypeassert // all are
		},
		DescribeOperation: func(input, output any) string {
			in, out := input.(taskInput), output.(taskOutput) //nolint:forcetypeassert // all are
			return fmt.Sprintf("%s %s%s: %s %s", in.Kind, in.ID, in.Name, out.Status, out.Text)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

func stepTask(now taskState, in taskInput, out taskOutput) (bool, any) {
	switch in.Kind {
	case "begin":
		isNew := !now.begun
		now.begun, now.method, now.name = true, in.Method, in.Name
		return isNew, now
	case "cancel":
		now.cancelled = true
		return now.begun, now
	}
	switch out.Status {
	case gone:
		return !now.begun, now
	case "working":
		return now.begun && now.ended == taskOutput{} && !now.cancelled, now
	case completed:
		if out.Text != resultOf(now.method, now.name) {
			return false, now
		}
	case failed:
		if now.method != "Pay" || out.Text != outcomeUnknown {
			return false, now
		}
	case cancelled:
		if !now.cancelled {
			return false, now
		}
	default:
		return false, now
	}
	if now.ended == (taskOutput{}) {
		now.ended = out
	}
	return now.begun && now.ended == out, now
}

// byKey divides a history by a key of its operations.
func byKey(key func(input any) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(history []porcupine.Operation) [][]porcupine.Operation {
		var keys []string
		parts := map[string][]porcupine.Operation{}
		for _, op := range history {
			k := key(op.Input)
			if _, ok := parts[k]; !ok {
				keys = append(keys, k)
			}
			parts[k] = append(parts[k], op)
		}
		out := make([][]porcupine.Operation, 0, len(keys))
		for _, k := range keys {
			out = append(out, parts[k])
		}
		return out
	}
}
