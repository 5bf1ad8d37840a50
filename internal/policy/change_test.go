// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"sync"
	"testing"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

func TestRulesOfAGateCanChange(t *testing.T) {
	t.Parallel()
	marked := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	silent := &catalog.Tool{Name: "shop.look"}
	g := policy.NewGate(policy.Untrusted)
	for _, step := range []struct {
		scope          policy.Scope
		trusted        []string
		ok             bool
		marked, silent bool // what 10.1.2.3 may run
	}{
		{policy.Unproven, nil, true, false, false},
		{policy.Unproven, []string{"10.1.0.0/16"}, true, true, true},
		{policy.Marked, []string{"everyone"}, false, true, true}, // changes nothing
		{policy.Marked, []string{"10.9.0.0/16"}, true, false, true},
	} {
		if err := g.Rule(step.scope, step.trusted); (err == nil) != step.ok {
			t.Fatalf("%+v: %v", step, err)
		}
		if m, s := g.Check(marked, "10.1.2.3") == nil, g.Check(silent, "10.1.2.3") == nil; m != step.marked || s != step.silent {
			t.Errorf("%+v: marked %v, silent %v", step, m, s)
		}
	}
	if err := g.TrustCallers([]string{"10.1.2.3"}); err != nil || g.Check(marked, "10.1.2.3") != nil {
		t.Errorf("TrustCallers: %v", err)
	}
}

func TestRatesOfALimiterCanChange(t *testing.T) {
	t.Parallel()
	slow := &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(1))}
	l := policy.NewLimiter(&configv1.Limits{})
	passes := func(why string, want ...bool) {
		t.Helper()
		for i, w := range want {
			if got := l.Check("a", "shop.get") == nil; got != w {
				t.Errorf("%s: request %d passes: %v, want %v", why, i, got, w)
			}
		}
	}
	passes("without a rate", true, true, true)
	l.SetRates(&configv1.Limits{CallerRate: slow})
	passes("each caller", true, false)
	l.SetRates(&configv1.Limits{CallerRate: slow, ToolRate: slow})
	passes("a rate that stays keeps its buckets", false)
	l.SetRates(&configv1.Limits{ToolRate: slow})
	passes("each tool", true, false)
	l.SetRates(&configv1.Limits{ToolRate: &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(2))}})
	passes("another burst", true, true, false)
	l.SetRates(nil)
	passes("no rate again", true, true)
	if refused := l.Refused(); len(refused) != 1 || refused[0].Count != 4 {
		t.Errorf("the counts outlive the rates: %+v", refused)
	}
}

// TestChangesWhileCallsAreChecked is for the race detector.
func TestChangesWhileCallsAreChecked(t *testing.T) {
	t.Parallel()
	tool := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	g, l := policy.NewGate(policy.Untrusted), policy.NewLimiter(&configv1.Limits{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 1000 {
				g.Check(tool, "10.1.2.3")
				l.Check("10.1.2.3", tool.Name)
			}
		})
	}
	for n := range 100 {
		if err := g.Rule(policy.Scope(n%2), []string{"10.1.2.3"}); err != nil {
			t.Error(err)
		}
		l.SetRates(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: float64(n)}, ToolRate: &configv1.Rate{PerSecond: float64(n % 3)}})
	}
	all.Wait()
}
