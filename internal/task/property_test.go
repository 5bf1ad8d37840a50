// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

const (
	modelTimeout = time.Hour
	modelTTL     = 10 * time.Minute
)

// step is one thing that happens to a task. Steps are drawn first and taken
// afterwards, each list in its own bubble.
type step struct {
	what string
	// n are the numbers that it is made with.
	n []int
}

func drawSteps() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			what: rapid.SampledFrom([]string{"report", "report", "answer", "cancel", "end", "elapse"}).Draw(t, "what"),
			n:    rapid.SliceOfN(rapid.IntRange(0, 12), 1, 6).Draw(t, "n"),
		}
	}), 1, 60)
}

// life is a model of one task: what its caller has to see.
type life struct {
	t    testing.TB
	m    *task.Manager
	work *work
	id   string
	// begun is when the work began, over when the task ended.
	begun, over time.Time

	status  outriggerv1.TaskStatus
	message string
	last    *outriggerv1.Task // as it was when it had ended
	told    *log
}

func (l *life) ended() bool { return l.status != working }

// finish is the end of the task, by whatever means.
func (l *life) finish(status outriggerv1.TaskStatus) {
	l.status, l.over = status, time.Now()
	wait()
}

// take does a step, where it can be done now.
func (l *life) take(s step) {
	going := map[string]func([]int){"report": l.report, "end": l.end}
	always := map[string]func([]int){"answer": l.answer, "cancel": l.cancel, "elapse": l.elapse}
	if do := always[s.what]; do != nil {
		do(s.n)
	} else if !l.ended() {
		going[s.what](s.n)
	}
}

func (l *life) report(n []int) {
	l.message = strings.Repeat("a", n[0]%3)
	l.work.report(l.message)
}

// answer answers what was not asked.
func (l *life) answer([]int) {
	if err := update(l.m, "alice", l.id); err != nil {
		l.t.Fatalf("Update: %v", err)
	}
}

func (l *life) cancel([]int) {
	if err := l.m.Cancel(context.Background(), "alice", l.id); err != nil {
		l.t.Fatalf("Cancel: %v", err)
	}
	if !l.ended() {
		l.finish(cancelled)
	}
}

func (l *life) end(n []int) {
	ends := []struct {
		end    end
		status outriggerv1.TaskStatus
	}{
		{end{result: text("done")}, completed},
		{end{err: errmap.New(errmap.ToolExecutionFailed)}, completed},
		{end{err: errmap.New(errmap.InvalidParams)}, failed},
		{end{do: func() { panic("oh") }}, failed},
	}
	e := ends[n[0]%len(ends)]
	l.work.ends <- e.end
	l.finish(e.status)
}

// elapse lets time pass: too little to matter, up to the end of the work's time,
// or until the task is forgotten.
func (l *life) elapse(n []int) {
	sleep([]time.Duration{time.Second, time.Minute, 10 * time.Minute, 30 * time.Minute}[n[0]%4])
	if deadline := l.begun.Add(modelTimeout); !l.ended() && !time.Now().Before(deadline) {
		// The work notices, and returns CANCELLED, which is an error.
		l.finish(failed)
		l.over = deadline
	}
}

// check compares what a caller sees with the model.
func (l *life) check() {
	t := l.t
	wait()
	got, err := l.m.Get(context.Background(), "alice", l.id)
	if l.ended() && !time.Now().Before(l.over.Add(modelTTL)) {
		if !errors.Is(err, task.ErrNotFound) {
			t.Fatalf("it is still there: %v, %v", got, err)
		}
		l.begin()
		return
	}
	if err != nil || got.GetStatus() != l.status {
		t.Fatalf("%v, %v; want %v", got, err, l.status)
	}
	checkTask(l.t, got)
	if _, err := l.m.Get(context.Background(), "bob", l.id); !errors.Is(err, task.ErrNotFound) {
		t.Fatalf("another caller sees it: %v", err)
	}
	if l.ended() {
		if l.last == nil {
			l.last = got
		}
		if !proto.Equal(got, l.last) {
			t.Fatalf("it changed after its end: %v, was %v", got, l.last)
		}
	} else if got.GetStatusMessage() != l.message {
		t.Fatalf("message %q, want %q", got.GetStatusMessage(), l.message)
	}
	before := working
	told := l.told.statuses()
	for i, s := range told {
		if before != working {
			t.Fatalf("told of a change after the end: %v", told[:i+1])
		}
		before = s
	}
	if len(told) > 0 && before != l.status {
		t.Fatalf("last told: %v, want %v", before, l.status)
	}
}

// begin starts another life.
func (l *life) begin() {
	l.told.clear()
	*l = life{t: l.t, m: l.m, told: l.told, work: newWork(), begun: time.Now(), status: working}
	l.id = begin(l.t, l.m, task.Spec{Principal: "alice", Tool: "a.b", Timeout: modelTimeout, TTL: modelTTL}, l.work).GetTaskId()
}

// TestTheStateMachine drives tasks through their lives beside the model.
func TestTheStateMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		steps := drawSteps().Draw(r, "steps")
		var fault string
		synctest.Test(t, func(t *testing.T) { fault = live(t, steps) })
		if fault != "" {
			r.Fatal(fault)
		}
	})
}

// live takes the steps and returns what went wrong, for the code that drew them.
func live(t *testing.T, steps []step) (fault string) {
	store := task.NewMemory(task.MemoryOptions{})
	told := &log{}
	l := &life{t: critic{t}, told: told}
	// All has been told of one life when the next begins.
	l.m = task.New(store, task.Options{OnChange: told.add})
	l.begin()
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			fault = string(p)
		default:
			fault = fmt.Sprintf("panic: %v", p)
		}
		_ = l.m.Cancel(context.Background(), "alice", l.id)
		wait()
		if n := l.m.Stats().Running; n != 0 {
			fault += fmt.Sprintf("; %d are still running", n)
		}
	}()
	for _, s := range steps {
		l.take(s)
		l.check()
	}
	return ""
}

// critic is a test whose failures go to the one who drew the steps.
type critic struct{ *testing.T }

// failure is what a critic panics with.
type failure string

// Fatalf implements [testing.TB].
func (critic) Fatalf(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }
