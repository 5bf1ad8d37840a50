// SPDX-License-Identifier: Apache-2.0

package taskstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/defaults"
	"github.com/outrigger-mcp/outrigger/internal/peer"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/task"
)

const (
	// maxOwnersBytes is room for the leases of a thousand replicas.
	maxOwnersBytes = 1 << 20
	// maxOwnerAge is twice the longest lease that the configuration takes. The bucket stays as it was made, and a longer lease
	// that is configured later must not end early: its owner would lose its tasks while it lives.
	maxOwnerAge = 20 * time.Minute
	// smallRecord is the room that every task has, whatever else is stored: to say how it
	// ended.
	smallRecord = 4096
	// selfBytes is the randomness of a replica's id.
	selfBytes = 12
)

// Options configure a [Store]. Zero fields take the defaults.
type Options struct {
	// MaxTasks is the maximum number of tasks of all replicas, MaxBytes that of their
	// records.
	MaxTasks int
	MaxBytes int64
	// Share is the part of MaxTasks that one caller may have.
	Share peer.Rule
	// Lease is how long a replica that says nothing is taken for alive. It is in whole
	// seconds.
	Lease time.Duration
	// Name describes the replica to operators, such as its host.
	Name string
	// OnError learns what no caller can be. Nil tells no one.
	OnError func(error)
}

// OptionsOf says how many tasks replicas keep, and for how long a replica that says nothing is taken for alive.
func OptionsOf(cfg *configv1.Config) Options {
	limits, s := cfg.GetLimits(), cfg.GetState()
	return Options{
		MaxTasks: int(limits.GetMaxTasks()), MaxBytes: s.GetMaxTaskBytes(), Share: peer.Percent(int(limits.GetCallerSharePercent())), Lease: s.GetLease().AsDuration(),
	}
}

// Store is a [task.Store] that replicas share. Make one with [New], and run [Store.Run].
type Store struct {
	opts          Options
	self          string
	tasks, owners *state.Bucket
	lease         lease

	mu       sync.Mutex
	known    map[string]*known
	callers  map[string]int
	bytes    int64
	loaded   bool
	watchers []func(task.Record)
	started  time.Time
	// departed is closed, and another put into its place, when an owner may have departed.
	departed chan struct{}
}

var (
	_ task.Store    = (*Store)(nil)
	_ task.Replicas = (*Store)(nil)
)

// known is what a replica knows of a task.
type known struct {
	principal, owner string
	isFinal          bool
	size             int64
	expires          time.Time
	revision         uint64
}

// Buckets are those of a store: the records of tasks, and the leases of replicas.
func Buckets(o Options) (tasks, owners state.BucketOptions) {
	defaults.Fill(&o.MaxBytes, defaults.StateMaxTaskBytes)
	return state.BucketOptions{Name: "tasks", MaxBytes: o.MaxBytes, MaxAge: task.MaxAge, KeepsAll: true},
		state.BucketOptions{Name: "owners", MaxBytes: maxOwnersBytes, MaxAge: maxOwnerAge, KeepsAll: true}
}

// New declares the buckets and returns the store.
func New(c *state.Client, o Options) *Store {
	defaults.Fill(&o.MaxTasks, defaults.MaxTasks)
	defaults.Fill(&o.MaxBytes, defaults.StateMaxTaskBytes)
	defaults.Fill(&o.Lease, defaults.StateLease)
	if o.OnError == nil {
		o.OnError = func(error) {}
	}
	var random [selfBytes]byte
	_, _ = rand.Read(random[:]) // never fails
	tasks, owners := Buckets(o)
	s := &Store{
		opts: o, self: hex.EncodeToString(random[:]), known: map[string]*known{}, callers: map[string]int{},
		departed: make(chan struct{}), started: time.Now(),
		tasks: c.Bucket(tasks), owners: c.Bucket(owners),
	}
	s.lease.seen = map[string]time.Time{}
	return s
}

// Run watches the buckets and renews the lease until ctx ends. Then it gives the lease
// up.
func (s *Store) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { s.tasks.Watch(ctx, state.Watcher{Changed: s.changed, Loaded: s.load, Reset: s.reset}) })
	all.Go(func() { s.owners.Watch(ctx, state.Watcher{Changed: s.ownerChanged, Reset: s.ownersReset}) })
	s.renew(ctx)
	all.Wait()
}

