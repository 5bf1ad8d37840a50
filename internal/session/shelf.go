// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/share"
)

// shelf is where streams stand that have ended and can still be resumed, of all
// sessions. It also counts what all streams keep, those that go on included.
type shelf struct {
	keep time.Duration
	most int64
	rule share.Rule
	// bytes is what the streams that can be resumed keep.
	bytes atomic.Int64

	mu    sync.Mutex
	ended *list.List // of *Stream, the longest ended first
	// owners are the callers that have ended streams here.
	owners map[*account]struct{}
	timer  *time.Timer
}

// account is what the streams of one caller keep.
type account struct {
	bytes atomic.Int64
	// ended are the caller's streams on the shelf, the longest ended first. It belongs
	// to the shelf's lock.
	ended list.List
}

func newShelf(o *Options) *shelf {
	return &shelf{keep: o.Keep, most: int64(o.MaxKept), rule: o.Share, ended: list.New(), owners: map[*account]struct{}{}}
}

func (sh *shelf) size() int { return int(sh.bytes.Load()) }

// count adds to what a caller keeps.
func (sh *shelf) count(a *account, bytes int) {
	a.bytes.Add(int64(bytes))
	sh.bytes.Add(int64(bytes))
}

// isFull reports whether more is kept than may be.
func (sh *shelf) isFull() bool { return sh.bytes.Load() > sh.most }

// isOver reports whether a caller keeps more than its share, which is nothing where
// all together keep too much.
func (sh *shelf) isOver(a *account) bool {
	return !sh.rule.Allows(a.bytes.Load(), 0, sh.bytes.Load(), sh.most)
}

// surplus is how much a caller keeps beyond what any caller may, whatever the others
// keep.
func (sh *shelf) surplus(a *account) int {
	part := sh.rule.Part(sh.most)
	if part == sh.most { // nothing is shared out
		return 0
	}
	return int(max(a.bytes.Load()-part, 0))
}

// put takes a stream that has ended. Its lock is held.
func (sh *shelf) put(st *Stream) {
	a := st.session.account
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st.since = time.Now()
	st.place, st.own = sh.ended.PushBack(st), a.ended.PushBack(st)
	sh.owners[a] = struct{}{}
	sh.schedule()
}

// remove takes a stream out that is forgotten for another reason. Its lock is
// held.
func (sh *shelf) remove(st *Stream) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if st.place != nil {
		sh.drop(st)
	}
}

// drop takes a stream out; sh.mu is held.
func (sh *shelf) drop(st *Stream) {
	a := st.session.account
	sh.ended.Remove(st.place)
	a.ended.Remove(st.own)
	st.place, st.own = nil, nil
	if a.ended.Len() == 0 {
		delete(sh.owners, a)
	}
}

// schedule sets the timer for the longest ended stream; sh.mu is held.
func (sh *shelf) schedule() {
	front := longestEnded(sh.ended)
	if front == nil {
		return
	}
	wait := time.Until(front.since.Add(sh.keep))
	if sh.timer == nil {
		sh.timer = time.AfterFunc(wait, sh.expire)
		return
	}
	sh.timer.Reset(wait)
}

func longestEnded(of *list.List) *Stream {
	if e := of.Front(); e != nil {
		st, _ := e.Value.(*Stream)
		return st
	}
	return nil
}

// take takes the stream that is to go; choose runs with sh.mu held.
func (sh *shelf) take(choose func() *Stream) *Stream {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := choose()
	if st == nil {
		sh.schedule()
		return nil
	}
	sh.drop(st)
	return st
}

// expire forgets what will not be resumed.
func (sh *shelf) expire() {
	sh.forget(func() *Stream {
		if st := longestEnded(sh.ended); st != nil && time.Since(st.since) >= sh.keep {
			return st
		}
		return nil
	})
}

// shed makes room after a caller has added something: while all keep too much, the
// caller that keeps most gives, and while the caller keeps more than its share, it
// gives itself. What goes on takes none of its own back here: see [Stream.Send].
func (sh *shelf) shed(a *account) {
	if sh.isOver(a) {
		sh.forget(func() *Stream {
			switch {
			case sh.isFull():
				return sh.ofFullest()
			case sh.isOver(a):
				return longestEnded(&a.ended)
			default:
				return nil
			}
		})
	}
}

// ofFullest is the longest ended stream of the caller that keeps most, of those that
// have ended ones; sh.mu is held.
func (sh *shelf) ofFullest() *Stream {
	var fullest *account
	for a := range sh.owners {
		if fullest == nil || a.bytes.Load() > fullest.bytes.Load() {
			fullest = a
		}
	}
	if fullest == nil {
		return nil
	}
	return longestEnded(&fullest.ended)
}

// forget takes streams from their sessions, those that choose says. No lock is held
// meanwhile.
func (sh *shelf) forget(choose func() *Stream) {
	for st := sh.take(choose); st != nil; st = sh.take(choose) {
		st.session.forgetStream(st)
	}
}
