// SPDX-License-Identifier: Apache-2.0

package robustness_test

import (
	"bufio"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// begun is a task that was announced to a client.
type begun struct {
	id, method, name string
	// refused: the client was told that the call was not made.
	refused bool
}

// taskLog is every call that was made as a task, and each task that was announced.
type taskLog struct {
	mu    sync.Mutex
	calls []begun // id is empty where no task was announced
}

func (l *taskLog) add(b begun) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, b)
}

// api is one of the two ways to tasks. A nil output means that nothing was learned.
type api interface {
	// begin calls a tool. Without an id the call was refused, has ended, or no one knows.
	begin(ctx context.Context, method, name string) (id string, refused bool)
	get(ctx context.Context, id string) *models.TaskOutput
	// cancel reports whether the cancellation was acknowledged.
	cancel(ctx context.Context, id string) bool
}

// tasksOf runs calls that become tasks until the context ends.
func tasksOf(ctx context.Context, c *client, way api, log *taskLog) {
	for ctx.Err() == nil {
		method := "Look"
		if c.rand.IntN(10) < 4 {
			method = "Pay"
		}
		lasts := c.between(20*time.Millisecond, 2500*time.Millisecond)
		if c.rand.IntN(10) == 0 {
			lasts = c.between(3*time.Second, 8*time.Second)
		}
		name := c.unique(lasts.Round(time.Millisecond))
		call := c.h.now()
		id, refused := way.begin(ctx, method, name)
		log.add(begun{id: id, method: method, name: name, refused: refused})
		if id != "" {
			c.h.add("tasks", c.id, call, models.TaskInput{Kind: "begin", ID: id, Method: method, Name: name}, models.TaskOutput{})
			c.follow(ctx, way, id)
		}
		pause(ctx, c.between(10*time.Millisecond, 200*time.Millisecond))
	}
}

// follow asks for a task until it has ended and a little longer, and cancels some.
func (c *client) follow(ctx context.Context, way api, id string) {
	cancels := -1
	if c.rand.IntN(6) == 0 {
		cancels = c.rand.IntN(6)
	}
	after := 1 + c.rand.IntN(3)
	for i := 0; ctx.Err() == nil && after > 0; i++ {
		if i == cancels {
			call := c.h.now()
			if way.cancel(ctx, id) {
				c.h.add("tasks", c.id, call, models.TaskInput{Kind: "cancel", ID: id}, models.TaskOutput{})
			} else {
				c.h.open("tasks", c.id, call, models.TaskInput{Kind: "cancel", ID: id}, models.TaskOutput{})
			}
		}
		if got := c.look(ctx, way, id); got != nil && got.Status != "working" {
			after--
		}
		if i > 0 { // the first two looks are at once
			pause(ctx, c.between(20*time.Millisecond, 300*time.Millisecond))
		}
	}
}

// look asks for a task once.
func (c *client) look(ctx context.Context, way api, id string) *models.TaskOutput {
	call := c.h.now()
	got := way.get(ctx, id)
	if got != nil {
		c.h.add("tasks", c.id, call, models.TaskInput{Kind: "get", ID: id}, *got)
	}
	return got
}

// modernTasks are tasks of MCP 2026-07-28.
type modernTasks struct {
	*client
	odd *oddities
}

func (m *modernTasks) begin(ctx context.Context, method, name string) (id string, refused bool) {
	tool := "shop_" + strings.ToLower(method)
	got, err := m.modern(ctx, "tools/call", tool, `"name":"`+tool+`","arguments":{"name":"`+name+`"}`)
	switch {
	case err != nil:
	case got.Result.ResultType == "task":
		return got.Result.TaskID, false
	case got.code() == "UNAVAILABLE":
		return "", !isUnknown(got.raw)
	case got.Result.StructuredContent.Name == models.ResultOf(method, name):
	default:
		m.odd.add("%s %s: %s", method, name, got.raw)
	}
	return "", false
}

// isUnknown reports whether a text says that no one knows the outcome.
func isUnknown(text string) bool {
	return strings.Contains(text, models.OutcomeUnknown) || strings.Contains(text, "outcome is unknown")
}

func (m *modernTasks) get(ctx context.Context, id string) *models.TaskOutput {
	got, err := m.modern(ctx, "tasks/get", id, `"taskId":"`+id+`"`)
	switch {
	case err != nil:
		return nil
	case got.Error == nil:
		return outputOf(got.Result.Status, got.Result.Result.StructuredContent.Name, got.Result.Error.Message, got.raw)
	case got.code() == "UNAVAILABLE":
		return nil
	case got.code() == "INVALID_PARAMS":
		return &models.TaskOutput{Status: models.Gone}
	}
	m.odd.add("tasks/get %s: %s", id, got.raw)
	return nil
}

// outputOf is what a task shows.
func outputOf(status, result, failure, raw string) *models.TaskOutput {
	out := &models.TaskOutput{Status: status}
	switch status {
	case models.Completed:
		if out.Text = result; result == "" {
			out.Text = raw // no model has a place for it
		}
	case models.Failed:
		if out.Text = failure; isUnknown(failure) {
			out.Text = models.OutcomeUnknown
		}
	}
	return out
}

