// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/metadata"
)

// admit lets a call run once there is memory and a place for it. What it takes
// is given back by leave.
func (b *Bridge) admit(ctx context.Context, c *toolCall) *errmap.Error {
	if err := b.admitted(ctx, c); err != nil {
		return err
	}
	if err := metadata.CheckIdempotencyKey(c.req.Header); err != nil {
		return err
	}
	var err *errmap.Error
	defer c.traceQueue(c.req.Span.Now())
	if c.req.Paced {
		c.place, err = b.opts.Slots.Wait(ctx, c.req.Caller, c.tool.Name) // and its own time begins then
	} else {
		c.place, err = b.opts.Slots.Acquire(ctx, c.req.Caller, c.tool.Name)
	}
	return err
}

// admitted refuses a call while memory is short, or lets it wait.
func (b *Bridge) admitted(ctx context.Context, c *toolCall) *errmap.Error {
	switch {
	case b.opts.Shed == nil:
		return nil
	case c.req.Paced:
		return b.awaitMemory(ctx, c)
	}
	return b.opts.Shed()
}

// memoryLook is how often a call that waits for memory looks whether there is
// some. Their number is bounded by their edge.
const memoryLook = 50 * time.Millisecond

// awaitMemory lets a call run whose caller is held back by flow control: at once
// while there is memory, and one at a time while it is short. Its message is in
// memory either way, and to run it is what frees that.
func (b *Bridge) awaitMemory(ctx context.Context, c *toolCall) *errmap.Error {
	if b.opts.Short == nil || !b.opts.Short() {
		return nil
	}
	look := time.NewTicker(memoryLook)
	defer look.Stop()
	for b.opts.Short() {
		select {
		case b.alone <- struct{}{}:
			c.alone = true
			return nil
		case <-look.C:
		case <-ctx.Done():
			return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
		}
	}
	return nil
}

// leave gives back what admit and result took. A call that runs on as a task has a bound of
// its own.
func (b *Bridge) leave(c *toolCall) {
	c.endTurn()
	if c.releaseStream != nil {
		c.releaseStream()
	}
	if c.alone {
		c.alone = false
		<-b.alone
	}
	c.place.Release(c.worked)
}
