// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/google/go-cmp/cmp"

	"github.com/outrigger-mcp/outrigger/bridge/policy"
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
		g, err := newGate(&configv1.Config{Trust: new(tc.trust), Gate: new(tc.gate)})
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
	none := newLimiter(&configv1.Limits{})
	for range 10_000 {
		if err := none.Check("a", "shop.look"); err != nil {
			t.Fatalf("without a rate: %v", err)
		}
	}
	l := newLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 0.001, Burst: new(int32(2))}, ToolRate: &configv1.Rate{PerSecond: 0.001}})
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

func TestEveryChangeOfTrustIsAudited(t *testing.T) {
	t.Parallel()
	core, logged := observer.New(zap.InfoLevel)
	s := trustSwitch{gate: policy.NewGate(policy.Untrusted), log: zap.New(core)}
	for _, to := range []string{"trusted", "trusted", "untrusted"} {
		if _, err := s.SetTrust("127.0.0.1:5001", to); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.SetTrust("127.0.0.1:5001", "yes"); err == nil {
		t.Error("an unknown state is taken")
	}
	var got []map[string]any
	for _, line := range logged.All() {
		if line.Level != zap.InfoLevel || line.Message != "trust" {
			t.Errorf("logged %v", line)
		}
		got = append(got, line.ContextMap())
	}
	want := []map[string]any{
		{"who": "127.0.0.1:5001", "from": "untrusted", "to": "trusted", "changes": uint64(1)},
		{"who": "127.0.0.1:5001", "from": "trusted", "to": "trusted", "changes": uint64(1)},
		{"who": "127.0.0.1:5001", "from": "trusted", "to": "untrusted", "changes": uint64(2)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the log (-want +got):\n%s", diff)
	}
	if state, changes := s.Trust(); state != "untrusted" || changes != 2 {
		t.Errorf("%s after %d changes", state, changes)
	}
}
