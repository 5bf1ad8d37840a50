// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"maps"
	"slices"
)

// reorderBuffer brings lines into arrival order. Entries join at the end as they
// arrive; an ended one leaves when none before it is open, into ready, from
// where the writer takes all there is. It is guarded by Run.mu.
type reorderBuffer struct {
	first, last *Entry
	// late are the open entries that are no longer waited for.
	late map[*Entry]struct{}
	open int // entries not ended, late ones too

	held, heldBytes int // ended, and behind an open one

	ready       *Entry // linked by next
	readyLast   *Entry
	queued      int // lines of ready and of what the writer has taken
	queuedBytes int
}

func (w *reorderBuffer) join(e *Entry) {
	e.prev = w.last
	if w.last == nil {
		w.first = e
	} else {
		w.last.next = e
	}
	w.last = e
	w.open++
}

func (w *reorderBuffer) unlink(e *Entry) {
	if e.prev == nil {
		w.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		w.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
}

// end takes an open entry that has ended out of the count, and out of where
// it would stand in the way if it is not kept.
func (w *reorderBuffer) end(e *Entry, keep bool) {
	w.open--
	switch {
	case e.place == placeLate:
		delete(w.late, e)
		e.place = placeGone
		if keep {
			w.push(e)
		}
	case !keep:
		w.unlink(e)
		e.place = placeGone
		w.advance()
	default:
		e.place = placeHeld
		w.held++
		w.heldBytes += e.size()
		w.advance()
	}
}

// advance hands over the ended entries at the beginning.
func (w *reorderBuffer) advance() {
	for e := w.first; e != nil && e.place == placeHeld; e = w.first {
		w.unlink(e)
		w.held--
		w.heldBytes -= e.size()
		e.place = placeGone
		w.push(e)
	}
}

// skip gives up waiting for the first entry, which is open: its line will come
// late.
func (w *reorderBuffer) skip() {
	e := w.first
	w.unlink(e)
	e.place = placeLate
	if w.late == nil {
		w.late = make(map[*Entry]struct{})
	}
	w.late[e] = struct{}{}
	w.advance()
}

func (w *reorderBuffer) push(e *Entry) {
	if w.ready == nil {
		w.ready = e
	} else {
		w.readyLast.next = e
	}
	w.readyLast = e
	w.queued++
	w.queuedBytes += e.size()
}

// take empties ready.
func (w *reorderBuffer) take() *Entry {
	e := w.ready
	w.ready, w.readyLast = nil, nil
	return e
}

// closeAll ends what is open as unfinished and hands everything over: late
// entries first, because they are the oldest. It returns how many had not
// ended, and how many of these were late.
func (w *reorderBuffer) closeAll() (unfinished, late int) {
	unfinished, late = w.open, len(w.late)
	for _, e := range slices.SortedFunc(maps.Keys(w.late), func(a, b *Entry) int { return cmp.Compare(a.seq, b.seq) }) {
		e.unfinished = true
		w.end(e, true)
	}
	for e := w.first; e != nil; e = w.first {
		if e.place == placeOpen {
			e.unfinished = true
			w.end(e, true)
		} else {
			w.advance()
		}
	}
	return unfinished, late
}
