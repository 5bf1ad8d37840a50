// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

func TestEnds(t *testing.T) {
	about := errmap.About{RequestID: []byte(`"r1"`), Idempotent: true}
	broke := &outriggerv1.ToolResult{Status: "failure", Error: &outriggerv1.ErrorDetail{ErrorType: "ToolExecutionError", ErrorMessage: "no"}}
	tests := []struct {
		name   string
		end    end
		status outriggerv1.TaskStatus
		check  func(*outriggerv1.Task) bool
	}{
		{"a result", end{result: text("done")}, completed, func(t *outriggerv1.Task) bool {
			return t.GetResult().GetExplanation() == "done"
		}},
		{"a failure of the tool's own", end{result: broke}, completed, func(t *outriggerv1.Task) bool {
			return t.GetResult() == broke
		}},
		{"a JSON-RPC error", end{err: errmap.New(errmap.InvalidParams, errmap.Message("no such thing"))}, failed, func(t *outriggerv1.Task) bool {
			return t.GetError().GetCode() == -32602 && t.GetError().GetMessage() == "no such thing" && t.GetStatusMessage() == "no such thing" &&
				strings.Contains(string(t.GetError().GetDataJson()), `"requestId":"r1"`)
		}},
		{"an error that callers see as a result", end{err: errmap.New(errmap.Timeout)}, completed, func(t *outriggerv1.Task) bool {
			r, want := t.GetResult(), errmap.New(errmap.Timeout).MCP(errmap.Modern, errmap.About{RequestID: about.RequestID, Idempotent: true, ToolCall: true})
			var meta map[string]json.RawMessage
			return r.GetStatus() == "failure" && r.GetError().GetErrorType() == "TimeoutError" && r.GetContent()[0].GetText().GetText() == want.Text &&
				json.Unmarshal(r.GetMetaJson(), &meta) == nil && string(meta[errmap.MetaKey]) == string(want.Data)
		}},
		{"an error and a result", end{result: text("done"), err: errmap.New(errmap.InvalidParams)}, failed, func(t *outriggerv1.Task) bool {
			return t.GetError().GetCode() == -32602
		}},
		{"neither", end{}, failed, func(t *outriggerv1.Task) bool {
			return t.GetError().GetCode() == -32603 && t.GetError().GetMessage() == "Internal error"
		}},
		{"a panic", end{do: func() { panic("secret") }}, failed, func(t *outriggerv1.Task) bool {
			return t.GetError().GetCode() == -32603 && !strings.Contains(t.String(), "secret")
		}},
		{"a panic with nil", end{do: func() { panic(nil) }}, failed, func(t *outriggerv1.Task) bool { //nolint:govet // on purpose
			return t.GetError().GetCode() == -32603
		}},
		{"a goroutine that is left", end{do: runtime.Goexit}, failed, func(t *outriggerv1.Task) bool {
			return t.GetError().GetCode() == -32603
		}},
		{"a cancelled backend", end{err: errmap.New(errmap.Cancelled)}, failed, func(t *outriggerv1.Task) bool {
			return t.GetError().GetCode() != 0
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
				w := newWork()
				spec := alice(0)
				spec.About = about
				id := begin(t, m, spec, w).GetTaskId()
				w.ends <- tt.end
				wait()
				got := get(t, m, id, tt.status)
				if !tt.check(got) {
					t.Errorf("%v", got)
				}
				// What has ended stays as it is.
				if err := m.Cancel(t.Context(), "alice", id); err != nil {
					t.Errorf("cancelled after its end: %v", err)
				}
				if err := update(m, "alice", id); err != nil {
					t.Errorf("answered after its end: %v", err)
				}
				if diff := cmp.Diff(got, get(t, m, id, tt.status), protocmp.Transform()); diff != "" {
					t.Errorf("it changed after its end:\n%s", diff)
				}
				if s := m.Stats(); s.Running != 0 || s.Completed+s.Failed != 1 {
					t.Errorf("stats: %+v", s)
				}
			})
		})
	}
}