// Create implements [task.Store].
func (s *Store) Create(ctx context.Context, r task.Record) error {
	s.bound(&r)
	stored, err := encode(&r)
	if err != nil {
		return err
	}
	size := s.room(len(stored))
	if err := s.reserve(&r, size); err != nil {
		return err
	}
	revision, err := s.tasks.Create(ctx, r.ID, stored, s.lifetime(&r))
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[r.ID]
	switch {
	case k == nil: // it was deleted meanwhile
	case err != nil && k.revision == 0:
		s.forget(r.ID)
	case err == nil:
		k.revision = max(k.revision, revision)
	}
	return translate(err)
}

// reserve makes room for a task among those that are known.
func (s *Store) reserve(r *task.Record, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	switch {
	case s.known[r.ID] != nil:
		return task.ErrExists
	case len(s.known) >= s.opts.MaxTasks || s.bytes+size > s.opts.MaxBytes:
		return task.ErrFull
	case !s.opts.Share.Allows(int64(s.callers[r.Principal]), 1, int64(len(s.known)), int64(s.opts.MaxTasks)):
		return task.ErrShare
	}
	s.keep(r, size, 0)
	return nil
}

// Get implements [task.Store]. It asks the leader.
func (s *Store) Get(ctx context.Context, id string) (task.Record, error) {
	e, err := s.tasks.Get(ctx, id)
	if err != nil {
		return task.Record{}, translate(err)
	}
	r, err := decode(e.Value, e.Revision)
	if err != nil {
		return task.Record{}, err
	}
	if !time.Now().Before(r.Expires) {
		return task.Record{}, task.ErrNotFound
	}
	return r, nil
}

// Update implements [task.Store].
func (s *Store) Update(ctx context.Context, r task.Record) error {
	s.bound(&r)
	stored, err := encode(&r)
	if err != nil {
		return err
	}
	_, err = s.tasks.Update(ctx, r.ID, stored, r.Version, s.lifetime(&r))
	if !errors.Is(err, state.ErrConflict) {
		return translate(err)
	}
	if _, err := s.Get(ctx, r.ID); err != nil {
		return err
	}
	return task.ErrConflict
}

// Delete implements [task.Store].
func (s *Store) Delete(ctx context.Context, id string) error {
	err := translate(s.tasks.Delete(ctx, id, 0))
	if err == nil {
		s.mu.Lock()
		s.forget(id)
		s.mu.Unlock()
	}
	return err
}

// Watch implements [task.Store].
func (s *Store) Watch(changed func(task.Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watchers = append(slices.Clip(s.watchers), changed)
}

// Stats are what a replica knows of the tasks of all.
type Stats struct {
	Tasks int
	Bytes int64
	// Owners is the number of replicas.
	Owners int
}

// Stats returns the current counts.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	s.sweep()
	out := Stats{Tasks: len(s.known), Bytes: s.bytes}
	s.mu.Unlock()
	out.Owners = s.lease.count()
	return out
}

// bound gives a record an end in any case.
func (s *Store) bound(r *task.Record) {
	until := time.Now().Add(task.MaxAge)
	if created := r.Task.GetCreatedAt(); created != nil {
		until = created.AsTime().Add(task.MaxAge)
	}
	if r.Expires.IsZero() || r.Expires.After(until) {
		r.Expires = until
	}
}

// lifetime is how long NATS keeps a record: never less than what was stored of the task before, because a server that was
// killed may bring that back once the record is gone.
func (s *Store) lifetime(r *task.Record) time.Duration {
	return max(time.Until(r.Expires), min(r.Timeout+r.Keep+task.Grace, task.MaxAge))
}

// room is the size that a record counts with.
func (s *Store) room(size int) int64 { return max(int64(size), smallRecord) }

// translate turns an error of package state into one of package task.
func translate(err error) error {
	for _, one := range [...]struct{ from, to error }{
		{state.ErrNotFound, task.ErrNotFound}, {state.ErrExists, task.ErrExists}, {state.ErrConflict, task.ErrConflict},
		{state.ErrFull, task.ErrFull}, {state.ErrTooLarge, task.ErrFull}, {state.ErrUnavailable, task.ErrUnavailable},
	} {
		if errors.Is(err, one.from) {
			return fmt.Errorf("%w: %w", one.to, err)
		}
	}
	return err
}
