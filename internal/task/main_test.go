// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"buf.build/go/protovalidate"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	working   = outriggerv1.TaskStatus_TASK_STATUS_WORKING
	completed = outriggerv1.TaskStatus_TASK_STATUS_COMPLETED
	failed    = outriggerv1.TaskStatus_TASK_STATUS_FAILED
	cancelled = outriggerv1.TaskStatus_TASK_STATUS_CANCELLED
)

// text is a successful result.
func text(s string) *outriggerv1.ToolResult {
	return &outriggerv1.ToolResult{Status: "success", Explanation: s}
}

// work is a Run that a test steers: it does what the test sends it, and returns
// what the test wants.
type work struct {
	steps chan func(context.Context, func(string))
	ends  chan end
	// gone is closed when it has returned, cause is then why its context ended.
	gone  chan struct{}
	cause error
	// deaf work does not heed the end of its context.
	deaf bool
}

type end struct {
	result *outriggerv1.ToolResult
	err    *errmap.Error
	do     func() // instead of returning
}

func newWork() *work {
	return &work{steps: make(chan func(context.Context, func(string))), ends: make(chan end), gone: make(chan struct{})}
}

func (w *work) run(ctx context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
	defer close(w.gone)
	done := ctx.Done()
	if w.deaf {
		done = nil
	}
	for {
		select {
		case step := <-w.steps:
			step(ctx, report)
		case e := <-w.ends:
			if e.do != nil {
				e.do()
			}
			return e.result, e.err
		case <-done:
			w.cause = context.Cause(ctx)
			return nil, errmap.Wrap(errmap.Cancelled, w.cause)
		}
	}
}

// mustBeGone wants the work to have returned by now.
func (w *work) mustBeGone(t testing.TB) {
	t.Helper()
	select {
	case <-w.gone:
	default:
		t.Fatal("the work goes on")
	}
}

func (w *work) report(message string) {
	w.steps <- func(_ context.Context, report func(string)) { report(message) }
}

// begin starts work that is a task at once.
func begin(t testing.TB, m *task.Manager, spec task.Spec, w *work) *outriggerv1.Task {
	t.Helper()
	out, err := m.Start(context.Background(), spec, w.run)
	if err != nil || out.Task == nil || out.Result != nil || out.Err != nil {
		t.Fatalf("Start: %v, %v; want a task", out, err)
	}
	checkTask(t, out.Task)
	return out.Task
}

// get wants the task to be there, with a status.
func get(t testing.TB, m *task.Manager, id string, status outriggerv1.TaskStatus) *outriggerv1.Task {
	t.Helper()
	got, err := m.Get(context.Background(), "alice", id)
	if err != nil || got.GetStatus() != status {
		t.Fatalf("Get(%s): %v, %v; want %v", id, got, err, status)
	}
	checkTask(t, got)
	return got
}

// checkTask holds a task to the rules of the contract.
func checkTask(t testing.TB, got *outriggerv1.Task) {
	t.Helper()
	if err := protovalidate.Validate(got); err != nil {
		t.Fatalf("the task breaks the contract: %v\n%v", err, got)
	}
	if _, err := proto.Marshal(got); err != nil {
		t.Fatalf("the task cannot be sent: %v\n%v", err, got)
	}
	if got.GetLastUpdatedAt().AsTime().Before(got.GetCreatedAt().AsTime()) {
		t.Fatalf("the task changed before it began: %v", got)
	}
}

// missing wants a task not to be there, for any of the three questions about it.
func missing(t testing.TB, m *task.Manager, principal, id string) {
	t.Helper()
	ctx := context.Background()
	_, getErr := m.Get(ctx, principal, id)
	for what, err := range map[string]error{
		"Get": getErr, "Cancel": m.Cancel(ctx, principal, id), "Update": update(m, principal, id),
	} {
		// Equal, not only in the chain: nothing may tell one from the other.
		if err != task.ErrNotFound { //nolint:errorlint // see above
			t.Errorf("%s(%q, %q): %v, want ErrNotFound itself", what, principal, id, err)
		}
	}
}

// update answers questions that a task has not asked.
func update(m *task.Manager, principal, id string) error {
	_, err := m.Answer(context.Background(), principal, id, &outriggerv1.UpdateTaskRequest{InputResponses: map[string]*outriggerv1.InputResponse{
		"a": {Response: &outriggerv1.InputResponse_OtherJson{OtherJson: []byte(`"a!"`)}},
	}}, func(*task.Record) {})
	return err
}

// log keeps what a hook gets.
type log struct {
	mu    sync.Mutex
	tasks []*outriggerv1.Task
}

func (l *log) add(principal string, t *outriggerv1.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if principal != "alice" {
		t.TaskId = "of " + principal
	}
	l.tasks = append(l.tasks, t)
}

func (l *log) clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = nil
}

func (l *log) statuses() []outriggerv1.TaskStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []outriggerv1.TaskStatus{}
	for _, t := range l.tasks {
		out = append(out, t.GetStatus())
	}
	return out
}

// bubble runs a test with its own clock, in which time passes when all
// wait.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, f)
}

// wait lets everything happen that can without time passing.
func wait() { synctest.Wait() }

func sleep(d time.Duration) {
	time.Sleep(d) // in a bubble: the clock moves on at once
	synctest.Wait()
}

// faulty is a store that fails where a test wants it to.
type faulty struct {
	task.Store
	create func() error
	update func(task.Record) error
	get    func(error) error
}

var errStore = errors.New("the store is away")

func (f *faulty) Create(ctx context.Context, r task.Record) error {
	if f.create != nil {
		if err := f.create(); err != nil {
			return err
		}
	}
	return f.Store.Create(ctx, r)
}

func (f *faulty) Update(ctx context.Context, r task.Record) error {
	if f.update != nil {
		if err := f.update(r); err != nil {
			return err
		}
	}
	return f.Store.Update(ctx, r)
}

func (f *faulty) Get(ctx context.Context, id string) (task.Record, error) {
	r, err := f.Store.Get(ctx, id)
	if f.get != nil {
		err = f.get(err)
	}
	return r, err
}
