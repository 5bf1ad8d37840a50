// SPDX-License-Identifier: Apache-2.0

package approval

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	statev1 "github.com/outrigger-mcp/outrigger/gen/outrigger/state/v1"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

const (
	// maxBytes bounds all records of a deployment: a thousand large ones, and many small ones that are kept.
	maxBytes = 64 << 20
	// maxAge is more than the longest wait and the time that a record is kept.
	maxAge = 30 * 24 * time.Hour
)

// Bucket is that of the records of all replicas.
func Bucket() state.BucketOptions {
	return state.BucketOptions{Name: "approvals", MaxBytes: maxBytes, MaxAge: maxAge, KeepsAll: true}
}

// Shared is a [Store] that replicas share. Make one with [NewShared], and run [Shared.Run].
type Shared struct {
	bucket  *state.Bucket
	onError func(error)

	mu       sync.Mutex
	known    map[string]Entry // by key
	loaded   bool
	watchers []func(*statev1.ApprovalRecord)
}

// NewShared declares the bucket and returns the store. onError learns what no caller can.
func NewShared(c *state.Client, onError func(error)) *Shared {
	return &Shared{bucket: c.Bucket(Bucket()), onError: onError, known: map[string]Entry{}}
}

// Run watches the bucket until ctx ends.
func (s *Shared) Run(ctx context.Context) {
	s.bucket.Watch(ctx, state.Watcher{Changed: s.changed, Loaded: s.load, Reset: s.reset})
}

// Get implements [Store]. It asks the leader.
func (s *Shared) Get(ctx context.Context, key string) (Entry, error) {
	e, err := s.bucket.Get(ctx, key)
	if err != nil {
		return Entry{}, translate(err)
	}
	r, err := decode(e.Value)
	return Entry{Record: r, Version: e.Revision}, err
}

// Put implements [Store].
func (s *Shared) Put(ctx context.Context, key string, r *statev1.ApprovalRecord, version uint64, keep time.Duration) error {
	stored, err := proto.MarshalOptions{Deterministic: true}.Marshal(r)
	if err != nil {
		return fmt.Errorf("approval: %w", err)
	}
	keep = min(keep, maxAge)
	var revision uint64
	if version == 0 {
		revision, err = s.bucket.Create(ctx, key, stored, keep)
	} else {
		revision, err = s.bucket.Update(ctx, key, stored, version, keep)
	}
	if err != nil {
		return translate(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known[key].Version < revision {
		s.known[key] = Entry{Record: r, Version: revision} // watchers hear of it as of those of others
	}
	return nil
}

// Known implements [Store].
func (s *Shared) Known() (all []*statev1.ApprovalRecord, loaded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.known {
		all = append(all, e.Record)
	}
	return all, s.loaded
}

// Watch implements [Store].
func (s *Shared) Watch(changed func(*statev1.ApprovalRecord)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(slices.Clip(s.watchers), changed)
}

// changed learns of a record.
func (s *Shared) changed(e state.Entry) {
	if e.Gone {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.known[e.Key].Version < e.Revision {
			delete(s.known, e.Key)
		}
		return
	}
	r, err := (*statev1.ApprovalRecord)(nil), e.Err
	if err == nil {
		r, err = decode(e.Value)
	}
	if err != nil {
		s.onError(fmt.Errorf("approval %s: %w", e.Key, err))
		return
	}
	s.mu.Lock()
	if s.known[e.Key].Version <= e.Revision {
		s.known[e.Key] = Entry{Record: r, Version: e.Revision}
	}
	watchers := s.watchers
	if !s.loaded || e.Key == r.GetId() {
		watchers = nil // it was there before this process, or is a copy
	}
	s.mu.Unlock()
	for _, tell := range watchers {
		tell(r)
	}
}

func (s *Shared) load() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = true
}

// reset forgets everything: the bucket is another one.
func (s *Shared) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	s.loaded = false
}

func decode(stored []byte) (*statev1.ApprovalRecord, error) {
	r := &statev1.ApprovalRecord{}
	if err := proto.Unmarshal(stored, r); err != nil {
		return nil, fmt.Errorf("approval: %w", err)
	}
	return r, nil
}

// translate turns an error of package state into one of this package.
func translate(err error) error {
	for _, one := range [...]struct{ from, to error }{
		{state.ErrNotFound, ErrNotFound}, {state.ErrExists, ErrConflict}, {state.ErrConflict, ErrConflict},
		{state.ErrFull, ErrFull}, {state.ErrTooLarge, ErrFull}, {state.ErrUnavailable, ErrUnavailable},
	} {
		if errors.Is(err, one.from) {
			return fmt.Errorf("%w: %w", one.to, err)
		}
	}
	return err
}
