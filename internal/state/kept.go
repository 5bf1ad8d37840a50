// SPDX-License-Identifier: Apache-2.0

package state

import (
	"context"
	"errors"
	"time"
)

// Kept is a bucket that is changed by revisions. A revision grows with each change of a value, and 0 says that nothing was found, or
// changed: the key is there already, is gone, or has another revision.
type Kept struct{ Bucket *Bucket }

// Get returns a value and its revision.
func (k Kept) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	e, err := k.Bucket.Get(ctx, key)
	if errors.Is(err, ErrNotFound) {
		return nil, 0, nil
	}
	return e.Value, e.Revision, err
}

// Create keeps a value under a key that has none. The error is [ErrFull] where it is too much.
func (k Kept) Create(ctx context.Context, key string, value []byte, lifetime time.Duration) (uint64, error) {
	return kept(k.Bucket.Create(ctx, key, value, lifetime))
}

// Update replaces the value that has a revision.
func (k Kept) Update(ctx context.Context, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error) {
	return kept(k.Bucket.Update(ctx, key, value, revision, lifetime))
}

// Delete forgets the value that has a revision.
func (k Kept) Delete(ctx context.Context, key string, revision uint64) error {
	_, err := kept(0, k.Bucket.Delete(ctx, key, revision))
	return err
}

// kept is the result of a change: none, where something else was there.
func kept(revision uint64, err error) (uint64, error) {
	if errors.Is(err, ErrExists) || errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	return revision, err
}
