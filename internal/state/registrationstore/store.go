// SPDX-License-Identifier: Apache-2.0

// Package registrationstore keeps registered tools in NATS JetStream, for all replicas of a deployment and for their restarts.
//
// A registration is checked by the replica that got it, stored, and only then in its catalog. The other replicas watch the
// bucket, and bring their catalogs in line with it. What does not fit the catalog of a replica, which may be of another
// release of the backend, is a warning there, and is tried again.
//
// If the bucket is lost, replicas that still run store what they have again.
package registrationstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// retry is the pause after which a registration that does not fit is tried again.
const retry = 5 * time.Second

// Options configure a [Store].
type Options struct {
	// MaxBytes bounds what is stored.
	MaxBytes int64
	// OnChange learns of each change that another replica made here; OnError of a registration that does not fit this replica,
	// once for each reason. Nil tells no one.
	OnChange func(name, version string, gone bool)
	OnError  func(name string, err error)
}

// Store keeps the registrations of a catalog. Make one with [New], and run [Store.Run]. It is safe for concurrent use.
type Store struct {
	bucket *state.Bucket
	live   *catalog.Live
	opts   Options
	// pending wakes Run.
	pending chan struct{}

	mu     sync.Mutex
	known  map[string]*kept
	loaded bool
}

// kept is a registration as the bucket has it. Its value is not changed.
type kept struct {
	// name is known of what was read or written here.
	name  string
	value []byte
	// revision is zero where the bucket was lost.
	revision uint64
	gone     bool
	// applied: the catalog has it, or has it no longer. failed is what was last said about it.
	applied bool
	failed  string
}

// Bucket is that of a store.
func Bucket(o Options) state.BucketOptions {
	return state.BucketOptions{Name: "registrations", MaxBytes: o.MaxBytes}
}

// New returns a store for the registrations of live.
func New(c *state.Client, live *catalog.Live, o Options) *Store {
	if o.OnChange == nil {
		o.OnChange = func(string, string, bool) {}
	}
	if o.OnError == nil {
		o.OnError = func(string, error) {}
	}
	return &Store{
		bucket: c.Bucket(Bucket(o)), live: live, opts: o, pending: make(chan struct{}, 1), known: map[string]*kept{},
	}
}

// Put registers a tool here and at all replicas, as [catalog.Live.Put] does here. Without the store nothing changes, and the
// error is UNAVAILABLE.
func (s *Store) Put(ctx context.Context, r catalog.Registration) (catalog.Placement, error) {
	value, err := encode(&r)
	if err != nil {
		return catalog.Placement{}, err
	}
	return s.live.PutStored(ctx, r, func() error { return s.store(ctx, r.Name, value) })
}

// Unregister removes a tool here and at all replicas, as [catalog.Live.Unregister] does here.
func (s *Store) Unregister(ctx context.Context, name, version string) (string, error) {
	return s.live.UnregisterStored(ctx, name, version, func() error { return s.remove(ctx, name) })
}

// store writes a registration.
func (s *Store) store(ctx context.Context, name string, value []byte) error {
	key := keyOf(name)
	revision, same, err := s.revision(key, value)
	if same || err != nil {
		return err
	}
	if revision == 0 {
		revision, err = s.bucket.Create(ctx, key, value, state.Forever)
	} else {
		revision, err = s.bucket.Update(ctx, key, value, revision, state.Forever)
	}
	if err != nil {
		return refused(err)
	}
	s.note(key, &kept{name: name, value: value, revision: revision, applied: true})
	return nil
}

// revision returns that of a key, and whether it has the value already. A change that was heard of and that the catalog does not
// have yet is a conflict: the versions were compared with the one before it.
func (s *Store) revision(key string, value []byte) (revision uint64, same bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.known[key]
	switch {
	case k == nil:
		return 0, false, nil
	case k.revision > 0 && !k.gone && bytes.Equal(k.value, value):
		return k.revision, true, nil
	case k.revision > 0 && !k.applied && k.failed == "": // what cannot be applied can be replaced
		s.wake()
		return 0, false, refused(state.ErrConflict)
	case k.gone:
		return 0, false, nil
	}
	return k.revision, false, nil
}

// remove deletes a registration.
func (s *Store) remove(ctx context.Context, name string) error {
	key := keyOf(name)
	revision, _, err := s.revision(key, nil)
	if err != nil {
		return err
	}
	if err := s.bucket.Delete(ctx, key, revision); err != nil {
		return refused(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[key]; k != nil && k.revision == revision {
		delete(s.known, key)
	}
	return nil
}

// refused is why nothing was stored.
func refused(err error) error {
	text := "registrations cannot be stored now (--state); try again"
	switch {
	case errors.Is(err, state.ErrConflict), errors.Is(err, state.ErrExists):
		text = "another replica changed this registration at the same moment; try again"
	case errors.Is(err, state.ErrFull), errors.Is(err, state.ErrTooLarge):
		return errmap.Wrap(errmap.ResourceExhausted, err, errmap.Message("Too many registered tools: there is no room for this one in the store (--state)"))
	case errors.Is(err, state.ErrUnavailable): // whose cause may be a deadline of the store's own
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return errmap.Wrap(errmap.Unavailable, err, errmap.RetryAfter(time.Second), errmap.Message("Tool service unavailable: "+text))
}

// note keeps what is newer.
func (s *Store) note(key string, k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.known[key]; before == nil || before.revision < k.revision {
		s.known[key] = k
	}
}

// Run brings the catalog in line with the bucket until ctx ends.
func (s *Store) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { s.bucket.Watch(ctx, state.Watcher{Changed: s.changed, Loaded: s.load, Reset: s.reset}) })
	defer watching.Wait()
	timer := time.NewTimer(retry)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.pending:
		case <-timer.C:
		}
		s.applyPending(ctx)
		timer.Reset(retry)
	}
}

