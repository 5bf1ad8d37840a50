// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog/glob"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// leastHint keeps callers that were rejected from asking again at once.
const leastHint = 100 * time.Millisecond

// SlotOptions are what Slots have of their process. The zero value is enough.
type SlotOptions struct {
	// Turns is how many answers of one tool to one caller, and how many large messages, are translated at once while others
	// are active. Zero is half of the processors.
	Turns int
	// Clock detects stalls of this process, which count neither as time in the queue nor as latency of a tool. It may be
	// nil.
	Clock *peer.Clock
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
	// most is the maximum number of concurrent calls, queued that of queued ones, and wait the maximum time in the queue.
	most, queued int
	wait         time.Duration
	// share and toolShare are how much of most, and of queued, one caller and one tool may use while others are active.
	share, toolShare peer.Rule
	// fixed disables the adaptive limit in tests: the concurrency of each tool is most, whatever its latency.
	fixed bool
	clock *peer.Clock

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
	// shared: more than one caller, or more than one tool, is active, so that calls take turns on the CPU.
	shared atomic.Bool
	// recentCallers and recentTools tell whether others have called lately.
	recentCallers, recentTools peer.Recent

	toolClasses, callerClasses []*class
	groups                     map[[2]*class]*group

	rejected [reasons]uint64
	byTool   [reasons]refusals
}

// toolSlots is the state of one tool.
type toolSlots struct {
	name             string
	running, waiting int
	// queued is how many of its calls count against max_queued_calls.
	queued int
	class  *class
	weight int
	rule   peer.Rule
	limit  concurrency
	// flows are the tool's flows with waiting calls.
	flows flowHeap
	// standing is when its queue was last empty; zero while it is.
	standing time.Time
	demand   demand
}

// callerSlots is the state of one caller. queued is how many of its calls count against max_queued_calls.
type callerSlots struct {
	running, waiting, queued int
	class                    *class
	weight                   int
	rule                     peer.Rule
	// large are its large messages that wait for a turn.
	large []*turnWaiter
}

// maxIdle is how many callers, tools and pairs without a call are remembered, so that one that calls again and again
// costs nothing, and a tool keeps what is known of its latency.
const maxIdle = 4096

// NewSlots returns Slots without calls. What limits leave out has its default, except shares and classes.
func NewSlots(limits *configv1.Limits, o SlotOptions) *Slots {
	s := &Slots{
		most: int(limits.GetMaxConcurrentCalls()), queued: int(limits.GetMaxQueuedCalls()), wait: limits.GetMaxQueueWait().AsDuration(),
		share: CallerShare(limits), toolShare: peer.Percent(int(limits.GetToolSharePercent())),
		clock: o.Clock, tools: map[string]*toolSlots{}, callers: map[string]*callerSlots{}, flows: map[flowKey]*flow{},
		ready: map[*toolSlots]struct{}{}, groups: map[[2]*class]*group{},
	}
	defaults.Fill(&s.most, defaults.MaxConcurrentCalls)
	defaults.Fill(&s.queued, defaults.MaxQueuedCalls)
	defaults.Fill(&s.wait, defaults.MaxQueueWait)
	if s.turns.most = o.Turns; o.Turns == 0 {
		s.turns.most = max(1, runtime.GOMAXPROCS(0)/2) // half of the processors are for others
	}
	for _, c := range limits.GetToolClasses() {
		s.toolClasses = append(s.toolClasses, s.newClass(c, c.GetTools()))
	}
	for _, c := range limits.GetCallerClasses() {
		s.callerClasses = append(s.callerClasses, s.newClass(c, c.GetCallers()))
	}
	return s
}

