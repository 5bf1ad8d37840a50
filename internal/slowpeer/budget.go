// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/share"
)

// DefaultMaxBytes is 32 of the largest results.
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
	// Timeout is how long an answer may wait while nothing of it moves.
	Timeout time.Duration
	// MaxBytes bounds what waits of all callers: answers that are being written
	// and bodies that are being read. Share is the part that one caller may hold.
	MaxBytes int64
	Share    share.Rule
	// IsTight reports that memory gets short; nil is never.
	IsTight func() bool
}

// Budget counts the bytes that wait for slow peers, and bounds them. Make one with
// [NewBudget]; nil bounds nothing.
type Budget struct {
	opts Options

	mu      sync.Mutex
	bytes   int64
	callers map[string]*caller
	waiting map[*wait]struct{}
	// looking is set while a timer runs, and shedAt is when answers were last shed
	// for lack of memory.
	looking bool
	shedAt  time.Time

	stuck, shed, full, over uint64
}

// caller is what one of them holds.
type caller struct {
	bytes int64
	// parts is how many answers and bodies that is.
	parts int
}

// wait is an answer of which a part is being written.
type wait struct {
	caller string
	bytes  int64
	// moved is when something of it was written last.
	moved time.Time
	// timed: the Budget ends it after the timeout. On HTTP/1 its connection does.
	timed bool
	// end ends it. It returns at once, and may be called when it is over.
	end func()
	// ended is set once end has been called.
	ended bool
}

// NewBudget returns a Budget of which nothing is used.
func NewBudget(o Options) *Budget {
	defaults.Fill(&o.Timeout, defaults.WriteTimeout)
	defaults.Fill(&o.MaxBytes, DefaultMaxBytes)
	return &Budget{opts: o, callers: map[string]*caller{}, waiting: map[*wait]struct{}{}}
}

// Hold counts bytes that wait to be written, before [Writer] sees them: replies
// that queue for one stream. The result gives them back, and has to be called once.
func (b *Budget) Hold(name string, bytes int) (release func()) {
	if b == nil {
		return func() {}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold(name, int64(bytes))
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.drop(name, int64(bytes))
	}
}

// hold counts bytes of a caller; b.mu is held.
func (b *Budget) hold(name string, bytes int64) {
	b.bytes += bytes
	c := b.callers[name]
	if c == nil {
		c = &caller{}
		b.callers[name] = c
	}
	c.bytes += bytes
	c.parts++
}

// drop takes them back; b.mu is held.
func (b *Budget) drop(name string, bytes int64) {
	b.bytes -= bytes
	c := b.callers[name]
	c.bytes -= bytes
	if c.parts--; c.parts == 0 {
		delete(b.callers, name)
	}
}

// Verdict reports whether a caller may begin something that will have to be
// written: not while it holds more than its share of unread answers. Memory that
// is used up by others does not concern it.
func (b *Budget) Verdict(name string) share.Verdict {
	if b == nil {
		return share.Granted
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.callers[name]; c == nil || c.parts == 1 || c.bytes <= b.most() {
		return share.Granted
	}
	b.over++
	return share.Over
}

// most is what one caller may hold. What others hold does not make it less: a
// healthy caller with large answers is not to blame for them.
func (b *Budget) most() int64 { return b.opts.Share.Part(b.opts.MaxBytes) }

// Stats are the counts of a Budget.
type Stats struct {
	// Bytes is what waits now, of Callers callers.
	Bytes   int64
	Callers int
	// Stuck counts answers that were ended because nothing of them moved for the
	// timeout, Shed those that were ended before to make room.
	Stuck, Shed uint64
	// Full and Over count what was refused because the budget, or the caller's
	// share, was used up.
	Full, Over uint64
}

// Stats returns the counts; none of nil.
func (b *Budget) Stats() Stats {
	if b == nil {
		return Stats{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return Stats{Bytes: b.bytes, Callers: len(b.callers), Stuck: b.stuck, Shed: b.shed, Full: b.full, Over: b.over}
}
