// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

const (
	// storeTimeout bounds one write of what no request waits for.
	storeTimeout = 5 * time.Second
	// storeAttempts is how often the end of a task is written to a store that
	// fails, with storePause between the first two and twice as long after each:
	// six seconds in all, in which a store that restarts is back.
	storeAttempts = 7
	storePause    = 100 * time.Millisecond
	storeMaxPause = 4 * time.Second
	// messageInterval is the least time between two status messages that are written to a
	// store that processes share: as often as clients poll.
	messageInterval = time.Second
)

// phase is how far a call is.
type phase uint8

const (
	// calling: its request waits for it, and it is no task yet.
	calling phase = iota
	// tasked: it is a task.
	tasked
	// over: it has ended, or has no waiter left. What its work returns is dropped.
	over
)

// run is the work of one call in the background.
type run struct {
	m      *Manager
	id     string
	spec   Spec
	ctx    context.Context
	cancel context.CancelCauseFunc
	// release ends the timer of the context, overdue is the one behind it, which ends what late holds.
	release context.CancelFunc
	overdue *time.Timer
	late    *atomic.Pointer[run]

	// ended is closed when outcome is set.
	ended chan struct{}

	mu      sync.Mutex
	phase   phase
	wasTask bool
	outcome *Outcome // not changed after ended is closed
	message string   // what was last reported
	// mayRunAgain: another process may run the work again.
	mayRunAgain bool
	// takeovers is how often the work was begun before, elsewhere.
	takeovers int
	// showing is set while a message waits to be shown, and shown is when one was last; only
	// where processes share the store.
	showing *time.Timer
	shown   time.Time
}

func newRun(ctx context.Context, m *Manager, id string, spec Spec) *run {
	spec.About.ToolCall = true
	most := maxTimeout
	if spec.Waits != nil {
		most = maxWaiting
	}
	if spec.Timeout <= 0 || spec.Timeout > most {
		spec.Timeout = most
	}
	if spec.TTL <= 0 {
		spec.TTL = m.opts.TTL
	}
	r := &run{m: m, id: id, spec: spec, message: clip(spec.Message), ended: make(chan struct{}), mayRunAgain: len(spec.Again) > 0}
	var limited context.Context
	limited, r.release = detach(context.WithValue(ctx, runKey{}, r), spec.Timeout)
	r.ctx, r.cancel = context.WithCancelCause(limited)
	late := &atomic.Pointer[run]{}
	late.Store(r)
	r.late, r.overdue = late, time.AfterFunc(spec.Timeout+Grace, func() {
		if r := late.Load(); r != nil {
			r.expire()
		}
	})
	return r
}

// detach returns a context with the values of ctx that ends after limit. The runtime may keep a timer that was stopped until it
// would have fired, so the timer does not refer to ctx.
func detach(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	timed, release := context.WithTimeout(context.Background(), limit)
	return detached{timed, context.WithoutCancel(ctx)}, release
}

// detached is a context of a time limit with the values of another one.
type detached struct {
	context.Context //nolint:containedctx // it is one

	values context.Context //nolint:containedctx // what the request brought along, long after it
}