// changed hears of a registration.
func (s *Store) changed(e state.Entry) {
	s.mu.Lock()
	before := s.known[e.Key]
	if before != nil && before.revision >= e.Revision {
		s.mu.Unlock()
		return
	}
	k := &kept{value: e.Value, revision: e.Revision, gone: e.Gone}
	if before != nil {
		k.name = before.name
	}
	k.applied = e.Err != nil // there is nothing that could be
	s.known[e.Key] = k
	name := k.name
	s.mu.Unlock()
	if e.Err != nil {
		s.opts.OnError(name, e.Err)
		return
	}
	s.wake()
}

func (s *Store) load() {
	s.mu.Lock()
	s.loaded = true
	s.mu.Unlock()
	s.wake()
}

// reset notes that the bucket is another one. What is in it follows, and what it lacks is stored again.
func (s *Store) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded = false
	for key, k := range s.known {
		if k.gone {
			delete(s.known, key)
			continue
		}
		s.known[key] = &kept{name: k.name, value: k.value}
	}
}

func (s *Store) wake() {
	select {
	case s.pending <- struct{}{}:
	default:
	}
}

// applyPending applies what the catalog does not have yet, in the order in which it was stored.
func (s *Store) applyPending(ctx context.Context) {
	type one struct {
		key string
		*kept
	}
	s.mu.Lock()
	loaded := s.loaded
	var all []one
	for key, k := range s.known {
		if !k.applied {
			all = append(all, one{key, k})
		}
	}
	s.mu.Unlock()
	if !loaded {
		return
	}
	slices.SortFunc(all, func(a, b one) int { return int(int64(a.revision) - int64(b.revision)) })
	for _, o := range all {
		var err error
		if o.revision == 0 {
			err = s.storeAgain(ctx, o.key, o.kept)
		} else {
			err = s.apply(ctx, o.key, o.kept)
		}
		if ctx.Err() != nil {
			return
		}
		s.settled(o.key, o.kept, err)
	}
}

// settled notes that a registration was applied, or why not.
func (s *Store) settled(key string, k *kept, err error) {
	s.mu.Lock()
	if err == nil || errors.Is(err, errOld) {
		k.applied, k.failed = true, ""
		if k.gone && s.known[key] == k {
			delete(s.known, key)
		}
		s.mu.Unlock()
		return
	}
	isNews := k.failed != err.Error()
	k.failed = err.Error()
	s.mu.Unlock()
	if isNews {
		s.opts.OnError(k.name, err)
	}
}

// storeAgain stores what a lost bucket had.
func (s *Store) storeAgain(ctx context.Context, key string, k *kept) error {
	revision, err := s.bucket.Restore(ctx, key, k.value, state.Forever)
	if err == nil {
		s.note(key, &kept{name: k.name, value: k.value, revision: revision, applied: true})
		return nil
	}
	if errors.Is(err, state.ErrExists) || errors.Is(err, state.ErrNotFound) { // another replica did, or removed it, which this one will hear of
		return nil
	}
	return err
}

// apply has the catalog agree with the bucket about one registration.
func (s *Store) apply(ctx context.Context, key string, k *kept) error {
	if k.gone {
		if k.name == "" {
			return nil // it was never known here
		}
		version, err := s.live.UnregisterStored(ctx, k.name, "", s.still(key, k))
		var none *catalog.UnregistrationError
		if errors.As(err, &none) {
			return nil
		}
		if err == nil {
			s.opts.OnChange(k.name, version, true)
		}
		return err
	}
	r, err := decode(k.value)
	if err != nil {
		return err
	}
	s.mu.Lock()
	k.name = r.Name
	s.mu.Unlock()
	placed, err := s.live.PutStored(ctx, r, s.still(key, k))
	var fault *catalog.RegistrationError
	if errors.As(err, &fault) && fault.Remedy != "" {
		// The bucket has a version that is not higher: the tool was unregistered between the two.
		if _, err := s.live.UnregisterStored(ctx, r.Name, "", s.still(key, k)); err != nil {
			return err
		}
		placed, err = s.live.PutStored(ctx, r, s.still(key, k))
	}
	if err == nil && (placed.Created || placed.Replaced != "") {
		s.opts.OnChange(r.Name, r.Version, false)
	}
	return err
}

// errOld means that there is something newer to apply.
var errOld = errors.New("registration store: replaced meanwhile")

// still fails where a registration is not the newest of its key any more. The catalog calls it, and what writes a newer one,
// one at a time.
func (s *Store) still(key string, k *kept) func() error {
	return func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.known[key] != k {
			return errOld
		}
		return nil
	}
}

// keyOf is the key of a tool, whose name may be longer than a key, and have other characters.
func keyOf(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
