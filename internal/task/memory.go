// SPDX-License-Identifier: Apache-2.0

package task

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/peer"
)

// Defaults of MemoryOptions.
const (
	// defaultMaxBytes allows 13 KB for each of defaults.MaxTasks results, or 32 results
	// of the largest size that the edges accept (4 MiB).
	defaultMaxBytes = 128 << 20
	// MaxAge is the maximum age of a record since its creation, whatever it says: more than any
	// task needs under its own limits, a day of work and the seven days that
	// limits.task_ttl allows.
	MaxAge = 30 * 24 * time.Hour
)

const (
	// smallRecord is the size in bytes up to which a record is kept even where
	// [MemoryOptions.MaxBytes] is used up: room to say how a task ended.
	smallRecord = 4096
	// sweepPause is the least time between two sweeps by the timer. It only frees
	// memory: what has expired is not found in any case.
	sweepPause = time.Second
)

// MemoryOptions configure a [Memory]. Zero fields take the defaults of this
// package.
type MemoryOptions struct {
	// MaxTasks is the maximum number of records. MaxBytes is the maximum total size of
	// their results. Records of up to 4 KiB always fit.
	MaxTasks int
	MaxBytes int64
	// Share is the part of MaxTasks that one caller may have.
	Share peer.Rule
	// Now is the clock. Nil means [time.Now].
	Now func() time.Time
}

