// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// shelf is where streams stand that have ended and can still be resumed, of all
// sessions. It also counts what all streams keep, those that go on included.
type shelf struct {
	keep time.Duration
	most int64
	// bytes is what the streams that can be resumed keep.
	bytes atomic.Int64

	mu    sync.Mutex
	ended *list.List // of *Stream, the longest ended first
	timer *time.Timer
}

func newShelf(keep time.Duration, most int) *shelf {
	return &shelf{keep: keep, most: int64(most), ended: list.New()}
}

func (sh *shelf) size() int { return int(sh.bytes.Load()) }

// isFull reports whether more is kept than may be.
func (sh *shelf) isFull() bool { return sh.bytes.Load() > sh.most }

// put takes a stream that has ended. Its lock is held.
func (sh *shelf) put(st *Stream) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st.since = time.Now()
	st.place = sh.ended.PushBack(st)
	sh.schedule()
}

// remove takes a stream out that is forgotten for another reason. Its lock is
// held.
func (sh *shelf) remove(st *Stream) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if st.place != nil {
		sh.ended.Remove(st.place)
		st.place = nil
	}
}

// schedule sets the timer for the longest ended stream; sh.mu is held.
func (sh *shelf) schedule() {
	front := sh.front()
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

func (sh *shelf) front() *Stream {
	if e := sh.ended.Front(); e != nil {
		st, _ := e.Value.(*Stream)
		return st
	}
	return nil
}

// take takes the longest ended stream where it is to go.
func (sh *shelf) take(goes func(*Stream) bool) *Stream {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	st := sh.front()
	if st == nil || !goes(st) {
		sh.schedule()
		return nil
	}
	sh.ended.Remove(st.place)
	st.place = nil
	return st
}

// expire forgets what nobody will come back for.
func (sh *shelf) expire() {
	sh.forget(func(st *Stream) bool { return time.Since(st.since) >= sh.keep })
}

// shed makes room. What goes on takes none of its own back here: see
// [Stream.Send].
func (sh *shelf) shed() {
	if sh.isFull() {
		sh.forget(func(*Stream) bool { return sh.isFull() })
	}
}

// forget takes streams from their sessions, the longest ended first. No lock is
// held meanwhile.
func (sh *shelf) forget(goes func(*Stream) bool) {
	for st := sh.take(goes); st != nil; st = sh.take(goes) {
		st.session.forgetStream(st)
	}
}
