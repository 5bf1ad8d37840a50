// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
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

// trust is the switch of the gate: of this process, or of all replicas, in the bucket of switches.
type trust struct {
	gate *policy.Gate
	log  *zap.Logger
	// trail is nil without an audit trail.
	trail *trail.Audit
	// bucket is nil without --state.
	bucket *state.Bucket
}

// Trust implements [admin.Trust].
func (s *trust) Trust() (state string, changes uint64) {
	return s.gate.Trust().String(), s.gate.Changes()
}

// SetTrust implements [admin.Trust]. The line in the log is the audit: who asked,
// and what for, also where nothing changed.
func (s *trust) SetTrust(who, state string) (before string, err error) {
	to, err := policy.ParseTrust(state)
	if err != nil {
		return "", err
	}
	from := s.gate.Trust()
	if s.bucket != nil {
		// To trust no one any more works here in any case; to trust is a decision for all replicas or for none.
		if to == policy.Untrusted {
			s.gate.Set(to)
		}
		if err := s.store(context.Background(), to); err != nil {
			what := "nothing changed"
			if to == policy.Untrusted {
				what = "this replica is untrusted now, the others are as before"
			}
			err = fmt.Errorf("%w: %s, because the store of the replicas did not reply (--state); try again when /readyz is not degraded: %w", admin.ErrUnavailable, what, err)
			s.log.Error("trust not changed for all replicas", zap.String("who", who), zap.Stringer("to", to), logkey.Error(err))
			s.trail.Change(trail.Change{Kind: "trust", Who: trail.OfOperator(who), Before: from.String(), After: s.gate.Trust().String(), Detail: "other replicas were not told"})
			return "", err
		}
	}
	s.gate.Set(to)
	s.log.Info("trust changed", zap.String("who", who), zap.Stringer("from", from), zap.Stringer("to", to),
		zap.Uint64("changes", s.gate.Changes()))
	s.trail.Change(trail.Change{Kind: "trust", Who: trail.OfOperator(who), Before: from.String(), After: to.String()})
	return from.String(), nil
}

// store stores a trust for all replicas. The errors are those of package state.
func (s *trust) store(ctx context.Context, to policy.Trust) error {
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
func (s *trust) changed(e state.Entry) {
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
	s.trail.Change(trail.Change{Kind: "trust", Who: trail.OfProcess(), Before: from.String(), After: to.String(), Detail: "by the state that replicas share"})
}

// run follows the trust until ctx ends.
func (s *trust) run(ctx context.Context) {
	s.bucket.Watch(ctx, state.Watcher{Changed: s.changed})
}