func (m *modernTasks) cancel(ctx context.Context, id string) bool {
	got, err := m.modern(ctx, "tasks/cancel", id, `"taskId":"`+id+`"`)
	if err != nil || got.code() == "UNAVAILABLE" {
		return false
	}
	if got.Error != nil {
		m.odd.add("tasks/cancel %s: %s", id, got.raw)
		return false
	}
	return true
}

// listen follows a task by its notifications, at one replica. What it hears never goes back, and its last word is the
// task's end.
func (m *modernTasks) listen(ctx context.Context, id string) (ended models.TaskOutput) {
	resp, err := m.request(ctx, "subscriptions/listen", "", `"notifications":{"taskIds":["`+id+`"]}`)
	if err != nil {
		return ended
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || !strings.Contains(data, `"notifications/tasks"`) {
			continue
		}
		var told struct {
			Params struct {
				TaskID, Status string
				Result         struct{ StructuredContent struct{ Name string } }
				Error          fault
			}
		}
		if err := json.Unmarshal([]byte(data), &told); err != nil || told.Params.TaskID != id {
			m.odd.add("a notification about %s: %s: %v", id, data, err)
			return ended
		}
		p := told.Params
		got := outputOf(p.Status, p.Result.StructuredContent.Name, p.Error.Message, data)
		if (ended != models.TaskOutput{}) && *got != ended {
			m.odd.add("task %s: the notification %+v after %+v", id, *got, ended)
		}
		if got.Status != "working" {
			ended = *got
		}
	}
	return ended
}

// connectTasks are tasks of the API in Protobuf.
type connectTasks struct {
	*client
	odd *oddities
}

func (a *connectTasks) begin(ctx context.Context, method, name string) (id string, refused bool) {
	// Without a deadline, which would be that of the task.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(opTimeout, cancel).Stop()
	resp, err := a.tools.CallTool(ctx, connect.NewRequest(&outriggerv1.ToolCall{
		ToolName: "shop." + strings.ToLower(method), ArgumentsForm: &outriggerv1.ToolCall_ArgumentsJson{ArgumentsJson: []byte(`{"name":"` + name + `"}`)}, Context: tasks(),
	}))
	switch {
	case err == nil && resp.Msg.GetTask() != nil:
		return resp.Msg.GetTask().GetTaskId(), false
	case err == nil && strings.Contains(string(resp.Msg.GetResult().GetDataJson()), models.ResultOf(method, name)):
	case err != nil && isUncertain(err):
		return "", connect.IsWireError(err) && connect.CodeOf(err) == connect.CodeUnavailable && !isUnknown(err.Error())
	default:
		a.odd.add("%s %s: %v, %v", method, name, resp, err)
	}
	return "", false
}

func (a *connectTasks) get(ctx context.Context, id string) *models.TaskOutput {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	resp, err := a.tools.GetTask(ctx, connect.NewRequest(&outriggerv1.GetTaskRequest{TaskId: id, Context: tasks()}))
	switch {
	case err == nil:
		var result struct{ Name string }
		_ = json.Unmarshal(resp.Msg.GetResult().GetDataJson(), &result)
		status := strings.ToLower(strings.TrimPrefix(resp.Msg.GetStatus().String(), "TASK_STATUS_"))
		return outputOf(status, result.Name, resp.Msg.GetError().GetMessage(), resp.Msg.String())
	case connect.CodeOf(err) == connect.CodeInvalidArgument, connect.CodeOf(err) == connect.CodeNotFound:
		return &models.TaskOutput{Status: models.Gone}
	case !isUncertain(err):
		a.odd.add("GetTask %s: %v", id, err)
	}
	return nil
}

func (a *connectTasks) cancel(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, opTimeout)
	defer cancel()
	_, err := a.tools.CancelTask(ctx, connect.NewRequest(&outriggerv1.CancelTaskRequest{TaskId: id, Context: tasks()}))
	if err != nil && !isUncertain(err) {
		a.odd.add("CancelTask %s: %v", id, err)
	}
	return err == nil
}

// listens follows running tasks of other clients by notifications, at any replica, and asks for each at the end: what
// it heard last of an end is the end.
func listens(ctx context.Context, m *modernTasks, log *taskLog) {
	for ctx.Err() == nil {
		log.mu.Lock()
		var id string
		if n := len(log.calls); n > 0 {
			id = log.calls[max(0, n-1-m.rand.IntN(3))].id
		}
		log.mu.Unlock()
		if id != "" {
			within, cancel := context.WithTimeout(ctx, m.between(500*time.Millisecond, 4*time.Second))
			told := m.listen(within, id)
			cancel()
			if (told != models.TaskOutput{}) {
				// Who learns of an end, sees it.
				call := m.h.now()
				m.h.add("tasks", m.id, call, models.TaskInput{Kind: "get", ID: id}, told)
			}
		}
		pause(ctx, m.between(20*time.Millisecond, 200*time.Millisecond))
	}
}
