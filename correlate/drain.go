// SPDX-License-Identifier: Apache-2.0

package correlate

import "context"

// Draining reports whether a Drain has begun. A drain cannot be undone.
func (t *Table) Draining() bool { return t.draining.Load() }

// Drain rejects new calls and waits until those in flight have finished. If ctx
// ends first, the contexts of the remaining calls end with ErrDrainCut, and the
// error is a *DrainError. Those calls may still get a reply, but Drain does not
// wait for that. Drain may be called more than once, also concurrently.
func (t *Table) Drain(ctx context.Context) error {
	t.draining.Store(true)
	if t.inFlight.Load() == 0 {
		t.markDrained()
	}
	select {
	case <-t.drained:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-t.drained: // both were ready: nothing is left to cut
		return nil
	default:
	}
	cut, unfinished := t.cut()
	return &DrainError{Cut: cut, Unfinished: unfinished, Cause: context.Cause(ctx)}
}

// markDrained may be called more than once. After the first moment without
// calls no call can come in, so it stays true.
func (t *Table) markDrained() {
	t.closeOnce.Do(func() { close(t.drained) })
}

// cut ends the contexts of the calls in the table and leaves them there, for
// they are still to be answered. It returns how many it found, and names the
// first.
func (t *Table) cut() (count int, unfinished []Unfinished) {
	for i := range t.shards {
		for _, c := range t.shards[i].all() {
			c.endContext(ErrDrainCut)
			count++
			if len(unfinished) < maxUnfinished {
				unfinished = append(unfinished, Unfinished{Name: clipped(c.name), ID: clipped(c.id.String())})
			}
		}
	}
	return count, unfinished
}

// Owners returns the owners of the calls in the table that have one: after a Drain that ran
// out of time, of those that have not ended although their contexts have.
func (t *Table) Owners() []any {
	var owners []any
	for i := range t.shards {
		for _, c := range t.shards[i].all() {
			if owner := c.owner.Load(); owner != nil {
				owners = append(owners, owner)
			}
		}
	}
	return owners
}
