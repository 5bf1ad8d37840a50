// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Spec says how to run work as a task.
type Spec struct {
	// Principal is the owner of the task; other callers do not see it. Tool is the tool
	// that runs.
	Principal, Tool string
	// After is how long the call may take without becoming a task. Zero makes it a task
	// at once.
	After time.Duration
	// Timeout is how long the work may take from its start. Zero means a day, which is also
	// the maximum for work that does not wait; for work that does, it is eight days.
	Timeout time.Duration
	// TTL replaces that of the options if it is positive.
	TTL time.Duration
	// About is the request that an error of the work is mapped for.
	About errmap.About
	// Origin identifies what began the call, for telemetry: [Manager.Origin] returns it. It must not be changed.
	Origin []byte
	// Message is the status message that the task begins with.
	Message string
	// Waits reports whether the work has not begun: it waits for something, and nothing is lost if it ends. A drain leaves such work
	// at once, and it is taken over as often as it takes. Nil means that it has begun.
	Waits func() bool
	// Again is what [Options.Resume] needs to run the work again in another process. Nil
	// means that it must not be run again. It must not be changed.
	Again []byte
	// View says, once the work has returned, for whom what it returned was made; it becomes [Record.View]. Nil says nothing.
	View func() string
	// Began is called when the call becomes a task, before anyone can see it, and Ended once the work of a task has returned. Both may
	// be nil. They must return quickly.
	Began, Ended func()
}

// Run is the work of a call. If the request ends before the call became a task, the
// context of the work ends too. After that it ends after [Spec.Timeout], with
// [ErrCancelled], or at the end of a drain. report sets a status message for people; it
// waits only for the store and is safe for concurrent use. It returns a result, which may be an error of the tool itself, or an error, which
// is presented as that of a tools/call of MCP 2026-07-28. A panic is INTERNAL_ERROR. Do
// not change a returned value afterwards.
type Run func(ctx context.Context, report func(statusMessage string)) (*outriggerv1.ToolResult, *errmap.Error)

// Outcome is the outcome of a call. Exactly one field is set.
type Outcome struct {
	// Result is the result of work that ended before it became a task, Err its error.
	Result *outriggerv1.ToolResult
	Err    *errmap.Error
	// Task is the task that the call became. The caller owns the message.
	Task *outriggerv1.Task
}

// Start runs work on a new goroutine. If the work ends within [Spec.After], its result
// is the outcome, and there was never a task. Otherwise the call becomes a task, which
// callers can find by the time Start returns. If the store has no room at that time, or
// the manager drains, the call does not become a task: its work continues, and Start
// returns when it ends.
//
// The error is [ErrFull], [ErrShare] or [ErrClosed], or that of the store if the call must
// be a task at once. Then the work was not started. If the request ended before the call became a task,
// the error is the cause of ctx, and the context of the work ends with it.
func (m *Manager) Start(ctx context.Context, spec Spec, work Run) (*Outcome, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r, err := m.admit(ctx, spec)
	if err != nil {
		return nil, err
	}
	if r.spec.After > 0 {
		go r.do(work)
		return r.await(ctx)
	}
	outcome, err := r.become(ctx)
	if err != nil {
		r.close()
		return nil, err
	}
	go r.do(work)
	return outcome, nil
}

