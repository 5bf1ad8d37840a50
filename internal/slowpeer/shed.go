// SPDX-License-Identifier: Apache-2.0

package slowpeer

import (
	"cmp"
	"runtime"
	"slices"
	"time"
)

// begin counts an answer that is being written, and has it looked at.
func (b *Budget) begin(w *wait) {
	w.moved = time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hold(w.caller, w.tool, w.bytes)
	b.waiting[w] = struct{}{}
	if !b.looking {
		b.looking = true
		time.AfterFunc(min(lookEvery, b.opts.Timeout/rounds), b.look)
	}
}

// move notes that a part of an answer was written. All of it counts until the end,
// because its buffer is kept for as long.
func (b *Budget) move(w *wait) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	w.moved = now
}

// finish ends the count. It reports whether the answer was ended before.
func (b *Budget) finish(w *wait) (ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, w)
	b.drop(w.caller, w.tool, w.bytes)
	return w.ended
}

// look ends the answers that have to go, until there is none that waits.
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

// overdue are the answers of which nothing has moved for the timeout.
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