// CallerShare is how much of what is limited one caller may use while others are active.
func CallerShare(limits *configv1.Limits) peer.Rule {
	return peer.Percent(int(limits.GetCallerSharePercent()))
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

// now is the time, without the time in which the process was stalled.
func (s *Slots) now() time.Time { return s.clock.Running(time.Now()) }

func (s *Slots) acquire(ctx context.Context, caller, tool string, isQueued bool) (Place, *errmap.Error) {
	if s == nil {
		return Place{}, nil
	}
	now := s.now()
	f, w, err := s.runOrQueue(now, caller, tool, isQueued)
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
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.bounded < s.queued {
		return nil // mostly, and then the time does not matter
	}
	now, f := s.now(), s.flow(caller, tool)
	s.recentCallers.Seen(caller, now)
	s.recentTools.Seen(tool, now)
	if len(f.waiting) == 0 && s.mayRun(f, now) {
		return nil
	}
	f.tool.demand.roll(now, s.wait)
	f.tool.demand.asked++
	f.tool.limit.met()
	return s.rejectFull(f)
}

// runOrQueue lets a call run, or queues it; then the waiter is not nil. isQueued: the bounds of the queue are for it.
func (s *Slots) runOrQueue(now time.Time, caller, tool string, isQueued bool) (*flow, *waiter, *errmap.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flow(caller, tool)
	f.tool.demand.roll(now, s.wait)
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
	case s.running >= s.most, !s.fixed && f.tool.running >= f.tool.limit.now(s.most):
		return false
	case f.group.isOwed():
		return true
	case s.used() >= s.most || s.isOverShare(f, now):
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
func (s *Slots) allows(rule peer.Rule, held int) bool {
	return rule.Allows(int64(held), 1, int64(s.used()), int64(s.most))
}

// mayQueue holds a call to the bounds of the queue; s.mu is held.
func (s *Slots) mayQueue(f *flow, now time.Time) *errmap.Error {
	used, most := int64(s.queue.bounded), int64(s.queued)
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
	if measured && !s.fixed {
		f.tool.limit.ended(now, now.Sub(p.begun), f.tool.running, s.most)
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
	if s.queue.bounded < s.queued {
		return nil
	}
	return s.rejectFull(nil)
}

func (s *Slots) rejectFull(f *flow) *errmap.Error {
	s.count(f, queueFull)
	return s.reject(fmt.Sprintf("%d calls are running and %d are queued (--max-calls, --max-queued)", s.running, s.queued))
}

// limited rejects a call of a caller that has its share.
func (s *Slots) limited(f *flow) *errmap.Error {
	s.count(f, callerShare)
	return errmap.New(errmap.RateLimited, errmap.RetryAfter(s.hint()), errmap.Messagef(
		"Rate limit exceeded: %d calls of this caller are running, and the other slots are for other callers (--max-calls, --caller-share)", f.caller.running))
}

func (s *Slots) reject(reason string) *errmap.Error {
	return errmap.New(errmap.Unavailable, errmap.RetryAfter(s.hint()), errmap.Message("Tool service unavailable: "+reason))
}

// hint is when to try again.
func (s *Slots) hint() time.Duration { return max(s.wait, leastHint) }

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
		Running: s.running, Waiting: s.queue.waiting, Most: s.most, Queued: s.queued,
		Full: s.rejected[queueFull], Expired: s.rejected[queueWait], Over: s.rejected[callerShare], OverTool: s.rejected[ToolShare],
	}
}

// class is a set of tools or of callers that Slots treat in their own way: those whose names match.
type class struct {
	name  string
	match []string
	// weighs is the part of each of its tools or callers beside those of weight 1, when a slot becomes free and in shares.
	weighs int
	// reserved is the number of slots that only calls of the class may use. All of its tools or callers share them. charged is
	// how many of them running calls use.
	reserved, charged int
	// groups are all that belong to it.
	groups []*group
}

// newClass returns a class without calls, whose slots are reserved from now on.
func (s *Slots) newClass(c interface {
	GetName() string
	GetWeight() int32
	GetReservedCalls() int32
}, match []string) *class {
	s.reserve += int(c.GetReservedCalls())
	return &class{name: c.GetName(), match: match, weighs: max(1, int(c.GetWeight())), reserved: int(c.GetReservedCalls())}
}

// isOwed reports whether a reserved slot of the class is unused.
func (c *class) isOwed() bool { return c != nil && c.charged < c.reserved }

// weight is that of each tool or caller of the class; nil is for those without a class.
func (c *class) weight() int {
	if c == nil {
		return 1
	}
	return c.weighs
}

// rule is the share of each tool or caller of the class.
func (c *class) rule(usual peer.Rule) peer.Rule { return usual.Weighted(c.weight()) }

// classOf finds the first class that a name belongs to; nil for none.
func classOf(name string, classes []*class) *class {
	for _, c := range classes {
		if glob.MatchAny(c.match, name) {
			return c
		}
	}
	return nil
}

// group counts the calls of one class of callers to one class of tools. They are interchangeable,
// so that counts are enough to know which reserved slots are used.
type group struct {
	// of are the class of the tools and that of the callers; either may be nil.
	of [2]*class
	// charged is how many of the running calls use a reserved slot of either class.
	charged          [2]int
	running, waiting int
	rejected         [reasons]uint64
}

// group returns the group of calls between two classes; nil for calls that belong to no class.
func (s *Slots) group(tools, callers *class) *group {
	if tools == nil && callers == nil {
		return nil
	}
	key := [2]*class{tools, callers}
	if g := s.groups[key]; g != nil {
		return g
	}
	g := &group{of: key}
	s.groups[key] = g
	for _, c := range key {
		if c != nil {
			c.groups = append(c.groups, g)
		}
	}
	return g
}

// isOwed reports whether the next call of the group gets a reserved slot.
func (g *group) isOwed() bool { return g != nil && (g.of[0].isOwed() || g.of[1].isOwed()) }

// loose is how many running calls use no reserved slot.
func (g *group) loose() int { return g.running - g.charged[0] - g.charged[1] }

// side is which of its two classes c is.
func (g *group) side(c *class) int {
	if g.of[0] == c {
		return 0
	}
	return 1
}

// charge has one running call of the group use a reserved slot of one of its classes.
func (s *Slots) charge(g *group, side int) {
	g.of[side].charged++
	g.charged[side]++
	s.reserve--
}

// begun notes that a call of the group runs. It uses a reserved slot if there is one: that of its tool first.
func (s *Slots) begun(g *group) {
	g.running++
	for side, c := range g.of {
		if c.isOwed() {
			s.charge(g, side)
			return
		}
	}
}

// ended notes that a call of the group has ended. A reserved slot that becomes free goes to another running call of the class
// that uses none: otherwise a class that runs more than it reserved would keep slots from the others.
func (s *Slots) ended(g *group) {
	g.running--
	if g.loose() >= 0 {
		return
	}
	side := 0
	if g.charged[side] == 0 {
		side = 1
	}
	c := g.of[side]
	c.charged--
	g.charged[side]--
	s.reserve++
	for _, other := range c.groups {
		if other.loose() > 0 {
			s.charge(other, other.side(c))
			return
		}
	}
}

// owesCallers reports whether a class of callers has an unused reserved slot.
func (s *Slots) owesCallers() bool {
	for _, c := range s.callerClasses {
		if c.isOwed() {
			return true
		}
	}
	return false
}

// demand knows whether more calls of a tool come than get a place, again and again. A queue that only is there does not say
// so: callers that wait for each answer before they call again make one that is long and does not grow. Rejecting some of
// these calls would gain nothing, because they come back.
//
// Once calls are rejected early, the count says less: a rejected caller that comes back at once looks like one more. So early
// rejections pause from time to time, for a short window. If the queue does not grow without them, there is no need for them.
type demand struct {
	since         time.Time
	asked, served int
	// isLate: a call of the window has waited for max_queue_wait.
	isLate bool
	// level rises with each window in which there was too much, to highestDemand, and falls with the others.
	level int
	// isProbe: early rejections pause in this window. windows are those since the last pause, and pauseAfter how many
	// there are to be.
	isProbe             bool
	windows, pauseAfter int
}

const (
	// demandPart is the length of a window as a part of the time in the queue, probePart that of a pause of early rejections:
	// what is added to the queue meanwhile makes every answer late.
	demandPart, probePart = 10, 40
	// excess is the ratio of calls that come to those that get a place above which there are too many; a few more are
	// chance.
	excess           = 1.1
	few, fewInProbes = 8, 2
	// plain is the ratio, and plainFew the number beyond it, that ends a pause of early rejections at once.
	plain, plainFew = 2, 24
	// highDemand is the level from which on calls are rejected early.
	highDemand, highestDemand = 3, 5
	// firstPauseAfter and lastPauseAfter bound the windows between two pauses: each pause that was in vain doubles them.
	firstPauseAfter, lastPauseAfter = 4, 16
)

// roll closes a window that is over.
func (d *demand) roll(now time.Time, wait time.Duration) {
	elapsed, length := now.Sub(d.since), wait/demandPart
	if d.isProbe {
		length = wait / probePart
	}
	if elapsed < length && !d.isPlain() {
		return
	}
	d.judge(elapsed > wait)
	d.since, d.asked, d.served, d.isLate = now, 0, 0, false
}

// judge learns from the counts of a window. isStale: nothing was asked for in a long time.
func (d *demand) judge(isStale bool) {
	switch {
	case isStale:
		d.level, d.isProbe, d.windows, d.pauseAfter = 0, false, 0, 0
		return
	case d.isProbe:
		d.probed()
		return
	case d.tooMuch(few):
		d.level = min(d.level+1, highestDemand)
	default:
		d.level = max(d.level-1, 0)
	}
	if d.level < highDemand {
		d.windows = 0
		return
	}
	d.windows++
	d.isProbe = d.windows > max(d.pauseAfter, firstPauseAfter)
}

// probed ends a pause of early rejections.
func (d *demand) probed() {
	d.isProbe, d.windows = false, 0
	if d.tooMuch(fewInProbes) {
		d.pauseAfter = min(2*max(d.pauseAfter, firstPauseAfter), lastPauseAfter)
		return
	}
	d.level, d.pauseAfter = 0, 0
}

// isPlain reports that a pause of early rejections can end early: far more calls come than are served.
func (d *demand) isPlain() bool { return d.isProbe && d.asked > plain*d.served+plainFew }

func (d *demand) tooMuch(chance int) bool {
	return d.isLate || float64(d.asked) > excess*float64(d.served)+float64(chance)
}

// isHigh reports whether more calls come than can be served, so that some are to be rejected early.
func (d *demand) isHigh() bool { return d.level >= highDemand && !d.isProbe }

// Reason is why Slots rejected a call.
type Reason int

// The reasons.
const (
	// queueFull is a call that found no room in the queue.
	queueFull Reason = iota
	// queueWait is one that got no slot in time.
	queueWait
	// callerShare and ToolShare are calls of a caller, or to a tool, that used up its share.
	callerShare
	ToolShare
	reasons
)

// String returns the field of the configuration whose limit was reached.
func (r Reason) String() string {
	return [...]string{"max_queued_calls", "max_queue_wait", "caller_share_percent", "tool_share_percent"}[r]
}

// count notes a rejected call; f is nil for one whose tool is not known. s.mu is held.
func (s *Slots) count(f *flow, why Reason) {
	s.rejected[why]++
	if f == nil {
		s.byTool[why].add("")
		return
	}
	s.byTool[why].add(f.tool.name)
	if f.group != nil {
		f.group.rejected[why]++
	}
}

// Rejected returns how many calls of each tool were rejected for a reason, sorted by tool. Beyond defaultMaxCounted tools, the
// rest is counted together as otherTools. Calls that were rejected before they were read have an empty name. Nil has none.
func (s *Slots) Rejected() map[Reason][]Refusals {
	if s == nil {
		return nil
	}
	out := make(map[Reason][]Refusals, reasons)
	for why := range reasons {
		out[why] = s.byTool[why].list()
	}
	return out
}

// ClassStats are the statistics of a class.
type ClassStats struct {
	Name string
	// Running and Waiting are the current numbers of calls, Reserved is the number of slots that are reserved.
	Running, Waiting, Reserved int
	// Rejected are the rejected calls, by reason.
	Rejected [reasons]uint64
}

// Classes returns the statistics of the classes of tools and of callers, in their order.
func (s *Slots) Classes() (tools, callers []ClassStats) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return classStats(s.toolClasses), classStats(s.callerClasses)
}

