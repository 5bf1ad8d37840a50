// SPDX-License-Identifier: Apache-2.0

package stdio

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/outrigger-mcp/outrigger/internal/dialect"
	"github.com/outrigger-mcp/outrigger/internal/jsonrpc"
)

// entryBytes is what a queued request takes besides its text: the message, its
// place in the table of requests in flight, and its context.
const entryBytes = 2 << 10

// queued is a request that was read and registered, and has not begun.
type queued struct {
	// id finds it when it is cancelled; the zero id for what cannot be cancelled.
	id   jsonrpc.ID
	size int
	// run runs it; deliver takes the reply. Both are called exactly once.
	run     func() *dialect.Reply
	deliver func(*dialect.Reply)
	// leave gives its place back. It may be called again.
	leave func()
}

// finish runs the request to its end.
func (q *queued) finish() { q.deliver(q.run()) }

// queue has the requests that wait to run, first come first served, and counts the bytes of those
// that wait or run. Make one with newQueue.
type queue struct {
	places, most int
	// gauge, where set, is kept at bytes.
	gauge *atomic.Int64
	// room holds a value when there may be room again. It is for the reader.
	room chan struct{}
	// empty is closed when the queue is closed and every request has begun.
	empty chan struct{}

	mu sync.Mutex
	// changed tells the dispatcher that a request has come or a place is free.
	changed sync.Cond
	waiting list.List // of *queued
	byID    map[string]*list.Element
	bytes   int
	// running is how many requests hold a place; one that waits for its client holds none.
	running  int
	isClosed bool
	begun    time.Time // when the last one began
}

func newQueue(places, most int, gauge *atomic.Int64) *queue {
	q := &queue{
		places: places, most: most, gauge: gauge,
		room: make(chan struct{}, 1), empty: make(chan struct{}), byID: map[string]*list.Element{},
	}
	q.changed.L = &q.mu
	return q
}

// add appends a request. The queue may be over its bound by one line; the reader
// reads no more then.
func (q *queue) add(r *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r.size += entryBytes
	r.leave = sync.OnceFunc(func() { q.left(r.size) })
	element := q.waiting.PushBack(r)
	if !r.id.IsZero() {
		q.byID[r.id.Key()] = element
	}
	q.grow(r.size)
	q.changed.Signal()
}

// next waits for a request and a place for it; nil after the last one.
func (q *queue) next() *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.waiting.Len() == 0 || q.running >= q.places {
		if q.isClosed && q.waiting.Len() == 0 {
			close(q.empty)
			return nil
		}
		q.changed.Wait()
	}
	q.running++
	q.begun = time.Now()
	return q.drop(q.waiting.Front())
}

// remove takes out the request with this id, or returns nil where none waits.
func (q *queue) remove(id jsonrpc.ID) *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	element := q.byID[id.Key()]
	if element == nil {
		return nil
	}
	r := q.drop(element)
	q.grow(-r.size)
	q.tell()
	return r
}

// drop takes a request out. The lock is held.
func (q *queue) drop(element *list.Element) *queued {
	r, _ := q.waiting.Remove(element).(*queued)
	if !r.id.IsZero() {
		delete(q.byID, r.id.Key())
	}
	return r
}

// left gives back the place and the bytes of one request.
func (q *queue) left(size int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running--
	q.grow(-size)
	q.changed.Signal()
	q.tell()
}

// tell wakes the reader. The lock is held.
func (q *queue) tell() {
	select {
	case q.room <- struct{}{}:
	default:
	}
}

// close lets the dispatcher end after the last request.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.isClosed = true
	q.changed.Signal()
}

// pause reports whether the reader has to wait for room: the queue is full, or
// crowded says that the sidecar has as many requests in flight as it should get
// from here. It never waits for nothing: while it pauses, some request waits or
// runs that needs no further input, and wakes the reader when it ends.
func (q *queue) pause(crowded bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bytes >= q.most || crowded && q.waiting.Len()+q.running > 0
}

// grow adds to the bytes. The lock is held.
func (q *queue) grow(n int) {
	q.bytes += n
	if q.gauge != nil {
		q.gauge.Store(int64(q.bytes))
	}
}

// lastBegun is when the last request began, the zero time before the first.
func (q *queue) lastBegun() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.begun
}