// TestForWhomAnEndIs: what the work returned is for whom the work says, and other ends have words of the sidecar's alone.
func TestForWhomAnEndIs(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(m *task.Manager, w *work, id string)
		want string
	}{
		"a result": {func(_ *task.Manager, w *work, _ string) { w.ends <- end{result: text("done")} }, "key"},
		"an error": {func(_ *task.Manager, w *work, _ string) { w.ends <- end{err: errmap.New(errmap.ToolExecutionFailed)} }, "key"},
		"cancelled": {func(m *task.Manager, _ *work, id string) {
			if err := m.Cancel(t.Context(), "alice", id); err != nil {
				t.Error(err)
			}
		}, task.OwnWords},
		"its time is over": {func(*task.Manager, *work, string) { time.Sleep(time.Hour) }, task.OwnWords},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{TTL: 2 * time.Hour})
				w := newWork()
				w.deaf = true
				spec := alice(0)
				spec.Timeout, spec.View = time.Minute, func() string { return "key" }
				id := begin(t, m, spec, w).GetTaskId()
				tt.end(m, w, id)
				wait()
				r, err := m.Record(t.Context(), "alice", id)
				if err != nil || !r.IsFinal() || r.View != tt.want {
					t.Errorf("%+v, %v", r, err)
				}
				close(w.ends)
			})
		})
	}
}

// TestErrorsAreNeverZero: every code of the table is a result, or an error with a
// number.
func TestErrorsAreNeverZero(t *testing.T) {
	t.Parallel()
	for _, code := range append(errmap.Codes(), "NO_SUCH_CODE") {
		e := errmap.New(code)
		form := e.MCP(errmap.Modern, errmap.About{ToolCall: true}).Form
		if got := task.ErrorResult(e, errmap.About{}); (got != nil) != (form == errmap.ToolResult) {
			t.Errorf("%s: the table has a %s, the result is %v", code, form, got)
		}
		if task.ErrorResult(e, errmap.About{}) == nil && task.ErrorObject(e, errmap.About{}).GetCode() == 0 {
			t.Errorf("%s is neither", code)
		}
	}
}

func TestPanicsAreReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var value any
		var stack string
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnPanic: func(v any, s []byte) { value, stack = v, string(s) }})
		w := newWork()
		done := start(t.Context(), m, alice(time.Minute), w)
		w.ends <- end{do: func() { panic("oh") }}
		got := <-done
		if got.err != nil || got.out.Err == nil || got.out.Err.Code != errmap.InternalError || got.out.Err.Tool != "a.b" {
			t.Errorf("a call: %+v, %v", got.out, got.err)
		}
		if value != "oh" || !strings.Contains(stack, "TestPanicsAreReported") {
			t.Errorf("told of %v at\n%s", value, stack)
		}
	})
}

func TestCancel(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var seen log
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{OnChange: seen.add})
		begun := time.Now()
		for _, deaf := range []bool{false, true} {
			w := newWork()
			w.deaf = deaf
			id := begin(t, m, alice(0), w).GetTaskId()
			sleep(time.Second)
			for range 2 {
				if err := m.Cancel(t.Context(), "alice", id); err != nil {
					t.Fatal(err)
				}
			}
			wait()
			got := get(t, m, id, cancelled)
			if got.GetStatusMessage() == "" || got.GetCompletion() != nil || got.GetTtl().AsDuration() != time.Second+defaults.TaskTTL {
				t.Errorf("%v", got)
			}
			if deaf {
				// It says nothing that counts any more.
				w.report("still here")
				w.ends <- end{result: text("late")}
			}
			<-w.gone
			if !deaf && !errors.Is(w.cause, task.ErrCancelled) {
				t.Errorf("the work's context ended with %v", w.cause)
			}
			wait()
			if diff := cmp.Diff(got, get(t, m, id, cancelled), protocmp.Transform()); diff != "" {
				t.Errorf("it changed after its end:\n%s", diff)
			}
		}
		if diff := cmp.Diff([]outriggerv1.TaskStatus{cancelled, cancelled}, seen.statuses()); diff != "" {
			t.Errorf("changes (-want +got):\n%s", diff)
		}
		if s := m.Stats(); s != (task.Stats{Became: 2, Cancelled: 2}) || time.Since(begun) != 2*time.Second {
			t.Errorf("stats: %+v after %s", s, time.Since(begun))
		}
	})
}

