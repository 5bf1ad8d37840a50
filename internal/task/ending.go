// SPDX-License-Identifier: Apache-2.0

package task

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/content"
)

// errorResult is an error result with the text and the data object of a tools/call of MCP
// 2026-07-28, or nil if the canonical table has a JSON-RPC error.
func errorResult(err *errmap.Error, about errmap.About) *outriggerv1.ToolResult {
	about.ToolCall = true
	reply := err.MCP(errmap.Modern, about)
	if reply.Form != errmap.ToolResult {
		return nil
	}
	meta := append([]byte(`{"`+errmap.MetaKey+`":`), reply.Data...)
	out := &outriggerv1.ToolResult{
		Status: content.StatusFailure, Error: err.Detail(about), MetaForm: &outriggerv1.ToolResult_MetaJson{MetaJson: append(meta, '}')},
	}
	for _, text := range [...]string{reply.Text, err.PartialText()} {
		if text != "" {
			out.Content = append(out.Content, &outriggerv1.ContentBlock{Block: &outriggerv1.ContentBlock_Text{Text: &outriggerv1.TextContent{Text: text}}})
		}
	}
	return out
}

// errorObject is the JSON-RPC error of MCP 2026-07-28. Its code is never 0.
func errorObject(err *errmap.Error, about errmap.About) *outriggerv1.ErrorObject {
	about.ToolCall = true
	reply := err.MCP(errmap.Modern, about)
	out := &outriggerv1.ErrorObject{Code: int32(reply.Code), Message: reply.Message}
	if len(reply.Data) > 0 {
		out.DataForm = &outriggerv1.ErrorObject_DataJson{DataJson: reply.Data}
	}
	return out
}

// Fail replaces the end of a task by an error.
func Fail(t *outriggerv1.Task, failed *errmap.Error) {
	about := errmap.About{ToolCall: true}
	if result := errorResult(failed, about); result != nil {
		t.Completion = &outriggerv1.Task_Result{Result: result}
		return
	}
	t.Status = outriggerv1.TaskStatus_TASK_STATUS_FAILED
	t.Completion = &outriggerv1.Task_Error{Error: errorObject(failed, about)}
}

// ending is how a task ends: with a result, with an error, or with neither, by
// being cancelled.
type ending struct {
	result  *outriggerv1.ToolResult
	failure *outriggerv1.ErrorObject
	message string
	// view is whom the end was made for.
	view string
}

// cancelled is the end that a caller wanted.
func cancelled() ending { return ending{message: "cancelled by the caller", view: OwnWords} }

// endingOf turns what the work returned into the end of its task.
func endingOf(about errmap.About, result *outriggerv1.ToolResult, err *errmap.Error) ending {
	if err == nil {
		return ending{result: result}
	}
	if result = errorResult(err, about); result != nil {
		return ending{result: result}
	}
	return failedWith(errorObject(err, about))
}

// inOwnWords is an end that has nothing of what the work returned.
func (e ending) inOwnWords() ending {
	e.view = OwnWords
	return e
}

// failedWith is the end of a task with an error.
func failedWith(failure *outriggerv1.ErrorObject) ending {
	return ending{failure: failure, message: clip(failure.GetMessage())}
}

// apply ends the task of a record that is stamped with the present. Its lifetime
// is now known: how long it is remembered counts from here, and the contract
// counts it from the beginning.
func (e ending) apply(r *Record) {
	t := r.Task
	r.Again, t.StatusMessage, r.View = nil, e.message, e.view
	switch {
	case e.result != nil:
		t.Status = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
		t.Completion = &outriggerv1.Task_Result{Result: e.result}
	case e.failure != nil:
		t.Status = outriggerv1.TaskStatus_TASK_STATUS_FAILED
		t.Completion = &outriggerv1.Task_Error{Error: e.failure}
	default:
		t.Status = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED
	}
	r.Expires = t.GetLastUpdatedAt().AsTime().Add(r.Keep)
	t.Ttl = durationpb.New(r.Expires.Sub(t.GetCreatedAt().AsTime()))
}

// stamp says when a task changed. That never goes back, also where the clock
// does.
func stamp(t *outriggerv1.Task, now time.Time) {
	if last := t.GetLastUpdatedAt(); last != nil && now.Before(last.AsTime()) {
		return
	}
	t.LastUpdatedAt = timestamppb.New(now)
}

// isFinal reports whether a status never changes again.
func isFinal(s outriggerv1.TaskStatus) bool {
	switch s {
	case outriggerv1.TaskStatus_TASK_STATUS_COMPLETED, outriggerv1.TaskStatus_TASK_STATUS_FAILED,
		outriggerv1.TaskStatus_TASK_STATUS_CANCELLED:
		return true
	}
	return false
}
