// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/internal/policy"
	"github.com/outrigger-mcp/outrigger/internal/server/admin"
	"github.com/outrigger-mcp/outrigger/internal/telemetry/logkey"
	"github.com/outrigger-mcp/outrigger/internal/trail"
)

// trustSwitch is the gate as the admin listener sees it.
type trustSwitch struct {
	gate *policy.Gate
	log  *zap.Logger
	// trail is nil without an audit trail.
	trail *trail.Audit
	// shared is nil without --state.
	shared *sharedTrust
}

// Trust implements [admin.Trust].
func (s trustSwitch) Trust() (state string, changes uint64) {
	return s.gate.Trust().String(), s.gate.Changes()
}

// SetTrust implements [admin.Trust]. The line in the log is the audit: who asked,
// and what for, also where nothing changed.
func (s trustSwitch) SetTrust(who, state string) (before string, err error) {
	to, err := policy.ParseTrust(state)
	if err != nil {
		return "", err
	}
	from := s.gate.Trust()
	if s.shared != nil {
		// To trust no one any more works here in any case; to trust is a decision for all replicas or for none.
		if to == policy.Untrusted {
			s.gate.Set(to)
		}
		if err := s.shared.store(context.Background(), to); err != nil {
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
