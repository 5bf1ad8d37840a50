// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/share"
	"github.com/outrigger-mcp/outrigger/internal/stall"
)

// leastHint keeps callers that were rejected from asking again at once.
const leastHint = 100 * time.Millisecond

// SlotOptions configure Slots. Zero fields have the defaults of the settings.
type SlotOptions struct {
	// Most is the maximum number of concurrent calls, Queued that of queued ones, and Wait the maximum time in the queue.
	Most, Queued int
	Wait         time.Duration
	// Share limits how much of Most, and of Queued, one caller may use, and ToolShare how much of Most one tool may use,
	// while others are active.
	Share, ToolShare share.Rule
	// Fixed disables the adaptive limit: the concurrency of each tool is Most, whatever its latency.
	Fixed bool
	// Clock detects stalls of this process, which count neither as time in the queue nor as latency of a tool. It may be
	// nil.
	Clock *stall.Clock
}

// Slots limits concurrent calls. Other calls wait in a queue that is fair between callers and limited by time. It is
// safe for concurrent use. Nil limits nothing.
//
// Each tool has its own concurrency limit, which adapts to the latency of its calls; see concurrency. A free slot goes
// to the tool with the fewest running calls among those with queued calls and free capacity, and within the tool to the
// caller with the fewest running calls, the longest wait first. So a slow tool does not delay a fast one, nor a busy
// caller a quiet one.
type Slots struct {
	opts SlotOptions

	mu      sync.Mutex
	running int
	tools   map[string]*toolSlots
	callers map[string]*callerSlots
	flows   map[flowKey]*flow
	// ready are the tools that have calls waiting.
	ready map[*toolSlots]struct{}
	queue queue
	// recentCallers and recentTools know whether somebody else is about.
	recentCallers, recentTools recent

	full, expired, over uint64
}

// toolSlots is what one tool has.
type toolSlots struct {
	name             string
	running, waiting int
	limit            concurrency
	// flows are those with calls that wait.
	flows flowHeap
	// standing is when the queue of this tool was empty the last time; zero while it is.
	standing time.Time
	demand   demand
}

// callerSlots is what one caller has. queued are its calls within the bound of the queue.
type callerSlots struct {
	running, waiting, queued int
}

// maxIdle is how many callers, tools and pairs without a call are remembered, so that one that calls again and again
// costs nothing, and a tool keeps what is known of its latency.
const maxIdle = 4096

// NewSlots returns Slots without calls.
func NewSlots(o SlotOptions) *Slots {
	defaults.Fill(&o.Most, defaults.MaxConcurrentCalls)
	defaults.Fill(&o.Queued, defaults.MaxQueuedCalls)
	defaults.Fill(&o.Wait, defaults.MaxQueueWait)
	s := &Slots{
		opts: o, tools: map[string]*toolSlots{}, callers: map[string]*callerSlots{}, flows: map[flowKey]*flow{},
		ready: map[*toolSlots]struct{}{},
	}
	return s
}

// Place is an acquired slot. The zero value is none.
type Place struct {
	// Waited is the time that the call was queued.
	Waited time.Duration

	slots *Slots
	flow  *flow
	begun time.Time
}

// Acquire returns when a call of a caller may run, or with an error and a retry hint: RATE_LIMITED if the caller
// exceeds its share, else UNAVAILABLE. If the context ends first, the error is CANCELLED, or TIMEOUT at its deadline.
// Without an error, the place must be released.
func (s *Slots) Acquire(ctx context.Context, caller, tool string) (Place, *errmap.Error) {
	return s.acquire(ctx, caller, tool, true)
}

// Wait is Acquire for a caller with flow control: it waits without a limit, and does not count towards the maximum of
// queued calls. Its edge limits their number.
func (s *Slots) Wait(ctx context.Context, caller, tool string) (Place, *errmap.Error) {
	p, err := s.acquire(ctx, caller, tool, false)
	p.Waited = 0 // its own time begins now
	return p, err
}

// now is the time less that in which the process stood still.
func (s *Slots) now() time.Time { return time.Now().Add(-s.opts.Clock.Since(0)) }

func (s *Slots) acquire(ctx context.Context, caller, tool string, isQueued bool) (Place, *errmap.Error) {
	if s == nil {
		return Place{}, nil
	}
	now := s.now()
	f, w, err := s.begin(now, caller, tool, isQueued)
	switch {
	case err != nil:
		return Place{}, err
	case w == nil:
		return Place{slots: s, flow: f, begun: now}, nil
	}
	if err := s.await(ctx, w); err != nil {
		return Place{Waited: s.now().Sub(now)}, err
	}
	begun := s.now()
	return Place{slots: s, flow: f, begun: begun, Waited: begun.Sub(now)}, nil
}

