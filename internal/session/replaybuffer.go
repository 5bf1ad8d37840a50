// SPDX-License-Identifier: Apache-2.0

package session

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// replayBuffer holds the streams that have ended and can still be resumed, of all sessions. It also counts what all streams
// keep, those that go on included.
type replayBuffer struct {
	keep time.Duration
	most int64
	rule peer.Rule
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
	// ended are the caller's streams in the replay buffer, the longest ended first. It belongs to the lock of the replay buffer.
	ended list.List
}

// count adds to the bytes that a caller's streams keep.
func (b *replayBuffer) count(a *account, bytes int) {
	a.bytes.Add(int64(bytes))
	b.bytes.Add(int64(bytes))
}

// isOver reports whether a caller keeps more than its share, which is nothing where all together keep too much.
func (b *replayBuffer) isOver(a *account) bool {
	return !b.rule.Allows(a.bytes.Load(), 0, b.bytes.Load(), b.most)
}

// surplus is how much a caller keeps beyond what any caller may, whatever the others keep.
func (b *replayBuffer) surplus(a *account) int {
	part := b.rule.Part(b.most)
	if part == b.most { // nothing is shared out
		return 0
	}
	return int(max(a.bytes.Load()-part, 0))
}

// put takes a stream that has ended. Its lock is held.
func (b *replayBuffer) put(st *Stream) {
	a := st.session.account
	b.mu.Lock()
	defer b.mu.Unlock()
	st.since = time.Now()
	st.place, st.own = b.ended.PushBack(st), a.ended.PushBack(st)
	b.owners[a] = struct{}{}
	b.schedule()
}

// remove takes a stream out that is forgotten for another reason. Its lock is held.
func (b *replayBuffer) remove(st *Stream) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if st.place != nil {
		b.drop(st)
	}
}

// drop removes a stream; b.mu is held.
func (b *replayBuffer) drop(st *Stream) {
	a := st.session.account
	b.ended.Remove(st.place)
	a.ended.Remove(st.own)
	st.place, st.own = nil, nil
	if a.ended.Len() == 0 {
		delete(b.owners, a)
	}
}

// schedule sets the timer for the longest ended stream; b.mu is held.
func (b *replayBuffer) schedule() {
	front := at[Stream](b.ended.Front())
	if front == nil {
		return
	}
	wait := time.Until(front.since.Add(b.keep))
	if b.timer == nil {
		b.timer = time.AfterFunc(wait, b.expire)
		return
	}
	b.timer.Reset(wait)
}

// removeStream takes the stream that is to go; choose runs with b.mu held.
func (b *replayBuffer) removeStream(choose func() *Stream) *Stream {
	b.mu.Lock()
	defer b.mu.Unlock()
	st := choose()
	if st == nil {
		b.schedule()
		return nil
	}
	b.drop(st)
	return st
}

// expire forgets what will not be resumed.
func (b *replayBuffer) expire() {
	b.forget(func() *Stream {
		if st := at[Stream](b.ended.Front()); st != nil && time.Since(st.since) >= b.keep {
			return st
		}
		return nil
	})
}

// shed makes room after a caller has added something: while all keep too much, the caller that keeps most gives, and while the
// caller keeps more than its share, it gives itself. What goes on takes nothing back here: see [Stream.Send].
func (b *replayBuffer) shed(a *account) {
	if b.isOver(a) {
		b.forget(func() *Stream {
			switch {
			case b.bytes.Load() > b.most:
				return b.ofFullest()
			case b.isOver(a):
				return at[Stream](a.ended.Front())
			default:
				return nil
			}
		})
	}
}

// ofFullest is the longest ended stream of the caller that keeps most, of those that have ended ones; b.mu is held.
func (b *replayBuffer) ofFullest() *Stream {
	var fullest *account
	for a := range b.owners {
		if fullest == nil || a.bytes.Load() > fullest.bytes.Load() {
			fullest = a
		}
	}
	if fullest == nil {
		return nil
	}
	return at[Stream](fullest.ended.Front())
}

// forget takes streams from their sessions, those that choose says. No lock is held meanwhile.
func (b *replayBuffer) forget(choose func() *Stream) {
	for st := b.removeStream(choose); st != nil; st = b.removeStream(choose) {
		st.session.forgetStream(st)
	}
}