func TestTimeout(t *testing.T) {
	tests := []struct {
		name    string
		timeout time.Duration
		want    time.Duration
	}{
		{"its own", time.Minute, time.Minute},
		{"the longest", 0, task.MaxTimeout},
		{"longer than the longest", 2 * task.MaxTimeout, task.MaxTimeout},
	}
	for _, tt := range tests {
		for _, after := range []time.Duration{0, 1000 * time.Hour} {
			t.Run(tt.name+" after "+after.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
					spec := alice(after)
					spec.Timeout = tt.timeout
					heeds, deaf := newWork(), newWork()
					deaf.deaf = true
					one, other := start(t.Context(), m, spec, heeds), start(t.Context(), m, spec, deaf)
					sleep(tt.want - time.Nanosecond)
					if s := m.Stats(); s.Running != 2 {
						t.Fatalf("stats: %+v", s)
					}
					sleep(time.Nanosecond)
					heeds.mustBeGone(t)
					if !errors.Is(heeds.cause, context.DeadlineExceeded) {
						t.Errorf("the work's context ended with %v", heeds.cause)
					}
					if s := m.Stats(); s.Running != 1 {
						t.Fatalf("stats: %+v", s)
					}
					sleep(task.Grace - time.Nanosecond)
					if after > 0 {
						if got := <-one; got.out.Err == nil || got.out.Err.Code != errmap.Cancelled {
							t.Errorf("%+v, %v", got.out, got.err)
						}
						select {
						case got := <-other:
							t.Errorf("the deaf one ended too soon: %+v, %v", got.out, got.err)
						default:
						}
						sleep(time.Nanosecond)
						if got := <-other; got.out.Err == nil || got.out.Err.Code != errmap.Timeout || got.out.Err.Tool != "a.b" {
							t.Errorf("%+v, %v", got.out, got.err)
						}
					} else {
						id := (<-other).out.Task.GetTaskId()
						get(t, m, (<-one).out.Task.GetTaskId(), failed)
						get(t, m, id, working)
						sleep(time.Nanosecond)
						got := get(t, m, id, completed)
						if got.GetResult().GetError().GetErrorType() != "TimeoutError" {
							t.Errorf("%v", got)
						}
					}
					deaf.ends <- end{result: text("late")}
					wait()
					if s := m.Stats(); s.Running != 0 {
						t.Errorf("stats: %+v", s)
					}
				})
			})
		}
	}
}

// TestAResultThatFindsNoRoom is an end that says so.
func TestAResultThatFindsNoRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := task.NewMemory(task.MemoryOptions{MaxBytes: 20_000})
		m := task.New(store, task.Options{})
		finish := func(size int) *outriggerv1.Task {
			w := newWork()
			id := begin(t, m, alice(0), w).GetTaskId()
			w.ends <- end{result: text(strings.Repeat("x", size))}
			wait()
			return get(t, m, id, completed)
		}
		if got := finish(15_000); got.GetResult().GetStatus() != "success" {
			t.Errorf("there is room: %v", got.GetResult().GetStatus())
		}
		got := finish(15_000).GetResult()
		if got.GetStatus() != "failure" || !strings.Contains(got.GetError().GetErrorMessage(), "its result cannot be stored") {
			t.Errorf("there is no room: %v", got)
		}
		if got := finish(100); got.GetResult().GetStatus() != "success" {
			t.Errorf("a small one finds room always: %v", got)
		}
		sleep(defaults.TaskTTL)
		if got := finish(15_000); got.GetResult().GetStatus() != "success" {
			t.Errorf("there is room again: %v", got.GetResult().GetStatus())
		}
	})
}

