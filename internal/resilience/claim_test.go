// SPDX-License-Identifier: Apache-2.0

package resilience_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outrigger-mcp/outrigger/errmap"
	"github.com/outrigger-mcp/outrigger/internal/resilience"
)

// TestAClaimIsOneRepetition: an attempt that is given up by claim is made again, is
// paid for once, and says nothing against the backend. Without a budget, or on the
// last attempt, nothing can be claimed.
func TestAClaimIsOneRepetition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := resilience.New(resilience.Options{MinCalls: 1, BudgetBurst: 1, BudgetPercent: 1})
		give := func(claims *int) func(resilience.Call) *errmap.Error {
			return func(c resilience.Call) *errmap.Error {
				_, err := resilience.Do(t.Context(), g, c, func(context.Context) (int, *errmap.Error) {
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
			claim := new(resilience.Claim)
			if err := give(&granted)(resilience.Call{Key: "a.b", Repeatable: true, Claim: claim}); err != nil {
				t.Errorf("%v", err)
			}
			if claim.Claim() {
				t.Error("a call that has ended is claimed")
			}
		}
		if s := g.Stats(); granted != 1 || s.Repeated != 1 || s.Opened != 0 {
			t.Errorf("%d granted, %+v", granted, s)
		}
		last := resilience.New(resilience.Options{MaxAttempts: 1})
		claim := new(resilience.Claim)
		_, _ = resilience.Do(t.Context(), last, resilience.Call{Repeatable: true, Claim: claim}, func(context.Context) (int, *errmap.Error) {
			if claim.Claim() {
				t.Error("the last attempt is claimed")
			}
			return 0, nil
		})
		if new(resilience.Claim).Claim() {
			t.Error("the zero value grants")
		}
		hurry, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		again := resilience.New(resilience.Options{})
		_, _ = resilience.Do(hurry, again, resilience.Call{Repeatable: true, Claim: claim}, func(context.Context) (int, *errmap.Error) {
			if claim.Claim() {
				t.Error("there is no time for another attempt")
			}
			return 0, nil
		})
	})
}
