// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"container/list"
	"context"
	"sync/atomic"
	"time"
)

// A call that waits in the queue has been read and parsed: it holds a stack, buffers and contexts, and each garbage collection
// looks through all of them. With 4,096 callers that took a quarter of the CPU time. So once a caller has a long queue of
// calls to one tool, and the tool works it off fast, the connections on which these calls came are not read again until the
// queue is shorter. The caller waits as long as before; what it sends meanwhile stays in the kernel's buffers.
//
// Only calls of the same caller to the same tool hold each other back. A connection without a queued call is never held, and
// no connection for longer than half of the time that a call may be in the queue.
const (
	// holdTime is how long the queue in front of held connections takes to work off. A connection that is let go has to
	// be read before the queue is empty.
	holdTime = 25 * time.Millisecond
	// leastHeld and mostHeld bound the length of that queue, in calls. A tool that does not answer leastHeld calls in
	// holdTime is not short of the sidecar's CPU time, and the bounds of the queue are for it.
	leastHeld, mostHeld = 64, 256
	// letGo is how many connections follow a call that leaves the queue: some of them have nothing to send.
	letGo = 2
	// heldPart is the longest time that a connection is held, as a part of the time that a call may be in the queue.
	heldPart = 2
)

// Connection is what one HTTP/1.1 connection knows about the queue that its last call was in.
type Connection struct {
	slots *Slots
	flow  atomic.Pointer[flow]
}

// connectionKey is the key of a request's *Connection in its context.
type connectionKey struct{}

// Connection returns what holds back the requests of one connection, and a context by which its calls find it.
func (s *Slots) Connection(ctx context.Context) (context.Context, *Connection) {
	c := &Connection{slots: s}
	return context.WithValue(ctx, connectionKey{}, c), c
}

// queuedOn notes the queue in which a call waits.
func queuedOn(ctx context.Context, f *flow) {
	if c, ok := ctx.Value(connectionKey{}).(*Connection); ok {
		c.flow.Store(f)
	}
}

// Wait returns when the next request may be read: at once, unless the last call was queued behind many of its caller. It
// returns as well when the connection is gone.
func (c *Connection) Wait(gone <-chan struct{}) {
	f := c.flow.Swap(nil)
	if f == nil {
		return
	}
	at := c.slots.hold(f)
	if at == nil {
		return
	}
	timer := time.NewTimer(c.slots.opts.Wait / heldPart)
	defer timer.Stop()
	select {
	case <-at.Value.(chan struct{}): //nolint:forcetypeassert // hold puts nothing else in
		return
	case <-timer.C:
	case <-gone:
	}
	c.slots.unhold(f, at)
}

// hold puts a connection behind the others of a flow; nil where it need not wait.
func (s *Slots) hold(f *flow) *list.Element {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(f.waiting) < f.tool.held() {
		return nil
	}
	s.held++
	return f.held.PushBack(make(chan struct{}))
}

// unhold takes a connection away that waits no longer.
func (s *Slots) unhold(f *flow, at *list.Element) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if done, _ := at.Value.(chan struct{}); done != nil {
		select {
		case <-done: // it was let go at the same moment
			return
		default:
		}
	}
	s.held--
	f.held.Remove(at)
}

// follow lets connections go after a call of their flow has left the queue; s.mu is held.
func (s *Slots) follow(f *flow) {
	for n := 0; f.held.Len() > 0 && (len(f.waiting) == 0 || n < letGo && len(f.waiting) < f.tool.held()); n++ {
		done, _ := f.held.Remove(f.held.Front()).(chan struct{})
		s.held--
		close(done)
	}
}

// held is the length of a caller's queue from which on its connections are held.
func (t *toolSlots) held() int {
	calls := int(t.demand.rate * holdTime.Seconds())
	if calls < leastHeld {
		return int(^uint(0) >> 1) // never
	}
	return min(calls, mostHeld)
}