// Reject returns the error that Acquire would return because the queue is full, and counts it; nil if Acquire would let
// the call run or wait. It spares a call that is turned away everything that Acquire needs.
func (s *Slots) Reject(caller, tool string) *errmap.Error {
	if s == nil {
		return nil
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.bounded < s.opts.Queued {
		return nil
	}
	f := s.flow(caller, tool)
	s.recentCallers.seen(caller, now)
	s.recentTools.seen(tool, now)
	if len(f.waiting) == 0 && s.mayRun(f, now) {
		return nil
	}
	f.tool.demand.roll(now, s.opts.Wait)
	f.tool.demand.asked++
	f.tool.limit.met()
	return s.rejectFull()
}

// begin lets a call run, or queues it; then the waiter is not nil. isQueued: the bounds of the queue are for it.
func (s *Slots) begin(now time.Time, caller, tool string, isQueued bool) (*flow, *waiter, *errmap.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flow(caller, tool)
	f.tool.demand.roll(now, s.opts.Wait)
	f.tool.demand.asked++
	s.recentCallers.seen(caller, now)
	s.recentTools.seen(tool, now)
	if len(f.waiting) == 0 && s.mayRun(f, now) {
		s.run(f)
		return f, nil, nil
	}
	f.tool.limit.met()
	if isQueued {
		if err := s.mayQueue(f); err != nil {
			return nil, nil, err
		}
	}
	return f, s.enqueue(f, now, isQueued), nil
}

// mayRun reports whether one more call of a flow may run; s.mu is held.
func (s *Slots) mayRun(f *flow, now time.Time) bool {
	switch {
	case s.running >= s.opts.Most, !s.opts.Fixed && f.tool.running >= f.tool.limit.now(s.opts.Most):
		return false
	case !s.allows(s.opts.Share, f.caller.running) && !s.recentCallers.alone(f.key.caller, now):
		return false
	}
	return s.allows(s.opts.ToolShare, f.tool.running) || s.recentTools.alone(f.key.tool, now)
}

// allows reports whether a share of the places allows one more.
func (s *Slots) allows(rule share.Rule, held int) bool {
	return rule.Allows(int64(held), 1, int64(s.running), int64(s.opts.Most))
}

// mayQueue holds a call to the bounds of the queue; s.mu is held.
func (s *Slots) mayQueue(f *flow) *errmap.Error {
	switch {
	case s.queue.bounded >= s.opts.Queued:
		return s.rejectFull()
	case !s.opts.Share.Allows(int64(f.caller.queued), 1, int64(s.queue.bounded), int64(s.opts.Queued)):
		s.over++
		return s.limited(f)
	}
	return nil
}

func (s *Slots) run(f *flow) {
	s.running++
	f.running++
	f.caller.running++
	f.tool.running++
	f.tool.demand.served++
	f.tool.limit.begun(f.tool.running)
}

// Release releases the slot. measured means that the call did the tool's work, so that its duration counts for the
// tool's latency. A second Release, and that of the zero Place, does nothing.
func (p *Place) Release(measured bool) {
	s := p.slots
	if s == nil {
		return
	}
	p.slots = nil
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := p.flow
	s.stop(f)
	if measured && !s.opts.Fixed {
		f.tool.limit.ended(now, now.Sub(p.begun), f.tool.running, s.opts.Most)
	}
	s.next(now)
}

func (s *Slots) stop(f *flow) {
	s.running--
	f.running--
	f.caller.running--
	f.tool.running--
	f.changed()
}

// Full returns the error for a call while the queue is full, before the call is read; nil otherwise.
func (s *Slots) Full() *errmap.Error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.bounded < s.opts.Queued {
		return nil
	}
	return s.rejectFull()
}

func (s *Slots) rejectFull() *errmap.Error {
	s.full++
	return s.reject(fmt.Sprintf("%d calls are running and %d are queued (--max-calls, --max-queued)", s.running, s.opts.Queued))
}

// limited rejects a call of a caller that has its share.
func (s *Slots) limited(f *flow) *errmap.Error {
	return errmap.New(errmap.RateLimited, errmap.RetryAfter(s.hint()), errmap.Messagef(
		"Rate limit exceeded: %d calls of this caller are running, and the other slots are for other callers (--max-calls, --caller-share)", f.caller.running))
}

func (s *Slots) reject(reason string) *errmap.Error {
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(s.hint()), errmap.Message("Tool service unavailable: "+reason))
}

// hint is when to try again.
func (s *Slots) hint() time.Duration { return max(s.opts.Wait, leastHint) }

// SlotStats are the statistics of Slots.
type SlotStats struct {
	// Running and Waiting are the current numbers of calls; Most and Queued are the limits.
	Running, Waiting, Most, Queued int
	// Full counts calls that found the queue full, Expired those that timed out in it, Over those of callers over their
	// share.
	Full, Expired, Over uint64
}

// Stats returns the counts; none of nil.
func (s *Slots) Stats() SlotStats {
	if s == nil {
		return SlotStats{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return SlotStats{
		Running: s.running, Waiting: s.queue.waiting, Most: s.opts.Most, Queued: s.opts.Queued,
		Full: s.full, Expired: s.expired, Over: s.over,
	}
}
