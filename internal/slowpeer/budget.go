// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/share"
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

// Options configure a Budget. Zero fields take the defaults of this package.
type Options struct {
	// Timeout is how long a response may wait without progress.
	Timeout time.Duration
	// MaxBytes bounds the waiting bytes of all callers: responses that are being written
	// and bodies that are being read. Share is the part that one caller may hold.
	MaxBytes int64
	Share    share.Rule
	// ToolShare is the part that responses of one tool may hold while other tools are
	// called.
	ToolShare share.Rule
	// IsTight reports whether memory is getting short. Nil means never.
	IsTight func() bool
}

// Budget counts and bounds the bytes that wait for slow peers. Make one with
// [NewBudget]. Nil bounds nothing.
type Budget struct {
	opts Options

	mu      sync.Mutex
	bytes   int64
	callers map[string]*holder
	// tools are those with responses that are being written. recent knows whether others
	// are called.
	tools   map[string]*holder
	recent  share.Recent
	waiting map[*wait]struct{}
	// looking is set while a timer runs, and shedAt is when answers were last shed
	// for lack of memory.
	looking bool
	shedAt  time.Time

	stuck, shed, full, over, overTool uint64
}

// holder is a caller or a tool, and what it holds.
type holder struct {
	bytes int64
	// parts is how many answers and bodies that is.
	parts int
}

// wait is an answer of which a part is being written.
type wait struct {
	caller string
	// tool is empty for what is not the result of one tool.
	tool  string
	bytes int64
	// moved is when something of it was written last.
	moved time.Time
	// timed: the Budget ends it after the timeout. On HTTP/1 its connection does.
	timed bool
	// end ends it. It returns at once, and may be called when it is over.
	end func()
	// ended is set once end has been called.
	ended bool
}

// NewBudget returns an unused Budget.
func NewBudget(o Options) *Budget {
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

// drop takes them back; b.mu is held.
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
func (b *Budget) Verdict(name, tool string) share.Verdict {
	if b == nil {
		return share.Granted
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
		return share.Over
	case b.tools[tool].exceeds(b.toolMost()) && !b.recent.Alone(tool, now):
		b.overTool++
		return share.OverTool
	}
	return share.Granted
}

// exceeds reports whether a holder has more than it may. Its only response or body may
// have any size.
func (h *holder) exceeds(most int64) bool { return h != nil && h.parts > 1 && h.bytes > most }

// toolMost is what one tool may hold while others are called.
func (b *Budget) toolMost() int64 { return b.opts.ToolShare.Part(b.opts.MaxBytes) }

// most is what one caller may hold. What others hold does not make it less: a
// healthy caller with large answers is not to blame for them.
func (b *Budget) most() int64 { return b.opts.Share.Part(b.opts.MaxBytes) }

// Stats are the counts of a Budget.
type Stats struct {
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
func (b *Budget) Stats() Stats {
	if b == nil {
		return Stats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Bytes: b.bytes, Callers: len(b.callers), Stuck: b.stuck, Shed: b.shed, Full: b.full, Over: b.over, OverTool: b.overTool}
}
