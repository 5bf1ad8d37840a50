// SPDX-License-Identifier: Apache-2.0

package task

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/outrigger-mcp/outrigger/errmap"
	outriggerv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/v1"
)

// Spec says how to run something as a task.
type Spec struct {
	// Principal is whose task it will be: other callers do not see it. Tool is what runs.
	Principal, Tool string
	// After is how long the call may take without becoming a task. Zero: it is one
	// at once.
	After time.Duration
	// Timeout is how long the work may take, from its start; zero is
	// [Options.MaxTimeout], and no more than that is given.
	Timeout time.Duration
	// PollInterval and TTL replace those of the options where they are positive.
	PollInterval, TTL time.Duration
	// About is what an error is the answer to, where the work ends with one.
	About errmap.About
}

// Run is work. Its context does not end with the request that began it, unless
// the request ends before the call became a task: it ends after [Spec.Timeout],
// with [ErrCancelled] and at the end of a drain. report says for people how far
// it is; it waits for the store alone and may be called by many at a time. Work
// asks with [Ask]. It returns a result, which may be a failure of the tool's own, or an
// error, which [Options.ErrorResult] and [Options.ErrorObject] show; a panic is
// INTERNAL_ERROR. Nothing that it returns may be changed afterwards.
type Run func(ctx context.Context, report func(statusMessage string)) (*outriggerv1.ToolResult, *errmap.Error)

// Outcome is what became of a call. Exactly one member is set.
type Outcome struct {
	// Result is that of work which ended before it became a task, Err its error.
	Result *outriggerv1.ToolResult
	Err    *errmap.Error
	// Task is the task that the call became. It is the caller's own message.
	Task *outriggerv1.Task
}

// Start runs work on a goroutine of its own. Where the work ends within
// [Spec.After], its result is the outcome, and there never was a task. Else the
// call becomes a task, which can be found by the time Start returns. It becomes
// one sooner where the work asks something. Where the store has no room then,
// or the manager drains, it stays a call: its work is not thrown away, and Start
// returns at its end.
//
// The error is [ErrFull] or [ErrClosed], or that of the store where a task is
// wanted at once, and then the work was not begun; or it is the cause of ctx,
// where the request ended before the call became a task, and then the work's
// context ends with it.
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
		var asking chan<- error
		select {
		case <-r.ended:
			return r.outcome, nil
		case <-ctx.Done():
			r.abandon(context.Cause(ctx))
			return nil, context.Cause(ctx)
		case asking = <-r.asking:
		case <-timer.C:
		}
		outcome, err := r.become(ctx)
		switch {
		case asking != nil:
			asking <- err
		case err != nil && ctx.Err() == nil:
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
		return nil, err
	}
	r.mu.Lock()
	if r.phase == calling && ctx.Err() == nil {
		r.phase = tasked
		close(r.settled)
		late := r.message != record.Task.GetStatusMessage()
		r.mu.Unlock()
		r.m.became.Add(1)
		if late {
			r.show()
		}
		return &Outcome{Task: copyTask(record.Task)}, nil
	}
	// It ended, or has no waiter left: no client knows of a task.
	r.mu.Unlock()
	if err := r.m.store.Delete(context.WithoutCancel(ctx), r.id); err != nil {
		r.m.opts.OnError(err)
	}
	select {
	case <-r.ended:
		return r.outcome, nil
	default:
		return nil, context.Cause(ctx)
	}
}

// record is what the store keeps of a task that begins now. Until its end is
// known, it is remembered for as long as it could take, because a client may give
// a task up once its lifetime is over.
func (r *run) record() Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.m.opts.Now()
	lifetime := r.spec.Timeout + r.m.opts.Grace + r.spec.TTL
	return Record{
		ID: r.id, Principal: r.spec.Principal, Tool: r.spec.Tool, Keep: r.spec.TTL, Expires: now.Add(lifetime),
		Task: &outriggerv1.Task{
			TaskId:        r.id,
			Status:        outriggerv1.TaskStatus_TASK_STATUS_WORKING,
			StatusMessage: r.message,
			CreatedAt:     timestamppb.New(now),
			LastUpdatedAt: timestamppb.New(now),
			Ttl:           durationpb.New(lifetime),
			PollInterval:  durationpb.New(r.spec.PollInterval),
		},
	}
}
