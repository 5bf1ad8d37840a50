// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"sync"
	"time"
)

// work is the context of a call, which is made when it is asked for: a call that is
// rejected at once needs none. Its methods are safe for concurrent use.
type work struct {
	parent   context.Context //nolint:containedctx // the context is made of it later
	deadline time.Time       // zero for none

	mu     sync.Mutex
	ctx    context.Context //nolint:containedctx // handed out by Call.Context; nil until then
	cancel context.CancelCauseFunc
	stop   context.CancelFunc // of the deadline, nil where there is none
	// isOver and cause are what end was called with before there was a context.
	isOver bool
	cause  error
}

// context returns the context, the same one each time.
func (w *work) context() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx != nil {
		return w.ctx
	}
	from := w.parent
	switch {
	case w.isOver:
		from = context.WithoutCancel(from) // whatever became of it later is not the cause
	case !w.deadline.IsZero():
		from, w.stop = context.WithDeadline(from, w.deadline)
	}
	w.ctx, w.cancel = context.WithCancelCause(from)
	if w.isOver {
		w.finish(w.cause)
	}
	return w.ctx
}

// end ends the context, also one that is asked for later. The first cause stays.
func (w *work) end(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx != nil:
		w.finish(cause)
	case !w.isOver:
		w.isOver, w.cause = true, cause
		if err := w.over(); err != nil {
			w.cause = err // it had ended before
		}
	}
}

// finish ends the context that was made; w.mu is held.
func (w *work) finish(cause error) {
	w.cancel(cause)
	if w.stop != nil {
		w.stop()
	}
}

// over is why a context that was not made yet would have ended by itself; w.mu is held.
func (w *work) over() error {
	if w.parent.Err() != nil {
		return context.Cause(w.parent)
	}
	if !w.deadline.IsZero() && !time.Now().Before(w.deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// ended is context.Cause of the context.
func (w *work) ended() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.ctx != nil:
		return context.Cause(w.ctx)
	case !w.isOver:
		return w.over()
	case w.cause == nil:
		return context.Canceled
	}
	return w.cause
}