// TestAStoreThatIsAwayAtTheEnd is asked again.
func TestAStoreThatIsAwayAtTheEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		failures int32
		status   outriggerv1.TaskStatus
		told     int32
	}{"for a while": {6, completed, 0}, "for ever": {1000, working, 1}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var failures, told atomic.Int32
				store := &faulty{Store: task.NewMemory(task.MemoryOptions{}), update: func(task.Record) error {
					if failures.Add(1) <= tt.failures {
						return errStore
					}
					return nil
				}}
				m := task.New(store, task.Options{OnError: func(err error) {
					if !errors.Is(err, errStore) {
						t.Errorf("told of %v", err)
					}
					told.Add(1)
				}})
				w := newWork()
				id := begin(t, m, alice(0), w).GetTaskId()
				w.ends <- end{result: text("done")}
				sleep(time.Minute)
				got := get(t, m, id, tt.status)
				if took := got.GetLastUpdatedAt().AsTime().Sub(got.GetCreatedAt().AsTime()); tt.status == completed && took != 6300*time.Millisecond {
					t.Errorf("it took %s", took)
				}
				if told.Load() != tt.told || m.Stats().Running != 0 {
					t.Errorf("told %d times, stats %+v", told.Load(), m.Stats())
				}
			})
		})
	}
}

// TestATaskThatIsForgottenBeforeItsEnd does no harm.
func TestATaskThatIsForgottenBeforeItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := task.NewMemory(task.MemoryOptions{})
		m := task.New(store, task.Options{OnError: func(err error) { t.Error(err) }})
		w := newWork()
		id := begin(t, m, alice(0), w).GetTaskId()
		if err := store.Delete(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		w.report("still here")
		w.ends <- end{result: text("done")}
		wait()
		w.mustBeGone(t)
		missing(t, m, "alice", id)
	})
}

func TestStatusMessagesAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := task.New(task.NewMemory(task.MemoryOptions{}), task.Options{})
		w, room := newWork(), strings.Repeat("0", task.MaxMessage-10)
		id := begin(t, m, alice(0), w).GetTaskId()
		for _, tt := range []struct{ message, want string }{
			{"0123456789", "0123456789"},
			{"0123456789a", "0123456…"},
			{"012345ééé", "012345…"},
			{"a\xffb", "a\uFFFDb"},
		} {
			w.report(room + tt.message)
			wait()
			if got := get(t, m, id, working).GetStatusMessage(); got != room+tt.want {
				t.Errorf("%q shows as %q, want %q", tt.message, got, tt.want)
			}
		}
		w.ends <- end{err: errmap.New(errmap.InvalidParams, errmap.Message(strings.Repeat("x", 2000)))}
		wait()
		if got := get(t, m, id, failed); got.GetStatusMessage() != strings.Repeat("x", task.MaxMessage-3)+"…" || len(got.GetError().GetMessage()) != 2000 {
			t.Errorf("%v", got)
		}
	})
}

// TestAClockThatIsSetBack does not make a task change before it began.
func TestAClockThatIsSetBack(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var shift atomic.Int64
		now := func() time.Time { return time.Now().Add(time.Duration(shift.Load())) }
		m := task.New(task.NewMemory(task.MemoryOptions{Now: now}), task.Options{Now: now})
		w := newWork()
		first := begin(t, m, alice(0), w)
		shift.Store(-int64(time.Hour))
		w.report("a half")
		wait()
		if got := get(t, m, first.GetTaskId(), working); !got.GetLastUpdatedAt().AsTime().Equal(first.GetCreatedAt().AsTime()) {
			t.Errorf("%v", got)
		}
		w.ends <- end{result: text("done")}
		wait()
		get(t, m, first.GetTaskId(), completed)
	})
}
