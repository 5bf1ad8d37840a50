// SPDX-License-Identifier: Apache-2.0

package correlate

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Call is one call in flight. The code that registered it must call Finish on
// every path, usually also with defer. Until then it occupies a slot of the table.
type Call struct {
	table  *Table
	origin Origin
	id     jsonrpc.ID
	name   string
	owner  atomic.Value
	work   work

	// The rest belongs to the shard of the origin and its lock.
	listed         bool // in the table; false: answered, cancelled or closed
	finished       bool // Finish was called
	previous, next *Call
}

// CallOption sets a property of one call; see [WithTimeout] and [WithDeadline].
type CallOption func(*callOptions)

type callOptions struct {
	timeout  time.Duration
	deadline time.Time
}

// WithTimeout ends the context of the call after d; zero and less set no limit.
func WithTimeout(d time.Duration) CallOption {
	return func(o *callOptions) { o.timeout = d }
}

// WithDeadline ends the context of the call at t; the zero time sets no limit. The
// earliest of all deadlines, that of the parent context included, counts.
func WithDeadline(t time.Time) CallOption {
	return func(o *callOptions) { o.deadline = t }
}

func newCall(ctx context.Context, t *Table, o Origin, id jsonrpc.ID, opts []CallOption) *Call {
	var options callOptions
	for _, opt := range opts {
		opt(&options)
	}
	return &Call{table: t, origin: o, id: id, work: work{parent: ctx, deadline: options.earliest()}}
}

// earliest is the earlier of timeout and deadline, the zero time for neither.
func (o callOptions) earliest() time.Time {
	if o.timeout <= 0 {
		return o.deadline
	}
	at := time.Now().Add(o.timeout)
	if !o.deadline.IsZero() && o.deadline.Before(at) {
		return o.deadline
	}
	return at
}

// endContext ends the context and stops its timer. The first cause stays.
func (c *Call) endContext(cause error) { c.work.endContext(cause) }

// Own keeps what the call belongs to, for [Table.Owners]. All owners of a table have one type.
func (c *Call) Own(owner any) { c.owner.Store(owner) }

// Context returns the context of the call. It ends with Finish, Cancel,
// CloseOrigin, the deadline, the cutoff of a Drain, or the context given to
// Register. context.Cause returns the reason. Use it for the work of the call, but
// not to write its reply after Finish.
func (c *Call) Context() context.Context { return c.work.context() }

// Parent returns the context given to Register, for steps that neither wait nor
// pass a context on: [Call.Context] costs several allocations.
func (c *Call) Parent() context.Context { return c.work.parent }

// Ended returns what ended the context of the call, as context.Cause does for
// [Call.Context]: nil while it has not ended.
func (c *Call) Ended() error { return c.work.ended() }

// Abort ends the context, for a caller that has gone away while the work runs. The
// call stays registered until Finish. The first cause stays.
func (c *Call) Abort(cause error) { c.endContext(cause) }

// ID returns the id that the call was registered with.
func (c *Call) ID() jsonrpc.ID { return c.id }

// Origin returns the origin that the call was registered with.
func (c *Call) Origin() Origin { return c.origin }

// Finish ends the call: it removes the entry, so that the id can be reused even
// before the caller has read the reply, and ends the context. It reports whether
// the reply may be written. That is true at most once, and false after Cancel or
// CloseOrigin.
func (c *Call) Finish() bool {
	first, won := c.table.shard(c.origin).finish(c)
	if first {
		c.endContext(nil)
		c.table.release()
	}
	return won
}

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

// endContext ends the context, also one that is asked for later. The first cause stays.
func (w *work) endContext(cause error) {
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