// await waits until the call has ended or become a task.
func (r *run) await(ctx context.Context) (*Outcome, error) {
	timer := time.NewTimer(r.spec.After)
	defer timer.Stop()
	for {
		select {
		case <-r.ended:
			return r.outcome, nil
		case <-ctx.Done():
			r.abandon(context.Cause(ctx))
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		outcome, err := r.become(ctx)
		if err != nil && ctx.Err() == nil {
			r.m.stayed.Add(1)
		}
		if outcome != nil {
			return outcome, nil
		}
	}
}

// become makes a task of the call, or returns its outcome where it has ended. On
// an error it is neither.
func (r *run) become(ctx context.Context) (*Outcome, error) {
	if r.m.isClosing() {
		return nil, ErrClosed
	}
	record := r.record()
	if err := r.m.store.Create(ctx, record); err != nil {
		if errors.Is(err, ErrUnavailable) {
			r.m.doubt(r.id)
		}
		return nil, err
	}
	r.mu.Lock()
	if r.phase == calling && ctx.Err() == nil {
		r.phase, r.wasTask = tasked, true
		if r.spec.Began != nil {
			r.spec.Began()
		}
		late := r.message != record.Task.GetStatusMessage()
		r.spec.Again = nil // the record has it
		r.mu.Unlock()
		r.m.became.Add(1)
		r.m.trust(r.id)
		if late {
			r.show()
		}
		return &Outcome{Task: copyTask(record.Task)}, nil
	}
	// It ended, or has no waiter left: no client knows of a task.
	r.mu.Unlock()
	if err := r.m.store.Delete(context.WithoutCancel(ctx), r.id); err != nil {
		r.m.doubt(r.id)
		r.m.opts.OnError(err)
	}
	select {
	case <-r.ended:
		return r.outcome, nil
	default:
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	// While the store was asked, another replica took the record for that of a dead one and ended it, or took it over.
	r.cancel(ErrTaken)
	return &Outcome{Err: errmap.New(errmap.Unavailable, errmap.Tool(r.spec.Tool), errmap.Retryable(r.spec.About.Idempotent),
		errmap.Message("Tool service unavailable: another replica took the call over before it became a task; its outcome is unknown"))}, nil
}

// record is what the store keeps of a task that begins now. Until its end is
// known, it is remembered for as long as it could take, because a client may give
// a task up once its lifetime is over.
func (r *run) record() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.m.opts.Now()
	lifetime := r.lifetime()
	return Record{
		ID: r.id, Principal: r.spec.Principal, Tool: r.spec.Tool, Keep: r.spec.TTL, Expires: now.Add(lifetime), Origin: r.spec.Origin,
		Owner: r.m.self, Again: r.spec.Again, Timeout: r.spec.Timeout, Idempotent: r.spec.About.Idempotent,
		Task: &outriggerv1.Task{
			TaskId:        r.id,
			Status:        outriggerv1.TaskStatus_TASK_STATUS_WORKING,
			StatusMessage: r.message,
			CreatedAt:     timestamppb.New(now),
			LastUpdatedAt: timestamppb.New(now),
			Ttl:           durationpb.New(lifetime),
			PollInterval:  durationpb.New(PollInterval),
		},
	}
}

// lifetime is how long a task is remembered that begins now.
func (r *run) lifetime() time.Duration { return r.spec.Timeout + Grace + r.spec.TTL }

// Canonical is the canonical form of an error of a manager. ctx is that of the request.
func Canonical(ctx context.Context, err error) *errmap.Error {
	const retryAfter = time.Second
	switch {
	case errors.Is(err, ErrFull):
		full := errmap.Because(errmap.Unavailable, "too many tasks (--max-tasks)", errmap.RetryAfter(retryAfter))
		full.Limit = errmap.LimitTasks
		return full
	case errors.Is(err, ErrShare):
		return errmap.OverShare("this caller's tasks exceed its share (--max-tasks, --caller-share)")
	case errors.Is(err, ErrClosed):
		return errmap.Because(errmap.Unavailable, "the sidecar is shutting down; try another replica", errmap.RetryAfter(retryAfter))
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // that of the caller, who gives up on a slow store
		return errmap.Wrap(errmap.Timeout, err)
	case ctx.Err() != nil:
		return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
	case errors.Is(err, ErrUnavailable):
		return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(retryAfter),
			errmap.Message("Tool service unavailable: tasks cannot be reached now (--state); try again"))
	}
	return errmap.Wrap(errmap.InternalError, err)
}
