// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
)

func TestTheGateOfAConfiguration(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		trust, gate string
		ok          bool
	}{
		{"untrusted", "marked", true},
		{"trusted", "unproven", true},
		{"untrusted", "", true},
		{"yes", "marked", false},
		{"untrusted", "all", false},
	} {
		g, err := Gate(&configv1.Config{Trust: new(tc.trust), Gate: new(tc.gate)})
		if (err == nil) != tc.ok {
			t.Errorf("%q, %q: %v", tc.trust, tc.gate, err)
		}
		if tc.ok && g.Trust().String() != tc.trust {
			t.Errorf("%q, %q: the gate is %v", tc.trust, tc.gate, g.Trust())
		}
	}
}

func TestTheRatesOfAConfiguration(t *testing.T) {
	t.Parallel()
	none := Limiter(&configv1.Limits{})
	for range 10_000 {
		if err := none.Check("a", "shop.look"); err != nil {
			t.Fatalf("without a rate: %v", err)
		}
	}
	l := Limiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 0.001, Burst: new(int32(2))}, ToolRate: &configv1.Rate{PerSecond: 0.001}})
	for i, passes := range []bool{true, true, false} {
		if got := l.Check("a", "") == nil; got != passes {
			t.Errorf("request %d passes: %v, want %v", i, got, passes)
		}
	}
	for i, passes := range []bool{true, false} {
		if got := l.Check("b", "shop.look") == nil; got != passes {
			t.Errorf("call %d passes: %v, want %v", i, got, passes)
		}
	}
}
