// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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
	// Share limits how much of Most, and of Queued, one caller may use, and ToolShare how much of both one tool may use,
	// while others are active.
	Share, ToolShare share.Rule
	// ToolClasses and CallerClasses have weights and reserved slots. A tool or caller belongs to the first class that it
	// matches. All reserved slots together must be fewer than Most.
	ToolClasses, CallerClasses []Class
	// Fixed disables the adaptive limit: the concurrency of each tool is Most, whatever its latency.
	Fixed bool
	// Turns is how many answers of one tool to one caller, and how many large messages, are translated at once while others
	// are active. Zero is half of the processors.
	Turns int
	// Clock detects stalls of this process, which count neither as time in the queue nor as latency of a tool. It may be
	// nil.
	Clock *stall.Clock
}

// Slots limits concurrent calls. Other calls wait in a queue that is fair between callers and limited by time. It is
// safe for concurrent use. Nil limits nothing.
//
// Each tool has its own concurrency limit, which adapts to the latency of its calls; see concurrency. A free slot goes
// to the tool with the fewest running calls by its weight among those with queued calls and free capacity, and within the
// tool to the caller with the fewest running calls by its weight, the longest wait first. So a slow tool does not delay a
// fast one, nor a busy caller a quiet one.
//
// A call of a class with an unused reserved slot runs at once, within the concurrency limit of its tool; shares do not apply
// to it.
type Slots struct {
	opts SlotOptions

	mu      sync.Mutex
	running int
	// reserve is the number of reserved slots that no call uses.
	reserve int
	tools   map[string]*toolSlots
	callers map[string]*callerSlots
	flows   map[flowKey]*flow
	// ready are the tools that have calls waiting.
	ready map[*toolSlots]struct{}
	queue queue
	turns turns
	// shared: more than one caller, or more than one tool, is active, so that calls take turns.
	shared atomic.Bool
	// recentCallers and recentTools know whether somebody else is about.
	recentCallers, recentTools share.Recent

	toolClasses, callerClasses []*class
	groups                     map[[2]*class]*group

	rejected [reasons]uint64
	byTool   [reasons]refusals
}

// toolSlots is what one tool has.
type toolSlots struct {
	name             string
	running, waiting int
	// queued are its calls within the bound of the queue.
	queued int
	class  *class
	weight int
	rule   share.Rule
	limit  concurrency
	// flows are those with calls that wait.
	flows flowHeap
	// standing is when the queue of this tool was empty the last time; zero while it is.
	standing time.Time
	demand   demand
}

// callerSlots is what one caller has. queued are its calls within the bound of the queue.
type callerSlots struct {
	running, waiting, queued int
	class                    *class
	weight                   int
	rule                     share.Rule
	// large are its large messages that wait for a turn.
	large []*turnWaiter
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
		ready: map[*toolSlots]struct{}{}, groups: map[[2]*class]*group{},
	}
	var ofTools, ofCallers int
	s.turns.most = cmp.Or(o.Turns, defaultTurns())
	s.toolClasses, ofTools = newClasses(o.ToolClasses)
	s.callerClasses, ofCallers = newClasses(o.CallerClasses)
	s.reserve = ofTools + ofCallers
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
	s.recentCallers.Seen(caller, now)
	s.recentTools.Seen(tool, now)
	if len(f.waiting) == 0 && s.mayRun(f, now) {
		return nil
	}
	f.tool.demand.roll(now, s.opts.Wait)
	f.tool.demand.asked++
	f.tool.limit.met()
	return s.rejectFull(f)
}

// begin lets a call run, or queues it; then the waiter is not nil. isQueued: the bounds of the queue are for it.
func (s *Slots) begin(now time.Time, caller, tool string, isQueued bool) (*flow, *waiter, *errmap.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flow(caller, tool)
	f.tool.demand.roll(now, s.opts.Wait)
	f.tool.demand.asked++
	s.recentCallers.Seen(caller, now)
	s.recentTools.Seen(tool, now)
	if shared := s.isShared(f, now); shared != s.shared.Load() {
		s.shared.Store(shared)
	}
	if len(f.waiting) == 0 && s.mayRun(f, now) {
		s.run(f)
		return f, nil, nil
	}
	f.tool.limit.met()
	if isQueued {
		if err := s.mayQueue(f, now); err != nil {
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
	case f.group.isOwed():
		return true
	case s.used() >= s.opts.Most || s.isOverShare(f, now):
		return false
	}
	return s.toolMayRun(f.tool, now)
}

// used is how many slots are used or reserved for others.
func (s *Slots) used() int { return s.running + s.reserve }

// isShared reports whether another caller than that of a flow, or another tool, is active.
func (s *Slots) isShared(f *flow, now time.Time) bool {
	return !s.recentCallers.Alone(f.key.caller, now) || !s.recentTools.Alone(f.key.tool, now)
}

// isOverShare reports whether a caller has its share.
func (s *Slots) isOverShare(f *flow, now time.Time) bool {
	return !s.allows(f.caller.rule, f.caller.running) && !s.recentCallers.Alone(f.key.caller, now)
}

// toolMayRun reports whether the share of a tool allows one more.
func (s *Slots) toolMayRun(t *toolSlots, now time.Time) bool {
	return s.allows(t.rule, t.running) || s.recentTools.Alone(t.name, now)
}

// allows reports whether a share of the slots allows one more.
func (s *Slots) allows(rule share.Rule, held int) bool {
	return rule.Allows(int64(held), 1, int64(s.used()), int64(s.opts.Most))
}

// mayQueue holds a call to the bounds of the queue; s.mu is held.
func (s *Slots) mayQueue(f *flow, now time.Time) *errmap.Error {
	used, most := int64(s.queue.bounded), int64(s.opts.Queued)
	switch {
	case used >= most:
		return s.rejectFull(f)
	case !f.caller.rule.Allows(int64(f.caller.queued), 1, used, most):
		return s.limited(f)
	case !f.tool.rule.Allows(int64(f.tool.queued), 1, used, most) && !s.recentTools.Alone(f.tool.name, now):
		s.count(f, ToolShare)
		return s.reject(fmt.Sprintf("%d calls of this tool are queued, and the rest of the queue is for other tools (--max-queued, --tool-share)", f.tool.queued))
	}
	return nil
}

func (s *Slots) run(f *flow) {
	s.running++
	f.running++
	f.caller.running++
	f.tool.running++
	if f.group != nil {
		s.begun(f.group)
	}
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
	if f.group != nil {
		s.ended(f.group)
	}
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
	return s.rejectFull(nil)
}

func (s *Slots) rejectFull(f *flow) *errmap.Error {
	s.count(f, QueueFull)
	return s.reject(fmt.Sprintf("%d calls are running and %d are queued (--max-calls, --max-queued)", s.running, s.opts.Queued))
}

// limited rejects a call of a caller that has its share.
func (s *Slots) limited(f *flow) *errmap.Error {
	s.count(f, CallerShare)
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
	// share, OverTool those of tools over theirs.
	Full, Expired, Over, OverTool uint64
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
		Full: s.rejected[QueueFull], Expired: s.rejected[QueueWait], Over: s.rejected[CallerShare], OverTool: s.rejected[ToolShare],
	}
}