// Value implements [context.Context].
func (c detached) Value(key any) any {
	// The limit first: it knows only itself, and so is cancelled with the work without a goroutine.
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// do runs the work to its end. It is the one place that recovers from its panics.
func (r *run) do(work Run) {
	var result *outriggerv1.ToolResult
	// What holds where the work returns neither, or leaves its goroutine.
	err := errmap.Wrap(errmap.InternalError, errors.New("task: the work ended without a result"), errmap.Tool(r.spec.Tool))
	defer func() {
		if p := recover(); p != nil {
			r.m.opts.OnPanic(p, debug.Stack())
			err = errmap.Wrap(errmap.InternalError, fmt.Errorf("panic: %v", p), errmap.Tool(r.spec.Tool))
		}
		was := r.conclude(result, err)
		if r.wasTask && r.spec.Ended != nil {
			r.spec.Ended()
		}
		if was == tasked {
			end := endingOf(r.spec.About, result, err)
			if r.spec.View != nil {
				end.view = r.spec.View()
			}
			r.finish(end, storeAttempts)
		}
		r.close()
	}()
	got, failed := work(r.ctx, r.report)
	if got != nil || failed != nil {
		result, err = got, failed
	}
}

// waits reports whether the work has not begun.
func (r *run) waits() bool { return r.spec.Waits != nil && r.spec.Waits() }

// runKey is the context key of the run whose work has the context.
type runKey struct{}

// BeginWith has another process that takes the task over begin the work with other bytes than [Spec.Again]; ctx is that of the work. It
// does nothing where the work must not be run again. The errors are [ErrTaken], [ErrNotFound] and those of the store.
func BeginWith(ctx context.Context, again []byte) error {
	r, ok := ctx.Value(runKey{}).(*run)
	if !ok || !r.mayRunAgain {
		return nil
	}
	return r.write(func(record *Record) bool {
		record.Again = again
		return true
	})
}

// close frees what the run holds. Its work has returned, or was not begun.
func (r *run) close() {
	r.overdue.Stop()
	r.late.Store(nil)
	r.mu.Lock()
	if r.showing != nil {
		r.showing.Stop()
		r.showing = nil
	}
	r.mu.Unlock()
	r.cancel(nil)
	r.release()
	r.m.leave(r)
}

// expire ends work that goes on although its time is long over.
func (r *run) expire() {
	r.endOnce(errmap.New(errmap.Timeout, errmap.Tool(r.spec.Tool)), storeAttempts)
}

// cut ends work that a drain does not wait for any longer, and reports whether it
// had not ended before.
func (r *run) cut() bool {
	if r.m.replicas != nil && r.isTask() {
		return r.leaveBehind()
	}
	again := r.spec.About.Idempotent
	text := "Tool service unavailable: the sidecar shut down before this call could finish; its outcome is unknown"
	if r.waits() {
		again, text = true, "Tool service unavailable: the sidecar shut down before this call began; call again"
	}
	wasGoing := r.endOnce(errmap.New(errmap.Unavailable, errmap.Tool(r.spec.Tool), errmap.Retryable(again), errmap.Message(text)), 1)
	r.cancel(ErrClosed)
	return wasGoing
}

// endOnce is the end of the call, or of the task that it became; only the first
// counts. It reports whether this was it.
func (r *run) endOnce(err *errmap.Error, attempts int) bool {
	was := r.conclude(nil, err)
	if was == tasked {
		r.finish(endingOf(r.spec.About, nil, err).inOwnWords(), attempts)
	}
	return was != over
}

// conclude decides what the call has come to, and returns what it was before.
func (r *run) conclude(result *outriggerv1.ToolResult, err *errmap.Error) phase {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.phase
	r.phase = over
	if was == calling {
		if err != nil {
			result = nil
		}
		r.outcome = &Outcome{Result: result, Err: err}
		close(r.ended)
	}
	return was
}

// abandon gives up a call whose request has ended.
func (r *run) abandon(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = over
	r.cancel(cause)
}

// finish writes down how the task ended. Where a result finds no room, that is
// what the task ends with.
func (r *run) finish(e ending, attempts int) {
	pause := storePause
	// A store that is away comes back, and has the task until then: its end is written for
	// as long as anybody could ask for it.
	patient, until := attempts > 1, time.Now().Add(r.spec.TTL)
	for {
		attempts--
		err := r.write(func(record *Record) bool {
			e.apply(record)
			return true
		})
		switch {
		case err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrTaken):
			return
		case errors.Is(err, ErrUnavailable) && patient && time.Now().Before(until):
			attempts++
		case errors.Is(err, ErrFull) && attempts > 0:
			e = endingOf(r.spec.About, nil, errmap.New(errmap.ResourceExhausted, errmap.Tool(r.spec.Tool),
				errmap.Message("Result too large: the tool finished, but its result cannot be stored"))).inOwnWords()
			continue
		case attempts <= 0:
			r.m.opts.OnError(fmt.Errorf("task: store the end of a task: %w", err))
			return
		}
		time.Sleep(pause)
		pause = min(2*pause, storeMaxPause)
	}
}

// report keeps what the work says, and shows it where it is a task.
func (r *run) report(message string) {
	message = clip(message)
	r.mu.Lock()
	show := r.phase == tasked
	r.message = message
	if show && r.m.replicas != nil {
		show = false
		r.showSoon()
	}
	r.mu.Unlock()
	if show {
		r.show()
	}
}

// showSoon shows the last message after a while: writing it takes a store that may be far
// away, for which the work does not wait. r.mu is held.
func (r *run) showSoon() {
	if r.showing != nil {
		return
	}
	r.showing = time.AfterFunc(max(0, messageInterval-time.Since(r.shown)), func() {
		r.mu.Lock()
		isGoing := r.phase == tasked && r.showing != nil
		r.showing, r.shown = nil, time.Now()
		r.mu.Unlock()
		if isGoing {
			r.show()
		}
	})
}

// show writes what was last reported into the task.
func (r *run) show() {
	err := r.write(func(record *Record) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if record.Task.GetStatusMessage() == r.message {
			return false
		}
		record.Task.StatusMessage = r.message
		return true
	})
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrTaken) {
		r.m.opts.OnError(fmt.Errorf("task: store a status message: %w", err))
	}
}

// write changes the record as its owner, also where the context of the work has ended.
// Its error is [ErrTaken] where another process owns it.
func (r *run) write(f func(*Record) bool) error {
	ctx, cancel := detach(r.ctx, storeTimeout)
	defer cancel()
	taken := false
	err := r.m.change(ctx, r.id, func(record *Record) bool {
		if taken = record.Owner != r.m.self; taken {
			return false
		}
		return f(record)
	})
	if err == nil && taken {
		r.taken()
		err = ErrTaken
	}
	return err
}

// noticed learns that the record was updated. Who ends a task otherwise than by
// cancelling it, ends the work's context, too.
func (r *run) noticed(status outriggerv1.TaskStatus) {
	if isFinal(status) {
		r.mu.Lock()
		r.phase = over
		r.mu.Unlock()
	}
	if status == outriggerv1.TaskStatus_TASK_STATUS_CANCELLED {
		r.cancel(ErrCancelled)
	}
}
