// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"time"

	"github.com/outrigger-mcp/outrigger/bridge"
	"github.com/outrigger-mcp/outrigger/internal/state"
)

// answers are the first answers of calls with a key, for all replicas: [bridge.KeptAnswers].
type answers struct{ state.Kept }

// Create implements [bridge.KeptAnswers].
func (a answers) Create(ctx context.Context, key string, value []byte, lifetime time.Duration) (uint64, error) {
	return changed(a.Kept.Create(ctx, key, value, lifetime))
}

// Update implements [bridge.KeptAnswers].
func (a answers) Update(ctx context.Context, key string, value []byte, revision uint64, lifetime time.Duration) (uint64, error) {
	return changed(a.Kept.Update(ctx, key, value, revision, lifetime))
}

// changed is the result of a change, in the words of the bridge where there is no room.
func changed(revision uint64, err error) (uint64, error) {
	if errors.Is(err, state.ErrFull) {
		return 0, bridge.ErrNoRoom
	}
	return revision, err
}
