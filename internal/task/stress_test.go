// SPDX-License-Identifier: Apache-2.0

package task_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

// TestAllAtOnce has many callers begin, look at, answer and cancel tasks whose
// work reports and asks, in real time, and then drains.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	const callers, rounds = 8, 100
	h := history{status: map[string]outriggerv1.TaskStatus{}, changed: make(chan struct{})}
	store := task.NewMemory(task.MemoryOptions{})
	m := task.New(store, task.Options{
		OnChange: func(_ string, got *outriggerv1.Task) { h.add(t, got) },
		OnError:  func(err error) { t.Errorf("the store: %v", err) },
	})
	var results, errs, tasks atomic.Int64
	var calling sync.WaitGroup
	for range callers {
		calling.Go(func() {
			for range rounds {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(3000))*time.Microsecond)
				after := time.Duration(rand.IntN(3)-1) * time.Millisecond
				out, err := m.Start(ctx, task.Spec{Principal: "alice", Tool: "a.b", After: after, Timeout: 10 * time.Second}, restless)
				cancel()
				switch {
				case errors.Is(err, context.DeadlineExceeded):
				case err != nil:
					t.Errorf("Start: %v", err)
				case out.Task != nil:
					tasks.Add(1)
					followToItsEnd(t, m, &h, out.Task.GetTaskId())
				case out.Err != nil:
					errs.Add(1)
				default:
					results.Add(1)
				}
			}
		})
	}
	calling.Wait()
	if cut := m.Drain(t.Context()); cut != 0 {
		t.Errorf("%d were cut", cut)
	}
	s, held := m.Stats(), store.Stats()
	ends := int64(s.Completed + s.Failed + s.Cancelled)
	if s.Running != 0 || s.Became != uint64(tasks.Load()) || ends != tasks.Load() || int64(held.Tasks) != ends || int64(len(h.status)) != ends {
		t.Errorf("%d tasks, %d told: %+v, %+v", tasks.Load(), len(h.status), s, held)
	}
	t.Logf("%d results, %d errors, %d tasks: %+v", results.Load(), errs.Load(), tasks.Load(), s)
}

// restless is work that does a bit of everything.
func restless(ctx context.Context, report func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
	for range rand.IntN(4) {
		report(string(rune('a' + rand.IntN(26))))
		if rand.IntN(2) == 0 {
			time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond)
		}
		if ctx.Err() != nil {
			return nil, errmap.New(errmap.Cancelled)
		}
	}
	switch rand.IntN(4) {
	case 0:
		return nil, errmap.New(errmap.InvalidParams)
	case 1:
		panic("oh")
	}
	return text("done"), nil
}

// followToItsEnd looks at a task until it has ended, answers it, and sometimes
// cancels it, from two goroutines.
func followToItsEnd(t *testing.T, m *task.Manager, h *history, id string) {
	ctx := context.Background()
	var following sync.WaitGroup
	for range 2 {
		following.Go(func() {
			for {
				changed := h.next()
				got, err := m.Get(ctx, "alice", id)
				if err != nil {
					t.Errorf("Get: %v", err)
					return
				}
				switch got.GetStatus() {
				case completed, failed, cancelled:
					return
				}
				if err := update(m, "alice", id); err != nil {
					t.Errorf("Update: %v", err)
				}
				if rand.IntN(20) == 0 {
					if err := m.Cancel(ctx, "alice", id); err != nil {
						t.Errorf("Cancel: %v", err)
					}
				}
				got.TaskId = "sealed" // the message is ours
				<-changed
			}
		})
	}
	following.Wait()
}

// history checks that tasks change as they may.
type history struct {
	mu     sync.Mutex
	status map[string]outriggerv1.TaskStatus
	// changed is closed, and replaced, at every change of any task.
	changed chan struct{}
}

func (h *history) next() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed
}

func (h *history) add(t *testing.T, got *outriggerv1.Task) {
	h.mu.Lock()
	defer h.mu.Unlock()
	checkTask(t, got)
	switch was := h.status[got.GetTaskId()]; was {
	case completed, failed, cancelled:
		t.Errorf("%s changed from %v to %v", got.GetTaskId(), was, got.GetStatus())
	}
	h.status[got.GetTaskId()] = got.GetStatus()
	close(h.changed)
	h.changed = make(chan struct{})
}

// TestDrainWhileAllAreAtWork begins tasks until the drain refuses them, and cuts
// off what it finds.
func TestDrainWhileAllAreAtWork(t *testing.T) {
	t.Parallel()
	store := task.NewMemory(task.MemoryOptions{})
	m := task.New(store, task.Options{})
	begun := make(chan struct{}, 1000)
	var calling sync.WaitGroup
	for n := range 8 {
		calling.Go(func() {
			for range 300 { // which is less than there is room for
				out, err := m.Start(context.Background(), task.Spec{Principal: "alice", After: time.Duration(n%2) * time.Hour},
					func(ctx context.Context, _ func(string)) (*outriggerv1.ToolResult, *errmap.Error) {
						select {
						case begun <- struct{}{}:
						default:
						}
						<-ctx.Done()
						return nil, errmap.New(errmap.Cancelled)
					})
				if errors.Is(err, task.ErrClosed) {
					return
				}
				if err != nil || out.Task == nil && (out.Err == nil || out.Err.Code != errmap.Unavailable) {
					t.Errorf("%+v, %v", out, err)
					return
				}
			}
		})
	}
	for range 100 {
		<-begun
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	cut := m.Drain(ctx)
	calling.Wait()
	m.Drain(t.Context())
	s := m.Stats()
	if cut == 0 || s.Running != 0 || s.Completed+s.Failed != s.Became {
		t.Errorf("%d were cut: %+v", cut, s)
	}
}
