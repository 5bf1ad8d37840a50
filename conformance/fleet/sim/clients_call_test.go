// SPDX-License-Identifier: Apache-2.0

package sim_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/conformance/fleet/internal/models"
	"github.com/outrigger-mcp/outrigger/correlate"
	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// Admission of a replica, small enough to be met.
const (
	mostCalls   = 2
	queuedCalls = 2
	queueWait   = 500 * time.Millisecond
)

// plainCall is a call that is no task.
type plainCall struct {
	origin    correlate.Origin
	id        int64
	name      string
	caller    string
	lasts     time.Duration
	cancelled time.Duration // when its caller cancels it; zero is never
}

// calls makes some calls at a time at any replica.
func (w *world) calls(a *actor) {
	for n := 0; a.step(50*time.Millisecond, time.Second); n++ {
		if w.isCalm() {
			return
		}
		r := a.pick()
		if r == nil {
			continue
		}
		var burst sync.WaitGroup
		origin := r.table.NewOrigin()
		for i := range 1 + a.rand.IntN(6) {
			c := plainCall{
				origin: origin, id: int64(i), name: fmt.Sprintf("%s-%d-%d", a.name, n, i), caller: fmt.Sprintf("caller %d", a.rand.IntN(2)),
				lasts: time.Duration(a.rand.Int64N(int64(600 * time.Millisecond))),
			}
			if a.rand.IntN(8) == 0 {
				c.cancelled = 1 + c.lasts/2
			}
			burst.Go(func() { a.call(r, &c) })
		}
		burst.Wait()
	}
}

// call makes one call. It has one answer, unless it was cancelled.
func (a *actor) call(r *replica, c *plainCall) {
	w := a.w
	var answer string
	answers, cancelled, refused := 0, false, false
	alive := a.within(r, "call "+c.name, func(ctx context.Context) {
		call, err := r.table.Register(ctx, c.origin, jsonrpc.IntID(c.id))
		if errors.Is(err, correlate.ErrDraining) || errors.Is(err, correlate.ErrFull) {
			w.reach("a plain call is refused by a drain")
			refused = true
			return
		}
		if err != nil {
			w.violate(propertyErrors, "register at %s: %v", r.name, err)
			refused = true
			return
		}
		if c.cancelled > 0 {
			timer := time.AfterFunc(c.cancelled, func() { cancelled = r.table.Cancel(c.origin, jsonrpc.IntID(c.id), "enough") })
			defer timer.Stop()
		}
		text := r.serve(call.Context(), c)
		if call.Finish() {
			answers++
			answer = text
		}
	})
	w.exercise(propertyAnswer)
	switch {
	case !alive || refused:
	case cancelled && answers != 0, !cancelled && answers != 1:
		w.violate(propertyAnswer, "%s at %s has %d answers; cancelled: %v", c.name, r.name, answers, cancelled)
	case cancelled:
		w.reach("a plain call is cancelled")
	case answer == models.ResultOf("Ping", c.name):
		if w.began(r) {
			w.reach("a drained call has its result")
		}
	case answer == "cut":
		w.reach("a drain cuts a call")
	case answer != "rejected":
		w.violate(propertyIDs, "%s at %s got %q", c.name, r.name, answer)
	}
}

// serve admits a call and runs it.
func (r *replica) serve(ctx context.Context, c *plainCall) (answer string) {
	w := r.w
	place, refused := r.slots.Acquire(ctx, c.caller, "shop.Ping")
	if refused != nil {
		switch refused.Code {
		case errmap.Cancelled:
			return "cut"
		case errmap.Unavailable, errmap.RateLimited:
			w.reach("admission rejects a call")
		default:
			w.violate(propertyErrors, "admission at %s: %v", r.name, refused)
		}
		return "rejected"
	}
	defer place.Release(true)
	if place.Waited > 0 {
		w.reach("a call waits for a slot")
	}
	if n := r.serving.Add(1); n > mostCalls {
		w.violate(propertyMemory, "%s runs %d calls", r.name, n)
	}
	defer r.serving.Add(-1)
	timer := time.NewTimer(c.lasts)
	defer timer.Stop()
	select {
	case <-timer.C:
		return models.ResultOf("Ping", c.name)
	case <-ctx.Done():
		return "cut"
	}
}

// auditMemory looks at what replicas hold when nothing is called any more.
func (w *world) auditMemory() {
	w.exercise(propertyMemory)
	for _, r := range w.present() {
		if n := r.table.InFlight(); n != 0 {
			w.violate(propertyMemory, "%s has %d calls in flight", r.name, n)
		}
		if s := r.slots.Stats(); s.Running != 0 || s.Waiting != 0 {
			w.violate(propertyMemory, "%s has %d calls admitted and %d queued", r.name, s.Running, s.Waiting)
		}
		if n := r.tasks.Stats().Running; n != 0 {
			w.violate(propertyMemory, "%s runs work of %d tasks", r.name, n)
		}
		if n := r.bus.Stats().Subscribers; n != 0 {
			w.violate(propertyMemory, "%s has %d subscribers", r.name, n)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.live {
		c.mu.Lock()
		if n := len(c.toServer) + len(c.toClient) + len(c.arrived); n > 1<<20 {
			w.broken = append(w.broken, fmt.Sprintf("%s: %d bytes are on the way to and from %s", propertyMemory, n, c.replica.name))
		}
		c.mu.Unlock()
	}
	if n, most := len(w.live), 2*replicaSlots; n > most {
		w.broken = append(w.broken, fmt.Sprintf("%s: %d connections", propertyMemory, n))
	}
}
