// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"strings"
	"testing"

	"github.com/outrigger-mcp/outrigger/errmap"
	configv1 "github.com/outrigger-mcp/outrigger/gen/outrigger/config/v1"
	"github.com/outrigger-mcp/outrigger/internal/catalog"
	"github.com/outrigger-mcp/outrigger/internal/policy"
)

func TestParseTrust(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want policy.Trust
		ok   bool
	}{
		{"untrusted", policy.Untrusted, true},
		{"trusted", policy.Trusted, true},
		{"", policy.Untrusted, false},
		{"Trusted", policy.Untrusted, false},
		{"yes", policy.Untrusted, false},
	} {
		got, err := policy.ParseTrust(tc.text)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: got %v, %v", tc.text, got, err)
		}
		if tc.ok && got.String() != tc.text {
			t.Errorf("%q is printed as %q", tc.text, got)
		}
	}
}

func TestGateHoldsBackWhatIsMarked(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	marked := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	hinted := &catalog.Tool{Name: "shop.edit", Annotations: catalog.Annotations{Destructive: &yes}}
	silent := &catalog.Tool{Name: "shop.look"}
	reading := &catalog.Tool{Name: "shop.read", Annotations: catalog.Annotations{ReadOnly: &yes}}
	writing := &catalog.Tool{Name: "shop.add", Annotations: catalog.Annotations{Destructive: &no}}
	notReading := &catalog.Tool{Name: "shop.set", Annotations: catalog.Annotations{ReadOnly: &no}}
	again := &catalog.Tool{Name: "shop.put", Annotations: catalog.Annotations{Idempotent: &yes}}
	both := &catalog.Tool{Name: "shop.odd", Annotations: catalog.Annotations{ReadOnly: &yes, Destructive: &yes}}
	denied := &catalog.Tool{Name: "shop.wipe", Annotations: catalog.Annotations{Destructive: &no}, Metadata: catalog.Metadata{Destructive: true}}
	unproven := policy.NewScopedGate(policy.Untrusted, policy.Unproven)
	writes := policy.NewScopedGate(policy.Untrusted, policy.Writes)
	var zero policy.Gate
	for _, tc := range []struct {
		name string
		gate *policy.Gate
		tool *catalog.Tool
		held bool
	}{
		{"the zero gate", &zero, marked, true},
		{"an untrusting gate", policy.NewGate(policy.Untrusted), marked, true},
		{"a trusting gate", policy.NewGate(policy.Trusted), marked, false},
		{"a hint is shown, so it is held", policy.NewGate(policy.Untrusted), hinted, true},
		{"nothing said", policy.NewGate(policy.Untrusted), silent, false},
		{"a mark beats a hint", policy.NewGate(policy.Untrusted), denied, true},
		{"unproven: marked", unproven, marked, true},
		{"unproven: a mark beats a hint", unproven, denied, true},
		{"unproven: a destructive hint", unproven, hinted, true},
		{"unproven: nothing said", unproven, silent, true},
		{"unproven: not read-only", unproven, notReading, true},
		{"unproven: idempotent", unproven, again, true},
		{"unproven: read-only and destructive", unproven, both, true},
		{"unproven: read-only", unproven, reading, false},
		{"unproven: not destructive", unproven, writing, false},
		{"writes: marked", writes, marked, true},
		{"writes: nothing said", writes, silent, true},
		{"writes: not destructive", writes, writing, true},
		{"writes: not read-only", writes, notReading, true},
		{"writes: idempotent", writes, again, true},
		{"writes: read-only and destructive", writes, both, true},
		{"writes: read-only", writes, reading, false},
		{"writes: trusted", policy.NewScopedGate(policy.Trusted, policy.Writes), silent, false},
		{"unproven: trusted", policy.NewScopedGate(policy.Trusted, policy.Unproven), silent, false},
	} {
		err := tc.gate.Check(tc.tool, "")
		if (err != nil) != tc.held || (err != nil && (err.Code != errmap.DestructiveBlocked || err.Tool != tc.tool.Name)) {
			t.Errorf("%s: got %v, held back: want %v", tc.name, err, tc.held)
		}
	}
}

func TestParseScope(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		text string
		want policy.Scope
		ok   bool
	}{
		{"verbs", policy.Verbs, true},
		{"marked", policy.Marked, true},
		{"unproven", policy.Unproven, true},
		{"writes", policy.Writes, true},
		{"", policy.Writes, false}, // a mistake must not open the gate
		{"all", policy.Writes, false},
	} {
		got, err := policy.ParseScope(tc.text)
		if got != tc.want || (err == nil) != tc.ok {
			t.Errorf("%q: got %v, %v", tc.text, got, err)
		}
		if tc.ok && got.String() != tc.text {
			t.Errorf("%q is printed as %q", tc.text, got)
		}
	}
}

func TestTrustChangesAtRunTime(t *testing.T) {
	t.Parallel()
	marked := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	g := policy.NewGate(policy.Untrusted)
	for _, step := range []struct {
		to, before policy.Trust
		held       bool
		changes    uint64
	}{
		{policy.Trusted, policy.Untrusted, false, 1},
		{policy.Trusted, policy.Trusted, false, 1},
		{policy.Untrusted, policy.Trusted, true, 2},
	} {
		if before := g.Set(step.to); before != step.before || g.Trust() != step.to || g.Changes() != step.changes {
			t.Errorf("to %v: before %v, now %v, %d changes", step.to, before, g.Trust(), g.Changes())
		}
		if held := g.Check(marked, "") != nil; held != step.held {
			t.Errorf("%v: held back: %v, want %v", step.to, held, step.held)
		}
	}
}

func TestARefusalNamesTheToolAndTheWayOut(t *testing.T) {
	t.Parallel()
	marked := &catalog.Tool{Name: "shop.drop", Metadata: catalog.Metadata{Destructive: true}}
	silent := &catalog.Tool{Name: "shop.look"}
	named := &catalog.Tool{Name: "shop.kill", Verb: "kill", Metadata: catalog.Metadata{Destructive: true}}
	g := policy.NewScopedGate(policy.Untrusted, policy.Unproven)
	for tool, parts := range map[*catalog.Tool][]string{
		marked: {"shop.drop", "--trust trusted", "admin listener"},
		named:  {"shop.kill", "its name", "(kill)", "--trust trusted"},
		silent: {"shop.look", "--trust trusted", "--gate unproven", "read_only"},
	} {
		message := g.Check(tool, "").Message
		for _, part := range parts {
			if !strings.Contains(message, part) {
				t.Errorf("%q does not say %q", message, part)
			}
		}
	}
}

func TestTheGateOfAConfiguration(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		trust, gate string
		ok          bool
	}{
		{"untrusted", "marked", true},
		{"trusted", "unproven", true},
		{"yes", "marked", false},
		{"untrusted", "all", false},
	} {
		g, err := policy.GateOf(&configv1.Config{Trust: new(tc.trust), Gate: new(tc.gate)})
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
	none := policy.NewLimiter(&configv1.Limits{CallerRate: nil, ToolRate: nil})
	for range 10_000 {
		if err := none.Check("a", "shop.look"); err != nil {
			t.Fatalf("without a rate: %v", err)
		}
	}
	l := policy.NewLimiter(&configv1.Limits{
		CallerRate: &configv1.Rate{PerSecond: 0.001, Burst: new(int32(2))},
		ToolRate:   &configv1.Rate{PerSecond: 0.001},
	})
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
