// SPDX-License-Identifier: Apache-2.0

package mcptest

import (
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/jsontext"
)

// taskAt is a state of a task, so many minutes after it was made.
func taskAt(id string, minutes int, status outriggerv1.TaskStatus, message string) *outriggerv1.Task {
	return &outriggerv1.Task{
		TaskId: id, Status: status, StatusMessage: message,
		CreatedAt:     timestamppb.New(Moment()),
		LastUpdatedAt: timestamppb.New(Moment().Add(time.Duration(minutes) * time.Minute)),
		PollInterval:  durationpb.New(time.Second),
	}
}

// deskTasks are the lives of tasks, one for each way in which they end.
func deskTasks() map[string][]*outriggerv1.Task {
	printed := taskAt("printing", 2, outriggerv1.TaskStatus_TASK_STATUS_COMPLETED, "printed")
	printed.Completion = &outriggerv1.Task_Result{Result: Success("", TextBlock("Ten pages.")).GetResult()}

	asks := taskAt("binding", 1, outriggerv1.TaskStatus_TASK_STATUS_INPUT_REQUIRED, "which colour?")
	asks.InputRequests = map[string]*outriggerv1.InputRequest{
		"colour": AskForm("Which colour?", `{"type":"object","properties":{"colour":{"type":"string","enum":["red","blue"]}},"required":["colour"]}`),
	}
	bound := taskAt("binding", 2, outriggerv1.TaskStatus_TASK_STATUS_COMPLETED, "bound")
	bound.Completion = &outriggerv1.Task_Result{Result: &outriggerv1.ToolResult{
		Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "OutOfGlue", ErrorMessage: "There is no glue left."},
	}}

	burnt := taskAt("drying", 1, outriggerv1.TaskStatus_TASK_STATUS_FAILED, "burnt")
	burnt.Completion = &outriggerv1.Task_Error{Error: &outriggerv1.ErrorObject{Code: -32603, Message: "The oven is broken."}}

	lasting := taskAt("folding", 0, outriggerv1.TaskStatus_TASK_STATUS_WORKING, "at work")
	lasting.Ttl = durationpb.New(time.Hour)
	cancelled := proto.CloneOf(lasting)
	cancelled.Status, cancelled.StatusMessage = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED, "cancelled"

	return map[string][]*outriggerv1.Task{
		"printing": {taskAt("printing", 0, outriggerv1.TaskStatus_TASK_STATUS_WORKING, "at work"), printed},
		"binding":  {asks, bound},
		"drying":   {burnt},
		"folding":  {lasting, cancelled},
	}
}

// taskTools become the task that their one argument names, where the client
// knows tasks. The first needs that.
func (n *Native) taskTools() []NativeTool {
	const schema = `{"type":"object","properties":{"job":{"type":"string"}},"required":["job"]}`
	begin := func(_ context.Context, call *outriggerv1.ToolCall, _ func(*outriggerv1.ToolEvent) error) (*outriggerv1.ToolOutcome, error) {
		if !call.GetContext().GetCapabilities().GetTasks() {
			return Success("", TextBlock("Done while you waited.")), nil
		}
		raw, _ := jsontext.Lookup(call.GetArgumentsJson(), "job")
		id, _ := jsontext.Text(raw)
		now, err := n.task(id)
		if err != nil {
			return nil, connect.NewError(connect.CodeInvalidArgument, err)
		}
		return &outriggerv1.ToolOutcome{Outcome: &outriggerv1.ToolOutcome_Task{Task: proto.CloneOf(now)}}, nil
	}
	required := JSONTool("begin", "Begin a long job.", schema, "")
	required.Execution = &outriggerv1.ToolExecution{TaskSupport: "required"}
	optional := JSONTool("do", "Do a job, long or not.", schema, "")
	optional.Execution = &outriggerv1.ToolExecution{TaskSupport: "optional"}
	return []NativeTool{{Declared: required, Run: begin}, {Declared: optional, Run: begin}}
}