func classStats(classes []*class) []ClassStats {
	out := make([]ClassStats, len(classes))
	for i, c := range classes {
		out[i] = ClassStats{Name: c.name, Reserved: c.reserved}
		for _, g := range c.groups {
			out[i].Running += g.running
			out[i].Waiting += g.waiting
			for why, n := range g.rejected {
				out[i].Rejected[why] += n
			}
		}
	}
	return out
}

// concurrency is how many calls of one tool may run at once: as many as raise its throughput, and not those that only wait
// for each other.
//
// It follows latency, as Netflix's gradient algorithm does: the mean of a window beside the least mean that was seen. Where
// that has more than doubled, calls wait for each other, and the limit falls to twice what the throughput needs at the least
// latency (Little's law). Latency alone lies, however: a tool whose calls differ is slow at times without being overloaded.
// So each step down is a trial. If throughput falls with the limit, the calls that were taken away did work: the limit goes
// back, more latency is taken for normal, and the next trial waits, twice as long each time.
//
// The least latency may never come back: other processes take the CPU, or the backend has got slower for good. So while calls
// have to wait, a step up is a trial as well. It is kept if throughput rises with it.
type concurrency struct {
	// limit is 0 until latency has been measured: until then, only the bound on all calls applies.
	limit int
	// base is the lowest mean latency of any window.
	base time.Duration

	window window
	trial  trial
	// down and up say when a step may be tried.
	down, up pause
}

