// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
)

// DefaultMaxBytes is the size of 32 results of the maximum size.
const DefaultMaxBytes = 32 * defaults.MaxResultBytes

const (
	// standing is how long an answer may not move before it is one that can be shed:
	// a healthy reader takes a piece of it many times a second.
	standing = time.Second
	// standingTight is the same while memory gets short.
	standingTight = 250 * time.Millisecond
	// lookEvery is how often the answers that wait are looked at. Nothing is looked
	// at where none does.
	lookEvery = 250 * time.Millisecond
	// pause is how long shedding for lack of memory waits for its effect, which
	// shows with the next collection.
	pause = time.Second
)

// BudgetOptions configure a Budget. Zero fields take the defaults of this package.
type BudgetOptions struct {
	// Timeout is how long a response may wait without progress.
	Timeout time.Duration
	// MaxBytes bounds the waiting bytes of all callers: responses that are being written
	// and bodies that are being read. Share is the part that one caller may hold.
	MaxBytes int64
	Share    Rule
	// ToolShare is the part that responses of one tool may hold while other tools are
	// called.
	ToolShare Rule
	// IsTight reports whether memory is getting short. Nil means never.
	IsTight func() bool
}

// Budget counts and bounds the bytes that wait for slow peers. Make one with
// [NewBudget]. Nil bounds nothing.
type Budget struct {
	opts BudgetOptions

	mu      sync.Mutex
	bytes   int64
	callers map[string]*holder
	// tools are those with responses that are being written. recent knows whether others
	// are called.
	tools   map[string]*holder
	recent  Recent
	waiting map[*wait]struct{}
	// looking is set while a timer runs, and shedAt is when answers were last shed
	// for lack of memory.
	looking bool
	shedAt  time.Time

	stuck, shed, full, over, overTool uint64
}

// holder is how much one caller or tool holds.
type holder struct {
	bytes int64
	// parts is the number of responses and bodies.
	parts int
}

// wait is a response with a write in progress.
type wait struct {
	caller string
	// tool is empty if it is not the result of one tool.
	tool  string
	bytes int64
	// moved is when bytes of it were last written.
	moved time.Time
	// timed: the Budget ends it after the timeout (HTTP/2). On HTTP/1 its connection does.
	timed bool
	// end aborts the response. It does not block, and may be called after the end.
	end func()
	// ended is set once end has been called.
	ended bool
}

// NewBudget returns an unused Budget.
func NewBudget(o BudgetOptions) *Budget {
	defaults.Fill(&o.Timeout, defaults.WriteTimeout)
	defaults.Fill(&o.MaxBytes, DefaultMaxBytes)
	return &Budget{opts: o, callers: map[string]*holder{}, tools: map[string]*holder{}, waiting: map[*wait]struct{}{}}
}

// Hold counts bytes that wait to be written and have not reached [Writer] yet: replies
// that queue for one stream. tool may be empty. The caller must call release once to
// return them.
func (b *Budget) Hold(name, tool string, bytes int) (release func()) {
	if b == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold(name, tool, int64(bytes))
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drop(name, tool, int64(bytes))
	}
}

// hold counts bytes of a caller, and of a tool unless that is empty; b.mu is held.
func (b *Budget) hold(name, tool string, bytes int64) {
	b.bytes += bytes
	hold(b.callers, name, bytes)
	if tool != "" {
		hold(b.tools, tool, bytes)
	}
}

func hold(holders map[string]*holder, name string, bytes int64) {
	h := holders[name]
	if h == nil {
		h = &holder{}
		holders[name] = h
	}
	h.bytes += bytes
	h.parts++
}

// drop uncounts bytes; b.mu is held.
func (b *Budget) drop(name, tool string, bytes int64) {
	b.bytes -= bytes
	drop(b.callers, name, bytes)
	if tool != "" {
		drop(b.tools, tool, bytes)
	}
}

func drop(holders map[string]*holder, name string, bytes int64) {
	h := holders[name]
	h.bytes -= bytes
	if h.parts--; h.parts == 0 {
		delete(holders, name)
	}
}

// Verdict reports whether a caller may start a request whose response must be written.
// It refuses the request while the caller holds more than its share of unread responses.
// Memory used by other callers does not affect it. It refuses a call of a tool whose
// unread responses are over the share of the tool while other tools are called. tool is
// empty for requests that call none.
func (b *Budget) Verdict(name, tool string) Verdict {
	if b == nil {
		return Granted
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if tool != "" {
		b.recent.Seen(tool, now)
	}
	switch {
	case b.callers[name].exceeds(b.most()):
		b.over++
		return Over
	case b.tools[tool].exceeds(b.toolMost()) && !b.recent.Alone(tool, now):
		b.overTool++
		return OverTool
	}
	return Granted
}

// exceeds reports whether a holder has more than it may. Its only response or body may
// have any size.
func (h *holder) exceeds(most int64) bool { return h != nil && h.parts > 1 && h.bytes > most }

// toolMost is what one tool may hold while others are called.
func (b *Budget) toolMost() int64 { return b.opts.ToolShare.Part(b.opts.MaxBytes) }

// most is what one caller may hold. What others hold does not make it less: a
// healthy caller with large answers is not to blame for them.
func (b *Budget) most() int64 { return b.opts.Share.Part(b.opts.MaxBytes) }

// BudgetStats are the counts of a Budget.
type BudgetStats struct {
	// Bytes is the number of bytes that wait now, Callers the number of their callers.
	Bytes   int64
	Callers int
	// Stuck counts responses that were ended because they made no progress within the
	// timeout. Shed counts responses that were ended earlier to make room.
	Stuck, Shed uint64
	// Full and Over count requests that were refused because the budget, or the caller's
	// share, was exhausted.
	Full, Over uint64
	// OverTool counts calls that were refused, and responses that were ended, because the
	// share of their tool was exhausted.
	OverTool uint64
}

// Stats returns the counts. For nil they are zero.
func (b *Budget) Stats() BudgetStats {
	if b == nil {
		return BudgetStats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetStats{Bytes: b.bytes, Callers: len(b.callers), Stuck: b.stuck, Shed: b.shed, Full: b.full, Over: b.over, OverTool: b.overTool}
}

// watch counts a response that is being written, and watches its progress.
func (b *Budget) watch(w *wait) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	w.moved, w.ended = now, false
	b.hold(w.caller, w.tool, w.bytes)
	b.waiting[w] = struct{}{}
	if !b.looking {
		b.looking = true
		time.AfterFunc(min(lookEvery, b.opts.Timeout/rounds), b.look)
	}
}

// noteProgress notes that a part of an answer was written. All of it counts until the end,
// because its buffer is kept for as long.
func (b *Budget) noteProgress(w *wait) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	w.moved = now
}

