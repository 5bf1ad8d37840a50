// SPDX-License-Identifier: Apache-2.0

package backend_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/backend"
	"github.com/outrigger-mcp/outrigger/internal/configtest"
)

// TestAClaimIsOneRepetition: an attempt that is given up by claim is made again, is
// paid for once, and says nothing against the backend. Without a budget, or on the
// last attempt, nothing can be claimed.
func TestAClaimIsOneRepetition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Breaker: &configv1.Breaker{MinCalls: new(int32(1))}, Retry: &configv1.Retry{BudgetBurst: new(int32(1)), BudgetPercent: new(int32(1))}}), backend.GuardOptions{})
		give := func(claims *int) func(backend.GuardedCall) *errmap.Error {
			return func(c backend.GuardedCall) *errmap.Error {
				_, err := backend.DoGuarded(t.Context(), g, c, func(context.Context) (int, *errmap.Error) {
					if c.Claim.Claim() {
						*claims++
						if !c.Claim.Claim() {
							t.Error("asking twice costs twice")
						}
						return 0, errmap.New(errmap.TransportError)
					}
					return 1, nil
				})
				return err
			}
		}
		granted := 0
		for range 2 {
			claim := new(backend.Claim)
			if err := give(&granted)(backend.GuardedCall{Key: "a.b", Repeatable: true, Claim: claim}); err != nil {
				t.Errorf("%v", err)
			}
			if claim.Claim() {
				t.Error("a call that has ended is claimed")
			}
		}
		if s := g.Stats(); granted != 1 || s.Repeated != 1 || s.Opened != 0 {
			t.Errorf("%d granted, %+v", granted, s)
		}
		last := backend.NewGuard(configtest.Filled(t, &configv1.Resilience{Retry: &configv1.Retry{MaxAttempts: new(int32(1))}}), backend.GuardOptions{})
		claim := new(backend.Claim)
		_, _ = backend.DoGuarded(t.Context(), last, backend.GuardedCall{Repeatable: true, Claim: claim}, func(context.Context) (int, *errmap.Error) {
			if claim.Claim() {
				t.Error("the last attempt is claimed")
			}
			return 0, nil
		})
		if new(backend.Claim).Claim() {
			t.Error("the zero value grants")
		}
		hurry, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		again := backend.NewGuard(configtest.Filled(t, (*configv1.Resilience)(nil)), backend.GuardOptions{})
		_, _ = backend.DoGuarded(hurry, again, backend.GuardedCall{Repeatable: true, Claim: claim}, func(context.Context) (int, *errmap.Error) {
			if claim.Claim() {
				t.Error("there is no time for another attempt")
			}
			return 0, nil
		})
	})
}