// window has what was measured since a time.
type window struct {
	since time.Time
	ended int
	sum   time.Duration
	// most is how many calls ran at once. met is set if the limit kept one more from running.
	most int
	met  bool
}

// trial is a change of the limit whose effect is being measured. limit, rate and mean are from before it.
type trial struct {
	limit int
	rate  float64
	mean  time.Duration
	// isUp: it raised the limit. settles: calls from before it are still running, so this window is not judged.
	isUp, settles bool
}

// pause is the wait after a trial that failed, twice as long each time. mean is the latency when the last one began.
type pause struct {
	until        time.Time
	length, mean time.Duration
}

func (p *pause) isOver(now time.Time) bool { return !now.Before(p.until) }

// isStale reports that a trial failed under another latency, which says nothing of this one.
func (p *pause) isStale(mean time.Duration) bool {
	return float64(mean) > stale*float64(p.mean) || float64(p.mean) > stale*float64(mean)
}

// start starts the pause before the next trial. A failure of long ago does not lengthen it.
func (p *pause) start(now time.Time, mean time.Duration) {
	p.mean = mean
	if now.Sub(p.until) > longestPause {
		p.length = 0
	}
	p.length = min(max(2*p.length, firstPause), longestPause)
	p.until = now.Add(p.length)
}