// unwatch uncounts a response.
func (b *Budget) unwatch(w *wait) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, w)
	b.drop(w.caller, w.tool, w.bytes)
}

// look ends the responses that are over a bound, and comes back while any are being written.
func (b *Budget) look() {
	now := time.Now()
	b.mu.Lock()
	gone := b.overdue(now)
	gone = append(gone, b.greedy(now)...)
	gone = append(gone, b.surplus(now)...)
	b.looking = len(b.waiting) > 0
	if b.looking {
		time.AfterFunc(min(lookEvery, b.opts.Timeout/rounds), b.look)
	} else if len(b.callers) == 0 {
		// A map that was large does not give its memory back by itself.
		b.callers, b.tools, b.waiting = map[string]*holder{}, map[string]*holder{}, map[*wait]struct{}{}
	}
	b.mu.Unlock()
	for _, w := range gone {
		w.end()
	}
}

// overdue are the responses without progress for the timeout.
func (b *Budget) overdue(now time.Time) (gone []*wait) {
	for w := range b.waiting {
		if w.timed && !w.ended && now.Sub(w.moved) >= b.opts.Timeout {
			w.ended = true
			b.stuck++
			gone = append(gone, w)
		}
	}
	return gone
}

// greedy are answers of callers and tools that hold more than their share: those that
// stand still longest, as many as the share is exceeded by. The only one that a caller or
// a tool has is left to the timeout, however large it is.
func (b *Budget) greedy(now time.Time) (gone []*wait) {
	most := b.most()
	for name, c := range b.callers {
		if c.exceeds(most) {
			ended := b.standing(func(w *wait) bool { return w.caller == name }, now, c.bytes-most, standing)
			b.shed += uint64(len(ended))
			gone = append(gone, ended...)
		}
	}
	most = b.toolMost()
	for name, t := range b.tools {
		if t.exceeds(most) && !b.recent.Alone(name, now) {
			ended := b.standing(func(w *wait) bool { return w.tool == name }, now, t.bytes-most, standing)
			b.overTool += uint64(len(ended))
			gone = append(gone, ended...)
		}
	}
	return gone
}

// surplus are answers of the callers that hold most, while all together hold too
// much or memory gets short. For lack of memory one caller goes at a time, because
// it takes a collection to see whether that was enough.
func (b *Budget) surplus(now time.Time) (gone []*wait) {
	excess := b.bytes - b.opts.MaxBytes
	isTight := b.opts.IsTight != nil && now.Sub(b.shedAt) >= pause && b.opts.IsTight()
	if excess <= 0 && !isTight {
		return nil
	}
	names := make([]string, 0, len(b.callers))
	for name := range b.callers {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return cmp.Compare(b.callers[y].bytes, b.callers[x].bytes) })
	for _, name := range names {
		wanted, since := excess, standing
		if isTight {
			wanted, since = b.callers[name].bytes, standingTight
		}
		for _, w := range b.standing(func(w *wait) bool { return w.caller == name }, now, wanted, since) {
			b.shed++
			gone = append(gone, w)
			excess -= w.bytes
		}
		if isTight && len(gone) > 0 {
			b.shedAt = now
			isTight = false
			// What is in use is known at a collection only. Their handlers are gone by then.
			time.AfterFunc(lookEvery, runtime.GC)
		}
		if excess <= 0 && !isTight {
			break
		}
	}
	return gone
}

// standing marks answers of which nothing has moved since a while, of a caller or a tool,
// the longest still first, until they hold so many bytes together.
func (b *Budget) standing(is func(*wait) bool, now time.Time, bytes int64, since time.Duration) (gone []*wait) {
	var still []*wait
	for w := range b.waiting {
		if is(w) && !w.ended && w.bytes > 0 && now.Sub(w.moved) >= min(since, b.opts.Timeout) {
			still = append(still, w)
		}
	}
	slices.SortFunc(still, func(x, y *wait) int { return x.moved.Compare(y.moved) })
	for _, w := range still {
		if bytes <= 0 {
			break
		}
		w.ended = true
		bytes -= w.bytes
		gone = append(gone, w)
	}
	return gone
}
