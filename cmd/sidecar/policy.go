// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go.uber.org/zap"

	"github.com/outrigger-mcp/outrigger/bridge/policy"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

// newGate returns the gate that the configuration describes.
func newGate(cfg *configv1.Config) (*policy.Gate, error) {
	trust, err := policy.ParseTrust(cfg.GetTrust())
	if err != nil {
		return nil, err
	}
	scope, err := policy.ParseScope(orElse(cfg.GetGate(), policy.Marked.String()))
	if err != nil {
		return nil, err
	}
	gate := policy.NewScopedGate(trust, scope)
	return gate, gate.TrustCallers(cfg.GetTrustedCallers())
}

// newLimiter returns the rates that the configuration describes. Where it has
// none there is a limiter too, which lets everything pass: rates may come later.
func newLimiter(limits *configv1.Limits) *policy.Limiter {
	return policy.NewLimiter(policy.LimitOptions{
		Caller: rate(limits.GetCallerRate()), Tool: rate(limits.GetToolRate()),
	})
}

func rate(r *configv1.Rate) policy.Rate {
	return policy.Rate{PerSecond: r.GetPerSecond(), Burst: int(r.GetBurst())}
}

// trustSwitch is the gate as the admin listener sees it.
type trustSwitch struct {
	gate *policy.Gate
	log  *zap.Logger
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
	from := s.gate.Set(to)
	s.log.Info("trust changed", zap.String("who", who), zap.Stringer("from", from), zap.Stringer("to", to),
		zap.Uint64("changes", s.gate.Changes()))
	return from.String(), nil
}