const (
	// leastConcurrency is per CPU what keeps it busy while other calls wait for the backend.
	leastConcurrency = 8
	// windowTime and windowCalls are the least that a window has: enough for a mean.
	windowTime  = 100 * time.Millisecond
	windowCalls = 16
	// tolerance is the ratio of latencies that is taken for noise.
	tolerance = 2.0
	// gentlest is the smallest step down, as a factor.
	gentlest = 0.9
	// costly is the part of the throughput below which a step down has failed.
	costly = 0.9
	// stepUp is a step up, as a factor, and useful the factor of the throughput from which on it is kept.
	stepUp, useful = 1.25, 1.12
	// stale is the ratio of latencies above which a step up that failed says nothing.
	stale = 1.5
	// drift is what base grows by in a second, so that it is not the luck of one day.
	drift = 0.01
	// firstPause and longestPause bound the time between trials that fail.
	firstPause, longestPause = time.Second, 30 * time.Second
)

// now is the current limit, at most that of all calls.
func (c *concurrency) now(most int) int {
	if c.limit == 0 {
		return most
	}
	return min(c.limit, most)
}

// met notes that the limit keeps a call from running.
func (c *concurrency) met() { c.window.met = true }

// begun notes how many calls run.
func (c *concurrency) begun(running int) { c.window.most = max(c.window.most, running) }

