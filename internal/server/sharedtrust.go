// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/state"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

const (
	// trustKey is where the trust of all replicas is.
	trustKey = "trust"
	// trustAttempts is how often a change is tried that another replica is faster with.
	trustAttempts = 5
)

// sharedTrust is the trust of all replicas, in the bucket of switches.
type sharedTrust struct {
	bucket *state.Bucket
	gate   *policy.Gate
	log    *zap.Logger
	// trail returns the audit trail, which may be nil.
	trail func() *trail.Audit
}

// store stores a trust for all replicas. The errors are those of package state.
func (s *sharedTrust) store(ctx context.Context, to policy.Trust) error {
	var err error
	for range trustAttempts {
		var e state.Entry
		e, err = s.bucket.Get(ctx, trustKey)
		switch {
		case errors.Is(err, state.ErrNotFound):
			_, err = s.bucket.Create(ctx, trustKey, []byte(to.String()), state.Forever)
		case err == nil, errors.Is(err, state.ErrUnreadable):
			if string(e.Value) == to.String() {
				return nil
			}
			_, err = s.bucket.Update(ctx, trustKey, []byte(to.String()), e.Revision, state.Forever)
		}
		if !errors.Is(err, state.ErrConflict) && !errors.Is(err, state.ErrExists) {
			break
		}
	}
	return err //nolint:wrapcheck // the caller says what it means
}

// changed hears of the trust of all replicas.
func (s *sharedTrust) changed(e state.Entry) {
	switch {
	case e.Key != trustKey, e.Gone: // as it is configured, until the next change
		return
	case e.Err != nil:
		s.log.Error("stored trust cannot be read; keeping this replica's own", logkey.Error(e.Err))
		return
	}
	to, err := policy.ParseTrust(string(e.Value))
	if err != nil {
		s.log.Error("stored trust is unknown; keeping this replica's own", logkey.Error(err))
		return
	}
	if s.gate.Trust() == to {
		return
	}
	from := s.gate.Set(to)
	s.log.Info("trust changed for all replicas", zap.Stringer("from", from), zap.Stringer("to", to), zap.Uint64("changes", s.gate.Changes()))
	s.trail().Change(trail.Change{Kind: "trust", Who: trail.OfProcess(), Before: from.String(), After: to.String(), Detail: "by the state that replicas share"})
}

// run follows the trust until ctx ends.
func (s *sharedTrust) run(ctx context.Context) {
	s.bucket.Watch(ctx, state.Watcher{Changed: s.changed})
}