// Memory is the [Store] of one process. Make one with [NewMemory]. It needs no closing:
// it has no goroutine, and one timer while it holds records.
type Memory struct {
	opts MemoryOptions

	mu       sync.Mutex
	records  map[string]*entry
	order    entries        // the first to expire is at its top
	callers  map[string]int // how many records each caller has
	bytes    int64
	timer    *time.Timer
	due      time.Time // when the timer fires; zero where it is not set
	watchers []func(Record)
	// untold are changes that watchers have not been told yet. The goroutine that
	// finds telling false tells them all, in their order, without the lock.
	untold  []Record
	telling bool
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory(o MemoryOptions) *Memory {
	defaults.Fill(&o.MaxTasks, defaults.MaxTasks)
	defaults.Fill(&o.MaxBytes, defaultMaxBytes)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Memory{opts: o, records: map[string]*entry{}, callers: map[string]int{}}
}

// entry is a record in the heap by expiry.
type entry struct {
	record Record
	size   int64
	until  time.Time // the end of its MaxAge
	at     int       // in order
}

// Create implements [Store].
func (m *Memory) Create(ctx context.Context, r Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	size := sizeOf(&r)
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.sweep()
	if _, taken := m.records[r.ID]; taken {
		return ErrExists
	}
	if len(m.records) >= m.opts.MaxTasks || !m.fits(size, size) {
		return ErrFull
	}
	if !m.opts.Share.Allows(int64(m.callers[r.Principal]), 1, int64(len(m.records)), int64(m.opts.MaxTasks)) {
		return ErrShare
	}
	e := &entry{size: size, until: now.Add(MaxAge)}
	r.Version = 1
	e.keep(r)
	m.records[r.ID] = e
	m.callers[r.Principal]++
	m.bytes += size
	heap.Push(&m.order, e)
	m.arm(now)
	return nil
}

// Get implements [Store].
func (m *Memory) Get(ctx context.Context, id string) (Record, error) {
	if ctx.Err() != nil {
		return Record{}, context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(id)
	if e == nil {
		return Record{}, ErrNotFound
	}
	return e.record, nil
}

// Update implements [Store].
func (m *Memory) Update(ctx context.Context, r Record) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := m.replace(r, sizeOf(&r)); err != nil {
		return err
	}
	m.tell()
	return nil
}

func (m *Memory) replace(r Record, size int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(r.ID)
	switch {
	case e == nil:
		return ErrNotFound
	case e.record.Version != r.Version:
		return ErrConflict
	case !m.fits(size, size-e.size):
		return ErrFull
	}
	r.Version++
	m.bytes += size - e.size
	e.size = size
	e.keep(r)
	heap.Fix(&m.order, e.at)
	m.arm(m.opts.Now())
	if len(m.watchers) > 0 {
		m.untold = append(m.untold, e.record)
	}
	return nil
}

// Delete implements [Store].
func (m *Memory) Delete(ctx context.Context, id string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.records[id]; e != nil {
		m.forget(e)
		m.arm(m.opts.Now())
	}
	return nil
}

// Watch implements [Store]. Watchers are called by the updater.
func (m *Memory) Watch(changed func(Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Copied, because who tells reads the old list without the lock.
	m.watchers = append(slices.Clip(m.watchers), changed)
}

// tell tells watchers what they have not been told. Where another goroutine is
// at it, that one tells this change, too.
func (m *Memory) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.telling {
		return
	}
	m.telling = true
	for len(m.untold) > 0 {
		batch, watchers := m.untold, m.watchers
		m.untold = nil
		m.mu.Unlock()
		for i := range batch {
			for _, changed := range watchers {
				changed(batch[i])
			}
		}
		m.mu.Lock()
	}
	m.telling = false
}

// MemoryStats are the counts of a [Memory].
type MemoryStats struct {
	// Tasks is the number of records, Bytes their total size.
	Tasks int
	Bytes int64
}

// Stats returns the current counts.
func (m *Memory) Stats() MemoryStats {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	return MemoryStats{Tasks: len(m.records), Bytes: m.bytes}
}

// find returns the entry of an id, nil where there is none or it has expired.
func (m *Memory) find(id string) *entry {
	e := m.records[id]
	if e == nil || m.opts.Now().Before(e.record.Expires) {
		return e
	}
	m.forget(e)
	return nil
}

// fits reports whether a record may have a size that it comes to by growing so
// much.
func (m *Memory) fits(size, growth int64) bool {
	return size <= smallRecord || growth <= 0 || m.bytes+growth <= m.opts.MaxBytes
}

// sweep forgets what has expired, and returns what time it is.
func (m *Memory) sweep() time.Time {
	now := m.opts.Now()
	for len(m.order) > 0 && !now.Before(m.order[0].record.Expires) {
		m.forget(m.order[0])
	}
	return now
}

func (m *Memory) forget(e *entry) {
	delete(m.records, e.record.ID)
	if m.callers[e.record.Principal]--; m.callers[e.record.Principal] == 0 {
		delete(m.callers, e.record.Principal)
	}
	heap.Remove(&m.order, e.at)
	m.bytes -= e.size
}

// arm sets the timer to the first expiry.
func (m *Memory) arm(now time.Time) {
	if len(m.order) == 0 {
		if m.timer != nil {
			m.timer.Stop()
		}
		m.due = time.Time{}
		return
	}
	wait := max(m.order[0].record.Expires.Sub(now), sweepPause)
	due := now.Add(wait)
	switch {
	case !m.due.IsZero() && !due.Before(m.due):
		return // it fires before, and is set again then
	case m.timer == nil:
		m.timer = time.AfterFunc(wait, m.fired)
	default:
		m.timer.Reset(wait)
	}
	m.due = due
}

func (m *Memory) fired() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due = time.Time{}
	m.arm(m.sweep())
}

// keep takes a record over, with an end in any case.
func (e *entry) keep(r Record) {
	if r.Expires.IsZero() || r.Expires.After(e.until) {
		r.Expires = e.until
	}
	e.record = r
}

// sizeOf is what a record holds, in bytes on the wire.
func sizeOf(r *Record) int64 {
	return int64(len(r.ID) + len(r.Origin) + len(r.Principal) + len(r.Tool) + proto.Size(r.Task))
}

// entries is a heap by expiry.
type entries []*entry

func (e entries) Len() int           { return len(e) }
func (e entries) Less(i, j int) bool { return e[i].record.Expires.Before(e[j].record.Expires) }
func (e entries) Swap(i, j int) {
	e[i], e[j] = e[j], e[i]
	e[i].at, e[j].at = i, j
}

// Push implements [heap.Interface].
func (e *entries) Push(x any) {
	if added, ok := x.(*entry); ok {
		added.at = len(*e)
		*e = append(*e, added)
	}
}

// Pop implements [heap.Interface].
func (e *entries) Pop() any {
	last := len(*e) - 1
	removed := (*e)[last]
	(*e)[last] = nil
	*e = (*e)[:last]
	return removed
}
