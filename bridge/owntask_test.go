// SPDX-License-Identifier: Apache-2.0

package bridge_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/feed"
	"github.com/outrigger-mcp/outrigger/internal/mcpschema"
	"github.com/outrigger-mcp/outrigger/internal/mcptest"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

const withTasks = `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`

// sleeper is a backend that takes its time.
type sleeper struct {
	takes time.Duration
	fails *errmap.Error
	ended chan error
}

func (s *sleeper) call(ctx context.Context, _ *catalog.Method, _ []byte, _ http.Header) (*bridge.Answer, *errmap.Error) {
	select {
	case <-time.After(s.takes):
		s.ended <- nil
		return &bridge.Answer{}, s.fails
	case <-ctx.Done():
		s.ended <- context.Cause(ctx)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, errmap.Wrap(errmap.Timeout, ctx.Err())
		}
		return nil, errmap.Wrap(errmap.Cancelled, ctx.Err())
	}
}

// sleeping is ann in front of a backend that takes so long for lab.sleep, calls
// of which become tasks after two seconds.
func sleeping(t *testing.T, live *catalog.Live, s *sleeper, more ...func(*bridge.Options)) modernClient {
	t.Helper()
	s.ended = make(chan error, 1)
	hub := feed.New(feed.Options{})
	tasks := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: func(_ string, now *outriggerv1.Task) {
		if err := hub.Publish(feed.Change{Kind: feed.TaskChanged, Task: now}); err != nil && !errors.Is(err, feed.ErrClosed) {
			t.Error(err)
		}
	}})
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		tasks.Drain(over)
	})
	options := bridge.Options{Tasks: tasks, Feed: hub}
	for _, change := range more {
		change(&options)
	}
	b := dialect.New(bridge.New(live, mcptest.Upstream(s.call), correlate.New(correlate.Options{}), options), dialect.Options{})
	return modernClient{t: t, bridge: b, caller: "ann", capabilities: withTasks}
}

const sleep = `"name":"lab_sleep","arguments":{"duration":"1s"}`