// ended notes the time of a call, and at the end of a window adapts the limit. running is how many are left.
func (c *concurrency) ended(now time.Time, took time.Duration, running, most int) {
	w := &c.window
	if took <= 0 {
		return // the process stood still, and nothing is known
	}
	if w.since.IsZero() || c.trial.limit > 0 && !c.trial.isUp && running > c.limit {
		c.window = window{since: now, most: running} // calls from before a step down have to end before it can be judged
		return
	}
	w.ended++
	w.sum += took
	elapsed := now.Sub(w.since)
	if elapsed < windowTime || w.ended < windowCalls {
		return
	}
	mean, rate := w.sum/time.Duration(w.ended), float64(w.ended)/elapsed.Seconds()
	if w.ended < w.most && !c.isClear(now, mean) {
		return
	}
	if c.trial.settles {
		c.trial.settles, c.window = false, window{since: now, most: running}
		return
	}
	c.learn(mean, elapsed)
	c.adapt(now, mean, rate, most)
	c.window = window{since: now, most: running}
}

// isClear reports that a window says enough, although fewer calls ended than run at once: latency is low, or so high that the
// limit falls. It has no rate to compare with that of another window.
func (c *concurrency) isClear(now time.Time, mean time.Duration) bool {
	isLow := float64(mean) <= tolerance*float64(c.base)
	return c.trial.limit == 0 && (isLow || c.base == 0 || c.mayFall(now))
}

// mayFall reports whether a step down may be tried.
func (c *concurrency) mayFall(now time.Time) bool {
	return c.window.most > c.least() && c.down.isOver(now)
}

// least is the limit below which there are no steps.
func (*concurrency) least() int { return leastConcurrency * runtime.GOMAXPROCS(0) }

// learn remembers the lowest mean latency.
func (c *concurrency) learn(mean, elapsed time.Duration) {
	grown := time.Duration(float64(c.base) * (1 + drift*min(elapsed.Seconds(), 1)))
	if c.base == 0 || mean < grown {
		grown = mean
	}
	c.base = max(grown, time.Microsecond)
}

// adapt ends a trial, begins one, or lets the limit grow.
func (c *concurrency) adapt(now time.Time, mean time.Duration, rate float64, most int) {
	if c.judge(now, mean, rate) {
		return
	}
	w, ratio, limit := &c.window, float64(mean)/float64(c.base), c.now(most)
	switch {
	case ratio > tolerance && c.mayFall(now):
		c.trial = trial{limit: limit, rate: rate, mean: mean}
		c.limit = max(c.least(), int(min(rate*c.base.Seconds()*tolerance, gentlest*float64(min(limit, w.most)))))
	case ratio > tolerance && w.met && limit < most && (c.up.isOver(now) || c.up.isStale(mean)):
		c.trial = trial{limit: limit, rate: rate, mean: mean, isUp: true, settles: true}
		c.limit = min(most, int(math.Ceil(stepUp*float64(limit))))
	case ratio <= tolerance && w.met, w.most < limit/2:
		c.limit = min(most, limit+max(1, limit/10))
	}
}

// judge ends a trial, and reports whether the limit went back.
func (c *concurrency) judge(now time.Time, mean time.Duration, rate float64) (isBack bool) {
	t := c.trial
	c.trial = trial{}
	switch {
	case t.limit == 0, !c.window.met, !t.isUp && rate >= costly*t.rate:
		return false
	case !t.isUp: // the calls that were taken away did work
		c.limit = t.limit
		c.raise(time.Duration(float64(t.mean) / tolerance))
		c.down.start(now, t.mean)
		return true
	case rate < useful*t.rate: // and these did not
		c.limit = t.limit
		c.up.start(now, t.mean)
		return true
	}
	// The part of the step that became throughput is the part of the latency in which no call waits for another.
	gain := (rate/t.rate - 1) / (float64(c.limit)/float64(t.limit) - 1)
	c.raise(time.Duration(float64(mean) * min(gain, 1)))
	c.down.start(now, t.mean)
	return false
}

// raise accepts more latency as normal, at most twice as much.
func (c *concurrency) raise(to time.Duration) { c.base = max(c.base, min(2*c.base, to)) }
