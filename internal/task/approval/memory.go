// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"slices"
	"sync"
	"time"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
)

// maxMemoryRecords bounds the records of one process: those that wait, and those that are kept.
const maxMemoryRecords = 100_000

// Memory is a [Store] of one process. Make one with [NewMemory].
type Memory struct {
	now func() time.Time

	mu       sync.Mutex
	entries  map[string]*memoryEntry
	version  uint64
	watchers []func(*statev1.ApprovalRecord)
	// telling orders the calls of watchers.
	telling sync.Mutex
}

type memoryEntry struct {
	Entry
	until time.Time
}

// NewMemory returns an empty store. A nil clock is [time.Now].
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, entries: map[string]*memoryEntry{}}
}

// Get implements [Store].
func (m *Memory) Get(_ context.Context, key string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	if e := m.entries[key]; e != nil {
		return e.Entry, nil
	}
	return Entry{}, ErrNotFound
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, key string, r *statev1.ApprovalRecord, version uint64, keep time.Duration) error {
	m.telling.Lock()
	defer m.telling.Unlock()
	watchers, err := m.put(key, r, version, keep)
	for _, changed := range watchers {
		if key != r.GetId() {
			changed(r)
		}
	}
	return err
}

func (m *Memory) put(key string, r *statev1.ApprovalRecord, version uint64, keep time.Duration) ([]func(*statev1.ApprovalRecord), error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	is := uint64(0)
	e := m.entries[key]
	if e != nil {
		is = e.Version
	}
	switch {
	case is != version:
		return nil, ErrConflict
	case e == nil && len(m.entries) >= maxMemoryRecords:
		return nil, ErrFull
	}
	m.version++
	m.entries[key] = &memoryEntry{Entry: Entry{Record: r, Version: m.version}, until: m.now().Add(keep)}
	return m.watchers, nil
}

// Known implements [Store].
func (m *Memory) Known() (all []*statev1.ApprovalRecord, loaded bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep()
	for _, e := range m.entries {
		all = append(all, e.Record)
	}
	return all, true
}

// Watch implements [Store].
func (m *Memory) Watch(changed func(*statev1.ApprovalRecord)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers = append(slices.Clip(m.watchers), changed)
}

// sweep forgets what is kept no longer. m.mu is held.
func (m *Memory) sweep() {
	now := m.now()
	for key, e := range m.entries {
		if !now.Before(e.until) {
			delete(m.entries, key)
		}
	}
}