// Calls of plain RPCs that take long become tasks, for clients that know them:
// the result is the one that the call would have had.
func TestACallThatTakesLongBecomesATask(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	schema := mcpschema.Load(t, mcpschema.Revision20260728)
	for _, tc := range []struct {
		name   string
		takes  time.Duration
		caps   string
		fails  *errmap.Error
		isTask bool
		end    string
	}{
		{"soon", time.Second, withTasks, nil, false, `"isError":false`},
		{"late", 5 * time.Second, withTasks, nil, true, `"isError":false`},
		{"late, without the capability", 5 * time.Second, `{}`, nil, false, `"isError":false`},
		{"soon, and it fails", time.Second, withTasks, errmap.New(errmap.ToolExecutionFailed, errmap.Message("it broke")), false, `"isError":true`},
		{"late, and it fails", 5 * time.Second, withTasks, errmap.New(errmap.ToolExecutionFailed, errmap.Message("it broke")), true, `"isError":true`},
		{"never", time.Hour, withTasks, nil, true, `"code":"TIMEOUT"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ann := sleeping(t, live, &sleeper{takes: tc.takes, fails: tc.fails})
				ann.capabilities = tc.caps
				start := time.Now()
				got := ann.send("tools/call", sleep)
				if tc.isTask != (got.text("resultType") == "task") {
					t.Fatalf("after %v: %s", time.Since(start), got.raw)
				}
				if !tc.isTask {
					if !strings.Contains(got.raw, tc.end) {
						t.Errorf("got %s", got.raw)
					}
					return
				}
				if time.Since(start) != 2*time.Second || got.text("status") != "working" || got.Result["result"] != nil {
					t.Errorf("after %v: %s", time.Since(start), got.raw)
				}
				id := `"taskId":` + string(got.Result["taskId"])
				if now := ann.send("tasks/get", id); now.text("status") != "working" || now.text("resultType") != "complete" {
					t.Errorf("at once: %s", now.raw)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				now := ann.send("tasks/get", id)
				if now.text("status") != "completed" || !strings.Contains(string(now.Result["result"]), tc.end) {
					t.Errorf("at the end: %s", now.raw)
				}
				if err := schema.Check("GetTaskResult", resultOf(now)); err != nil {
					t.Error(err)
				}
				if again := ann.send("tasks/cancel", id); string(again.Result["resultType"]) != `"complete"` {
					t.Errorf("cancelling what has ended: %s", again.raw)
				}
				if same := ann.send("tasks/get", id); same.raw != now.raw {
					t.Errorf("and now it is %s", same.raw)
				}
			})
		})
	}
}

// What has to be asked is asked before there is a task, so that client and task do not wait for each other.
func TestQuestionsComeBeforeTheTask(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		slow := &sleeper{takes: 5 * time.Second}
		ann := sleeping(t, live, slow, func(o *bridge.Options) { o.Confirm, o.TaskAfter = true, 2*time.Second })
		ann.capabilities = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
		const cancel = `"name":"fleet_cancel_order","arguments":{"orderId":"1001"}`
		start := time.Now()
		asked := ann.send("tools/call", cancel)
		if asked.text("resultType") != "input_required" || asked.Result["taskId"] != nil || time.Since(start) != 0 {
			t.Fatalf("after %v: %s", time.Since(start), asked.raw)
		}
		got := ann.send("tools/call", cancel+consent(asked))
		if got.text("resultType") != "task" || got.text("status") != "working" || time.Since(start) != 2*time.Second {
			t.Fatalf("after %v: %s", time.Since(start), got.raw)
		}
		if err := <-slow.ended; err != nil || time.Since(start) != 5*time.Second {
			t.Errorf("it ran for %v: %v", time.Since(start), err)
		}
	})
}

// A task is its caller's: to anybody else it does not exist, and its end can be
// asked for by its caller alone.
func TestATaskOfTheSidecarIsItsCallersOwn(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		s := &sleeper{takes: 20 * time.Second}
		ann := sleeping(t, live, s)
		bob, mute := ann, ann
		bob.caller, mute.capabilities = "bob", `{}`
		begun := ann.send("tools/call", sleep)
		id := `"taskId":` + string(begun.Result["taskId"])
		unknown := ann.send("tasks/get", `"taskId":"t_AAAAAAAAAAAAAAAAAAAAAAAAAAA"`)
		for method, params := range map[string]string{"tasks/get": id, "tasks/cancel": id, "tasks/update": id + `,"inputResponses":{}`} {
			if got := bob.send(method, params); got.code() != -32602 || method == "tasks/get" && got.raw != unknown.raw {
				t.Errorf("%s by another caller: %s, an unknown one is %s", method, got.raw, unknown.raw)
			}
			if got := mute.send(method, params); got.status != 400 || got.code() != -32021 {
				t.Errorf("%s without the capability: %d %s", method, got.status, got.raw)
			}
		}
		heard := map[string][]string{}
		done := make(chan struct{}, 2)
		for _, c := range []modernClient{ann, bob} {
			c.heard = func(message string) { heard[c.caller] = append(heard[c.caller], message) }
			go func() {
				c.send("subscriptions/listen", `"notifications":{"taskIds":[`+string(begun.Result["taskId"])+`]}`)
				done <- struct{}{}
			}()
			synctest.Wait()
		}
		if got := ann.send("tasks/cancel", id); got.text("resultType") != "complete" || got.Result["taskId"] != nil {
			t.Errorf("cancel: %s", got.raw)
		}
		if err := <-s.ended; !errors.Is(err, task.ErrCancelled) {
			t.Errorf("the backend's call ended with %v", err)
		}
		synctest.Wait()
		if got := ann.send("tasks/get", id); got.text("status") != "cancelled" || got.Result["result"] != nil {
			t.Errorf("after it: %s", got.raw)
		}
		ann.bridge.Feed().Close()
		<-done
		<-done
		if len(heard["bob"]) != 1 || !strings.Contains(heard["bob"][0], `"notifications":{}`) {
			t.Errorf("another caller hears %q", heard["bob"])
		}
		if len(heard["ann"]) != 2 || !strings.Contains(heard["ann"][1], `"method":"notifications/tasks","params":{"taskId":`+string(begun.Result["taskId"])+`,"status":"cancelled"`) {
			t.Errorf("its caller hears %q", heard["ann"])
		}
	})
}

// Once a call is a task, the end of the request that began it is not its end.
func TestATaskOutlivesTheRequestThatBeganIt(t *testing.T) {
	t.Parallel()
	live := mcptest.Memory(t)
	synctest.Test(t, func(t *testing.T) {
		s := &sleeper{takes: 5 * time.Second}
		ann := sleeping(t, live, s)
		ctx, leave := context.WithCancel(t.Context())
		req := toolCall(ann.bridge, "lab.sleep", `{"duration":"1s"}`)
		req.Caller = "ann"
		req.Context = &outriggerv1.RequestContext{Capabilities: &outriggerv1.ClientCapabilities{Tasks: true}}
		resp := ann.bridge.Handle(ctx, req)
		leave()
		begun := resp.Outcome.GetTask()
		if begun == nil {
			t.Fatalf("no task: %+v", resp)
		}
		if err := <-s.ended; err != nil {
			t.Errorf("the call ended with %v", err)
		}
		synctest.Wait()
		if got := ann.send("tasks/get", fmt.Sprintf(`"taskId":%q`, begun.GetTaskId())); got.text("status") != "completed" {
			t.Errorf("got %s", got.raw)
		}
		// Before it is one, it is.
		ctx, leave = context.WithTimeout(t.Context(), time.Second)
		defer leave()
		again := toolCall(ann.bridge, "lab.sleep", `{"duration":"1s"}`)
		again.Caller, again.Context = req.Caller, req.Context
		if resp := ann.bridge.Handle(ctx, again); resp.Err == nil {
			t.Errorf("got %+v", resp)
		}
		if err := <-s.ended; err == nil {
			t.Error("the backend's call went on")
		}
	})
}
