// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// answers are the first answers of calls with a key, for all replicas.
type answers struct{ bucket *state.Bucket }

// NewAnswers keeps answers in a bucket, [state.Answers].
func NewAnswers(bucket *state.Bucket) bridge.KeptAnswers { return answers{bucket} }

// Get implements [bridge.KeptAnswers].
func (a answers) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	e, err := a.bucket.Get(ctx, key)
	if errors.Is(err, state.ErrNotFound) {
		return nil, 0, nil
	}
	return e.Value, e.Revision, err //nolint:wrapcheck // it is named where it is shown
}

// Create implements [bridge.KeptAnswers].
func (a answers) Create(ctx context.Context, key string, value []byte, lifetime time.Duration) (uint64, error) {
	return changed(a.bucket.Create(ctx, key, value, lifetime))
}

// Update implements [bridge.KeptAnswers].
func (a answers) Update(ctx context.Context, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error) {
	return changed(a.bucket.Update(ctx, key, value, revision, lifetime))
}

// Delete implements [bridge.KeptAnswers].
func (a answers) Delete(ctx context.Context, key string, revision uint64) error {
	_, err := changed(0, a.bucket.Delete(ctx, key, revision))
	return err
}

// changed is the result of a change: none, where something else was there.
func changed(revision uint64, err error) (uint64, error) {
	switch {
	case errors.Is(err, state.ErrExists), errors.Is(err, state.ErrConflict), errors.Is(err, state.ErrNotFound):
		return 0, nil
	case errors.Is(err, state.ErrFull):
		return 0, bridge.ErrNoRoom
	}
	return revision, err
}
