// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"container/heap"
	"container/list"
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
)

// A queue that has not been empty for a part of the time in the queue, while more calls come than get a place, is no burst that
// passes: waiting longer only makes every answer late. CoDel (RFC 8289) calls it a standing queue. shortPart is what is left of
// the time then.
const (
	standingPart = 4
	shortPart    = 10
)

// queue has the calls that wait for a slot.
type queue struct {
	// byAge has the calls that count against max_queued_calls, the oldest first.
	byAge            list.List
	waiting, bounded int
	pace             rejectionPace
	timer            *time.Timer
	// due is when the timer is to fire.
	due time.Time
}

// waiter is a call that waits for a slot.
type waiter struct {
	flow  *flow
	since time.Time
	// done is closed when it may run, or when err is set.
	done chan struct{}
	err  *errmap.Error
	// ended is set once done is closed. at is its element in byAge, nil if it does not count there.
	ended bool
	at    *list.Element
}

// flowKey names the calls of one caller to one tool.
type flowKey struct{ caller, tool string }

// flow is the calls of one caller to one tool.
type flow struct {
	key     flowKey
	caller  *callerSlots
	tool    *toolSlots
	group   *group
	running int
	// waiting has its calls in order of arrival; index is its position in the heap of the tool.
	waiting []*waiter
	index   int
	// answering is how many of its answers have a turn, answers are those that wait for one, and turning is the number of its
	// messages of any kind that have one or wait for it.
	answering, turning int
	answers            []*turnWaiter
}

// isIdle reports whether a flow may be forgotten.
func (f *flow) isIdle() bool { return f.running+len(f.waiting)+f.turning == 0 }

// changed puts a flow in its place after the number of its running calls has changed.
func (f *flow) changed() {
	if len(f.waiting) > 0 {
		heap.Fix(&f.tool.flows, f.index)
	}
}

// flowHeap has the flow in front that is served next: with the fewest running calls of its caller to this tool, divided by the
// weight of the caller, and then the longest wait.
type flowHeap []*flow

func (h flowHeap) Len() int { return len(h) }

func (h flowHeap) Less(i, j int) bool {
	if a, b := h[i].running*h[j].caller.weight, h[j].running*h[i].caller.weight; a != b {
		return a < b
	}
	return h[i].waiting[0].since.Before(h[j].waiting[0].since)
}

