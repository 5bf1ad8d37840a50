// SPDX-License-Identifier: Apache-2.0

// Package models has what is promised of tasks, consents, events and registrations, as models for porcupine: of what clients of real
// replicas saw while faults happened at random (package robustness), and of simulated ones (package sim).
package models

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// TaskInput is an operation on a task. Its kind is "begin", "get" or "cancel".
type TaskInput struct {
	Kind, ID string
	// Method and Name are those of the call; only begin has them.
	Method, Name string
}

// TaskOutput is what a client saw of a task: its status with its result or error, or "unknown", that there is no such
// task. Other operations have none.
type TaskOutput struct {
	Status, Text string
}

// OutcomeUnknown is what is said of a call whose outcome cannot be known.
const OutcomeUnknown = "outcome unknown"

// ResultOf is what a call returns: the same each time.
func ResultOf(method, name string) string { return "result of " + method + " " + name }

// The statuses of a task that has ended.
const (
	Completed, Failed, Cancelled = "completed", "failed", "cancelled"
	// Gone is the answer for an id that no task has.
	Gone = "unknown"
)

// taskState is a task as its clients know it.
type taskState struct {
	begun        bool
	method, name string
	// cancelled: its cancellation was acknowledged, or may have been.
	cancelled bool
	// ended has how it ended, once somebody saw it.
	ended TaskOutput
}

// TaskModel is what is promised of a task, for histories in which none expires. From its announcement on it is known.
// It ends once: an end that was seen never changes, and no one sees it working after. An acknowledged cancellation
// ends it, if it had not ended. It ends as cancelled only if somebody cancelled it; else a call that may run again
// ends with its result, and another with its result or as failed, because no one knows what became of it.
//
// Work ends by itself, at a moment that no operation shows: the model lets it end when somebody first sees it ended.
func TaskModel() porcupine.Model {
	return porcupine.Model{
		Partition: ByKey(func(input any) string { return input.(TaskInput).ID }), //nolint:forcetypeassert // all are
		Init:      func() any { return taskState{} },
		Step: func(state, input, output any) (bool, any) {
			return stepTask(state.(taskState), input.(TaskInput), output.(TaskOutput)) //nolint:forcetypeassert // all are
		},
		DescribeOperation: func(input, output any) string {
			in, out := input.(TaskInput), output.(TaskOutput) //nolint:forcetypeassert // all are
			return fmt.Sprintf("%s %s%s: %s %s", in.Kind, in.ID, in.Name, out.Status, out.Text)
		},
		DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
	}
}

func stepTask(now taskState, in TaskInput, out TaskOutput) (bool, any) {
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
	case Gone:
		return !now.begun, now
	case "working":
		return now.begun && now.ended == TaskOutput{} && !now.cancelled, now
	case Completed:
		if out.Text != ResultOf(now.method, now.name) {
			return false, now
		}
	case Failed:
		if now.method != "Pay" || out.Text != OutcomeUnknown {
			return false, now
		}
	case Cancelled:
		if !now.cancelled {
			return false, now
		}
	default:
		return false, now
	}
	if now.ended == (TaskOutput{}) {
		now.ended = out
	}
	return now.begun && now.ended == out, now
}

// ByKey divides a history by a key of its operations.
func ByKey(key func(input any) string) func([]porcupine.Operation) [][]porcupine.Operation {
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
