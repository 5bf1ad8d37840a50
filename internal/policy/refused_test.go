// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

func marked(name string) *catalog.Tool {
	return &catalog.Tool{Name: name, Metadata: catalog.Metadata{Destructive: true}}
}

func TestTheGateCountsWhatItHoldsBack(t *testing.T) {
	t.Parallel()
	g := policy.NewGate(policy.Untrusted)
	if err := g.TrustCallers([]string{"192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	if got := g.Refused(); len(got) != 0 {
		t.Errorf("at first: %v", got)
	}
	for _, call := range []struct {
		tool   *catalog.Tool
		caller string
	}{
		{marked("shop.drop"), "192.0.2.2"}, {marked("shop.drop"), "stdio"}, {marked("desk.drop"), "192.0.2.2"},
		{marked("shop.drop"), "192.0.2.1"},             // trusted
		{&catalog.Tool{Name: "shop.get"}, "192.0.2.2"}, // not marked
	} {
		g.Check(call.tool, call.caller)
	}
	g.Set(policy.Trusted)
	g.Check(marked("shop.drop"), "192.0.2.2")
	if diff := cmp.Diff([]policy.Refusals{{"desk.drop", 1}, {"shop.drop", 2}}, g.Refused()); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

func TestALimiterCountsWhatItRefuses(t *testing.T) {
	t.Parallel()
	var none *policy.Limiter
	if none.Refused() != nil {
		t.Error("a limiter that is none has refused something")
	}
	l := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(3))}, ToolRate: &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(1))}})
	for _, call := range [][2]string{
		{"a", "shop.get"}, {"a", "shop.get"}, // the tool's rate
		{"a", ""}, {"a", ""}, {"a", "shop.list"}, // the caller's rate, from the second on
		{"b", "shop.get"}, // the tool's rate again
	} {
		l.Check(call[0], call[1])
	}
	if diff := cmp.Diff([]policy.Refusals{{"", 1}, {"shop.get", 2}, {"shop.list", 1}}, l.Refused()); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
}

// Whatever number of tools there is, a page of metrics stays one: nothing is
// left out of the sum, only the names are.
func TestRefusalsAreCountedOfABoundedNumberOfTools(t *testing.T) {
	t.Parallel()
	gate, small := policy.NewGate(policy.Untrusted), policy.NewGate(policy.Untrusted)
	small.CountTools(2)
	slow := &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(1))}
	limiter := policy.NewLimiter(&configv1.Limits{ToolRate: slow})
	const tools = policy.DefaultMaxCounted + 10
	var all sync.WaitGroup
	for n := range tools {
		all.Go(func() {
			name := fmt.Sprintf("shop.drop_%d", n)
			for range 2 {
				gate.Check(marked(name), "a")
				small.Check(marked(name), "a")
				limiter.Check("a", name)
			}
		})
	}
	all.Wait()
	for _, tt := range []struct {
		what string
		got  []policy.Refusals
		most int
		sum  uint64
	}{
		{"gate", gate.Refused(), policy.DefaultMaxCounted, 2 * tools},
		{"gate with another bound", small.Refused(), 2, 2 * tools},
		{"limiter", limiter.Refused(), policy.DefaultMaxCounted, tools},
	} {
		sum, other := uint64(0), uint64(0)
		for _, r := range tt.got {
			sum += r.Count
			if r.Tool == policy.OtherTools {
				other = r.Count
			}
		}
		if len(tt.got) != tt.most+1 || sum != tt.sum || other == 0 {
			t.Errorf("%s: %d entries of %d calls, %d of other tools", tt.what, len(tt.got), sum, other)
		}
	}
}

// TestExceeded tells the two rates apart.
func TestExceeded(t *testing.T) {
	t.Parallel()
	l := policy.NewLimiter(&configv1.Limits{CallerRate: &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(3))}, ToolRate: &configv1.Rate{PerSecond: 1e-9, Burst: new(int32(1))}})
	for range 5 {
		l.Check("a", "shop.get")
	}
	if callers, tools := l.Exceeded(); callers != 2 || tools != 2 {
		t.Errorf("callers %d, tools %d; want 2 of each", callers, tools)
	}
	var none *policy.Limiter
	if callers, tools := none.Exceeded(); callers != 0 || tools != 0 {
		t.Errorf("nothing has counted %d and %d", callers, tools)
	}
}