func (h flowHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push implements heap.Interface.
func (h *flowHeap) Push(x any) {
	f, _ := x.(*flow)
	f.index = len(*h)
	*h = append(*h, f)
}

// Pop implements heap.Interface.
func (h *flowHeap) Pop() any {
	last := len(*h) - 1
	f := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return f
}

// flow returns what one caller has of one tool; s.mu is held.
func (s *Slots) flow(caller, tool string) *flow {
	key := flowKey{caller, tool}
	if f := s.flows[key]; f != nil {
		return f
	}
	s.forget()
	c, t := s.callers[caller], s.tools[tool]
	if c == nil {
		in := classOf(caller, s.callerClasses)
		c = &callerSlots{class: in, weight: in.weight(), rule: in.rule(s.share)}
		s.callers[caller] = c
	}
	if t == nil {
		in := classOf(tool, s.toolClasses)
		t = &toolSlots{name: tool, class: in, weight: in.weight(), rule: in.rule(s.toolShare)}
		s.tools[tool] = t
	}
	f := &flow{key: key, caller: c, tool: t, group: s.group(t.class, c.class)}
	s.flows[key] = f
	return f
}

// forget drops what is idle once there is much of it. Flows go first: they hold callers and tools.
func (s *Slots) forget() {
	if len(s.flows) < maxIdle {
		return
	}
	maps.DeleteFunc(s.flows, func(_ flowKey, f *flow) bool { return f.isIdle() })
	maps.DeleteFunc(s.callers, func(_ string, c *callerSlots) bool { return c.running+c.waiting+len(c.large) == 0 })
	if len(s.tools) >= maxIdle {
		maps.DeleteFunc(s.tools, func(_ string, t *toolSlots) bool { return t.running+t.waiting == 0 })
	}
}

// enqueue puts a call into the queue; s.mu is held.
func (s *Slots) enqueue(f *flow, now time.Time, isBounded bool) *waiter {
	w := &waiter{flow: f, since: now, done: make(chan struct{})}
	f.waiting = append(f.waiting, w)
	if len(f.waiting) == 1 {
		heap.Push(&f.tool.flows, f)
	}
	if f.tool.waiting == 0 {
		f.tool.standing = now
		s.ready[f.tool] = struct{}{}
	}
	f.tool.waiting++
	f.caller.waiting++
	s.queue.waiting++
	if f.group != nil {
		f.group.waiting++
	}
	if isBounded {
		s.queue.bounded++
		f.tool.queued++
		f.caller.queued++
		w.at = s.queue.byAge.PushBack(w)
		s.watch(now)
	}
	return w
}

// dequeue takes a call out of the queue and tells it so; s.mu is held.
func (s *Slots) dequeue(w *waiter, i int, err *errmap.Error) {
	f := w.flow
	f.waiting[i] = nil
	if i == 0 {
		f.waiting = f.waiting[1:]
	} else {
		f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
	}
	if len(f.waiting) == 0 {
		heap.Remove(&f.tool.flows, f.index)
		f.waiting = nil
	} else {
		heap.Fix(&f.tool.flows, f.index)
	}
	if f.tool.waiting--; f.tool.waiting == 0 {
		f.tool.standing = time.Time{}
		delete(s.ready, f.tool)
	}
	f.caller.waiting--
	s.queue.waiting--
	if f.group != nil {
		f.group.waiting--
	}
	if w.at != nil {
		f.tool.queued--
		s.queue.byAge.Remove(w.at)
		s.queue.bounded--
		f.caller.queued--
	}
	w.err, w.ended = err, true
	close(w.done)
}

// place is where a call is in its flow.
func (w *waiter) place() int {
	for i, other := range w.flow.waiting {
		if other == w {
			return i
		}
	}
	return -1
}

// await returns when a call has a slot, or when it waits no longer.
func (s *Slots) await(ctx context.Context, w *waiter) *errmap.Error {
	select {
	case <-w.done:
		return w.err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !w.ended:
		s.dequeue(w, w.place(), nil)
	case w.err == nil: // its turn came at the last moment
		s.stop(w.flow)
		s.next(s.now())
	}
	if context.Cause(ctx) == context.DeadlineExceeded { //nolint:errorlint // the context's own value
		return errmap.Wrap(errmap.Timeout, ctx.Err())
	}
	return errmap.Wrap(errmap.Cancelled, context.Cause(ctx))
}

// next gives free slots to waiting calls; s.mu is held.
func (s *Slots) next(now time.Time) {
	for len(s.ready) > 0 && s.running < s.most {
		f := s.pick(now)
		if f == nil {
			return
		}
		w := f.waiting[0]
		s.run(f)
		s.dequeue(w, 0, nil)
	}
}

// pick finds the flow that is served next: of the tool with the fewest running calls, divided by its weight. nil where no call
// may run.
func (s *Slots) pick(now time.Time) *flow {
	var best *flow
	for t := range s.ready {
		if f := s.first(t, now); f != nil && (best == nil || f.isBefore(best)) {
			best = f
		}
	}
	return best
}

// isBefore compares flows of two tools.
func (f *flow) isBefore(other *flow) bool {
	if a, b := f.tool.running*other.tool.weight, other.tool.running*f.tool.weight; a != b {
		return a < b
	}
	return f.waiting[0].since.Before(other.waiting[0].since)
}

// first finds the flow of a tool that is served next. A caller that has its share is passed over; behind the first of the
// heap the order is of no account, because a caller with its share runs more than the others.
func (s *Slots) first(t *toolSlots, now time.Time) *flow {
	for i, f := range t.flows {
		if s.mayRun(f, now) {
			return f
		}
		if i == 0 && !s.hasRoom(t, now) {
			return nil
		}
	}
	return nil
}

// hasRoom reports whether some caller of a tool may get a slot, where the first in its queue does not.
func (s *Slots) hasRoom(t *toolSlots, now time.Time) bool {
	if !s.fixed && t.running >= t.limit.now(s.most) {
		return false
	}
	return s.used() < s.most && s.toolMayRun(t, now) || s.owesCallers()
}

// watch sees to it that the oldest call is looked at when its time may be up; s.mu is held.
func (s *Slots) watch(now time.Time) {
	front := s.queue.byAge.Front()
	if front == nil {
		return
	}
	rest := s.rest(front, now)
	switch {
	case s.queue.timer == nil:
		s.queue.timer = time.AfterFunc(rest, s.expire)
	case s.queue.byAge.Len() == 1:
		s.queue.timer.Reset(rest)
	default:
		return
	}
	s.queue.due = now.Add(rest)
}

// allowed is how long a call of a tool may wait now.
func (s *Slots) allowed(t *toolSlots, now time.Time) time.Duration {
	if t.demand.isHigh() && t.waiting > t.running && !t.standing.IsZero() && now.Sub(t.standing) >= s.wait/standingPart {
		return s.wait / shortPart
	}
	return s.wait
}

// lookEvery is how soon the queue is looked at again where calls could not be rejected yet.
const lookEvery = 2 * time.Millisecond

// probeLooks is how often the queue is looked at in a pause of early rejections.
const probeLooks = 5

// expire rejects the calls that have waited in vain: those whose whole time is up, and at a bounded pace those of tools
// whose queue is standing.
func (s *Slots) expire() {
	runtime.Gosched() // behind all that wait for CPU time, so that how late it is shows how many they are
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.queue.pace.looked(now, now.Sub(s.queue.due))
	for at := s.queue.byAge.Front(); at != nil; {
		w, _ := at.Value.(*waiter)
		at = at.Next()
		age := now.Sub(w.since)
		w.flow.tool.demand.roll(now, s.wait)
		if age < s.wait/shortPart {
			break // and so are those behind it
		}
		switch {
		case age < s.wait && age < s.allowed(w.flow.tool, now):
			continue
		case age < s.wait && !s.queue.pace.mayReject(now):
			at = nil
			continue
		}
		w.flow.tool.demand.isLate = w.flow.tool.demand.isLate || age >= s.wait
		s.dequeue(w, w.place(), s.inVain(w, age, now))
	}
	if front := s.queue.byAge.Front(); front != nil {
		rest := s.rest(front, now)
		s.queue.due = now.Add(rest)
		s.queue.timer.Reset(rest)
	}
}

// rest is the time until the queue is looked at again. Meanwhile its time may get short.
func (s *Slots) rest(front *list.Element, now time.Time) time.Duration {
	w, _ := front.Value.(*waiter)
	rest := w.since.Add(s.allowed(w.flow.tool, now)).Sub(now)
	if w.flow.tool.demand.isProbe {
		rest = min(rest, s.wait/probePart/probeLooks) // the pause may be over sooner than the time of the oldest call
	}
	return max(min(rest, s.wait/shortPart), min(lookEvery, s.wait/shortPart), time.Millisecond)
}

// inVain is the error of a call whose time in the queue is over; s.mu is held.
func (s *Slots) inVain(w *waiter, age time.Duration, now time.Time) *errmap.Error {
	t := w.flow.tool
	switch {
	case s.used() < s.most && s.isOverShare(w.flow, now):
		return s.limited(w.flow)
	case s.used() < s.most:
		s.count(w.flow, queueWait)
		return s.reject(fmt.Sprintf("%d calls of this tool are running and %d are queued; this one did not start within %v (--queue-wait)", t.running, t.waiting, age.Round(time.Millisecond)))
	case s.reserve > 0:
		s.count(w.flow, queueWait)
		return s.reject(fmt.Sprintf("%d calls are running and %d slots are reserved; this one did not start within %v (--max-calls, limits.tool_classes, limits.caller_classes)",
			s.running, s.reserve, age.Round(time.Millisecond)))
	}
	s.count(w.flow, queueWait)
	return s.reject(fmt.Sprintf("%d calls are running; this one did not start within %v (--max-calls, --queue-wait)", s.running, age.Round(time.Millisecond)))
}

// rejectionPace is how many calls may be rejected in a second before their whole time is up.
//
// Where the backend is the bottleneck, many may be: it costs no result. Where CPU time is, each rejection takes the place of a
// part of a result, and a rejected caller that comes back at once makes the next one. Which of the two it is shows in how late
// the queue is looked at: behind everything else that waits for a CPU.
type rejectionPace struct {
	rate, tokens float64
	at           time.Time

	// since begins a window. Its looks at the queue were late by the sum of late.
	since time.Time
	// looks counts how often the queue was looked at in the window, taken the calls that were rejected in it.
	looks int
	taken int
	late  time.Duration
}

const (
	// leastPace and mostPace bound the pace, in calls a second. The least costs no more than a few percent of a CPU.
	leastPace, mostPace = 250, 5_000
	// paceWindow has about fifty looks where CPU time is not short.
	paceWindow = 100 * time.Millisecond
	// paceRise is the factor by which the pace rises in a window: from the least to all that a slow backend needs in half a second.
	// While none is rejected, looks are few, and what they say cannot come from rejections.
	paceRise, paceRiseIdle = 2, 8
	// tooLate is by how much looks are late, on average, where CPU time is short: the work of some fifty calls.
	tooLate = 2 * time.Millisecond
	// paceBurst is how long tokens are kept, in seconds.
	paceBurst = 0.02
)

// mayReject reports whether one more call may be rejected now.
func (p *rejectionPace) mayReject(now time.Time) bool {
	p.tokens = min(p.tokens+now.Sub(p.at).Seconds()*p.rate, p.rate*paceBurst)
	p.at = now
	if p.tokens < 1 {
		return false
	}
	p.tokens--
	p.taken++
	return true
}

// looked notes by how much a look at the queue was late, and closes a window that is over.
func (p *rejectionPace) looked(now time.Time, late time.Duration) {
	p.looks++
	p.late += max(late, 0)
	elapsed := now.Sub(p.since)
	if elapsed < paceWindow {
		return
	}
	switch mean := p.late / time.Duration(p.looks); {
	case p.rate < leastPace:
		p.rate = leastPace // nothing was known
	case mean > tooLate:
		p.rate = max(leastPace, p.rate/2)
	case p.taken == 0:
		p.rate = min(mostPace, p.rate*paceRiseIdle)
	default:
		p.rate = min(mostPace, p.rate*paceRise)
	}
	p.since, p.looks, p.taken, p.late = now, 0, 0, 0
}

// mostShown bounds the tools and the callers of a Contention.
const mostShown = 50

// Contention shows the tools and callers with queued calls, and those that hold the slots meanwhile. It has at most 50
// of each, those with the most queued calls first, then those with the most running ones.
type Contention struct {
	Tools, Callers []Holder
}

// Holder is a tool or a caller. Limit is the concurrency limit of a tool; 0 for a caller.
type Holder struct {
	Name                    string
	Running, Waiting, Limit int
	// Longest is the age of its oldest queued call.
	Longest time.Duration
}

// Contention returns the current contention; it is empty if no call is queued.
func (s *Slots) Contention() Contention {
	if s == nil {
		return Contention{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue.waiting == 0 {
		return Contention{}
	}
	now, tools, callers := s.now(), map[string]*Holder{}, map[string]*Holder{}
	for _, f := range s.flows {
		if f.running+len(f.waiting) > 0 {
			holderOf(tools, f.key.tool, f, now).Limit = f.tool.limit.now(s.most)
			holderOf(callers, f.key.caller, f, now)
		}
	}
	return Contention{Tools: first(tools), Callers: first(callers)}
}

// holderOf counts a flow for one of its two names.
func holderOf(to map[string]*Holder, name string, f *flow, now time.Time) *Holder {
	h := to[name]
	if h == nil {
		h = &Holder{Name: name}
		to[name] = h
	}
	h.Running += f.running
	h.Waiting += len(f.waiting)
	if len(f.waiting) > 0 {
		h.Longest = max(h.Longest, now.Sub(f.waiting[0].since))
	}
	return h
}

// first returns the holders that are shown.
func first(of map[string]*Holder) []Holder {
	all := make([]Holder, 0, len(of))
	for _, h := range of {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Running, a.Running), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), mostShown)]
}
